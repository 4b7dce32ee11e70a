// SPDX-License-Identifier: Apache-2.0
// golden: 3 nodes; predicted interval 8 cycles, latency 41 cycles.
// A beat of a stream moves in a cycle in which its valid and its ready are high.
module top #(
    // Folder of the memory images, relative to where the tool runs.
    parameter string MEM_DIR = "mem"
) (
    input logic clk,
    input logic rst,

    // model_input [1, 4] fixed<8,3>, 1 x 2 elements a beat, 2 beats
    input  logic [1:0][7:0] data_in_0,
    input  logic data_in_0_valid,
    output logic data_in_0_ready,

    // linear_2 [1, 3] fixed<8,3>, 1 x 2 elements a beat, 2 beats
    output logic [1:0][7:0] data_out_0,
    output logic data_out_0_valid,
    input  logic data_out_0_ready
);

  localparam mase_pkg::format_t Fixed8x3 = mase_pkg::fixed(8, 3);
  localparam mase_pkg::format_t Fixed6x5 = mase_pkg::fixed(6, 5);

  if (MEM_DIR == "") begin : gen_mem_dir_check
    $error("MEM_DIR is empty: name the folder of the memory images");
  end

  // linear_0: linear, data_in_0 [1, 4] fixed<8,3>, weight [8, 4] fixed<6,5>, bias [8] fixed<6,5> ->
  //   [1, 8] fixed<8,3>, 1 x 2 elements a beat
  logic [1:0][7:0] linear_0_replay;
  logic linear_0_replay_valid, linear_0_replay_ready;
  logic [3:0][5:0] linear_0_weight;
  logic linear_0_weight_valid, linear_0_weight_ready;
  logic [1:0][5:0] linear_0_bias;
  logic linear_0_bias_valid, linear_0_bias_ready;
  logic [1:0][7:0] linear_0_data_out_0;
  logic linear_0_data_out_0_valid, linear_0_data_out_0_ready;
  mase_stream_replay #(.WIDTH(16), .BLOCK(2), .REPEATS(4)) linear_0_replay_inst (
      .clk, .rst,
      .data_in(data_in_0), .data_in_valid(data_in_0_valid), .data_in_ready(data_in_0_ready),
      .data_out(linear_0_replay), .data_out_valid(linear_0_replay_valid),
      .data_out_ready(linear_0_replay_ready)
  );
  mase_rom_source #(
      .WIDTH(24), .DEPTH(8), .HOLD(1), .BLOCK(1'b0), .LOGIC(1'b0),
      .INIT_FILE({MEM_DIR, "/linear_0_weight_source_0.mem"})
  ) linear_0_weight_source_0 (
      .clk, .rst,
      .data_out(linear_0_weight), .data_out_valid(linear_0_weight_valid),
      .data_out_ready(linear_0_weight_ready)
  );
  mase_rom_source #(
      .WIDTH(12), .DEPTH(4), .HOLD(1), .BLOCK(1'b0), .LOGIC(1'b0),
      .INIT_FILE({MEM_DIR, "/linear_0_bias_source_0.mem"})
  ) linear_0_bias_source_0 (
      .clk, .rst,
      .data_out(linear_0_bias), .data_out_valid(linear_0_bias_valid),
      .data_out_ready(linear_0_bias_ready)
  );
  mase_multiply_accumulate #(
      .DATA_IN_0(Fixed8x3), .WEIGHT(Fixed6x5), .BIAS(Fixed6x5), .DATA_OUT_0(Fixed8x3), .TERMS(2),
      .ROWS(1), .IN_LANES(2), .OUT_LANES(2), .SEPARATE(1'b0), .ACCUMULATOR_WIDTH(15), .TAIL(0),
      .DEVICE(mase_pkg::Generic), .STEADY(1'b1), .HAS_BIAS(1'b1)
  ) linear_0_inst (
      .clk, .rst,
      .data_in_0(linear_0_replay), .data_in_0_valid(linear_0_replay_valid),
      .data_in_0_ready(linear_0_replay_ready),
      .weight(linear_0_weight), .weight_valid(linear_0_weight_valid),
      .weight_ready(linear_0_weight_ready),
      .bias(linear_0_bias), .bias_valid(linear_0_bias_valid), .bias_ready(linear_0_bias_ready),
      .data_out_0(linear_0_data_out_0), .data_out_0_valid(linear_0_data_out_0_valid),
      .data_out_0_ready(linear_0_data_out_0_ready)
  );

  // relu_1: relu, data_in_0 [1, 8] fixed<8,3> -> [1, 8] fixed<8,3>, 1 x 2 elements a beat
  logic [1:0][7:0] relu_1_data_out_0;
  logic relu_1_data_out_0_valid, relu_1_data_out_0_ready;
  mase_clamp_fixed #(
      .DATA_IN_0(Fixed8x3), .DATA_OUT_0(Fixed8x3), .LANES(2), .LOW(0), .HIGH(127),
      .BOUNDS_ON_RESULT(1'b1)
  ) relu_1_inst (
      .clk, .rst,
      .data_in_0(linear_0_data_out_0), .data_in_0_valid(linear_0_data_out_0_valid),
      .data_in_0_ready(linear_0_data_out_0_ready),
      .data_out_0(relu_1_data_out_0), .data_out_0_valid(relu_1_data_out_0_valid),
      .data_out_0_ready(relu_1_data_out_0_ready)
  );

  // linear_2: linear, data_in_0 [1, 8] fixed<8,3>, weight [3, 8] fixed<6,5> -> [1, 3] fixed<8,3>, 1
  //   x 2 elements a beat
  logic [1:0][7:0] linear_2_replay;
  logic linear_2_replay_valid, linear_2_replay_ready;
  logic [3:0][5:0] linear_2_weight;
  logic linear_2_weight_valid, linear_2_weight_ready;
  logic [1:0][7:0] linear_2_data_out_0;
  logic linear_2_data_out_0_valid, linear_2_data_out_0_ready;
  logic unused_linear_2_bias_ready;
  mase_stream_replay #(.WIDTH(16), .BLOCK(4), .REPEATS(2)) linear_2_replay_inst (
      .clk, .rst,
      .data_in(relu_1_data_out_0), .data_in_valid(relu_1_data_out_0_valid),
      .data_in_ready(relu_1_data_out_0_ready),
      .data_out(linear_2_replay), .data_out_valid(linear_2_replay_valid),
      .data_out_ready(linear_2_replay_ready)
  );
  mase_rom_source #(
      .WIDTH(24), .DEPTH(8), .HOLD(1), .BLOCK(1'b0), .LOGIC(1'b0),
      .INIT_FILE({MEM_DIR, "/linear_2_weight_source_0.mem"})
  ) linear_2_weight_source_0 (
      .clk, .rst,
      .data_out(linear_2_weight), .data_out_valid(linear_2_weight_valid),
      .data_out_ready(linear_2_weight_ready)
  );
  mase_multiply_accumulate #(
      .DATA_IN_0(Fixed8x3), .WEIGHT(Fixed6x5), .DATA_OUT_0(Fixed8x3), .TERMS(4), .ROWS(1),
      .IN_LANES(2), .OUT_LANES(2), .SEPARATE(1'b0), .ACCUMULATOR_WIDTH(16), .TAIL(0),
      .DEVICE(mase_pkg::Generic), .STEADY(1'b1), .HAS_BIAS(1'b0)
  ) linear_2_inst (
      .clk, .rst,
      .data_in_0(linear_2_replay), .data_in_0_valid(linear_2_replay_valid),
      .data_in_0_ready(linear_2_replay_ready),
      .weight(linear_2_weight), .weight_valid(linear_2_weight_valid),
      .weight_ready(linear_2_weight_ready),
      .bias('0), .bias_valid(1'b1), .bias_ready(unused_linear_2_bias_ready),
      .data_out_0(linear_2_data_out_0), .data_out_0_valid(linear_2_data_out_0_valid),
      .data_out_0_ready(linear_2_data_out_0_ready)
  );

  assign data_out_0 = linear_2_data_out_0;
  assign data_out_0_valid = linear_2_data_out_0_valid;
  assign linear_2_data_out_0_ready = data_out_0_ready;

endmodule

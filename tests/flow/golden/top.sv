// SPDX-License-Identifier: Apache-2.0
// golden: 3 nodes; predicted interval 8 cycles, latency 24 cycles.
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

  if (MEM_DIR == "") begin : gen_mem_dir_check
    $error("MEM_DIR is empty: name the folder of the memory images");
  end

  // linear_0: linear, data_in_0 [1, 4] fixed<8,3>, weight [8, 4] fixed<6,5>, bias [8] fixed<6,5> ->
  //   [1, 8] fixed<8,3>, 1 x 2 elements a beat
  logic [3:0][5:0] linear_0_weight;
  logic linear_0_weight_valid, linear_0_weight_ready;
  logic [1:0][5:0] linear_0_bias;
  logic linear_0_bias_valid, linear_0_bias_ready;
  logic [1:0][7:0] linear_0_data_out_0;
  logic linear_0_data_out_0_valid, linear_0_data_out_0_ready;
  mase_rom_source #(
      .WIDTH(24), .DEPTH(8), .HOLD(1), .INIT_FILE({MEM_DIR, "/linear_0_weight_source_0.mem"})
  ) linear_0_weight_source_0 (
      .clk, .rst,
      .data_out(linear_0_weight), .data_out_valid(linear_0_weight_valid),
      .data_out_ready(linear_0_weight_ready)
  );
  mase_rom_source #(
      .WIDTH(12), .DEPTH(4), .HOLD(1), .INIT_FILE({MEM_DIR, "/linear_0_bias_source_0.mem"})
  ) linear_0_bias_source_0 (
      .clk, .rst,
      .data_out(linear_0_bias), .data_out_valid(linear_0_bias_valid),
      .data_out_ready(linear_0_bias_ready)
  );
  mase_linear_fixed #(
      .DATA_IN_0_PRECISION_0(8), .DATA_IN_0_PRECISION_1(3), .DATA_IN_0_SIGNED(1),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(4), .DATA_IN_0_TENSOR_SIZE_DIM_1(1),
      .DATA_IN_0_PARALLELISM_DIM_0(2), .DATA_IN_0_PARALLELISM_DIM_1(1), .WEIGHT_PRECISION_0(6),
      .WEIGHT_PRECISION_1(5), .WEIGHT_SIGNED(1), .WEIGHT_TENSOR_SIZE_DIM_0(4),
      .WEIGHT_TENSOR_SIZE_DIM_1(8), .WEIGHT_PARALLELISM_DIM_0(2), .WEIGHT_PARALLELISM_DIM_1(2),
      .BIAS_PRECISION_0(6), .BIAS_PRECISION_1(5), .BIAS_SIGNED(1), .BIAS_TENSOR_SIZE_DIM_0(8),
      .BIAS_TENSOR_SIZE_DIM_1(1), .BIAS_PARALLELISM_DIM_0(2), .BIAS_PARALLELISM_DIM_1(1),
      .DATA_OUT_0_PRECISION_0(8), .DATA_OUT_0_PRECISION_1(3), .DATA_OUT_0_SIGNED(1),
      .DATA_OUT_0_ROUNDING(0), .DATA_OUT_0_OVERFLOW(0), .DATA_OUT_0_TENSOR_SIZE_DIM_0(8),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(1), .DATA_OUT_0_PARALLELISM_DIM_0(2),
      .DATA_OUT_0_PARALLELISM_DIM_1(1), .HAS_BIAS(1), .ACCUMULATOR_WIDTH(15)
  ) linear_0_inst (
      .clk, .rst,
      .data_in_0, .data_in_0_valid, .data_in_0_ready,
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
  logic [3:0][5:0] linear_2_weight;
  logic linear_2_weight_valid, linear_2_weight_ready;
  logic [1:0][7:0] linear_2_data_out_0;
  logic linear_2_data_out_0_valid, linear_2_data_out_0_ready;
  logic unused_linear_2_bias_ready;
  mase_rom_source #(
      .WIDTH(24), .DEPTH(8), .HOLD(1), .INIT_FILE({MEM_DIR, "/linear_2_weight_source_0.mem"})
  ) linear_2_weight_source_0 (
      .clk, .rst,
      .data_out(linear_2_weight), .data_out_valid(linear_2_weight_valid),
      .data_out_ready(linear_2_weight_ready)
  );
  mase_linear_fixed #(
      .DATA_IN_0_PRECISION_0(8), .DATA_IN_0_PRECISION_1(3), .DATA_IN_0_SIGNED(1),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(8), .DATA_IN_0_TENSOR_SIZE_DIM_1(1),
      .DATA_IN_0_PARALLELISM_DIM_0(2), .DATA_IN_0_PARALLELISM_DIM_1(1), .WEIGHT_PRECISION_0(6),
      .WEIGHT_PRECISION_1(5), .WEIGHT_SIGNED(1), .WEIGHT_TENSOR_SIZE_DIM_0(8),
      .WEIGHT_TENSOR_SIZE_DIM_1(3), .WEIGHT_PARALLELISM_DIM_0(2), .WEIGHT_PARALLELISM_DIM_1(2),
      .DATA_OUT_0_PRECISION_0(8), .DATA_OUT_0_PRECISION_1(3), .DATA_OUT_0_SIGNED(1),
      .DATA_OUT_0_ROUNDING(0), .DATA_OUT_0_OVERFLOW(0), .DATA_OUT_0_TENSOR_SIZE_DIM_0(3),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(1), .DATA_OUT_0_PARALLELISM_DIM_0(2),
      .DATA_OUT_0_PARALLELISM_DIM_1(1), .HAS_BIAS(0), .ACCUMULATOR_WIDTH(16)
  ) linear_2_inst (
      .clk, .rst,
      .data_in_0(relu_1_data_out_0), .data_in_0_valid(relu_1_data_out_0_valid),
      .data_in_0_ready(relu_1_data_out_0_ready),
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

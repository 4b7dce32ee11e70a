// SPDX-License-Identifier: Apache-2.0
// golden: 3 nodes, predicted interval 8 cycles, latency 24 cycles.
// Streams follow the rules of rtl/README.md of the library: a beat moves when valid and ready are high.
module top #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 3,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 3,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 3,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned linear_0_DATA_IN_0_PRECISION_0 = DATA_IN_0_PRECISION_0,
    parameter int linear_0_DATA_IN_0_PRECISION_1 = DATA_IN_0_PRECISION_1,
    parameter bit linear_0_DATA_IN_0_SIGNED = DATA_IN_0_SIGNED,
    parameter int unsigned linear_0_DATA_IN_0_TENSOR_SIZE_DIM_0 = DATA_IN_0_TENSOR_SIZE_DIM_0,
    parameter int unsigned linear_0_DATA_IN_0_TENSOR_SIZE_DIM_1 = DATA_IN_0_TENSOR_SIZE_DIM_1,
    parameter int unsigned linear_0_DATA_IN_0_PARALLELISM_DIM_0 = DATA_IN_0_PARALLELISM_DIM_0,
    parameter int unsigned linear_0_DATA_IN_0_PARALLELISM_DIM_1 = DATA_IN_0_PARALLELISM_DIM_1,

    parameter int unsigned linear_0_WEIGHT_PRECISION_0 = 6,
    parameter int linear_0_WEIGHT_PRECISION_1 = 5,
    parameter bit linear_0_WEIGHT_SIGNED = 1,
    parameter int unsigned linear_0_WEIGHT_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned linear_0_WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned linear_0_WEIGHT_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_0_WEIGHT_PARALLELISM_DIM_1 = 2,

    parameter int unsigned linear_0_BIAS_PRECISION_0 = 6,
    parameter int linear_0_BIAS_PRECISION_1 = 5,
    parameter bit linear_0_BIAS_SIGNED = 1,
    parameter int unsigned linear_0_BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned linear_0_BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned linear_0_BIAS_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_0_BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned linear_0_DATA_OUT_0_PRECISION_0 = 8,
    parameter int linear_0_DATA_OUT_0_PRECISION_1 = 3,
    parameter bit linear_0_DATA_OUT_0_SIGNED = 1,
    parameter int unsigned linear_0_DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned linear_0_DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned linear_0_DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned linear_0_DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned linear_0_DATA_OUT_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_0_DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned linear_0_HAS_BIAS = 1,
    parameter int unsigned linear_0_ACCUMULATOR_WIDTH = 15,

    parameter int unsigned relu_1_DATA_IN_0_PRECISION_0 = 8,
    parameter int relu_1_DATA_IN_0_PRECISION_1 = 3,
    parameter bit relu_1_DATA_IN_0_SIGNED = 1,
    parameter int unsigned relu_1_DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned relu_1_DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned relu_1_DATA_IN_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned relu_1_DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned relu_1_DATA_OUT_0_PRECISION_0 = 8,
    parameter int relu_1_DATA_OUT_0_PRECISION_1 = 3,
    parameter bit relu_1_DATA_OUT_0_SIGNED = 1,
    parameter int unsigned relu_1_DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned relu_1_DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned relu_1_DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned relu_1_DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned relu_1_DATA_OUT_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned relu_1_DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned relu_1_LOW = 0,
    parameter int unsigned relu_1_HIGH = 127,
    parameter int unsigned relu_1_BOUNDS_ON_RESULT = 1,

    parameter int unsigned linear_2_DATA_IN_0_PRECISION_0 = 8,
    parameter int linear_2_DATA_IN_0_PRECISION_1 = 3,
    parameter bit linear_2_DATA_IN_0_SIGNED = 1,
    parameter int unsigned linear_2_DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned linear_2_DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned linear_2_DATA_IN_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_2_DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned linear_2_WEIGHT_PRECISION_0 = 6,
    parameter int linear_2_WEIGHT_PRECISION_1 = 5,
    parameter bit linear_2_WEIGHT_SIGNED = 1,
    parameter int unsigned linear_2_WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned linear_2_WEIGHT_TENSOR_SIZE_DIM_1 = 3,
    parameter int unsigned linear_2_WEIGHT_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_2_WEIGHT_PARALLELISM_DIM_1 = 2,

    parameter int unsigned linear_2_DATA_OUT_0_PRECISION_0 = 8,
    parameter int linear_2_DATA_OUT_0_PRECISION_1 = 3,
    parameter bit linear_2_DATA_OUT_0_SIGNED = 1,
    parameter int unsigned linear_2_DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned linear_2_DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned linear_2_DATA_OUT_0_TENSOR_SIZE_DIM_0 = 3,
    parameter int unsigned linear_2_DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned linear_2_DATA_OUT_0_PARALLELISM_DIM_0 = 2,
    parameter int unsigned linear_2_DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned linear_2_HAS_BIAS = 0,
    parameter int unsigned linear_2_ACCUMULATOR_WIDTH = 16,

    // Folder of the memory images, relative to where the tool runs.
    parameter string MEM_DIR = "mem"
) (
    input logic clk,
    input logic rst,

    input  logic [1:0][7:0] data_in_0,
    input  logic data_in_0_valid,
    output logic data_in_0_ready,

    output logic [1:0][7:0] data_out_0,
    output logic data_out_0_valid,
    input  logic data_out_0_ready
);

  // The ports' shape and format are fixed; so are the parameters that describe them.
  if (
      DATA_IN_0_PRECISION_0 != 8
      || DATA_IN_0_PRECISION_1 != 3
      || DATA_IN_0_SIGNED != 1
      || DATA_IN_0_TENSOR_SIZE_DIM_0 != 4
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != 1
      || DATA_IN_0_PARALLELISM_DIM_0 != 2
      || DATA_IN_0_PARALLELISM_DIM_1 != 1) begin : gen_data_in_0_check
    $error("data_in_0 was emitted with other parameters");
  end
  if (
      DATA_OUT_0_PRECISION_0 != 8
      || DATA_OUT_0_PRECISION_1 != 3
      || DATA_OUT_0_SIGNED != 1
      || DATA_OUT_0_ROUNDING != 0
      || DATA_OUT_0_OVERFLOW != 0
      || DATA_OUT_0_TENSOR_SIZE_DIM_0 != 3
      || DATA_OUT_0_TENSOR_SIZE_DIM_1 != 1
      || DATA_OUT_0_PARALLELISM_DIM_0 != 2
      || DATA_OUT_0_PARALLELISM_DIM_1 != 1) begin : gen_data_out_0_check
    $error("data_out_0 was emitted with other parameters");
  end
  if (MEM_DIR == "") begin : gen_mem_dir_check
    $error("MEM_DIR is empty: name the folder of the memory images");
  end

  logic [1:0][7:0] linear_0_data_out_0;
  logic linear_0_data_out_0_valid;
  logic linear_0_data_out_0_ready;

  logic [1:0][7:0] relu_1_data_out_0;
  logic relu_1_data_out_0_valid;
  logic relu_1_data_out_0_ready;

  logic [1:0][7:0] linear_2_data_out_0;
  logic linear_2_data_out_0_valid;
  logic linear_2_data_out_0_ready;

  logic [3:0][5:0] linear_0_weight;
  logic linear_0_weight_valid;
  logic linear_0_weight_ready;

  logic [1:0][5:0] linear_0_bias;
  logic linear_0_bias_valid;
  logic linear_0_bias_ready;

  logic [3:0][5:0] linear_2_weight;
  logic linear_2_weight_valid;
  logic linear_2_weight_ready;

  logic unused_linear_2_bias_ready;

  mase_rom_source #(
      .WIDTH(24),
      .DEPTH(8),
      .HOLD(1),
      .INIT_FILE({MEM_DIR, "/linear_0_weight_source_0.mem"})
  ) linear_0_weight_source_0 (
      .clk(clk),
      .rst(rst),
      .data_out(linear_0_weight),
      .data_out_valid(linear_0_weight_valid),
      .data_out_ready(linear_0_weight_ready)
  );

  mase_rom_source #(
      .WIDTH(12),
      .DEPTH(4),
      .HOLD(1),
      .INIT_FILE({MEM_DIR, "/linear_0_bias_source_0.mem"})
  ) linear_0_bias_source_0 (
      .clk(clk),
      .rst(rst),
      .data_out(linear_0_bias),
      .data_out_valid(linear_0_bias_valid),
      .data_out_ready(linear_0_bias_ready)
  );

  mase_linear_fixed #(
      .DATA_IN_0_PRECISION_0(linear_0_DATA_IN_0_PRECISION_0),
      .DATA_IN_0_PRECISION_1(linear_0_DATA_IN_0_PRECISION_1),
      .DATA_IN_0_SIGNED(linear_0_DATA_IN_0_SIGNED),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(linear_0_DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(linear_0_DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(linear_0_DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(linear_0_DATA_IN_0_PARALLELISM_DIM_1),
      .WEIGHT_PRECISION_0(linear_0_WEIGHT_PRECISION_0),
      .WEIGHT_PRECISION_1(linear_0_WEIGHT_PRECISION_1),
      .WEIGHT_SIGNED(linear_0_WEIGHT_SIGNED),
      .WEIGHT_TENSOR_SIZE_DIM_0(linear_0_WEIGHT_TENSOR_SIZE_DIM_0),
      .WEIGHT_TENSOR_SIZE_DIM_1(linear_0_WEIGHT_TENSOR_SIZE_DIM_1),
      .WEIGHT_PARALLELISM_DIM_0(linear_0_WEIGHT_PARALLELISM_DIM_0),
      .WEIGHT_PARALLELISM_DIM_1(linear_0_WEIGHT_PARALLELISM_DIM_1),
      .BIAS_PRECISION_0(linear_0_BIAS_PRECISION_0),
      .BIAS_PRECISION_1(linear_0_BIAS_PRECISION_1),
      .BIAS_SIGNED(linear_0_BIAS_SIGNED),
      .BIAS_TENSOR_SIZE_DIM_0(linear_0_BIAS_TENSOR_SIZE_DIM_0),
      .BIAS_TENSOR_SIZE_DIM_1(linear_0_BIAS_TENSOR_SIZE_DIM_1),
      .BIAS_PARALLELISM_DIM_0(linear_0_BIAS_PARALLELISM_DIM_0),
      .BIAS_PARALLELISM_DIM_1(linear_0_BIAS_PARALLELISM_DIM_1),
      .DATA_OUT_0_PRECISION_0(linear_0_DATA_OUT_0_PRECISION_0),
      .DATA_OUT_0_PRECISION_1(linear_0_DATA_OUT_0_PRECISION_1),
      .DATA_OUT_0_SIGNED(linear_0_DATA_OUT_0_SIGNED),
      .DATA_OUT_0_ROUNDING(linear_0_DATA_OUT_0_ROUNDING),
      .DATA_OUT_0_OVERFLOW(linear_0_DATA_OUT_0_OVERFLOW),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(linear_0_DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(linear_0_DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(linear_0_DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(linear_0_DATA_OUT_0_PARALLELISM_DIM_1),
      .HAS_BIAS(linear_0_HAS_BIAS),
      .ACCUMULATOR_WIDTH(linear_0_ACCUMULATOR_WIDTH)
  ) linear_0_inst (
      .clk(clk),
      .rst(rst),
      .data_in_0(data_in_0),
      .data_in_0_valid(data_in_0_valid),
      .data_in_0_ready(data_in_0_ready),
      .weight(linear_0_weight),
      .weight_valid(linear_0_weight_valid),
      .weight_ready(linear_0_weight_ready),
      .bias(linear_0_bias),
      .bias_valid(linear_0_bias_valid),
      .bias_ready(linear_0_bias_ready),
      .data_out_0(linear_0_data_out_0),
      .data_out_0_valid(linear_0_data_out_0_valid),
      .data_out_0_ready(linear_0_data_out_0_ready)
  );

  mase_clamp_fixed #(
      .DATA_IN_0_PRECISION_0(relu_1_DATA_IN_0_PRECISION_0),
      .DATA_IN_0_PRECISION_1(relu_1_DATA_IN_0_PRECISION_1),
      .DATA_IN_0_SIGNED(relu_1_DATA_IN_0_SIGNED),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(relu_1_DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(relu_1_DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(relu_1_DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(relu_1_DATA_IN_0_PARALLELISM_DIM_1),
      .DATA_OUT_0_PRECISION_0(relu_1_DATA_OUT_0_PRECISION_0),
      .DATA_OUT_0_PRECISION_1(relu_1_DATA_OUT_0_PRECISION_1),
      .DATA_OUT_0_SIGNED(relu_1_DATA_OUT_0_SIGNED),
      .DATA_OUT_0_ROUNDING(relu_1_DATA_OUT_0_ROUNDING),
      .DATA_OUT_0_OVERFLOW(relu_1_DATA_OUT_0_OVERFLOW),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(relu_1_DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(relu_1_DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(relu_1_DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(relu_1_DATA_OUT_0_PARALLELISM_DIM_1),
      .LOW(relu_1_LOW),
      .HIGH(relu_1_HIGH),
      .BOUNDS_ON_RESULT(relu_1_BOUNDS_ON_RESULT)
  ) relu_1_inst (
      .clk(clk),
      .rst(rst),
      .data_in_0(linear_0_data_out_0),
      .data_in_0_valid(linear_0_data_out_0_valid),
      .data_in_0_ready(linear_0_data_out_0_ready),
      .data_out_0(relu_1_data_out_0),
      .data_out_0_valid(relu_1_data_out_0_valid),
      .data_out_0_ready(relu_1_data_out_0_ready)
  );

  mase_rom_source #(
      .WIDTH(24),
      .DEPTH(8),
      .HOLD(1),
      .INIT_FILE({MEM_DIR, "/linear_2_weight_source_0.mem"})
  ) linear_2_weight_source_0 (
      .clk(clk),
      .rst(rst),
      .data_out(linear_2_weight),
      .data_out_valid(linear_2_weight_valid),
      .data_out_ready(linear_2_weight_ready)
  );

  mase_linear_fixed #(
      .DATA_IN_0_PRECISION_0(linear_2_DATA_IN_0_PRECISION_0),
      .DATA_IN_0_PRECISION_1(linear_2_DATA_IN_0_PRECISION_1),
      .DATA_IN_0_SIGNED(linear_2_DATA_IN_0_SIGNED),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(linear_2_DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(linear_2_DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(linear_2_DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(linear_2_DATA_IN_0_PARALLELISM_DIM_1),
      .WEIGHT_PRECISION_0(linear_2_WEIGHT_PRECISION_0),
      .WEIGHT_PRECISION_1(linear_2_WEIGHT_PRECISION_1),
      .WEIGHT_SIGNED(linear_2_WEIGHT_SIGNED),
      .WEIGHT_TENSOR_SIZE_DIM_0(linear_2_WEIGHT_TENSOR_SIZE_DIM_0),
      .WEIGHT_TENSOR_SIZE_DIM_1(linear_2_WEIGHT_TENSOR_SIZE_DIM_1),
      .WEIGHT_PARALLELISM_DIM_0(linear_2_WEIGHT_PARALLELISM_DIM_0),
      .WEIGHT_PARALLELISM_DIM_1(linear_2_WEIGHT_PARALLELISM_DIM_1),
      .DATA_OUT_0_PRECISION_0(linear_2_DATA_OUT_0_PRECISION_0),
      .DATA_OUT_0_PRECISION_1(linear_2_DATA_OUT_0_PRECISION_1),
      .DATA_OUT_0_SIGNED(linear_2_DATA_OUT_0_SIGNED),
      .DATA_OUT_0_ROUNDING(linear_2_DATA_OUT_0_ROUNDING),
      .DATA_OUT_0_OVERFLOW(linear_2_DATA_OUT_0_OVERFLOW),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(linear_2_DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(linear_2_DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(linear_2_DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(linear_2_DATA_OUT_0_PARALLELISM_DIM_1),
      .HAS_BIAS(linear_2_HAS_BIAS),
      .ACCUMULATOR_WIDTH(linear_2_ACCUMULATOR_WIDTH)
  ) linear_2_inst (
      .clk(clk),
      .rst(rst),
      .data_in_0(relu_1_data_out_0),
      .data_in_0_valid(relu_1_data_out_0_valid),
      .data_in_0_ready(relu_1_data_out_0_ready),
      .weight(linear_2_weight),
      .weight_valid(linear_2_weight_valid),
      .weight_ready(linear_2_weight_ready),
      .bias('0),
      .bias_valid(1'b1),
      .bias_ready(unused_linear_2_bias_ready),
      .data_out_0(linear_2_data_out_0),
      .data_out_0_valid(linear_2_data_out_0_valid),
      .data_out_0_ready(linear_2_data_out_0_ready)
  );

  assign data_out_0 = linear_2_data_out_0;
  assign data_out_0_valid = linear_2_data_out_0_valid;
  assign linear_2_data_out_0_ready = data_out_0_ready;

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = encode(data_in_0 * weight^T + bias) of blocks with shared scales, see
// mase_block_accumulate; the result is of any format.
//
// Work per row tile: tiles of the row x tiles of results. A sum is complete
// 3 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after its last operands met; with more than one
// tile of results, rows meet their weights 2 cycles after they were offered.
module mase_linear_mxint #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 8,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 8,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,
    parameter int WEIGHT_EXPONENT_BIAS = 7,
    parameter int WEIGHT_SCALE_BIAS = 127,
    parameter int unsigned WEIGHT_BLOCK_SIZE = 4,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_KIND = 0,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 8,
    parameter int unsigned BIAS_EXPONENT_WIDTH = 4,
    parameter int BIAS_EXPONENT_BIAS = 7,
    parameter int BIAS_SCALE_BIAS = 127,
    parameter int unsigned BIAS_BLOCK_SIZE = 4,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned GUARD_BITS = 8,
    parameter int unsigned SUM_WIDTH  = 32,

    parameter bit DATA_OUT_0_BLOCK = 0,
    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter int unsigned DATA_OUT_0_BLOCK_SIZE = 4,
    parameter int DATA_OUT_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_OUT_0_SCALE_CODES = 255,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned OutScales = DATA_OUT_0_BLOCK ? Rows : 1,
    localparam int unsigned OutScaleWidth = DATA_OUT_0_BLOCK ? unsigned'(DATA_OUT_0_PRECISION_1) : 1
) (
    input logic clk,
    input logic rst,

    input logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic [Rows-1:0][unsigned'(DATA_IN_0_PRECISION_1)-1:0] data_in_0_exponent,
    input logic data_in_0_valid,
    output logic data_in_0_ready,

    input logic [OutLanes*InLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input logic [OutLanes-1:0][unsigned'(WEIGHT_PRECISION_1)-1:0] weight_exponent,
    input logic weight_valid,
    output logic weight_ready,

    input logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input logic [unsigned'(BIAS_PRECISION_1)-1:0] bias_exponent,
    input logic bias_valid,
    output logic bias_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [OutScales-1:0][OutScaleWidth-1:0] data_out_0_exponent,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int unsigned InTiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;
  localparam int unsigned ScaleWidth = unsigned'(DATA_IN_0_PRECISION_1);

  if (WEIGHT_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0
      || WEIGHT_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1) begin : gen_size_check
    $error("sizes of data_in_0, weight and data_out_0 disagree");
  end
  if (WEIGHT_PARALLELISM_DIM_0 != InLanes || WEIGHT_PARALLELISM_DIM_1 != OutLanes
      || DATA_OUT_0_PARALLELISM_DIM_1 != Rows) begin : gen_parallelism_check
    $error("parallelisms of data_in_0, weight and data_out_0 disagree");
  end
  if (HAS_BIAS && (BIAS_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || BIAS_TENSOR_SIZE_DIM_1 != 1 || BIAS_PARALLELISM_DIM_0 != OutLanes
      || BIAS_PARALLELISM_DIM_1 != 1 || BIAS_BLOCK_SIZE % OutLanes != 0)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat, in one block");
  end
  if (DATA_IN_0_BLOCK_SIZE % InLanes != 0
      || WEIGHT_BLOCK_SIZE != DATA_IN_0_BLOCK_SIZE) begin : gen_block_check
    $error("operands must have one block size, which DATA_IN_0_PARALLELISM_DIM_0 divides");
  end

  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic [Rows-1:0][ScaleWidth-1:0] data_scale;
  logic data_valid;
  logic data_ready;

  mase_stream_replay #(
      .WIDTH  (Rows * (InLanes * DATA_IN_0_PRECISION_0 + ScaleWidth)),
      .BLOCK  (InTiles),
      .REPEATS(OutTiles)
  ) u_replay (
      .clk,
      .rst,
      .data_in({data_in_0_exponent, data_in_0}),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out({data_scale, data}),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  mase_block_accumulate #(
      .TERMS(InTiles),
      .GROUP_TERMS(InTiles),
      .BLOCK_SIZE(DATA_IN_0_BLOCK_SIZE),
      .ROWS(Rows),
      .IN_LANES(InLanes),
      .OUT_LANES(OutLanes),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_KIND(DATA_IN_0_KIND),
      .DATA_WIDTH(DATA_IN_0_PRECISION_0),
      .DATA_EXPONENT_WIDTH(DATA_IN_0_EXPONENT_WIDTH),
      .DATA_EXPONENT_BIAS(DATA_IN_0_EXPONENT_BIAS),
      .DATA_SCALE_WIDTH(unsigned'(DATA_IN_0_PRECISION_1)),
      .DATA_SCALE_BIAS(DATA_IN_0_SCALE_BIAS),
      .WEIGHT_KIND(WEIGHT_KIND),
      .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
      .WEIGHT_EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
      .WEIGHT_EXPONENT_BIAS(WEIGHT_EXPONENT_BIAS),
      .WEIGHT_SCALE_WIDTH(unsigned'(WEIGHT_PRECISION_1)),
      .WEIGHT_SCALE_BIAS(WEIGHT_SCALE_BIAS),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_KIND(BIAS_KIND),
      .BIAS_WIDTH(BIAS_PRECISION_0),
      .BIAS_EXPONENT_WIDTH(BIAS_EXPONENT_WIDTH),
      .BIAS_EXPONENT_BIAS(BIAS_EXPONENT_BIAS),
      .BIAS_SCALE_WIDTH(unsigned'(BIAS_PRECISION_1)),
      .BIAS_SCALE_BIAS(BIAS_SCALE_BIAS),
      .GUARD_BITS(GUARD_BITS),
      .SUM_WIDTH(SUM_WIDTH),
      .OUT_BLOCK(DATA_OUT_0_BLOCK),
      .OUT_KIND(DATA_OUT_0_KIND),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .OUT_ROUNDING(DATA_OUT_0_ROUNDING),
      .OUT_OVERFLOW(DATA_OUT_0_OVERFLOW),
      .OUT_EXPONENT_WIDTH(DATA_OUT_0_EXPONENT_WIDTH),
      .OUT_EXPONENT_BIAS(DATA_OUT_0_EXPONENT_BIAS),
      .OUT_MAXIMUM_CODE(DATA_OUT_0_MAXIMUM_CODE),
      .OUT_SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0),
      .OUT_BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
      .OUT_SCALE_BIAS(DATA_OUT_0_SCALE_BIAS),
      .OUT_SCALE_CODES(DATA_OUT_0_SCALE_CODES)
  ) u_accumulate (
      .clk,
      .rst,
      .data,
      .data_scale,
      .data_valid,
      .data_ready,
      .weight,
      .weight_scale(weight_exponent),
      .weight_valid,
      .weight_ready,
      .bias,
      .bias_scale(bias_exponent),
      .bias_valid,
      .bias_ready,
      .result(data_out_0),
      .scale(data_out_0_exponent),
      .result_valid(data_out_0_valid),
      .result_ready(data_out_0_ready)
  );

endmodule

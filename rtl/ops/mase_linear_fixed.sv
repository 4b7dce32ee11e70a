// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * weight^T + bias), every product and sum exact, rounded once.
//
// Rows of DATA_IN_0_TENSOR_SIZE_DIM_0 elements enter in tiles; each row is replayed once for every
// tile of results, beside weight tiles [results, elements] in row-major order and one bias tile per
// tile of results. Work per row tile: input tiles x output tiles cycles, without gaps.
// A result is offered 3 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after its last operands
// met, and operands meet 2 cycles after they were offered (at once when there is one result tile).
module mase_linear_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned ACCUMULATOR_WIDTH = 20,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,

    localparam int unsigned Rows = DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                               data_in_0_valid,
    output logic                                               data_in_0_ready,

    input  logic [OutLanes*InLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                                weight_valid,
    output logic                                                weight_ready,

    input  logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input  logic                                      bias_valid,
    output logic                                      bias_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                                 data_out_0_valid,
    input  logic                                                 data_out_0_ready
);

  localparam int unsigned InTiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;

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
      || BIAS_PARALLELISM_DIM_1 != 1)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat");
  end

  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic data_valid;
  logic data_ready;

  mase_stream_replay #(
      .WIDTH(Rows * InLanes * DATA_IN_0_PRECISION_0),
      .BLOCK(InTiles),
      .REPEATS(OutTiles)
  ) u_replay (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  mase_multiply_accumulate #(
      .TERMS(InTiles),
      .ROWS(Rows),
      .IN_LANES(InLanes),
      .OUT_LANES(OutLanes),
      .DATA_WIDTH(DATA_IN_0_PRECISION_0),
      .DATA_FRACTION(DATA_IN_0_PRECISION_1),
      .DATA_SIGNED(DATA_IN_0_SIGNED),
      .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
      .WEIGHT_FRACTION(WEIGHT_PRECISION_1),
      .WEIGHT_SIGNED(WEIGHT_SIGNED),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(BIAS_PRECISION_0),
      .BIAS_FRACTION(BIAS_PRECISION_1),
      .BIAS_SIGNED(BIAS_SIGNED),
      .ACCUMULATOR_WIDTH(ACCUMULATOR_WIDTH),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .OUT_ROUNDING(DATA_OUT_0_ROUNDING),
      .OUT_OVERFLOW(DATA_OUT_0_OVERFLOW)
  ) u_accumulate (
      .clk,
      .rst,
      .data,
      .data_valid,
      .data_ready,
      .weight,
      .weight_valid,
      .weight_ready,
      .bias,
      .bias_valid,
      .bias_ready,
      .result(data_out_0),
      .result_valid(data_out_0_valid),
      .result_ready(data_out_0_ready)
  );

endmodule

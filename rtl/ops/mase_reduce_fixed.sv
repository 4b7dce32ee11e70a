// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(the maximum over TERMS rounds of INNER beats) when MAXIMUM is set, else
// cast(their sum / (DIVISOR * 2**SHIFT)), exact and rounded once. With ACROSS the lanes of a beat,
// and the tiles of a row, are reduced too: TERMS then counts the beats of all rows.
// Throughput 1 beat per cycle. A result is offered 2 cycles after its last beat, one more with
// ACROSS over several lanes, one more where DIVISOR is not 1.
module mase_reduce_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,

    parameter bit MAXIMUM = 0,
    parameter bit ACROSS = 0,
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,
    parameter int unsigned SUM_WIDTH = 12,
    parameter int unsigned DIVISOR = 9,
    parameter int unsigned SHIFT = 0,

    localparam int unsigned InLanes  = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,

    output logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                          data_out_0_valid,
    input  logic                                          data_out_0_ready
);

  localparam int unsigned Tiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;

  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1
      || OutLanes != (ACROSS ? 1 : InLanes)) begin : gen_parallelism_check
    $error("data_in_0 and data_out_0 must have lanes of one row, a single one out with ACROSS");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 * OutTiles * TERMS != DATA_IN_0_TENSOR_SIZE_DIM_1 * Tiles
      || (DATA_IN_0_TENSOR_SIZE_DIM_1 * Tiles) % (TERMS * INNER) != 0
      || (ACROSS && (INNER != 1 || TERMS % Tiles != 0))) begin : gen_size_check
    $error("TERMS and INNER disagree with the size of data_in_0");
  end

  logic [OutLanes-1:0][SUM_WIDTH-1:0] sum;
  logic sum_valid;
  logic sum_ready;

  if (ACROSS && InLanes > 1) begin : gen_across
    logic [SUM_WIDTH-1:0] row;
    logic [SUM_WIDTH-1:0] row_q;
    logic row_valid;
    logic row_ready;

    mase_reduce_lanes #(
        .MAXIMUM(MAXIMUM),
        .SIZE(DATA_IN_0_TENSOR_SIZE_DIM_0),
        .LANES(InLanes),
        .IN_WIDTH(DATA_IN_0_PRECISION_0),
        .SIGNED(DATA_IN_0_SIGNED),
        .OUT_WIDTH(SUM_WIDTH)
    ) u_lanes (
        .clk,
        .rst,
        .move(data_in_0_valid && data_in_0_ready),
        .data_in(data_in_0),
        .data_out(row)
    );

    mase_stream_register #(
        .WIDTH(SUM_WIDTH)
    ) u_row (
        .clk,
        .rst,
        .data_in(row),
        .data_in_valid(data_in_0_valid),
        .data_in_ready(data_in_0_ready),
        .data_out(row_q),
        .data_out_valid(row_valid),
        .data_out_ready(row_ready)
    );

    mase_reduce_beats #(
        .MAXIMUM(MAXIMUM),
        .TERMS(TERMS),
        .IN_WIDTH(SUM_WIDTH),
        .OUT_WIDTH(SUM_WIDTH)
    ) u_reduce (
        .clk,
        .rst,
        .data_in(row_q),
        .data_in_valid(row_valid),
        .data_in_ready(row_ready),
        .data_out(sum),
        .data_out_valid(sum_valid),
        .data_out_ready(sum_ready)
    );
  end else begin : gen_beats
    mase_reduce_beats #(
        .MAXIMUM(MAXIMUM),
        .TERMS(TERMS),
        .INNER(INNER),
        .LANES(InLanes),
        .IN_WIDTH(DATA_IN_0_PRECISION_0),
        .SIGNED(DATA_IN_0_SIGNED),
        .OUT_WIDTH(SUM_WIDTH)
    ) u_reduce (
        .clk,
        .rst,
        .data_in(data_in_0),
        .data_in_valid(data_in_0_valid),
        .data_in_ready(data_in_0_ready),
        .data_out(sum),
        .data_out_valid(sum_valid),
        .data_out_ready(sum_ready)
    );
  end

  mase_fixed_divide #(
      .LANES(OutLanes),
      .IN_WIDTH(SUM_WIDTH),
      .IN_FRACTION(DATA_IN_0_PRECISION_1 + int'(SHIFT)),
      .DIVISOR(DIVISOR),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING(DATA_OUT_0_ROUNDING),
      .OVERFLOW(DATA_OUT_0_OVERFLOW)
  ) u_divide (
      .clk,
      .rst,
      .data_in(sum),
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

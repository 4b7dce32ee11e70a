// SPDX-License-Identifier: Apache-2.0
// Pooling over an image that streams with its channels last, in one or two dimensions:
// data_out_0[y, x, c] = cast(max over the window of data_in_0[.., c]) when MAXIMUM is set, else
// cast(factor * the sum over the window / (DIVISOR * 2**SHIFT)), exact and rounded once. Pixels
// outside are the least code for a maximum, and zero for a sum.
//
// With HAS_FACTOR a factor comes for every position: windows that hold different numbers of pixels
// have a common DIVISOR.
// Work: positions x window x channel tiles cycles, without gaps. A result is offered 4 cycles after
// the last pixel it needs entered, one more with HAS_FACTOR, one more where DIVISOR is not 1.
module mase_pool_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter bit HAS_FACTOR = 0,
    parameter int unsigned FACTOR_PRECISION_0 = 8,
    parameter int FACTOR_PRECISION_1 = 0,
    parameter bit FACTOR_SIGNED = 0,
    parameter int unsigned FACTOR_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned FACTOR_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned FACTOR_PARALLELISM_DIM_0 = 1,
    parameter int unsigned FACTOR_PARALLELISM_DIM_1 = 1,

    parameter bit MAXIMUM = 0,
    parameter int unsigned SUM_WIDTH = 12,
    parameter int unsigned DIVISOR = 9,
    parameter int unsigned SHIFT = 0,
    parameter int unsigned TILES = 1,
    parameter int unsigned INPUTS = 16,
    parameter int unsigned ROWS = 2,
    parameter int unsigned COLUMNS = 2,
    parameter int unsigned KERNEL_ROWS = 3,
    parameter int unsigned KERNEL_COLUMNS = 3,
    parameter int unsigned BLOCK_TILES = 1,
    parameter int unsigned BLOCK_REPEATS = 1,
    parameter int unsigned DEPTH = 16,
    parameter string ROW_FILE = "",
    parameter string COLUMN_FILE = "",

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,

    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,

    input  logic [0:0][FACTOR_PRECISION_0-1:0] factor,
    input  logic                               factor_valid,
    output logic                               factor_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                          data_out_0_valid,
    input  logic                                          data_out_0_ready
);

  localparam int unsigned ProductWidth = HAS_FACTOR ? SUM_WIDTH + FACTOR_PRECISION_0 : SUM_WIDTH;

  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1
      || DATA_OUT_0_PARALLELISM_DIM_0 != Lanes) begin : gen_parallelism_check
    $error("an image streams one pixel at a time, equal lanes in and out");
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes != TILES
      || DATA_IN_0_TENSOR_SIZE_DIM_1 * TILES != INPUTS
      || DATA_OUT_0_TENSOR_SIZE_DIM_1 != ROWS * COLUMNS) begin : gen_size_check
    $error("TILES, INPUTS, ROWS and COLUMNS disagree with the sizes");
  end
  if (HAS_FACTOR && (FACTOR_SIGNED || FACTOR_PRECISION_1 != 0
      || FACTOR_TENSOR_SIZE_DIM_0 * FACTOR_TENSOR_SIZE_DIM_1 != ROWS * COLUMNS
      || FACTOR_PARALLELISM_DIM_0 * FACTOR_PARALLELISM_DIM_1 != 1)) begin : gen_factor_check
    $error("factors must be whole numbers, one for each position");
  end

  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic data_valid;
  logic data_ready;

  mase_sliding_window #(
      .LANES(Lanes),
      .LANE_WIDTH(DATA_IN_0_PRECISION_0),
      .TILES(TILES),
      .INPUTS(INPUTS),
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .KERNEL_ROWS(KERNEL_ROWS),
      .KERNEL_COLUMNS(KERNEL_COLUMNS),
      .BLOCK_TILES(BLOCK_TILES),
      .BLOCK_REPEATS(BLOCK_REPEATS),
      .DEPTH(DEPTH),
      .PAD_CODE((MAXIMUM && DATA_IN_0_SIGNED) ? {1'b1, {(DATA_IN_0_PRECISION_0 - 1) {1'b0}}} : '0),
      .ROW_FILE(ROW_FILE),
      .COLUMN_FILE(COLUMN_FILE)
  ) u_window (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  logic [Lanes-1:0][SUM_WIDTH-1:0] sum;
  logic sum_valid;
  logic sum_ready;

  mase_reduce_beats #(
      .MAXIMUM(MAXIMUM),
      .TERMS(KERNEL_ROWS * KERNEL_COLUMNS),
      .LANES(Lanes),
      .IN_WIDTH(DATA_IN_0_PRECISION_0),
      .SIGNED(DATA_IN_0_SIGNED),
      .OUT_WIDTH(SUM_WIDTH)
  ) u_reduce (
      .clk,
      .rst,
      .data_in(data),
      .data_in_valid(data_valid),
      .data_in_ready(data_ready),
      .data_out(sum),
      .data_out_valid(sum_valid),
      .data_out_ready(sum_ready)
  );

  logic [Lanes-1:0][ProductWidth-1:0] product;
  logic product_valid;
  logic product_ready;

  if (HAS_FACTOR) begin : gen_factor
    logic [Lanes-1:0][ProductWidth-1:0] scaled;
    logic joined_valid;
    logic joined_ready;

    mase_stream_join #(
        .COUNT(2)
    ) u_join (
        .data_in_valid ({factor_valid, sum_valid}),
        .data_in_ready ({factor_ready, sum_ready}),
        .data_out_valid(joined_valid),
        .data_out_ready(joined_ready)
    );

    for (genvar i = 0; i < Lanes; i++) begin : gen_lane
      assign scaled[i] = ProductWidth'(signed'(sum[i])) * ProductWidth'(factor[0]);
    end

    mase_stream_register #(
        .WIDTH(Lanes * ProductWidth)
    ) u_product (
        .clk,
        .rst,
        .data_in(scaled),
        .data_in_valid(joined_valid),
        .data_in_ready(joined_ready),
        .data_out(product),
        .data_out_valid(product_valid),
        .data_out_ready(product_ready)
    );
  end else begin : gen_no_factor
    assign product = sum;
    assign product_valid = sum_valid;
    assign sum_ready = product_ready;
    assign factor_ready = 1'b0;
    logic unused_factor;
    assign unused_factor = (|factor) | factor_valid;
  end

  mase_fixed_divide #(
      .LANES(Lanes),
      .IN_WIDTH(ProductWidth),
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
      .data_in(product),
      .data_in_valid(product_valid),
      .data_in_ready(product_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

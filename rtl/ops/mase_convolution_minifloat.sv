// SPDX-License-Identifier: Apache-2.0
// Convolution of an image that streams with its channels last, with operands of any scalar formats,
// see mase_scalar_accumulate, and a result of any format; windows as in mase_sliding_window.
//
// Pixels outside count as zero. What has no zero (KIND 2) carries a bit that says whether it counts.
// A sum is complete 2 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after the last beat of its
// window met its weights. Throughput one beat of the window per cycle.
module mase_convolution_minifloat #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,
    parameter int WEIGHT_EXPONENT_BIAS = 7,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 72,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_KIND = 0,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_EXPONENT_WIDTH = 4,
    parameter int BIAS_EXPONENT_BIAS = 7,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned SUM_WIDTH = 32,
    parameter int SUM_FRACTION = 8,
    parameter int unsigned DOT_SHIFT = 0,
    parameter int unsigned BIAS_SHIFT = 4,

    parameter int unsigned TILES = 2,
    parameter int unsigned INPUTS = 32,
    parameter int unsigned ROWS = 2,
    parameter int unsigned COLUMNS = 2,
    parameter int unsigned KERNEL_ROWS = 3,
    parameter int unsigned KERNEL_COLUMNS = 3,
    parameter int unsigned BLOCK_TILES = 2,
    parameter int unsigned BLOCK_REPEATS = 2,
    parameter int unsigned DEPTH = 32,
    parameter string ROW_FILE = "",
    parameter string COLUMN_FILE = "",

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
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = 1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned OutScales = DATA_OUT_0_BLOCK ? Rows : 1,
    localparam int unsigned OutScaleWidth = DATA_OUT_0_BLOCK ? unsigned'(DATA_OUT_0_PRECISION_1) : 1
) (
    input logic clk,
    input logic rst,

    input logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic data_in_0_valid,
    output logic data_in_0_ready,

    input logic [OutLanes*InLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input logic weight_valid,
    output logic weight_ready,

    input logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input logic bias_valid,
    output logic bias_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [OutScales-1:0][OutScaleWidth-1:0] data_out_0_exponent,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;
  localparam int unsigned Terms = KERNEL_ROWS * KERNEL_COLUMNS * BLOCK_TILES;
  localparam int unsigned TermWidth = (Terms > 1) ? $clog2(Terms) : 1;
  localparam int unsigned Tail = DATA_IN_0_TENSOR_SIZE_DIM_0 - (TILES - 1) * InLanes;
  localparam int unsigned TileWidth = (TILES > 1) ? $clog2(TILES) : 1;
  localparam int unsigned Width = DATA_IN_0_PRECISION_0;
  localparam bit Marked = DATA_IN_0_KIND == 2;
  localparam int unsigned LaneWidth = Marked ? Width + 1 : Width;

  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1) begin : gen_rows_check
    $error("an image streams one pixel at a time: PARALLELISM_DIM_1 must be 1");
  end
  if ((DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes != TILES
      || DATA_IN_0_TENSOR_SIZE_DIM_1 * TILES != INPUTS) begin : gen_input_check
    $error("TILES and INPUTS disagree with the size of data_in_0");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 != ROWS * COLUMNS
      || OutTiles != TILES / BLOCK_TILES * BLOCK_REPEATS) begin : gen_output_check
    $error("ROWS, COLUMNS and blocks disagree with the size of data_out_0");
  end
  if (WEIGHT_PARALLELISM_DIM_0 != InLanes || WEIGHT_PARALLELISM_DIM_1 != OutLanes
      || (WEIGHT_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes != Terms
      || WEIGHT_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_0) begin : gen_weight_check
    $error("weights must come as tiles of results x channels of the window");
  end
  if (HAS_BIAS && (BIAS_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || BIAS_TENSOR_SIZE_DIM_1 != 1 || BIAS_PARALLELISM_DIM_0 != OutLanes
      || BIAS_PARALLELISM_DIM_1 != 1)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat");
  end

  // Formats say the place of their lowest step through SUM_FRACTION and the shifts.
  localparam int UnusedPlaces = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1 + BIAS_PRECISION_1
      + DATA_IN_0_EXPONENT_BIAS + WEIGHT_EXPONENT_BIAS + BIAS_EXPONENT_BIAS;
  logic unused_places;
  assign unused_places = UnusedPlaces == 0;

  // Lanes beyond the channels are zero, or do not count.
  logic [TileWidth-1:0] tile_q;
  logic [InLanes-1:0][LaneWidth-1:0] pixel;
  logic [InLanes-1:0][LaneWidth-1:0] shown;
  logic [InLanes-1:0][Width-1:0] data;
  logic data_valid;
  logic data_ready;
  logic [TermWidth-1:0] unused_term;
  logic [InLanes-1:0] lanes;

  always_ff @(posedge clk) begin
    if (rst) tile_q <= '0;
    else if (data_in_0_valid && data_in_0_ready) begin
      tile_q <= (tile_q == TileWidth'(TILES - 1)) ? '0 : tile_q + 1'b1;
    end
  end

  for (genvar i = 0; i < InLanes; i++) begin : gen_lane
    logic counts;
    assign counts  = i < Tail || tile_q != TileWidth'(TILES - 1);
    assign data[i] = shown[i][Width-1:0];
    if (Marked) begin : gen_marked
      assign pixel[i] = {counts, data_in_0[i]};
      assign lanes[i] = shown[i][Width];
    end else begin : gen_zero
      assign pixel[i] = counts ? data_in_0[i] : '0;
      assign lanes[i] = 1'b1;
    end
  end

  mase_sliding_window #(
      .LANES(InLanes),
      .LANE_WIDTH(LaneWidth),
      .TILES(TILES),
      .INPUTS(INPUTS),
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .KERNEL_ROWS(KERNEL_ROWS),
      .KERNEL_COLUMNS(KERNEL_COLUMNS),
      .BLOCK_TILES(BLOCK_TILES),
      .BLOCK_REPEATS(BLOCK_REPEATS),
      .DEPTH(DEPTH),
      .ROW_FILE(ROW_FILE),
      .COLUMN_FILE(COLUMN_FILE)
  ) u_window (
      .clk,
      .rst,
      .data_in(pixel),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(shown),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  mase_scalar_accumulate #(
      .TERMS(Terms),
      .ROWS(Rows),
      .IN_LANES(InLanes),
      .OUT_LANES(OutLanes),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_KIND(DATA_IN_0_KIND),
      .DATA_WIDTH(DATA_IN_0_PRECISION_0),
      .DATA_SIGNED(DATA_IN_0_SIGNED),
      .DATA_EXPONENT_WIDTH(DATA_IN_0_EXPONENT_WIDTH),
      .WEIGHT_KIND(WEIGHT_KIND),
      .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
      .WEIGHT_SIGNED(WEIGHT_SIGNED),
      .WEIGHT_EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_KIND(BIAS_KIND),
      .BIAS_WIDTH(BIAS_PRECISION_0),
      .BIAS_SIGNED(BIAS_SIGNED),
      .BIAS_EXPONENT_WIDTH(BIAS_EXPONENT_WIDTH),
      .SUM_WIDTH(SUM_WIDTH),
      .SUM_FRACTION(SUM_FRACTION),
      .DOT_SHIFT(DOT_SHIFT),
      .BIAS_SHIFT(BIAS_SHIFT),
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
      .data_valid,
      .data_ready,
      .term(unused_term),
      .lanes,
      .weight,
      .weight_valid,
      .weight_ready,
      .bias,
      .bias_valid,
      .bias_ready,
      .result(data_out_0),
      .scale(data_out_0_exponent),
      .result_valid(data_out_0_valid),
      .result_ready(data_out_0_ready)
  );

endmodule

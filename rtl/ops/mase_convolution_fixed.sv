// SPDX-License-Identifier: Apache-2.0
// A convolution over an image that streams with its channels last, in one or two dimensions:
// data_out_0[y, x, o] = cast(bias[o] + the sum over ky, kx, c of weight[o, ky, kx, c] times the pixel
// that the tables name), every product and sum exact, rounded once. Pixels outside are zero.
//
// The dot products take ELEMENTS tiles of channels of the window in a cycle, whatever the number of
// lanes that stream. Weights come as tiles [results, elements x channels] in the order of use (tile of
// results, ky, kx, tile of channels), zero beyond the window, the same for every position, and one
// bias tile per tile of results. With SEPARATE each channel is convolved for itself: as many results
// as channels, weights as tiles [results, elements].
// Work: positions x blocks x ceil(KERNEL_ROWS x KERNEL_COLUMNS x BLOCK_TILES / ELEMENTS) cycles,
// without gaps. A result is offered 5 + ceil(log2(WEIGHT_PARALLELISM_DIM_0)) cycles after the last
// pixel it needs entered.
module mase_convolution_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 9,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 1,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter bit SEPARATE = 0,
    parameter int unsigned ACCUMULATOR_WIDTH = 20,
    parameter int unsigned TILES = 1,
    parameter int unsigned INPUTS = 16,
    parameter int unsigned ROWS = 2,
    parameter int unsigned COLUMNS = 2,
    parameter int unsigned KERNEL_ROWS = 3,
    parameter int unsigned KERNEL_COLUMNS = 3,
    parameter int unsigned BLOCK_TILES = 1,
    parameter int unsigned BLOCK_REPEATS = 1,
    parameter int unsigned ELEMENTS = 1,
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

    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned DotLanes = ELEMENTS * (SEPARATE ? 1 : InLanes)
) (
    input logic clk,
    input logic rst,

    input  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                          data_in_0_valid,
    output logic                                          data_in_0_ready,

    input  logic [OutLanes*DotLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                                 weight_valid,
    output logic                                                 weight_ready,

    input  logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input  logic                                      bias_valid,
    output logic                                      bias_ready,

    output logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                            data_out_0_valid,
    input  logic                                            data_out_0_ready
);

  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;

  localparam int unsigned BlockElements = KERNEL_ROWS * KERNEL_COLUMNS * BLOCK_TILES;
  localparam int unsigned Terms = (BlockElements + ELEMENTS - 1) / ELEMENTS;

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
  if (WEIGHT_PARALLELISM_DIM_0 != DotLanes || WEIGHT_PARALLELISM_DIM_1 != OutLanes
      || WEIGHT_TENSOR_SIZE_DIM_0 != Terms * DotLanes
      || WEIGHT_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_0) begin : gen_weight_check
    $error("weights must come as tiles of results x elements of the window");
  end
  if (SEPARATE && (InLanes != OutLanes
      || DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0)) begin : gen_separate_check
    $error("SEPARATE takes as many results as channels, in equal tiles");
  end
  if (HAS_BIAS && (BIAS_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || BIAS_TENSOR_SIZE_DIM_1 != 1 || BIAS_PARALLELISM_DIM_0 != OutLanes
      || BIAS_PARALLELISM_DIM_1 != 1)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat");
  end

  logic [ELEMENTS-1:0][InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] elements;
  logic [ELEMENTS*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic data_valid;
  logic data_ready;

  mase_sliding_window #(
      .LANES(InLanes),
      .LANE_WIDTH(DATA_IN_0_PRECISION_0),
      .TILES(TILES),
      .INPUTS(INPUTS),
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .KERNEL_ROWS(KERNEL_ROWS),
      .KERNEL_COLUMNS(KERNEL_COLUMNS),
      .BLOCK_TILES(BLOCK_TILES),
      .BLOCK_REPEATS(BLOCK_REPEATS),
      .ELEMENTS(ELEMENTS),
      .DEPTH(DEPTH),
      .ROW_FILE(ROW_FILE),
      .COLUMN_FILE(COLUMN_FILE)
  ) u_window (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(elements),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  for (genvar e = 0; e < ELEMENTS; e++) begin : gen_element
    for (genvar c = 0; c < InLanes; c++) begin : gen_channel
      localparam int unsigned Place = SEPARATE ? c * ELEMENTS + e : e * InLanes + c;
      assign data[Place] = elements[e][c];
    end
  end

  mase_multiply_accumulate #(
      .TERMS(Terms),
      .ROWS(1),
      .IN_LANES(DotLanes),
      .OUT_LANES(OutLanes),
      .SEPARATE(SEPARATE),
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

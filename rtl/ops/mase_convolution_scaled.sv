// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast((data_in_0 - zero) convolved with weight + bias) of integers with a real scale: exact
// sums as in mase_convolution_fixed, requantised with a multiplier for each result, see
// mase_requantize. Weights and biases come as integers in steps around zero.
// Throughput as mase_convolution_fixed, latency 2 cycles more.
module mase_convolution_scaled #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 0,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int DATA_IN_0_ZERO_POINT = 0,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 0,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 9,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 1,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 0,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned MULTIPLIER_PRECISION_0 = 24,
    parameter int MULTIPLIER_PRECISION_1 = 0,
    parameter bit MULTIPLIER_SIGNED = 0,
    parameter int unsigned MULTIPLIER_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned MULTIPLIER_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned MULTIPLIER_PARALLELISM_DIM_0 = 1,
    parameter int unsigned MULTIPLIER_PARALLELISM_DIM_1 = 1,
    parameter int unsigned MULTIPLIER_WIDTH = 18,
    parameter int unsigned SUM_WIDTH = 20,
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

    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int DATA_OUT_0_ZERO_POINT = 0,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned WeightLanes = WEIGHT_PARALLELISM_DIM_0 * WEIGHT_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                          data_in_0_valid,
    output logic                                          data_in_0_ready,

    input  logic [WeightLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                           weight_valid,
    output logic                                           weight_ready,

    input  logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input  logic                                      bias_valid,
    output logic                                      bias_ready,

    input  logic [OutLanes-1:0][MULTIPLIER_PRECISION_0-1:0] multiplier,
    input  logic                                            multiplier_valid,
    output logic                                            multiplier_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                                 data_out_0_valid,
    input  logic                                                 data_out_0_ready
);

  localparam bit Off = DATA_IN_0_ZERO_POINT != 0;
  localparam int unsigned InWidth = DATA_IN_0_PRECISION_0 + (Off ? 1 : 0);

  if (MULTIPLIER_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || MULTIPLIER_TENSOR_SIZE_DIM_1 != 1 || MULTIPLIER_PARALLELISM_DIM_0 != OutLanes
      || MULTIPLIER_PARALLELISM_DIM_1 != 1 || MULTIPLIER_SIGNED) begin : gen_multiplier_check
    $error("multipliers must be one row of unsigned words, a tile of results per beat");
  end

  // The scales of fixed point are in the multipliers.
  localparam int UnusedPlaces = DATA_IN_0_PRECISION_1 + MULTIPLIER_PRECISION_1
      + DATA_OUT_0_PRECISION_1;
  logic unused_places;
  assign unused_places = UnusedPlaces == 0;

  logic [InLanes-1:0][InWidth-1:0] data;
  logic [Rows*OutLanes-1:0][SUM_WIDTH-1:0] sum;
  logic sum_valid;
  logic sum_ready;

  for (genvar i = 0; i < InLanes; i++) begin : gen_lane
    if (!Off) begin : gen_centred
      assign data[i] = data_in_0[i];
    end else if (DATA_IN_0_SIGNED) begin : gen_signed
      assign data[i] = InWidth'(signed'(data_in_0[i])) - InWidth'(DATA_IN_0_ZERO_POINT);
    end else begin : gen_unsigned
      assign data[i] = InWidth'(data_in_0[i]) - InWidth'(DATA_IN_0_ZERO_POINT);
    end
  end

  mase_convolution_fixed #(
      .DATA_IN_0_PRECISION_0(InWidth),
      .DATA_IN_0_PRECISION_1(0),
      .DATA_IN_0_SIGNED(DATA_IN_0_SIGNED || Off),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(DATA_IN_0_PARALLELISM_DIM_1),
      .WEIGHT_PRECISION_0(WEIGHT_PRECISION_0),
      .WEIGHT_PRECISION_1(WEIGHT_PRECISION_1),
      .WEIGHT_SIGNED(WEIGHT_SIGNED),
      .WEIGHT_TENSOR_SIZE_DIM_0(WEIGHT_TENSOR_SIZE_DIM_0),
      .WEIGHT_TENSOR_SIZE_DIM_1(WEIGHT_TENSOR_SIZE_DIM_1),
      .WEIGHT_PARALLELISM_DIM_0(WEIGHT_PARALLELISM_DIM_0),
      .WEIGHT_PARALLELISM_DIM_1(WEIGHT_PARALLELISM_DIM_1),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_PRECISION_0(BIAS_PRECISION_0),
      .BIAS_PRECISION_1(BIAS_PRECISION_1),
      .BIAS_SIGNED(BIAS_SIGNED),
      .BIAS_TENSOR_SIZE_DIM_0(BIAS_TENSOR_SIZE_DIM_0),
      .BIAS_TENSOR_SIZE_DIM_1(BIAS_TENSOR_SIZE_DIM_1),
      .BIAS_PARALLELISM_DIM_0(BIAS_PARALLELISM_DIM_0),
      .BIAS_PARALLELISM_DIM_1(BIAS_PARALLELISM_DIM_1),
      .SEPARATE(SEPARATE),
      .ACCUMULATOR_WIDTH(ACCUMULATOR_WIDTH),
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
      .COLUMN_FILE(COLUMN_FILE),
      .DATA_OUT_0_PRECISION_0(SUM_WIDTH),
      .DATA_OUT_0_PRECISION_1(0),
      .DATA_OUT_0_SIGNED(1),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(DATA_OUT_0_PARALLELISM_DIM_1)
  ) u_sums (
      .clk,
      .rst,
      .data_in_0(data),
      .data_in_0_valid,
      .data_in_0_ready,
      .weight,
      .weight_valid,
      .weight_ready,
      .bias,
      .bias_valid,
      .bias_ready,
      .data_out_0(sum),
      .data_out_0_valid(sum_valid),
      .data_out_0_ready(sum_ready)
  );

  mase_requantize #(
      .ROWS(Rows),
      .LANES(OutLanes),
      .IN_WIDTH(SUM_WIDTH),
      .MULTIPLIER_WIDTH(MULTIPLIER_WIDTH),
      .WORD_WIDTH(MULTIPLIER_PRECISION_0),
      .KIND(DATA_OUT_0_KIND),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING(DATA_OUT_0_ROUNDING),
      .OVERFLOW(DATA_OUT_0_OVERFLOW),
      .SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0),
      .ZERO_POINT(DATA_OUT_0_ZERO_POINT)
  ) u_requantize (
      .clk,
      .rst,
      .data(sum),
      .data_valid(sum_valid),
      .data_ready(sum_ready),
      .multiplier,
      .multiplier_valid,
      .multiplier_ready,
      .result(data_out_0),
      .result_valid(data_out_0_valid),
      .result_ready(data_out_0_ready)
  );

endmodule

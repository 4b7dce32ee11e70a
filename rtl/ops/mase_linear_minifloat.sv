// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * weight^T + bias), every product and sum exact, rounded once, with
// operands and result of any scalar formats, see mase_scalar_decode and mase_scalar_cast.
//
// Sums are in units of 2**-SUM_FRACTION; products and biases are shifted to it. A result is offered
// 3 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after its last operands met, see
// mase_linear_control.
module mase_linear_minifloat #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,
    parameter int WEIGHT_EXPONENT_BIAS = 7,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
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

    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

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
  localparam int unsigned Tail = DATA_IN_0_TENSOR_SIZE_DIM_0 - (InTiles - 1) * InLanes;
  localparam int unsigned TileWidth = (InTiles > 1) ? $clog2(InTiles) : 1;
  localparam int unsigned DotLatency = 1 + $clog2(InLanes);

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

  // Formats say the place of their lowest step through SUM_FRACTION and the shifts.
  localparam int UnusedPlaces = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1 + BIAS_PRECISION_1
      + DATA_IN_0_EXPONENT_BIAS + WEIGHT_EXPONENT_BIAS + BIAS_EXPONENT_BIAS;
  logic unused_places;
  assign unused_places = UnusedPlaces == 0;

  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic data_valid;
  logic [TileWidth-1:0] data_tile;
  logic [InLanes-1:0] lanes_valid;
  logic advance;
  logic part_valid;
  logic part_first;
  logic sum_valid;
  logic sum_ready;

  mase_linear_control #(
      .DATA_WIDTH(Rows * InLanes * DATA_IN_0_PRECISION_0),
      .IN_TILES(InTiles),
      .OUT_TILES(OutTiles),
      .LATENCY(DotLatency)
  ) u_control (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .weight_valid,
      .weight_ready,
      .bias_valid,
      .bias_ready,
      .data,
      .data_valid,
      .data_tile,
      .advance,
      .part_valid,
      .part_first,
      .sum_valid,
      .sum_ready
  );

  for (genvar i = 0; i < InLanes; i++) begin : gen_valid
    assign lanes_valid[i] = data_valid && (i < Tail || data_tile != TileWidth'(InTiles - 1));
  end

  logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar o = 0; o < OutLanes; o++) begin : gen_out
    logic signed [SUM_WIDTH-1:0] start;
    if (HAS_BIAS) begin : gen_bias
      localparam int unsigned BiasBits =
          (BIAS_KIND == 1) ? BIAS_PRECISION_0 - BIAS_EXPONENT_WIDTH + 1 : BIAS_PRECISION_0 + 2;
      logic signed [BiasBits-1:0] significand;
      logic [BIAS_EXPONENT_WIDTH-1:0] shift;
      mase_scalar_decode #(
          .KIND(BIAS_KIND),
          .WIDTH(BIAS_PRECISION_0),
          .SIGNED(BIAS_SIGNED),
          .EXPONENT_WIDTH(BIAS_EXPONENT_WIDTH),
          .SIGNIFICAND_WIDTH(BiasBits)
      ) u_bias (
          .code(bias[o]),
          .significand,
          .shift
      );
      assign start = SUM_WIDTH'(significand) <<< (32'(shift) + BIAS_SHIFT);
    end else begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |bias[o];
    end

    for (genvar r = 0; r < Rows; r++) begin : gen_row
      logic signed [SUM_WIDTH-1:0] dot;
      logic signed [SUM_WIDTH-1:0] sum_q;

      mase_scalar_dot_product #(
          .LANES(InLanes),
          .DATA_KIND(DATA_IN_0_KIND),
          .DATA_WIDTH(DATA_IN_0_PRECISION_0),
          .DATA_SIGNED(DATA_IN_0_SIGNED),
          .DATA_EXPONENT_WIDTH(DATA_IN_0_EXPONENT_WIDTH),
          .WEIGHT_KIND(WEIGHT_KIND),
          .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
          .WEIGHT_SIGNED(WEIGHT_SIGNED),
          .WEIGHT_EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
          .SUM_WIDTH(SUM_WIDTH)
      ) u_dot (
          .clk,
          .enable(advance),
          .valid(lanes_valid),
          .data(data[r*InLanes+:InLanes]),
          .weight(weight[o*InLanes+:InLanes]),
          .sum(dot)
      );

      always_ff @(posedge clk) begin
        if (advance && part_valid) sum_q <= (part_first ? start : sum_q) + (dot <<< DOT_SHIFT);
      end

      mase_scalar_cast #(
          .IN_WIDTH(SUM_WIDTH),
          .IN_FRACTION(SUM_FRACTION),
          .KIND(DATA_OUT_0_KIND),
          .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
          .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING(DATA_OUT_0_ROUNDING),
          .OVERFLOW(DATA_OUT_0_OVERFLOW),
          .EXPONENT_WIDTH(DATA_OUT_0_EXPONENT_WIDTH),
          .EXPONENT_BIAS(DATA_OUT_0_EXPONENT_BIAS),
          .MAXIMUM_CODE(DATA_OUT_0_MAXIMUM_CODE)
      ) u_cast (
          .data_in (sum_q),
          .data_out(result[r*OutLanes+o])
      );
    end
  end

  mase_stream_register #(
      .WIDTH(Rows * OutLanes * DATA_OUT_0_PRECISION_0)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

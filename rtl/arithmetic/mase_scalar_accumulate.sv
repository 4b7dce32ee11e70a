// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: result = encode(bias + the sum over beats and valid lanes of data * weight),
// every product and sum exact, rounded once, for ROWS rows of OUT_LANES results. Operands are of any
// scalar formats, see mase_scalar_decode, results of any format, see mase_encode.
//
// Sums are in units of 2**-SUM_FRACTION; products and biases are shifted to it. A sum is complete
// 2 + ceil(log2(IN_LANES)) cycles after its last operands met. One beat per cycle without gaps.
module mase_scalar_accumulate #(
    parameter int unsigned TERMS = 4,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    // Results of a row.
    parameter int unsigned SIZE = 8,

    parameter int unsigned DATA_KIND = 0,
    parameter int unsigned DATA_WIDTH = 8,
    parameter bit DATA_SIGNED = 1,
    parameter int unsigned DATA_EXPONENT_WIDTH = 4,

    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_WIDTH = 8,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_KIND = 0,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_EXPONENT_WIDTH = 4,

    parameter int unsigned SUM_WIDTH = 32,
    parameter int SUM_FRACTION = 8,
    parameter int unsigned DOT_SHIFT = 0,
    parameter int unsigned BIAS_SHIFT = 4,

    parameter bit OUT_BLOCK = 0,
    parameter int unsigned OUT_KIND = 0,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned OUT_ROUNDING = 0,
    parameter int unsigned OUT_OVERFLOW = 0,
    parameter int unsigned OUT_EXPONENT_WIDTH = 4,
    parameter int OUT_EXPONENT_BIAS = 7,
    parameter int unsigned OUT_MAXIMUM_CODE = 127,
    parameter bit OUT_SYMMETRIC = 1,
    parameter int unsigned OUT_BLOCK_SIZE = 4,
    parameter int OUT_SCALE_BIAS = 127,
    parameter int unsigned OUT_SCALE_CODES = 255,

    localparam int unsigned TermWidth = (TERMS > 1) ? $clog2(TERMS) : 1,
    localparam int unsigned ScaleWidth = OUT_BLOCK ? unsigned'(OUT_FRACTION) : 1,
    localparam int unsigned Scales = OUT_BLOCK ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*IN_LANES-1:0][DATA_WIDTH-1:0] data,
    input  logic                                     data_valid,
    output logic                                     data_ready,
    // Which term of the sum the data are; which of their lanes count.
    output logic [    TermWidth-1:0]                 term,
    input  logic [     IN_LANES-1:0]                 lanes,

    input  logic [OUT_LANES*IN_LANES-1:0][WEIGHT_WIDTH-1:0] weight,
    input  logic                                            weight_valid,
    output logic                                            weight_ready,

    input  logic [OUT_LANES-1:0][BIAS_WIDTH-1:0] bias,
    input  logic                                 bias_valid,
    output logic                                 bias_ready,

    output logic [ROWS*OUT_LANES-1:0][ OUT_WIDTH-1:0] result,
    output logic [        Scales-1:0][ScaleWidth-1:0] scale,
    output logic                                      result_valid,
    input  logic                                      result_ready
);

  localparam int unsigned PlaceWidth = 12;

  logic met;
  logic advance;
  logic part_valid;
  logic part_first;
  logic sum_valid;
  logic sum_ready;

  mase_accumulate_control #(
      .TERMS  (TERMS),
      .LATENCY(1 + $clog2(IN_LANES))
  ) u_control (
      .clk,
      .rst,
      .data_in_valid(data_valid),
      .data_in_ready(data_ready),
      .weight_valid,
      .weight_ready,
      .bias_valid,
      .bias_ready,
      .met,
      .term,
      .advance,
      .part_valid,
      .part_first,
      .sum_valid,
      .sum_ready
  );

  logic [ROWS*OUT_LANES-1:0][SUM_WIDTH-1:0] sums;

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [SUM_WIDTH-1:0] start;
    if (HAS_BIAS) begin : gen_bias
      localparam int unsigned BiasBits =
          (BIAS_KIND == 1) ? BIAS_WIDTH - BIAS_EXPONENT_WIDTH + 1 : BIAS_WIDTH + 2;
      logic signed [BiasBits-1:0] significand;
      logic [BIAS_EXPONENT_WIDTH-1:0] shift;
      mase_scalar_decode #(
          .KIND(BIAS_KIND),
          .WIDTH(BIAS_WIDTH),
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

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [SUM_WIDTH-1:0] dot;
      logic signed [SUM_WIDTH-1:0] sum_q;

      mase_scalar_dot_product #(
          .LANES(IN_LANES),
          .DATA_KIND(DATA_KIND),
          .DATA_WIDTH(DATA_WIDTH),
          .DATA_SIGNED(DATA_SIGNED),
          .DATA_EXPONENT_WIDTH(DATA_EXPONENT_WIDTH),
          .WEIGHT_KIND(WEIGHT_KIND),
          .WEIGHT_WIDTH(WEIGHT_WIDTH),
          .WEIGHT_SIGNED(WEIGHT_SIGNED),
          .WEIGHT_EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
          .SUM_WIDTH(SUM_WIDTH)
      ) u_dot (
          .clk,
          .enable(advance),
          .valid(met ? lanes : '0),
          .data(data[r*IN_LANES+:IN_LANES]),
          .weight(weight[o*IN_LANES+:IN_LANES]),
          .sum(dot)
      );

      always_ff @(posedge clk) begin
        if (advance && part_valid) sum_q <= (part_first ? start : sum_q) + (dot <<< DOT_SHIFT);
      end
      assign sums[r*OUT_LANES+o] = sum_q;
    end
  end

  mase_encode #(
      .ROWS(ROWS),
      .LANES(OUT_LANES),
      .SIZE(SIZE),
      .IN_WIDTH(SUM_WIDTH),
      .PLACE_WIDTH(PlaceWidth),
      .BLOCK(OUT_BLOCK),
      .KIND(OUT_KIND),
      .OUT_WIDTH(OUT_WIDTH),
      .OUT_FRACTION(OUT_FRACTION),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING(OUT_ROUNDING),
      .OVERFLOW(OUT_OVERFLOW),
      .EXPONENT_WIDTH(OUT_EXPONENT_WIDTH),
      .EXPONENT_BIAS(OUT_EXPONENT_BIAS),
      .MAXIMUM_CODE(OUT_MAXIMUM_CODE),
      .SYMMETRIC(OUT_SYMMETRIC),
      .BLOCK_SIZE(OUT_BLOCK_SIZE),
      .SCALE_BIAS(OUT_SCALE_BIAS),
      .SCALE_CODES(OUT_SCALE_CODES)
  ) u_encode (
      .clk,
      .rst,
      .mantissa(sums),
      .exponent({ROWS * OUT_LANES{PlaceWidth'(-SUM_FRACTION)}}),
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(result),
      .scale,
      .data_out_valid(result_valid),
      .data_out_ready(result_ready)
  );

endmodule

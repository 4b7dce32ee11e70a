// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference or product as OPERATION says, lane by
// lane, on floats and on fixed point beside them, exact and rounded once; see mase_scaled_arithmetic.
// NaN goes through; inf - inf and 0 * inf are NaN; see mase_float_encode for formats without it.
// Latency 3 cycles, those of arithmetic_stages() and of cast_stages(); throughput 1 beat per cycle.
module mase_binary_float
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = floating(8, 4, 7, 126),
    parameter format_t DATA_IN_1 = floating(8, 4, 7, 126),
    parameter format_t DATA_OUT_0 = floating(8, 4, 7, 126),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned LANES = 4,
    parameter operation_e OPERATION = Add,
    // Whether infinity follows the largest number of an operand.
    parameter bit DATA_IN_0_INFINITY = 0,
    parameter bit DATA_IN_1_INFINITY = 0,
    parameter int unsigned OVERFLOW_CODE = 126,
    parameter int unsigned NAN_CODE = 127,
    parameter int unsigned GUARD_BITS = 6
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][DATA_IN_1.width-1:0] data_in_1,
    input  logic                                  data_in_1_valid,
    output logic                                  data_in_1_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned LeftWidth = DATA_IN_0.significand_width;
  localparam int unsigned RightWidth = DATA_IN_1.significand_width;
  localparam int unsigned ExactWidth = exact_bits(OPERATION, LeftWidth, RightWidth, GUARD_BITS);
  localparam int unsigned ArithmeticStages = arithmetic_stages(OPERATION);

  if (DATA_OUT_0.overflow != Saturate) begin : gen_overflow_check
    $error("results beside floats must saturate");
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({data_in_1_valid, data_in_0_valid}),
      .data_in_ready ({data_in_1_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    exponent_t left_exponent;
    logic left_negative;
    logic left_infinite;
    logic left_nan;
    logic signed [RightWidth-1:0] right;
    exponent_t right_exponent;
    logic right_negative;
    logic right_infinite;
    logic right_nan;
    logic undefined;
    logic negative_zero;
    logic signed [LeftWidth-1:0] left_q;
    logic signed [RightWidth-1:0] right_q;
    exponent_t left_exponent_q;
    exponent_t right_exponent_q;
    logic [ArithmeticStages:0] nan_q;
    logic [ArithmeticStages:0] negative_zero_q;
    logic [ExactWidth-1:0] exact;
    exponent_t exact_exponent;

    mase_float_decode #(
        .CODE(DATA_IN_0),
        .INFINITY(DATA_IN_0_INFINITY)
    ) u_left (
        .code(data_in_0[i]),
        .mantissa(left),
        .exponent(left_exponent),
        .negative(left_negative),
        .infinite(left_infinite),
        .not_a_number(left_nan)
    );

    mase_float_decode #(
        .CODE(DATA_IN_1),
        .INFINITY(DATA_IN_1_INFINITY)
    ) u_right (
        .code(data_in_1[i]),
        .mantissa(right),
        .exponent(right_exponent),
        .negative(right_negative),
        .infinite(right_infinite),
        .not_a_number(right_nan)
    );

    mase_scaled_arithmetic #(
        .OPERATION  (OPERATION),
        .LEFT_WIDTH (LeftWidth),
        .RIGHT_WIDTH(RightWidth),
        .GUARD_BITS (GUARD_BITS)
    ) u_arithmetic (
        .clk,
        .left(left_q),
        .left_exponent(left_exponent_q),
        .right(right_q),
        .right_exponent(right_exponent_q),
        .result(exact),
        .exponent(exact_exponent)
    );

    if (OPERATION == Multiply) begin : gen_product
      assign undefined = (left_infinite && right == '0) || (left == '0 && right_infinite);
      assign negative_zero = left_negative ^ right_negative;
    end else begin : gen_sum
      logic flipped;
      assign flipped = right_negative ^ (OPERATION == Subtract);
      assign undefined = left_infinite && right_infinite && left_negative != flipped;
      assign negative_zero = left_negative && flipped;
    end

    always_ff @(posedge clk) begin
      left_q <= left;
      right_q <= right;
      left_exponent_q <= left_exponent;
      right_exponent_q <= right_exponent;
      nan_q <= (ArithmeticStages + 1)'({nan_q, undefined || left_nan || right_nan});
      negative_zero_q <= (ArithmeticStages + 1)'({negative_zero_q, negative_zero});
    end

    mase_float_encode #(
        .IN_WIDTH(ExactWidth),
        .DATA_OUT(DATA_OUT_0),
        .OVERFLOW_CODE(OVERFLOW_CODE),
        .NAN_CODE(NAN_CODE)
    ) u_encode (
        .clk,
        .mantissa(exact),
        .exponent(exact_exponent),
        .negative_zero(negative_zero_q[ArithmeticStages]),
        .not_a_number(nan_q[ArithmeticStages]),
        .data_out(result[i])
    );
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(1 + ArithmeticStages + cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width))
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference (OPERATION 1) or product (2), lane by
// lane, on floats and on fixed point beside them, exact and rounded once; see mase_scaled_arithmetic.
// NaN goes through; inf - inf and 0 * inf are NaN; see mase_float_encode for formats without it.
// Latency 2 cycles, throughput 1 beat per cycle.
module mase_binary_minifloat #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_0_MAXIMUM_CODE = 127,
    parameter bit DATA_IN_0_INFINITY = 0,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_IN_1_KIND = 0,
    parameter int unsigned DATA_IN_1_PRECISION_0 = 8,
    parameter int DATA_IN_1_PRECISION_1 = 4,
    parameter bit DATA_IN_1_SIGNED = 1,
    parameter int unsigned DATA_IN_1_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_1_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_1_MAXIMUM_CODE = 127,
    parameter bit DATA_IN_1_INFINITY = 0,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_OVERFLOW_CODE = 127,
    parameter int unsigned DATA_OUT_0_NAN_CODE = 127,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned OPERATION   = 0,
    parameter int unsigned GUARD_BITS  = 6,
    parameter int unsigned EXACT_WIDTH = 17,

    localparam int unsigned Lanes = DATA_OUT_0_PARALLELISM_DIM_0 * DATA_OUT_0_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    input  logic [Lanes-1:0][DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                        data_in_1_valid,
    output logic                                        data_in_1_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int unsigned LeftWidth = (DATA_IN_0_KIND == 1)
      ? DATA_IN_0_PRECISION_0 - DATA_IN_0_EXPONENT_WIDTH + 1
      : DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1);
  localparam int unsigned RightWidth = (DATA_IN_1_KIND == 1)
      ? DATA_IN_1_PRECISION_0 - DATA_IN_1_EXPONENT_WIDTH + 1
      : DATA_IN_1_PRECISION_0 + (DATA_IN_1_SIGNED ? 0 : 1);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_1_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_1_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1) begin : gen_size_check
    $error("data_in_0, data_in_1 and data_out_0 must have one size");
  end
  if (DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1
      || DATA_IN_1_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_1_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_lanes_check
    $error("data_in_0, data_in_1 and data_out_0 must have one parallelism");
  end
  if (DATA_OUT_0_OVERFLOW != 0) begin : gen_overflow_check
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

  typedef struct packed {
    logic nan;
    logic negative_zero;
    logic signed [11:0] exponent;
    logic [EXACT_WIDTH-1:0] mantissa;
  } exact_t;

  exact_t [Lanes-1:0] exact;
  exact_t [Lanes-1:0] kept;
  logic kept_valid;
  logic kept_ready;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [11:0] left_exponent;
    logic left_negative;
    logic left_infinite;
    logic left_nan;
    logic signed [RightWidth-1:0] right;
    logic signed [11:0] right_exponent;
    logic right_negative;
    logic right_infinite;
    logic right_nan;
    logic undefined;

    mase_float_decode #(
        .KIND(DATA_IN_0_KIND),
        .WIDTH(DATA_IN_0_PRECISION_0),
        .FRACTION(DATA_IN_0_PRECISION_1),
        .SIGNED(DATA_IN_0_SIGNED),
        .EXPONENT_WIDTH(DATA_IN_0_EXPONENT_WIDTH),
        .EXPONENT_BIAS(DATA_IN_0_EXPONENT_BIAS),
        .MAXIMUM_CODE(DATA_IN_0_MAXIMUM_CODE),
        .INFINITY(DATA_IN_0_INFINITY),
        .MANTISSA_WIDTH(LeftWidth)
    ) u_left (
        .code(data_in_0[i]),
        .mantissa(left),
        .exponent(left_exponent),
        .negative(left_negative),
        .infinite(left_infinite),
        .not_a_number(left_nan)
    );

    mase_float_decode #(
        .KIND(DATA_IN_1_KIND),
        .WIDTH(DATA_IN_1_PRECISION_0),
        .FRACTION(DATA_IN_1_PRECISION_1),
        .SIGNED(DATA_IN_1_SIGNED),
        .EXPONENT_WIDTH(DATA_IN_1_EXPONENT_WIDTH),
        .EXPONENT_BIAS(DATA_IN_1_EXPONENT_BIAS),
        .MAXIMUM_CODE(DATA_IN_1_MAXIMUM_CODE),
        .INFINITY(DATA_IN_1_INFINITY),
        .MANTISSA_WIDTH(RightWidth)
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
        .GUARD_BITS (GUARD_BITS),
        .OUT_WIDTH  (EXACT_WIDTH)
    ) u_arithmetic (
        .left,
        .left_exponent,
        .right,
        .right_exponent,
        .result  (exact[i].mantissa),
        .exponent(exact[i].exponent)
    );

    if (OPERATION == 2) begin : gen_product
      assign undefined = (left_infinite && right == '0) || (left == '0 && right_infinite);
      assign exact[i].negative_zero = left_negative ^ right_negative;
    end else begin : gen_sum
      logic flipped;
      assign flipped = right_negative ^ (OPERATION == 1);
      assign undefined = left_infinite && right_infinite && left_negative != flipped;
      assign exact[i].negative_zero = left_negative && flipped;
    end
    assign exact[i].nan = undefined || left_nan || right_nan;

    mase_float_encode #(
        .IN_WIDTH(EXACT_WIDTH),
        .KIND(DATA_OUT_0_KIND),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .EXPONENT_WIDTH(DATA_OUT_0_EXPONENT_WIDTH),
        .EXPONENT_BIAS(DATA_OUT_0_EXPONENT_BIAS),
        .MAXIMUM_CODE(DATA_OUT_0_MAXIMUM_CODE),
        .OVERFLOW_CODE(DATA_OUT_0_OVERFLOW_CODE),
        .NAN_CODE(DATA_OUT_0_NAN_CODE)
    ) u_encode (
        .mantissa(kept[i].mantissa),
        .exponent(kept[i].exponent),
        .negative_zero(kept[i].negative_zero),
        .not_a_number(kept[i].nan),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * $bits(exact_t))
  ) u_exact (
      .clk,
      .rst,
      .data_in(exact),
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .data_out(kept),
      .data_out_valid(kept_valid),
      .data_out_ready(kept_ready)
  );

  mase_stream_register #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(kept_valid),
      .data_in_ready(kept_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

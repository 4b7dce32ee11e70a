// SPDX-License-Identifier: Apache-2.0
// The sum, difference or product of left * 2**left_exponent and right * 2**right_exponent, on one
// pair. Sums keep GUARD_BITS bits below the operand of larger exponent; what lies below is rounded to
// odd: the last bit is one where anything is lost, so that rounding the result again to fewer bits is
// as rounding the exact sum. Products are exact. Two's complement. Combinational.
module mase_scaled_arithmetic
  import mase_pkg::*;
#(
    parameter operation_e  OPERATION   = Add,
    parameter int unsigned LEFT_WIDTH  = 5,
    parameter int unsigned RIGHT_WIDTH = 5,
    parameter int unsigned GUARD_BITS  = 6,

    localparam int unsigned OutWidth = exact_bits(OPERATION, LEFT_WIDTH, RIGHT_WIDTH, GUARD_BITS)
) (
    input  logic signed [ LEFT_WIDTH-1:0] left,
    input  exponent_t                     left_exponent,
    input  logic signed [RIGHT_WIDTH-1:0] right,
    input  exponent_t                     right_exponent,
    output logic        [   OutWidth-1:0] result,
    output exponent_t                     exponent
);

  if (OPERATION == Multiply) begin : gen_product
    assign result   = OutWidth'(left) * OutWidth'(right);
    assign exponent = left_exponent + right_exponent;
  end else begin : gen_sum
    // Below the exponents of all numbers.
    localparam exponent_t ZeroExponent = -12'sd1024;
    localparam int unsigned ShiftWidth = $clog2(OutWidth + 1);

    exponent_t left_place;
    exponent_t right_place;
    exponent_t high_place;
    logic right_is_high;
    logic signed [OutWidth-1:0] left_term;
    logic signed [OutWidth-1:0] right_term;
    logic signed [OutWidth-1:0] high;
    logic signed [OutWidth-1:0] low;
    logic signed [12:0] distance;
    logic [ShiftWidth-1:0] shift;
    logic [OutWidth-1:0] shifted;
    logic lost;

    assign left_place = (left == '0) ? ZeroExponent : left_exponent;
    assign right_place = (right == '0) ? ZeroExponent : right_exponent;
    assign right_is_high = right_place > left_place;
    assign high_place = right_is_high ? right_place : left_place;
    assign distance = 13'(high_place) - 13'(right_is_high ? left_place : right_place);
    assign shift = (distance > 13'(OutWidth)) ? ShiftWidth'(OutWidth) : ShiftWidth'(distance);

    assign left_term = OutWidth'(left) <<< GUARD_BITS;
    if (OPERATION == Subtract) begin : gen_difference
      assign right_term = -(OutWidth'(right) <<< GUARD_BITS);
    end else begin : gen_plain
      assign right_term = OutWidth'(right) <<< GUARD_BITS;
    end

    assign high = right_is_high ? right_term : left_term;
    assign low = right_is_high ? left_term : right_term;
    assign lost = |(low & ~({OutWidth{1'b1}} << shift));
    assign shifted = low >>> shift;
    assign result = high + (shifted | OutWidth'(lost));
    assign exponent = high_place - exponent_t'(GUARD_BITS);
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The sum, difference or product of left * 2**left_exponent and right * 2**right_exponent, on one
// pair. Sums keep GUARD_BITS bits below the operand of larger exponent; what lies below is rounded to
// odd: the last bit is one where anything is lost, so that rounding the result again to fewer bits is
// as rounding the exact sum. Products are exact. Two's complement. Latency arithmetic_stages(),
// throughput one per cycle; it never stops.
module mase_scaled_arithmetic
  import mase_pkg::*;
#(
    parameter operation_e  OPERATION   = Add,
    parameter int unsigned LEFT_WIDTH  = 5,
    parameter int unsigned RIGHT_WIDTH = 5,
    parameter int unsigned GUARD_BITS  = 6,

    localparam int unsigned OutWidth = exact_bits(OPERATION, LEFT_WIDTH, RIGHT_WIDTH, GUARD_BITS)
) (
    input  logic                          clk,
    input  logic signed [ LEFT_WIDTH-1:0] left,
    input  exponent_t                     left_exponent,
    input  logic signed [RIGHT_WIDTH-1:0] right,
    input  exponent_t                     right_exponent,
    output logic        [   OutWidth-1:0] result,
    output exponent_t                     exponent
);

  if (OPERATION == Multiply) begin : gen_product
    logic signed [LEFT_WIDTH-1:0] left_q;
    logic signed [RIGHT_WIDTH-1:0] right_q;
    exponent_t exponent_q;
    always_ff @(posedge clk) begin
      left_q <= left;
      right_q <= right;
      result <= OutWidth'(left_q) * OutWidth'(right_q);
      exponent_q <= left_exponent + right_exponent;
      exponent <= exponent_q;
    end
  end else begin : gen_sum
    // Below the exponents of all numbers.
    localparam exponent_t ZeroExponent = -12'sd1024;
    localparam int unsigned ShiftWidth = $clog2(OutWidth + 1);

    exponent_t left_place_q;
    exponent_t right_place_q;
    exponent_t high_place_q[ShiftStages+3];
    logic right_is_high;
    logic signed [12:0] distance_q;
    logic signed [OutWidth-1:0] left_term;
    logic signed [OutWidth-1:0] right_term;
    logic signed [OutWidth-1:0] left_q;
    logic signed [OutWidth-1:0] right_q;
    logic signed [OutWidth-1:0] high_q[ShiftStages+2];
    logic signed [OutWidth-1:0] low_q[2];
    logic [ShiftWidth-1:0] shift_q;
    logic [OutWidth-1:0] shifted;
    logic lost;

    assign left_term = OutWidth'(left) <<< GUARD_BITS;
    if (OPERATION == Subtract) begin : gen_difference
      assign right_term = -(OutWidth'(right) <<< GUARD_BITS);
    end else begin : gen_plain
      assign right_term = OutWidth'(right) <<< GUARD_BITS;
    end

    assign right_is_high = right_place_q > left_place_q;

    always_ff @(posedge clk) begin
      left_place_q <= (left == '0) ? ZeroExponent : left_exponent;
      right_place_q <= (right == '0) ? ZeroExponent : right_exponent;
      left_q <= left_term;
      right_q <= right_term;

      high_place_q[0] <= right_is_high ? right_place_q : left_place_q;
      distance_q <= right_is_high
          ? 13'(right_place_q) - 13'(left_place_q) : 13'(left_place_q) - 13'(right_place_q);
      high_q[0] <= right_is_high ? right_q : left_q;
      low_q[0] <= right_is_high ? left_q : right_q;

      shift_q <= (distance_q > 13'(OutWidth)) ? ShiftWidth'(OutWidth) : ShiftWidth'(distance_q);
      low_q[1] <= low_q[0];

      for (int s = 1; s < int'(ShiftStages) + 2; s++) high_q[s] <= high_q[s-1];
      for (int s = 1; s < int'(ShiftStages) + 2; s++) high_place_q[s] <= high_place_q[s-1];
      result <= high_q[ShiftStages+1] + (shifted | OutWidth'(lost));
      high_place_q[ShiftStages+2] <= high_place_q[ShiftStages+1] - exponent_t'(GUARD_BITS);
    end
    assign exponent = high_place_q[ShiftStages+2];

    mase_shift_right #(
        .WIDTH(OutWidth),
        .SHIFT_WIDTH(ShiftWidth)
    ) u_shift (
        .clk,
        .data_in(low_q[1]),
        .shift(shift_q),
        .data_out(shifted),
        .lost
    );
  end

endmodule

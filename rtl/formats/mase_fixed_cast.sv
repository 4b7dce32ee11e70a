// SPDX-License-Identifier: Apache-2.0
// out = bound(round(in * 2**(OUT_FRACTION - IN_FRACTION))), on one element.
// ROUNDING 0 nearest even, 1 nearest up, 2 floor, 3 toward zero. OVERFLOW 0 saturate, 1 wrap.
// The input is two's complement; an unsigned value comes with a zero on top. Combinational.
module mase_fixed_cast #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned OVERFLOW = 0
) (
    input  logic [ IN_WIDTH-1:0] data_in,
    output logic [OUT_WIDTH-1:0] data_out
);

  localparam int Shift = IN_FRACTION - OUT_FRACTION;
  localparam int unsigned ShiftRight = (Shift > 0) ? unsigned'(Shift) : 0;
  localparam int unsigned ShiftLeft = (Shift < 0) ? unsigned'(-Shift) : 0;
  // Room for the left shift, for the carry of rounding, and for the bounds of the result.
  localparam int unsigned Wide = IN_WIDTH + ShiftLeft + 1;
  localparam int unsigned WorkWidth = (Wide > OUT_WIDTH + 1) ? Wide : OUT_WIDTH + 1;

  logic signed [WorkWidth-1:0] rounded;

  if (ShiftRight == 0) begin : gen_shift_left
    assign rounded = WorkWidth'(signed'(data_in)) <<< ShiftLeft;
  end else begin : gen_shift_right
    // One more bit than is shifted out, so that the sign survives a shift beyond the width.
    localparam int unsigned ExtWidth = ((IN_WIDTH > ShiftRight) ? IN_WIDTH : ShiftRight) + 1;
    logic [ExtWidth-1:0] extended;
    logic signed [WorkWidth-1:0] truncated;
    logic half;
    logic sticky;
    logic up;

    assign extended  = ExtWidth'(signed'(data_in));
    assign truncated = WorkWidth'(signed'(extended[ExtWidth-1:ShiftRight]));
    assign half      = extended[ShiftRight-1];
    if (ShiftRight > 1) begin : gen_sticky
      assign sticky = |extended[ShiftRight-2:0];
    end else begin : gen_no_sticky
      assign sticky = 1'b0;
    end

    if (ROUNDING == 0) begin : gen_nearest_even
      assign up = half & (sticky | truncated[0]);
    end else if (ROUNDING == 1) begin : gen_nearest_up
      assign up = half;
      logic unused_sticky;
      assign unused_sticky = sticky;
    end else if (ROUNDING == 2) begin : gen_floor
      assign up = 1'b0;
      logic unused_bits;
      assign unused_bits = half | sticky;
    end else begin : gen_toward_zero
      assign up = extended[ExtWidth-1] & (half | sticky);
    end
    assign rounded = truncated + WorkWidth'({1'b0, up});
  end

  if (OVERFLOW == 0) begin : gen_saturate
    if (OUT_SIGNED) begin : gen_signed
      // In range when every bit above the result's sign repeats it.
      logic overflow;
      assign overflow = rounded[WorkWidth-1:OUT_WIDTH-1]
          != {(WorkWidth - OUT_WIDTH + 1) {rounded[WorkWidth-1]}};
      assign data_out = overflow
          ? {rounded[WorkWidth-1], {(OUT_WIDTH - 1) {~rounded[WorkWidth-1]}}}
          : rounded[OUT_WIDTH-1:0];
    end else begin : gen_unsigned
      logic overflow;
      assign overflow = |rounded[WorkWidth-1:OUT_WIDTH];
      assign data_out = overflow ? {OUT_WIDTH{~rounded[WorkWidth-1]}} : rounded[OUT_WIDTH-1:0];
    end
  end else begin : gen_wrap
    assign data_out = rounded[OUT_WIDTH-1:0];
    logic unused_high;
    assign unused_high = |rounded[WorkWidth-1:OUT_WIDTH];
  end

endmodule

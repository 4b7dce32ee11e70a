// SPDX-License-Identifier: Apache-2.0
// out = bound(round(in * 2**(fraction - IN_FRACTION))), on one element, in fixed point.
// The input is two's complement; an unsigned value comes with a zero on top. Combinational.
module mase_fixed_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter format_t DATA_OUT = fixed(8, 4),

    localparam int unsigned Width = DATA_OUT.width
) (
    input  logic [IN_WIDTH-1:0] data_in,
    output logic [   Width-1:0] data_out
);

  localparam int Shift = IN_FRACTION - DATA_OUT.fraction;
  localparam int unsigned ShiftRight = (Shift > 0) ? unsigned'(Shift) : 0;
  localparam int unsigned ShiftLeft = (Shift < 0) ? unsigned'(-Shift) : 0;
  // Room for the left shift, for the carry of rounding, and for the bounds of the result.
  localparam int unsigned Wide = IN_WIDTH + ShiftLeft + 1;
  localparam int unsigned WorkWidth = (Wide > Width + 1) ? Wide : Width + 1;

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

    if (DATA_OUT.rounding == NearestEven) begin : gen_nearest_even
      assign up = half & (sticky | truncated[0]);
    end else if (DATA_OUT.rounding == NearestUp) begin : gen_nearest_up
      assign up = half;
      logic unused_sticky;
      assign unused_sticky = sticky;
    end else if (DATA_OUT.rounding == Floor) begin : gen_floor
      assign up = 1'b0;
      logic unused_bits;
      assign unused_bits = half | sticky;
    end else begin : gen_toward_zero
      assign up = extended[ExtWidth-1] & (half | sticky);
    end
    assign rounded = truncated + WorkWidth'({1'b0, up});
  end

  if (DATA_OUT.overflow == Saturate) begin : gen_saturate
    if (DATA_OUT.is_signed) begin : gen_signed
      // In range when every bit above the result's sign repeats it.
      logic overflow;
      assign overflow =
          rounded[WorkWidth-1:Width-1] != {(WorkWidth - Width + 1) {rounded[WorkWidth-1]}};
      assign data_out = overflow
          ? {rounded[WorkWidth-1], {(Width - 1) {~rounded[WorkWidth-1]}}} : rounded[Width-1:0];
    end else begin : gen_unsigned
      logic overflow;
      assign overflow = |rounded[WorkWidth-1:Width];
      assign data_out = overflow ? {Width{~rounded[WorkWidth-1]}} : rounded[Width-1:0];
    end
  end else begin : gen_wrap
    assign data_out = rounded[Width-1:0];
    logic unused_high;
    assign unused_high = |rounded[WorkWidth-1:Width];
  end

endmodule

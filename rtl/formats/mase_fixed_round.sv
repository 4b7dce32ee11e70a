// SPDX-License-Identifier: Apache-2.0
// data_out = round(data_in * 2**(DATA_OUT.fraction - IN_FRACTION)), the first half of a cast to fixed
// point: every bit that the rounded value may have, rounded_width() of them. The input is two's
// complement; an unsigned value comes with a zero on top. Combinational.
module mase_fixed_round
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter format_t DATA_OUT = fixed(8, 4),

    localparam int unsigned WorkWidth = rounded_width(IN_WIDTH, IN_FRACTION, DATA_OUT)
) (
    input  logic [ IN_WIDTH-1:0] data_in,
    output logic [WorkWidth-1:0] data_out
);

  localparam int Shift = IN_FRACTION - DATA_OUT.fraction;
  localparam int unsigned ShiftRight = (Shift > 0) ? unsigned'(Shift) : 0;
  localparam int unsigned ShiftLeft = (Shift < 0) ? unsigned'(-Shift) : 0;

  if (ShiftRight == 0) begin : gen_shift_left
    assign data_out = WorkWidth'(signed'(data_in)) <<< ShiftLeft;
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
    assign data_out = truncated + WorkWidth'({1'b0, up});
  end

endmodule

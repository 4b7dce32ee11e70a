// SPDX-License-Identifier: Apache-2.0
// out = bound(round(in * 2**(exponent + fraction))), on one element, in fixed point, for any exponent.
// Two's complement input. Combinational.
module mase_scaled_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned EXPONENT_WIDTH = 12,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [EXPONENT_WIDTH-1:0] exponent,
    output logic        [DATA_OUT.width-1:0] data_out
);

  // Below half a unit at the longest shift right, beyond the result at the longest to the left.
  localparam int unsigned RightMax = IN_WIDTH + 1;
  localparam int unsigned LeftMax = DATA_OUT.width;
  localparam int unsigned Wide = IN_WIDTH + LeftMax + RightMax;
  localparam int unsigned ShiftMax = RightMax + LeftMax;
  localparam int unsigned ShiftWidth = $clog2(ShiftMax + 1);

  // From 0 (RightMax places to the right) to ShiftMax (LeftMax places to the left).
  int place;
  logic [ShiftWidth-1:0] shift;
  logic [Wide-1:0] shifted;

  always_comb begin
    place = int'(exponent) + DATA_OUT.fraction + int'(RightMax);
    if (place < 0) shift = '0;
    else if (place > int'(ShiftMax)) shift = ShiftWidth'(ShiftMax);
    else shift = ShiftWidth'(place);
  end

  assign shifted = Wide'(signed'(data_in)) << shift;

  mase_fixed_cast #(
      .IN_WIDTH(Wide),
      .IN_FRACTION(int'(RightMax) + DATA_OUT.fraction),
      .DATA_OUT(DATA_OUT)
  ) u_cast (
      .data_in (shifted),
      .data_out(data_out)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// out = bound(round(in * 2**(exponent + fraction))), on one element, in fixed point, for any exponent.
// Two's complement input.
// Latency 7 cycles, ScaledCastStages, throughput one per cycle; it never stops.
module mase_scaled_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned EXPONENT_WIDTH = 12,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input  logic                             clk,
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [EXPONENT_WIDTH-1:0] exponent,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Width = DATA_OUT.width;
  // Below half a unit at the longest shift right, beyond the result at the longest to the left.
  localparam int unsigned RightMax = IN_WIDTH + 1;
  localparam int unsigned LeftMax = Width;
  localparam int unsigned ShiftMax = RightMax + LeftMax;
  localparam int unsigned ShiftWidth = $clog2(ShiftMax + 1);
  // The longest shift to the left is done, and one more for the half of a unit.
  localparam int unsigned Wide = IN_WIDTH + LeftMax + 1;
  localparam int unsigned WorkWidth = ((EXPONENT_WIDTH > 12) ? EXPONENT_WIDTH : 12) + 2;
  // Three bits above a result, a half and the rest below.
  localparam int unsigned NarrowWidth = Width + 5;
  localparam int NarrowFraction = DATA_OUT.fraction + 2;
  localparam int unsigned RoundedWidth = rounded_width(NarrowWidth, NarrowFraction, DATA_OUT);

  // Places to the right.
  logic signed [WorkWidth-1:0] places_q;
  logic [ShiftWidth-1:0] shift_q;
  logic [IN_WIDTH-1:0] first_q;
  logic [IN_WIDTH-1:0] second_q;
  logic [Wide-1:0] shifted;
  logic lost;
  logic sign;
  logic over;
  logic [NarrowWidth-1:0] narrow_q;
  logic [RoundedWidth-1:0] rounded;
  logic [RoundedWidth-1:0] rounded_q;
  logic [Width-1:0] bounded;

  always_ff @(posedge clk) begin
    first_q <= data_in;
    places_q <= WorkWidth'(int'(LeftMax) - DATA_OUT.fraction) - WorkWidth'(exponent);
    second_q <= first_q;
    shift_q <= (places_q < 0) ? '0
        : (places_q > WorkWidth'(ShiftMax)) ? ShiftWidth'(ShiftMax) : ShiftWidth'(places_q);
  end

  mase_shift_right #(
      .WIDTH(Wide),
      .SHIFT_WIDTH(ShiftWidth)
  ) u_shift (
      .clk,
      .data_in({second_q, (LeftMax + 1)'(0)}),
      .shift(shift_q),
      .data_out(shifted),
      .lost
  );

  assign sign = shifted[Wide-1];
  assign over = shifted[Wide-1:Width+1] != {(Wide - Width - 1) {sign}};

  always_ff @(posedge clk) begin
    narrow_q  <= {sign, sign, sign ^ over, shifted[Width:0], lost};
    rounded_q <= rounded;
    data_out  <= bounded;
  end

  mase_fixed_round #(
      .IN_WIDTH(NarrowWidth),
      .IN_FRACTION(NarrowFraction),
      .DATA_OUT(DATA_OUT)
  ) u_round (
      .data_in (narrow_q),
      .data_out(rounded)
  );

  mase_fixed_bound #(
      .IN_WIDTH(RoundedWidth),
      .DATA_OUT(DATA_OUT)
  ) u_bound (
      .data_in (rounded_q),
      .data_out(bounded)
  );

endmodule

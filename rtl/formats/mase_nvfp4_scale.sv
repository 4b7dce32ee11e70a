// SPDX-License-Identifier: Apache-2.0
// The block scale of NVFP4 in E4M3: the largest magnitude over 6, to nearest even, from 2**-6 to 448.
//
// The magnitude is significand / 2**(IN_WIDTH - 1) * 2**place, with its leading one at the top. The
// quotient's significand of four bits comes from comparisons with the ends of its steps, 3/32 of
// odd numbers. Combinational.
module mase_nvfp4_scale #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12
) (
    input  logic signed [PLACE_WIDTH-1:0] place,
    input  logic        [   IN_WIDTH-1:0] significand,
    output logic        [            7:0] code
);

  localparam int Lowest = -6;
  localparam int Bias = 7;
  localparam int LargestCode = 126;
  // Significands with five more bits, so that the ends are whole numbers.
  localparam int unsigned Wide = IN_WIDTH + 5;

  logic [Wide-1:0] wide;
  logic upper;
  // The quotient's significand in eighths, 8 to 16.
  int eighths;
  int exponent;
  int found;

  assign wide = {significand, 5'b0};
  // Over 1.5, the significand is 1 to 4/3 or 4/3 to 2.
  assign upper = wide >= (Wide'(3) << (Wide - 2));

  always_comb begin
    eighths = 8;
    for (int k = 8; k < 16; k++) begin
      // 1.5 * (2k + 1) / 16, of half that quotient where it is below 1.
      logic [Wide+1:0] end_of_step;
      logic [Wide+1:0] compared;
      end_of_step = (Wide + 2)'(3 * (2 * k + 1)) << (Wide - 6);
      compared = upper ? (Wide + 2)'(wide) : (Wide + 2)'(wide) << 1;
      if (compared > end_of_step || (compared == end_of_step && k % 2 == 1)) eighths = k + 1;
    end
    exponent = int'(place) - (upper ? 2 : 3);
    found = ((exponent + Bias) <<< 3) + eighths - 8;
    if (exponent < Lowest) found = (Lowest + Bias) <<< 3;
    if (found > LargestCode) found = LargestCode;
  end
  assign code = 8'(found);

endmodule

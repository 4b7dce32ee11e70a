// SPDX-License-Identifier: Apache-2.0
// The block scale of NVFP4 in E4M3: the largest magnitude over 6, to nearest even, from 2**-6 to 448.
//
// The magnitude is significand / 2**(IN_WIDTH - 1) * 2**place, with its leading one at the top. The
// quotient's significand of four bits comes from comparisons with the ends of its steps, 3/32 of
// odd numbers. Latency 3 cycles, throughput one per cycle; it never stops.
module mase_nvfp4_scale #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12
) (
    input  logic                          clk,
    input  logic signed [PLACE_WIDTH-1:0] place,
    input  logic        [   IN_WIDTH-1:0] significand,
    output logic        [            7:0] code
);

  localparam int Lowest = -6;
  localparam int Bias = 7;
  localparam int LargestCode = 126;
  // Significands with five more bits, so that the ends are whole numbers.
  localparam int unsigned Wide = IN_WIDTH + 5;

  localparam int unsigned Steps = 8;
  localparam int unsigned WorkWidth = PLACE_WIDTH + 4;

  logic [Wide-1:0] wide;
  logic upper;
  logic [Wide+1:0] compared;
  logic [Steps-1:0] above;
  logic [Steps-1:0] above_q;
  logic signed [PLACE_WIDTH-1:0] exponent_q;
  logic signed [WorkWidth-1:0] found_q;
  logic low_q;

  assign wide = {significand, 5'b0};
  // Over 1.5, the significand is 1 to 4/3 or 4/3 to 2.
  assign upper = wide >= (Wide'(3) << (Wide - 2));

  assign compared = upper ? (Wide + 2)'(wide) : (Wide + 2)'(wide) << 1;

  for (genvar k = 0; k < Steps; k++) begin : gen_step
    // 1.5 * (2k + 1) / 16 of 8 and more eighths, of half that quotient where it is below 1.
    localparam logic [Wide+1:0] EndOfStep = (Wide + 2)'(3 * (2 * (k + Steps) + 1)) << (Wide - 6);
    assign above[k] = compared > EndOfStep || (compared == EndOfStep && k % 2 == 1);
  end

  always_ff @(posedge clk) begin
    above_q <= above;
    exponent_q <= place - (upper ? PLACE_WIDTH'(2) : PLACE_WIDTH'(3));

    // From 8 eighths on.
    found_q <= ((WorkWidth'(exponent_q) + WorkWidth'(Bias)) <<< 3)
        + WorkWidth'($countones(above_q));
    low_q <= exponent_q < PLACE_WIDTH'(Lowest);

    code <= low_q ? 8'((Lowest + Bias) <<< 3)
        : (found_q > WorkWidth'(LargestCode)) ? 8'(LargestCode) : 8'(found_q);
  end

endmodule

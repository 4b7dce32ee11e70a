// SPDX-License-Identifier: Apache-2.0
// The E2M1 nearest to in * 2**exponent / scale, ties to even, which saturates; the scale is a normal
// number in E4M3. The magnitude is compared with the scale times the ends of E2M1's steps, exactly.
// Two's complement input. Combinational.
module mase_nvfp4_element
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16
) (
    input  logic      [IN_WIDTH-1:0] data_in,
    input  exponent_t                exponent,
    input  logic      [         7:0] scale,
    output logic      [         3:0] data_out
);

  // Ends of steps in quarters: 20 * 15 takes nine bits.
  localparam int unsigned EndWidth = 9;
  localparam int unsigned Wide = IN_WIDTH + EndWidth;
  localparam int unsigned Steps = 7;
  localparam logic [Steps-1:0][4:0] Quarters = {5'd20, 5'd14, 5'd10, 5'd7, 5'd5, 5'd3, 5'd1};
  // Exponent of an end in units of a quarter of an eighth, with the scale's bias.
  localparam int Unit = -12;

  logic [IN_WIDTH-1:0] magnitude;
  logic [3:0] eighths;
  int places;
  int left;
  int right;
  logic [Wide-1:0] compared;
  logic [Steps-1:0] above;

  assign magnitude = data_in[IN_WIDTH-1] ? -data_in : data_in;
  assign eighths = {1'b1, scale[2:0]};
  // Beyond these many places, one side is larger whatever its bits are.
  assign places = int'(exponent) - (int'({1'b0, scale[7:3]}) + Unit);
  assign left = (places < 0) ? 0 : (places > int'(EndWidth)) ? int'(EndWidth) : places;
  assign right = (places > 0) ? 0 : (places < -int'(IN_WIDTH)) ? int'(IN_WIDTH) : -places;
  assign compared = Wide'(magnitude) << left;

  for (genvar k = 0; k < Steps; k++) begin : gen_step
    logic [Wide-1:0] end_of_step;
    assign end_of_step = Wide'(Quarters[k] * EndWidth'(eighths)) << right;
    assign above[k] = compared > end_of_step || (compared == end_of_step && k % 2 == 1);
  end
  assign data_out = {data_in[IN_WIDTH-1], 3'($countones(above))};

endmodule

// SPDX-License-Identifier: Apache-2.0
// The float nearest to in * 2**exponent, on one element: sign, exponent, mantissa, with denormals,
// ties to even. Magnitudes beyond the largest number become OVERFLOW_CODE, which is the largest
// number unless given. Two's complement input. Combinational.
module mase_float_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12,
    parameter format_t DATA_OUT = floating(8, 4, 7, 127),
    parameter int unsigned OVERFLOW_CODE = DATA_OUT.maximum_code
) (
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [   PLACE_WIDTH-1:0] exponent,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Mantissa = DATA_OUT.width - 1 - DATA_OUT.exponent_width;
  // The leading one of the smallest normal number.
  localparam int Lowest = 1 - DATA_OUT.exponent_bias;
  localparam int unsigned WorkWidth = PLACE_WIDTH + 2;

  logic [IN_WIDTH-1:0] magnitude;
  logic signed [WorkWidth-1:0] place;
  logic signed [WorkWidth-1:0] relative;
  logic [Mantissa+2:0] steps;
  int above;
  int code;

  assign magnitude = data_in[IN_WIDTH-1] ? -data_in : data_in;
  assign relative  = WorkWidth'(exponent) - place;

  always_comb begin
    place = WorkWidth'(Lowest);
    for (int b = 0; b < int'(IN_WIDTH); b++) begin
      if (magnitude[b] && int'(exponent) + b > Lowest) place = WorkWidth'(int'(exponent) + b);
    end
  end

  mase_scaled_cast #(
      .IN_WIDTH(IN_WIDTH + 1),
      .EXPONENT_WIDTH(WorkWidth),
      .DATA_OUT(fixed(Mantissa + 3, int'(Mantissa)))
  ) u_round (
      .data_in ({1'b0, magnitude}),
      .exponent(relative),
      .data_out(steps)
  );

  always_comb begin
    above = int'(place) - Lowest;
    // Beyond every code, whatever the mantissa.
    if (above > (1 << DATA_OUT.exponent_width)) above = 1 << DATA_OUT.exponent_width;
    code = (above <<< Mantissa) + int'({1'b0, steps});
    if (code > int'(DATA_OUT.maximum_code)) code = int'(OVERFLOW_CODE);
  end
  assign data_out = {data_in[IN_WIDTH-1], (DATA_OUT.width - 1)'(code)};

endmodule

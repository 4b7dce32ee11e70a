// SPDX-License-Identifier: Apache-2.0
// The float nearest to in * 2**exponent, on one element: sign, exponent, mantissa, with denormals,
// ties to even. It saturates at MAXIMUM_CODE. Two's complement input. Combinational.
module mase_float_cast #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127
) (
    input  logic        [   IN_WIDTH-1:0] data_in,
    input  logic signed [PLACE_WIDTH-1:0] exponent,
    output logic        [  OUT_WIDTH-1:0] data_out
);

  localparam int unsigned Mantissa = OUT_WIDTH - 1 - EXPONENT_WIDTH;
  // The leading one of the smallest normal number.
  localparam int Lowest = 1 - EXPONENT_BIAS;
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
      .OUT_WIDTH(Mantissa + 3),
      .OUT_FRACTION(int'(Mantissa))
  ) u_round (
      .data_in ({1'b0, magnitude}),
      .exponent(relative),
      .data_out(steps)
  );

  always_comb begin
    above = int'(place) - Lowest;
    // Beyond every code, whatever the mantissa.
    if (above > (1 << EXPONENT_WIDTH)) above = 1 << EXPONENT_WIDTH;
    code = (above <<< Mantissa) + int'({1'b0, steps});
    if (code > int'(MAXIMUM_CODE)) code = int'(MAXIMUM_CODE);
  end
  assign data_out = {data_in[IN_WIDTH-1], (OUT_WIDTH - 1)'(code)};

endmodule

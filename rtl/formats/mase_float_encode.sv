// SPDX-License-Identifier: Apache-2.0
// The code nearest to mantissa * 2**exponent, on one element, for any exponent.
// KIND 0 fixed point (ROUNDING as in mase_fixed_cast), which saturates, 1 float with denormals, ties
// to even: magnitudes beyond MAXIMUM_CODE become OVERFLOW_CODE, and zero is negative if
// negative_zero. Where not_a_number the code is NAN_CODE. Two's complement mantissa. Combinational.
module mase_float_encode #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned KIND = 1,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127,
    parameter int unsigned OVERFLOW_CODE = 127,
    parameter int unsigned NAN_CODE = 127
) (
    input  logic        [ IN_WIDTH-1:0] mantissa,
    input  logic signed [         11:0] exponent,
    input  logic                        negative_zero,
    input  logic                        not_a_number,
    output logic        [OUT_WIDTH-1:0] data_out
);

  logic [OUT_WIDTH-1:0] number;

  if (KIND == 1) begin : gen_float
    localparam int unsigned Mantissa = OUT_WIDTH - 1 - EXPONENT_WIDTH;
    // Exponent of the smallest normal number.
    localparam int Lowest = 1 - EXPONENT_BIAS;
    localparam int unsigned PlaceWidth = 14;

    logic [IN_WIDTH-1:0] magnitude;
    logic signed [PlaceWidth-1:0] place;
    logic [Mantissa+2:0] steps;
    int octave;
    int unsigned code;

    assign magnitude = mantissa[IN_WIDTH-1] ? -mantissa : mantissa;

    always_comb begin
      place = PlaceWidth'(Lowest);
      for (int b = 0; b < int'(IN_WIDTH); b++) begin
        if (magnitude[b] && int'(exponent) + b > Lowest) place = PlaceWidth'(int'(exponent) + b);
      end
    end

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH + 1),
        .EXPONENT_WIDTH(PlaceWidth),
        .OUT_WIDTH(Mantissa + 3),
        .OUT_FRACTION(int'(Mantissa))
    ) u_round (
        .data_in ({1'b0, magnitude}),
        .exponent(PlaceWidth'(exponent) - place),
        .data_out(steps)
    );

    always_comb begin
      // An octave beyond all codes stays there.
      octave = int'(place) - Lowest;
      if (octave > (1 << EXPONENT_WIDTH)) octave = 1 << EXPONENT_WIDTH;
      code = (unsigned'(octave) << Mantissa) + 32'(steps);
      if (code > MAXIMUM_CODE) code = OVERFLOW_CODE;
    end
    assign number = {
      mantissa[IN_WIDTH-1] || (negative_zero && magnitude == '0), (OUT_WIDTH - 1)'(code)
    };
  end else begin : gen_fixed
    logic unused_sign;
    assign unused_sign = negative_zero;

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH),
        .EXPONENT_WIDTH(12),
        .OUT_WIDTH(OUT_WIDTH),
        .OUT_FRACTION(OUT_FRACTION),
        .OUT_SIGNED(OUT_SIGNED),
        .ROUNDING(ROUNDING)
    ) u_cast (
        .data_in (mantissa),
        .exponent,
        .data_out(number)
    );
  end

  assign data_out = not_a_number ? OUT_WIDTH'(NAN_CODE) : number;

endmodule

// SPDX-License-Identifier: Apache-2.0
// The code nearest to in * 2**-IN_FRACTION, on one element.
// KIND 0 fixed point (ROUNDING and OVERFLOW as in mase_fixed_cast), 1 float with denormals, ties to
// even, which saturates at MAXIMUM_CODE, 2 signs of levels with OUT_FRACTION fraction bits, half way
// up, 3 fixed point without its most negative code. Two's complement input. Combinational.
module mase_scalar_cast #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter int unsigned KIND = 0,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned OVERFLOW = 0,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127
) (
    input  logic [ IN_WIDTH-1:0] data_in,
    output logic [OUT_WIDTH-1:0] data_out
);

  if (KIND == 1) begin : gen_float
    localparam int unsigned Mantissa = OUT_WIDTH - 1 - EXPONENT_WIDTH;
    // The leading one of the smallest normal number.
    localparam int Lowest = IN_FRACTION + 1 - EXPONENT_BIAS;
    localparam int unsigned PlaceWidth = 12;

    logic [IN_WIDTH-1:0] magnitude;
    logic signed [PlaceWidth-1:0] place;
    logic [Mantissa+2:0] steps;
    int code;

    assign magnitude = data_in[IN_WIDTH-1] ? -data_in : data_in;

    always_comb begin
      place = PlaceWidth'(Lowest);
      for (int b = 0; b < int'(IN_WIDTH); b++) begin
        if (magnitude[b] && b > Lowest) place = PlaceWidth'(b);
      end
    end

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH + 1),
        .EXPONENT_WIDTH(PlaceWidth),
        .OUT_WIDTH(Mantissa + 3),
        .OUT_FRACTION(int'(Mantissa))
    ) u_round (
        .data_in ({1'b0, magnitude}),
        .exponent(-place),
        .data_out(steps)
    );

    always_comb begin
      code = ((int'(place) - Lowest) <<< Mantissa) + int'({1'b0, steps});
      if (code > int'(MAXIMUM_CODE)) code = int'(MAXIMUM_CODE);
    end
    assign data_out = {data_in[IN_WIDTH-1], (OUT_WIDTH - 1)'(code)};
  end else if (KIND == 2 && OUT_WIDTH == 1) begin : gen_sign
    assign data_out = ~data_in[IN_WIDTH-1];
    if (IN_WIDTH > 1) begin : gen_unused
      logic unused_bits;
      assign unused_bits = |data_in[IN_WIDTH-2:0];
    end
  end else begin : gen_fixed
    localparam logic [OUT_WIDTH-1:0] Top = OUT_WIDTH'(1) << (OUT_WIDTH - 1);
    logic [OUT_WIDTH-1:0] rounded;

    mase_fixed_cast #(
        .IN_WIDTH(IN_WIDTH),
        .IN_FRACTION(IN_FRACTION),
        .OUT_WIDTH(OUT_WIDTH),
        .OUT_FRACTION((KIND == 2) ? OUT_FRACTION - 1 : OUT_FRACTION),
        .OUT_SIGNED((KIND == 0) ? OUT_SIGNED : 1'b1),
        .ROUNDING((KIND == 2) ? 2 : ROUNDING),
        .OVERFLOW((KIND == 0) ? OVERFLOW : 0)
    ) u_cast (
        .data_in (data_in),
        .data_out(rounded)
    );

    if (KIND == 2) begin : gen_levels
      assign data_out = rounded ^ Top;
    end else if (KIND == 3) begin : gen_symmetric
      assign data_out = (rounded == Top) ? Top + 1'b1 : rounded;
    end else begin : gen_plain
      assign data_out = rounded;
    end
  end

endmodule

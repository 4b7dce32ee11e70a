// SPDX-License-Identifier: Apache-2.0
// The code nearest to in * 2**exponent, on one element.
// KIND 0 fixed point (ROUNDING and OVERFLOW as in mase_fixed_cast), 1 float with denormals, ties to
// even, which saturates at MAXIMUM_CODE, 2 signs of levels with OUT_FRACTION fraction bits, half way
// up, 3 fixed point without its most negative code, 4 integers around ZERO_POINT, to nearest even,
// without the most negative code if SYMMETRIC. Two's complement input. Combinational.
module mase_scalar_cast #(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12,
    parameter int unsigned KIND = 0,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned OVERFLOW = 0,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127,
    parameter bit SYMMETRIC = 1,
    parameter int ZERO_POINT = 0
) (
    input  logic        [   IN_WIDTH-1:0] data_in,
    input  logic signed [PLACE_WIDTH-1:0] exponent,
    output logic        [  OUT_WIDTH-1:0] data_out
);

  if (KIND == 1) begin : gen_float
    mase_float_cast #(
        .IN_WIDTH(IN_WIDTH),
        .PLACE_WIDTH(PLACE_WIDTH),
        .OUT_WIDTH(OUT_WIDTH),
        .EXPONENT_WIDTH(EXPONENT_WIDTH),
        .EXPONENT_BIAS(EXPONENT_BIAS),
        .MAXIMUM_CODE(MAXIMUM_CODE)
    ) u_cast (
        .data_in,
        .exponent,
        .data_out
    );
  end else if (KIND == 2 && OUT_WIDTH == 1) begin : gen_sign
    assign data_out = ~data_in[IN_WIDTH-1];
    logic unused_bits;
    assign unused_bits = ^{data_in, exponent};
  end else if (KIND == 4) begin : gen_zero_point
    // Wide enough that what saturates is beyond every code, wherever zero is.
    localparam int unsigned Wide = OUT_WIDTH + 2;
    localparam int High = OUT_SIGNED ? (1 << (OUT_WIDTH - 1)) - 1 : (1 << OUT_WIDTH) - 1;
    localparam int Low = OUT_SIGNED ? -High - (SYMMETRIC ? 0 : 1) : 0;
    logic [Wide-1:0] rounded;
    int code;

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH),
        .EXPONENT_WIDTH(PLACE_WIDTH),
        .OUT_WIDTH(Wide),
        .OUT_FRACTION(0)
    ) u_cast (
        .data_in,
        .exponent,
        .data_out(rounded)
    );

    always_comb begin
      code = int'(signed'(rounded)) + ZERO_POINT;
      if (code < Low) code = Low;
      if (code > High) code = High;
    end
    assign data_out = OUT_WIDTH'(code);
  end else begin : gen_fixed
    localparam logic [OUT_WIDTH-1:0] Top = OUT_WIDTH'(1) << (OUT_WIDTH - 1);
    logic [OUT_WIDTH-1:0] rounded;

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH),
        .EXPONENT_WIDTH(PLACE_WIDTH),
        .OUT_WIDTH(OUT_WIDTH),
        .OUT_FRACTION((KIND == 2) ? OUT_FRACTION - 1 : OUT_FRACTION),
        .OUT_SIGNED((KIND == 0) ? OUT_SIGNED : 1'b1),
        .ROUNDING((KIND == 2) ? 2 : ROUNDING),
        .OVERFLOW((KIND == 0) ? OVERFLOW : 0)
    ) u_cast (
        .data_in,
        .exponent,
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

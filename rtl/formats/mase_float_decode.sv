// SPDX-License-Identifier: Apache-2.0
// value = mantissa * 2**exponent of one code of a float (KIND 1) or of fixed point (KIND 0).
// Magnitudes of a float beyond MAXIMUM_CODE are no numbers; the first one is infinity if INFINITY,
// which is decoded as 2**1000 with its sign. Combinational.
module mase_float_decode #(
    parameter int unsigned KIND = 1,
    parameter int unsigned WIDTH = 8,
    parameter int FRACTION = 0,
    parameter bit SIGNED = 1,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127,
    parameter bit INFINITY = 0,
    // At least WIDTH + 1 (KIND 0) or WIDTH - EXPONENT_WIDTH + 1 (KIND 1) bits.
    parameter int unsigned MANTISSA_WIDTH = 5
) (
    input  logic        [         WIDTH-1:0] code,
    output logic signed [MANTISSA_WIDTH-1:0] mantissa,
    output logic signed [              11:0] exponent,
    output logic                             negative,
    output logic                             infinite,
    output logic                             not_a_number
);

  localparam int LowestStep = (KIND == 1)
      ? 2 + int'(EXPONENT_WIDTH) - int'(WIDTH) - EXPONENT_BIAS : -FRACTION;

  logic signed [MANTISSA_WIDTH-1:0] significand;
  logic [EXPONENT_WIDTH-1:0] shift;

  mase_scalar_decode #(
      .KIND(KIND),
      .WIDTH(WIDTH),
      .SIGNED(SIGNED),
      .EXPONENT_WIDTH(EXPONENT_WIDTH),
      .SIGNIFICAND_WIDTH(MANTISSA_WIDTH)
  ) u_decode (
      .code,
      .significand,
      .shift
  );

  if (KIND == 1) begin : gen_float
    localparam logic [WIDTH-2:0] Maximum = (WIDTH - 1)'(MAXIMUM_CODE);
    logic special;
    if (Maximum == '1) begin : gen_numbers
      assign special = 1'b0;
    end else begin : gen_special
      assign special = code[WIDTH-2:0] > Maximum;
    end
    assign infinite = INFINITY && special && code[WIDTH-2:0] == Maximum + 1'b1;
    assign not_a_number = special && !infinite;
    assign negative = code[WIDTH-1];
  end else begin : gen_fixed
    assign infinite = 1'b0;
    assign not_a_number = 1'b0;
    assign negative = significand[MANTISSA_WIDTH-1];
  end

  always_comb begin
    mantissa = significand;
    exponent = 12'(int'({1'b0, shift}) + LowestStep);
    if (infinite) begin
      mantissa = negative ? '1 : MANTISSA_WIDTH'(1);
      exponent = 12'sd1000;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// value = mantissa * 2**exponent of one code of a float or of fixed point. Magnitudes of a float
// beyond its largest number are no numbers; the first one is infinity if INFINITY, which is decoded
// as 2**1000 with its sign. Combinational.
module mase_float_decode
  import mase_pkg::*;
#(
    parameter format_t CODE = floating(8, 4, 7, 127),
    parameter bit INFINITY = 0,

    localparam int unsigned Width = CODE.significand_width
) (
    input  logic        [CODE.width-1:0] code,
    output logic signed [     Width-1:0] mantissa,
    output exponent_t                    exponent,
    output logic                         negative,
    output logic                         infinite,
    output logic                         not_a_number
);

  logic signed [Width-1:0] significand;
  logic [CODE.exponent_width-1:0] shift;

  mase_scalar_decode #(
      .CODE(CODE)
  ) u_decode (
      .code,
      .significand,
      .shift
  );

  if (CODE.encoding == Float) begin : gen_float
    localparam logic [CODE.width-2:0] LargestCode = (CODE.width - 1)'(CODE.maximum_code);
    logic special;
    if (LargestCode == '1) begin : gen_numbers
      assign special = 1'b0;
    end else begin : gen_special
      assign special = code[CODE.width-2:0] > LargestCode;
    end
    assign infinite = INFINITY && special && code[CODE.width-2:0] == LargestCode + 1'b1;
    assign not_a_number = special && !infinite;
    assign negative = code[CODE.width-1];
  end else begin : gen_fixed
    assign infinite = 1'b0;
    assign not_a_number = 1'b0;
    assign negative = significand[Width-1];
  end

  always_comb begin
    mantissa = significand;
    exponent = exponent_t'(int'({1'b0, shift}) + CODE.lowest_step);
    if (infinite) begin
      mantissa = negative ? '1 : Width'(1);
      exponent = 12'sd1000;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// value = significand * 2**shift, in units of the smallest step of a code's format.
// KIND 0 fixed point (SIGNED or not), 1 float with denormals (sign, exponent, mantissa),
// 2 signs of levels: the odd integers from -(2**WIDTH - 1). Combinational.
module mase_scalar_decode #(
    parameter int unsigned KIND = 0,
    parameter int unsigned WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned EXPONENT_WIDTH = 4,
    // At least WIDTH + 1 (KIND 0, 2) or WIDTH - EXPONENT_WIDTH + 1 (KIND 1) bits.
    parameter int unsigned SIGNIFICAND_WIDTH = 9
) (
    input  logic        [            WIDTH-1:0] code,
    output logic signed [SIGNIFICAND_WIDTH-1:0] significand,
    output logic        [   EXPONENT_WIDTH-1:0] shift
);

  if (KIND == 1) begin : gen_float
    localparam int unsigned Mantissa = WIDTH - 1 - EXPONENT_WIDTH;
    logic [EXPONENT_WIDTH-1:0] stored;
    logic [SIGNIFICAND_WIDTH-1:0] magnitude;
    assign stored = code[WIDTH-2:Mantissa];
    if (Mantissa == 0) begin : gen_power
      assign magnitude = SIGNIFICAND_WIDTH'(stored != '0);
    end else begin : gen_mantissa
      assign magnitude = SIGNIFICAND_WIDTH'({stored != '0, code[Mantissa-1:0]});
    end
    assign significand = code[WIDTH-1] ? -magnitude : magnitude;
    assign shift = (stored == '0) ? '0 : stored - 1'b1;
  end else begin : gen_integer
    assign shift = '0;
    if (KIND == 2) begin : gen_signs
      assign significand = SIGNIFICAND_WIDTH'({1'b0, code, 1'b1}) - SIGNIFICAND_WIDTH'(1 << WIDTH);
    end else if (SIGNED) begin : gen_signed
      assign significand = SIGNIFICAND_WIDTH'(signed'(code));
    end else begin : gen_unsigned
      assign significand = SIGNIFICAND_WIDTH'(code);
    end
  end

endmodule

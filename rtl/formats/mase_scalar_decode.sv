// SPDX-License-Identifier: Apache-2.0
// value = significand * 2**shift, in units of the lowest step of the code's format; floats have
// denormals. Combinational.
module mase_scalar_decode
  import mase_pkg::*;
#(
    parameter format_t CODE = fixed(8, 4),

    localparam int unsigned Width = CODE.significand_width
) (
    input  logic        [         CODE.width-1:0] code,
    output logic signed [              Width-1:0] significand,
    output logic        [CODE.exponent_width-1:0] shift
);

  if (CODE.encoding == Float) begin : gen_float
    localparam int unsigned Mantissa = CODE.width - 1 - CODE.exponent_width;
    logic [CODE.exponent_width-1:0] stored;
    logic [Width-1:0] magnitude;
    assign stored = code[CODE.width-2:Mantissa];
    if (Mantissa == 0) begin : gen_power
      assign magnitude = Width'(stored != '0);
    end else begin : gen_mantissa
      assign magnitude = Width'({stored != '0, code[Mantissa-1:0]});
    end
    assign significand = code[CODE.width-1] ? -magnitude : magnitude;
    assign shift = (stored == '0) ? '0 : stored - 1'b1;
  end else begin : gen_integer
    assign shift = '0;
    if (CODE.encoding > Offset) begin : gen_further
      assign significand = Width'(decoded(CODE, 32'(code)));
    end else if (CODE.encoding == Levels) begin : gen_levels
      // 2 * code + 1 - 2**width.
      assign significand = {~code[CODE.width-1], (Width - 1)'({code, 1'b1})};
    end else if (CODE.is_signed) begin : gen_signed
      assign significand = Width'(signed'(code));
    end else begin : gen_unsigned
      assign significand = Width'(code);
    end
  end

endmodule

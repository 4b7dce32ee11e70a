// SPDX-License-Identifier: Apache-2.0
// What stands in many modules: the encoding of a tensor's codes, and small functions.
package mase_pkg;

  // Integer: fixed point. Float: sign, exponent, mantissa, with denormals. Levels: the odd integers
  // from -(2**width - 1). Symmetric: fixed point without its most negative code. Offset: integers
  // around zero_point. Further kinds stand behind it, with a constructor each, and say what their
  // codes mean in decoded() and encoded().
  typedef enum logic [2:0] {
    Integer,
    Float,
    Levels,
    Symmetric,
    Offset
  } encoding_e;

  typedef enum logic [1:0] {
    NearestEven,
    NearestUp,
    Floor,
    TowardZero
  } rounding_e;

  typedef enum logic {
    Saturate,
    Wrap
  } overflow_e;

  // What operators of two operands compute.
  typedef enum logic [3:0] {
    Add,
    Subtract,
    Multiply,
    Minimum,
    Maximum,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual
  } operation_e;

  // Whose primitives synthesis may use (rtl/primitives).
  typedef enum logic {
    Generic,
    Xcup
  } device_e;

  // Exact values are mantissa * 2**exponent, the mantissa in two's complement.
  typedef logic signed [11:0] exponent_t;

  // The codes of one tensor. With block_size, that many elements share a scale of scale_width bits:
  // 2**(scale - scale_bias), or a float. If symmetric, results leave out the most negative code. A
  // field that an encoding does not have is zero, and widths are one, so that they may stand in
  // ranges.
  //
  // The value of a code is significand * 2**(shift + lowest_step), in a block for the code 0 of its
  // scale. The shift has exponent_width bits; significand_width bits hold the significand, less
  // zero_point too.
  typedef struct packed {
    encoding_e   encoding;
    int unsigned width;
    int          fraction;
    bit          is_signed;
    bit          symmetric;
    rounding_e   rounding;
    overflow_e   overflow;
    int unsigned exponent_width;
    int          exponent_bias;
    int unsigned maximum_code;
    int          zero_point;
    int unsigned block_size;
    int unsigned scale_width;
    bit          scale_is_float;
    int          scale_bias;
    int unsigned scale_codes;
    int unsigned significand_width;
    int          lowest_step;
  } format_t;

  function automatic format_t fixed(
      input int unsigned width, input int fraction, input bit is_signed = 1'b1,
      input rounding_e rounding = NearestEven, input overflow_e overflow = Saturate);
    return '{
        encoding: Integer,
        width: width,
        fraction: fraction,
        is_signed: is_signed,
        symmetric: 1'b0,
        rounding: rounding,
        overflow: overflow,
        exponent_width: 1,
        exponent_bias: 0,
        maximum_code: 0,
        zero_point: 0,
        block_size: 0,
        scale_width: 1,
        scale_is_float: 1'b0,
        scale_bias: 0,
        scale_codes: 0,
        significand_width: width + (is_signed ? 0 : 1),
        lowest_step: -fraction
    };
  endfunction

  function automatic format_t floating(
      input int unsigned width, input int unsigned exponent_width, input int exponent_bias,
      input int unsigned maximum_code);
    format_t made = fixed(width, 0);
    made.encoding = Float;
    made.exponent_width = exponent_width;
    made.exponent_bias = exponent_bias;
    made.maximum_code = maximum_code;
    made.significand_width = width - exponent_width + 1;
    made.lowest_step = 2 + int'(exponent_width) - int'(width) - exponent_bias;
    return made;
  endfunction

  function automatic format_t levels(input int unsigned width, input int fraction);
    format_t made = fixed(width, fraction);
    made.encoding = Levels;
    made.significand_width = width + 1;
    return made;
  endfunction

  function automatic format_t symmetric(input int unsigned width, input int fraction);
    format_t made = fixed(width, fraction);
    made.encoding = Symmetric;
    made.symmetric = 1'b1;
    return made;
  endfunction

  function automatic format_t offset(
      input int unsigned width, input int zero_point, input bit is_signed, input bit is_symmetric);
    format_t made = fixed(width, 0, is_signed);
    made.encoding = Offset;
    made.significand_width = width + 1;
    made.zero_point = zero_point;
    made.symmetric = is_symmetric;
    return made;
  endfunction

  // The integer that the code of a further kind means, in units of its lowest step.
  function automatic int decoded(input format_t format, input int unsigned code);
    bit unused_fields;
    unused_fields = ^format;
    case (format.encoding)
      default: return int'(code);
    endcase
  endfunction

  // The code of an integer that is not the most negative one of its width.
  function automatic int unsigned encoded(input format_t format, input int number);
    bit unused_fields;
    unused_fields = ^format;
    case (format.encoding)
      default: return unsigned'(number);
    endcase
  endfunction

  // Elements as `element` says, in blocks; integers have one bit before the point.
  function automatic format_t blocks(
      input format_t element, input bit is_symmetric, input int unsigned block_size,
      input int unsigned scale_width, input int scale_bias, input int unsigned scale_codes,
      input bit scale_is_float = 1'b0);
    format_t made = (element.encoding == Integer)
        ? fixed(element.width, int'(element.width) - 2) : element;
    made.symmetric = is_symmetric;
    made.block_size = block_size;
    made.scale_width = scale_width;
    made.scale_bias = scale_bias;
    made.lowest_step -= scale_bias;
    made.scale_codes = scale_codes;
    made.scale_is_float = scale_is_float;
    return made;
  endfunction

  // The same codes without a point: integers.
  function automatic format_t integers(input format_t format);
    format_t made = format;
    made.fraction = 0;
    made.lowest_step = 0;
    return made;
  endfunction

  // Bits of a product, or of a sum that keeps guard_bits below its operand of larger exponent.
  function automatic int unsigned exact_bits(
      input operation_e operation, input int unsigned left, input int unsigned right,
      input int unsigned guard_bits);
    if (operation == Multiply) return left + right;
    return ((left > right) ? left : right) + guard_bits + 1;
  endfunction

  // Bits of an index below `count`, at least one.
  function automatic int unsigned index_width(input int unsigned count);
    return (count > 1) ? unsigned'($clog2(count)) : 1;
  endfunction

  function automatic int unsigned common_divisor(input int unsigned left, input int unsigned right);
    int unsigned a, b, rest;
    a = left;
    b = right;
    while (b != 0) begin
      rest = a % b;
      a = b;
      b = rest;
    end
    return a;
  endfunction

  function automatic int unsigned ceil_div(input int unsigned dividend, input int unsigned divisor);
    return (dividend + divisor - 1) / divisor;
  endfunction

  // Bits of a number that is rounded to a result in fixed point and not yet brought into its range:
  // there is room for a shift to the left, for the carry of rounding, and for the result's bounds.
  function automatic int unsigned rounded_width(input int unsigned width, input int fraction,
                                                input format_t result);
    int unsigned wide = width + 1;
    bit unused_fields;
    unused_fields = ^result;
    if (result.fraction > fraction) wide = wide + unsigned'(result.fraction - fraction);
    return (wide > result.width + 1) ? wide : result.width + 1;
  endfunction

  // Bits of a normalized significand that rounding to an element needs: those of the largest elements,
  // one below them, and whether anything lies below that. Elements beside a float scale are compared
  // with multiples of it.
  function automatic int unsigned kept_bits(input format_t result);
    bit unused_fields;
    unused_fields = ^result;
    if (result.scale_is_float) return 10;
    if (result.encoding == Float) return result.width - result.exponent_width + 2;
    return result.width + 1;
  endfunction

  // Cycles of modules that never stop.
  localparam int unsigned NormalizeStages = 6;
  localparam int unsigned RoundStages = 5;
  localparam int unsigned ShiftStages = 2;
  localparam int unsigned ScaledCastStages = 7;

  // Of mase_scalar_cast.
  function automatic int unsigned cast_stages(input encoding_e encoding,
                                                input int unsigned width);
    if (encoding == Float) return NormalizeStages + RoundStages;
    if (encoding == Levels && width == 1) return 0;
    return ScaledCastStages + ((encoding == Offset) ? 2 : 0);
  endfunction

  // Of mase_scalar_dot_product before its tree of adders.
  function automatic int unsigned dot_stages(input encoding_e data, input encoding_e weight);
    return (data == Float || weight == Float) ? 4 : 2;
  endfunction

  // Of two products of mase_dot_shared on Xcup: where the second of two operands begins that are packed into 27 bits,
  // with a bit to spare for the sum of both.
  function automatic int unsigned pair_offset(input int unsigned own, input bit own_signed);
    return (own < 25) ? 26 - own - (own_signed ? 0 : 1) : 1;
  endfunction

  // How many lanes are summed in a field of so many bits, 4, 2 or 1; 0 where not one product fits.
  function automatic int unsigned pair_chain(input int unsigned shared, input bit shared_signed,
                                               input int unsigned own, input bit own_signed);
    int unsigned half;
    int unsigned most;
    if (shared + (shared_signed ? 0 : 1) > 18 || own > 13) return 0;
    half = 1 << (pair_offset(own, own_signed) - 1);
    most = (shared_signed ? (1 << (shared - 1)) : (1 << shared) - 1)
        * (own_signed ? (1 << (own - 1)) : (1 << own) - 1);
    for (int unsigned lanes = 4; lanes > 0; lanes = lanes / 2) begin
      if (lanes * most < half) return lanes;
    end
    return 0;
  endfunction

  // Whether the fields of four products fit beside each other: with one bit less than a product each,
  // all operands lie in 26 bits and a sign.
  function automatic bit quad_fits(input int unsigned shared, input bit shared_signed,
                                     input int unsigned own, input bit own_signed);
    int unsigned left;
    int unsigned right;
    left = shared + (shared_signed ? 0 : 1);
    right = own + (own_signed ? 0 : 1);
    return left > 1 && right > 1 && 3 * (left + right - 1) + own <= 26;
  endfunction

  // How many products of such operands a device makes in one block: four of eight bits, two of
  // more. Others are made one by one, those of less than eight bits in look-up tables.
  function automatic int unsigned block_products(
      input device_e device, input int unsigned shared, input bit shared_signed,
      input int unsigned own, input bit own_signed);
    int unsigned left;
    int unsigned right;
    left = shared + (shared_signed ? 0 : 1);
    right = own + (own_signed ? 0 : 1);
    if (device != Xcup || left < 2 || right < 2) return 1;
    if (left + right == 8 && left > 2 && right > 2
        && quad_fits(shared, shared_signed, own, own_signed)) return 4;
    if (left + right > 8 && pair_chain(shared, shared_signed, own, own_signed) > 0) return 2;
    return 1;
  endfunction

  // Whether a result is 1 where a relation holds, else 0.
  function automatic bit is_comparison(input operation_e operation);
    return operation inside {Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual};
  endfunction

  // Of mase_scaled_arithmetic.
  function automatic int unsigned arithmetic_stages(input operation_e operation);
    return (operation == Multiply) ? 2 : 4 + ShiftStages;
  endfunction

endpackage

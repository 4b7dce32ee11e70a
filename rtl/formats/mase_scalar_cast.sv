// SPDX-License-Identifier: Apache-2.0
// The code nearest to in * 2**exponent, on one element, of any encoding. Fixed point is rounded and
// bounded as its format says. Others saturate, to nearest even; levels take half way up. Magnitudes
// beyond the largest float become OVERFLOW_CODE. Two's complement input. Latency cast_stages(),
// throughput one per cycle; it never stops.
module mase_scalar_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = $bits(exponent_t),
    parameter format_t DATA_OUT = fixed(8, 4),
    parameter int unsigned OVERFLOW_CODE = DATA_OUT.maximum_code
) (
    input  logic                             clk,
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [   PLACE_WIDTH-1:0] exponent,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Width = DATA_OUT.width;

  if (DATA_OUT.encoding == Float) begin : gen_float
    mase_float_cast #(
        .IN_WIDTH(IN_WIDTH),
        .PLACE_WIDTH(PLACE_WIDTH),
        .DATA_OUT(DATA_OUT),
        .OVERFLOW_CODE(OVERFLOW_CODE)
    ) u_cast (
        .clk,
        .data_in,
        .exponent,
        .data_out
    );
  end else if (DATA_OUT.encoding == Levels && Width == 1) begin : gen_sign
    assign data_out = ~data_in[IN_WIDTH-1];
    logic unused_bits;
    assign unused_bits = ^{clk, data_in, exponent};
  end else begin : gen_integer
    localparam bit AroundZero = DATA_OUT.encoding == Offset;
    // Wide enough that what saturates is beyond every code, wherever zero is.
    localparam format_t Rounded = AroundZero ? fixed(Width + 2, 0)
        : (DATA_OUT.encoding == Levels) ? fixed(Width, DATA_OUT.fraction - 1, 1'b1, Floor)
        : (DATA_OUT.encoding > Offset) ? fixed(Width, DATA_OUT.fraction)
        : DATA_OUT;
    localparam logic [Width-1:0] Top = Width'(1) << (Width - 1);
    logic [Rounded.width-1:0] rounded;

    mase_scaled_cast #(
        .IN_WIDTH(IN_WIDTH),
        .EXPONENT_WIDTH(PLACE_WIDTH),
        .DATA_OUT(Rounded)
    ) u_cast (
        .clk,
        .data_in,
        .exponent,
        .data_out(rounded)
    );

    if (AroundZero) begin : gen_offset
      localparam int High = (1 << (Width - (DATA_OUT.is_signed ? 1 : 0))) - 1;
      localparam int Low = DATA_OUT.is_signed ? -High - (DATA_OUT.symmetric ? 0 : 1) : 0;
      logic signed [Width+2:0] code_q;
      logic [Width-1:0] bounded_q;
      always_ff @(posedge clk) begin
        code_q <= (Width + 3)'(signed'(rounded)) + (Width + 3)'(DATA_OUT.zero_point);
        bounded_q <= (code_q < (Width + 3)'(Low)) ? Width'(Low)
            : (code_q > (Width + 3)'(High)) ? Width'(High) : Width'(code_q);
      end
      assign data_out = bounded_q;
    end else if (DATA_OUT.encoding > Offset) begin : gen_further
      logic [Width-1:0] bounded;
      assign bounded = (rounded == Top) ? Top + 1'b1 : rounded;
      assign data_out = Width'(encoded(DATA_OUT, 32'(signed'(bounded))));
    end else if (DATA_OUT.encoding == Levels) begin : gen_levels
      assign data_out = rounded ^ Top;
    end else if (DATA_OUT.symmetric) begin : gen_symmetric
      assign data_out = (rounded == Top) ? Top + 1'b1 : rounded;
    end else begin : gen_plain
      assign data_out = rounded;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The float nearest to a normalized number, see mase_normalize: sign, exponent, mantissa, with
// denormals, ties to even. LOWEST is the place of the leading one of the smallest normal number.
// Magnitudes beyond the largest number become OVERFLOW_CODE.
// Latency 5 cycles, RoundStages, throughput one per cycle; it never stops.
module mase_float_round
  import mase_pkg::*;
#(
    parameter int unsigned PLACE_WIDTH = 14,
    parameter format_t DATA_OUT = floating(8, 4, 7, 127),
    parameter int LOWEST = 1 - DATA_OUT.exponent_bias,
    parameter int unsigned OVERFLOW_CODE = DATA_OUT.maximum_code,

    localparam int unsigned Kept = kept_bits(DATA_OUT)
) (
    input  logic                            clk,
    input  logic                            negative,
    input  logic signed [  PLACE_WIDTH-1:0] place,
    input  logic        [         Kept-1:0] significand,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Mantissa = DATA_OUT.width - 1 - DATA_OUT.exponent_width;
  localparam int unsigned AboveWidth = DATA_OUT.exponent_width + 1;
  localparam int unsigned DownWidth = $clog2(Kept + 1);
  localparam int unsigned CodeWidth = AboveWidth + Mantissa + 1;
  localparam int unsigned WorkWidth = PLACE_WIDTH + 1;
  // Beyond every code, whatever the mantissa.
  localparam int AboveMax = 1 << DATA_OUT.exponent_width;

  logic [RoundStages-1:0] negative_q;
  logic signed [WorkWidth-1:0] difference_q;
  logic [Kept-1:0] first_q;
  logic [Kept-1:0] second_q;
  logic [Kept-1:0] shifted_q;
  logic [AboveWidth-1:0] above_q;
  logic [AboveWidth-1:0] above_late_q;
  logic [DownWidth-1:0] down_q;
  logic [CodeWidth-1:0] code_q;
  logic [DATA_OUT.width-2:0] bounded_q;
  logic up;

  assign up = shifted_q[1] && (shifted_q[0] || shifted_q[2]);

  always_ff @(posedge clk) begin
    negative_q <= RoundStages'({negative_q, negative});
    difference_q <= WorkWidth'(place) - WorkWidth'(LOWEST);
    first_q <= significand;

    second_q <= first_q;
    above_q <= '0;
    down_q <= '0;
    if (difference_q < 0) begin
      down_q <= (difference_q < -WorkWidth'(Kept)) ? DownWidth'(Kept) : DownWidth'(-difference_q);
    end else if (first_q[Kept-1]) begin
      above_q <= (difference_q > WorkWidth'(AboveMax))
          ? AboveWidth'(AboveMax) : AboveWidth'(difference_q);
    end

    shifted_q <= (second_q >> down_q) | Kept'(|(second_q & ~({Kept{1'b1}} << down_q)));
    above_late_q <= above_q;

    // The leading one of a normal number adds one to its exponent.
    code_q <= (CodeWidth'(above_late_q) << Mantissa) + CodeWidth'(shifted_q[Kept-1:2])
        + CodeWidth'({1'b0, up});

    bounded_q <= (code_q > CodeWidth'(DATA_OUT.maximum_code))
        ? (DATA_OUT.width - 1)'(OVERFLOW_CODE) : (DATA_OUT.width - 1)'(code_q);
  end

  assign data_out = {negative_q[RoundStages-1], bounded_q};

endmodule

// SPDX-License-Identifier: Apache-2.0
// The signed integer nearest to a normalized number, see mase_normalize, ties to even, saturated.
// HIGHEST is the place of the leading one of the largest integers.
// Latency 5 cycles, RoundStages, throughput one per cycle; it never stops.
module mase_integer_round
  import mase_pkg::*;
#(
    parameter int unsigned PLACE_WIDTH = 14,
    parameter format_t DATA_OUT = fixed(8, 6),
    parameter int HIGHEST = int'(DATA_OUT.width) - 2 - DATA_OUT.fraction,

    localparam int unsigned Kept = kept_bits(DATA_OUT)
) (
    input  logic                            clk,
    input  logic                            negative,
    input  logic signed [  PLACE_WIDTH-1:0] place,
    input  logic        [         Kept-1:0] significand,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Width = DATA_OUT.width;
  localparam int unsigned DownWidth = $clog2(Kept + 1);
  localparam int unsigned WorkWidth = PLACE_WIDTH + 1;
  localparam logic [Width-1:0] Top = Width'(1) << (Width - 1);

  logic [RoundStages-2:0] negative_q;
  logic signed [WorkWidth-1:0] difference_q;
  logic [Kept-1:0] first_q;
  logic [Kept-1:0] second_q;
  logic [Kept-1:0] shifted_q;
  logic [DownWidth-1:0] down_q;
  logic over_q;
  logic over_late_q;
  logic [Width-1:0] rounded_q;
  logic up;
  logic [Width-1:0] limit;

  assign up = shifted_q[1] && (shifted_q[0] || shifted_q[2]);
  assign limit = (negative_q[RoundStages-2] && !DATA_OUT.symmetric) ? Top : Top - 1'b1;

  always_ff @(posedge clk) begin
    negative_q <= (RoundStages - 1)'({negative_q, negative});
    difference_q <= WorkWidth'(HIGHEST) - WorkWidth'(place);
    first_q <= significand;

    second_q <= first_q;
    over_q <= difference_q < 0 && first_q[Kept-1];
    down_q <= (difference_q < 0) ? '0
        : (difference_q > WorkWidth'(Kept)) ? DownWidth'(Kept) : DownWidth'(difference_q);

    shifted_q <= (second_q >> down_q) | Kept'(|(second_q & ~({Kept{1'b1}} << down_q)));
    over_late_q <= over_q;

    rounded_q <= over_late_q ? Top : Width'(shifted_q[Kept-1:2]) + Width'({1'b0, up});

    data_out <= (rounded_q > limit) ? (negative_q[RoundStages-2] ? -limit : limit)
        : negative_q[RoundStages-2] ? -rounded_q : rounded_q;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The E2M1 nearest to a normalized number, see mase_normalize, over a scale; ties to even; saturates.
// `place` is relative to the exponent field of the scale, a normal number in E4M3, `mantissa` the
// scale's. The magnitude is compared with the scale times the ends of E2M1's steps, exactly.
// Latency 5 cycles, RoundStages, throughput one per cycle; it never stops.
module mase_nvfp4_element
  import mase_pkg::*;
#(
    parameter int unsigned PLACE_WIDTH = 14,
    parameter int unsigned KEPT = 10
) (
    input  logic                          clk,
    input  logic                          negative,
    input  logic signed [PLACE_WIDTH-1:0] place,
    input  logic        [       KEPT-1:0] significand,
    input  logic        [            2:0] mantissa,
    output logic        [            3:0] data_out
);

  // Ends of steps in quarters: 20 * 15 takes nine bits.
  localparam int unsigned EndWidth = 9;
  localparam int unsigned Steps = 7;
  localparam logic [Steps-1:0][4:0] Quarters = {5'd20, 5'd14, 5'd10, 5'd7, 5'd5, 5'd3, 5'd1};
  // An end is in units of a quarter of an eighth, the scale has a bias of 7. Beyond these places the
  // magnitude is larger than every end.
  localparam int Highest = int'(EndWidth) - 12;
  localparam int unsigned DownMax = EndWidth + 1;
  localparam int unsigned DownWidth = $clog2(DownMax + 1);
  localparam int unsigned WorkWidth = PLACE_WIDTH + 1;

  if (KEPT != EndWidth + 1) begin : gen_width_check
    $error("KEPT must be %0d", EndWidth + 1);
  end

  logic [RoundStages-1:0] negative_q;
  logic signed [WorkWidth-1:0] difference_q;
  logic [KEPT-1:0] first_q;
  logic [KEPT-1:0] second_q;
  // Whole units, and whether there is more.
  logic [KEPT:0] compared_q;
  logic [DownWidth-1:0] down_q;
  logic [2:0] mantissa_q;
  logic [Steps-1:0][EndWidth-1:0] ends_q;
  logic [Steps-1:0][EndWidth-1:0] ends_late_q;
  logic [Steps-1:0] above_q;
  logic [2:0] count_q;

  always_ff @(posedge clk) begin
    negative_q <= RoundStages'({negative_q, negative});
    difference_q <= WorkWidth'(Highest) - WorkWidth'(place);
    first_q <= significand;
    mantissa_q <= mantissa;

    second_q <= first_q;
    down_q <= (difference_q < 0) ? '0
        : (difference_q > WorkWidth'(DownMax)) ? DownWidth'(DownMax) : DownWidth'(difference_q);

    compared_q <= {second_q >> down_q, |(second_q & ~({KEPT{1'b1}} << down_q))};

    for (int unsigned k = 0; k < Steps; k++) begin
      ends_q[k] <= EndWidth'(Quarters[k]) * EndWidth'({1'b1, mantissa_q});
      above_q[k] <= compared_q > {1'b0, ends_late_q[k], 1'b0}
          || (compared_q == {1'b0, ends_late_q[k], 1'b0} && k % 2 == 1);
    end
    ends_late_q <= ends_q;
    count_q <= 3'($countones(above_q));
  end

  assign data_out = {negative_q[RoundStages-1], count_q};

endmodule

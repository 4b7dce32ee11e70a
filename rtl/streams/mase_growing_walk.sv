// SPDX-License-Identifier: Apache-2.0
// Walks over words that lie in SEGMENTS segments of STRIDE words, pass after pass, and takes a prefix
// of each: in the first EVERY passes UNIT words, in the next EVERY ones 2 * UNIT and so on. After
// PASSES passes, of which the last ones take all STRIDE words, those of UNIT come again. `last` says
// that the word is the last one of a pass. Both come from registers.
module mase_growing_walk
  import mase_pkg::*;
#(
    parameter int unsigned STRIDE = 4,
    parameter int unsigned SEGMENTS = 2,
    parameter int unsigned UNIT = 1,
    parameter int unsigned EVERY = 1,
    parameter int unsigned PASSES = 4,
    parameter int unsigned WIDTH = 3
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             enable,
    output logic [WIDTH-1:0] place,
    output logic             last
);

  localparam int unsigned TurnWidth = index_width(STRIDE);

  logic [TurnWidth-1:0] unused_count;
  logic turn_last;
  logic unused_next_last;
  logic [WIDTH-1:0] segment;
  logic segment_last;

  assign last = turn_last && segment_last;

  mase_growing_counter #(
      .COUNT(STRIDE),
      .UNIT (UNIT),
      .EVERY(EVERY * SEGMENTS),
      .RUNS(PASSES * SEGMENTS),
      .WIDTH(TurnWidth)
  ) u_turn (
      .clk,
      .rst,
      .enable,
      .count(unused_count),
      .last(turn_last),
      .next_last(unused_next_last)
  );

  mase_counter #(
      .COUNT(SEGMENTS),
      .STEP (STRIDE),
      .WIDTH(WIDTH)
  ) u_segment (
      .clk,
      .rst,
      .enable(enable && turn_last),
      .count(segment),
      .last(segment_last)
  );

  always_ff @(posedge clk) begin
    if (rst) place <= '0;
    else if (enable) begin
      place <= last ? '0 : turn_last ? segment + WIDTH'(STRIDE) : place + 1'b1;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The end of a loop of ROUNDS rounds of BEATS beats. All rounds but the last go back, in the same
// cycle. The last one goes on, with EVERY_ROUND all of them, with a latency of 2 cycles.
// Throughput 1 beat per cycle.
module mase_loop_exit
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BEATS = 4,
    parameter int unsigned ROUNDS = 3,
    parameter bit EVERY_ROUND = 0
) (
    input logic clk,
    input logic rst,

    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready,

    output logic [WIDTH-1:0] feedback,
    output logic             feedback_valid,
    input  logic             feedback_ready
);

  localparam int unsigned BeatBits = index_width(BEATS);
  localparam int unsigned RoundBits = index_width(ROUNDS);

  logic [BeatBits-1:0] unused_beat;
  logic [RoundBits-1:0] unused_round;
  logic round_ends;
  logic last;
  logic goes_on;
  logic ready;
  logic sent;
  logic returned;
  logic take;

  assign goes_on = EVERY_ROUND || last;
  assign take = data_in_valid && data_in_ready;

  mase_counter #(
      .COUNT(BEATS),
      .WIDTH(BeatBits)
  ) u_beat (
      .clk,
      .rst,
      .enable(take),
      .count(unused_beat),
      .last(round_ends)
  );

  mase_counter #(
      .COUNT(ROUNDS),
      .WIDTH(RoundBits)
  ) u_round (
      .clk,
      .rst,
      .enable(take && round_ends),
      .count(unused_round),
      .last
  );

  // Whether what goes on, and what goes back, finds room.
  assign sent = ready || !goes_on;
  assign returned = feedback_ready || last;
  assign data_in_ready = sent && returned;
  assign feedback = data_in;
  assign feedback_valid = data_in_valid && sent && !last;

  mase_stream_register #(
      .WIDTH(WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in,
      .data_in_valid(data_in_valid && returned && goes_on),
      .data_in_ready(ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

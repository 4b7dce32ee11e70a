// SPDX-License-Identifier: Apache-2.0
// Sends activations through one layer ROUNDS times: BEATS beats that come from before, and those that
// come back, in rounds of BEATS, ROUNDS - 1 times. Latency 2 cycles, throughput 1 beat per cycle.
module mase_loop_entry
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BEATS = 4,
    parameter int unsigned ROUNDS = 3
) (
    input logic clk,
    input logic rst,

    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,

    input  logic [WIDTH-1:0] feedback,
    input  logic             feedback_valid,
    output logic             feedback_ready,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned BeatBits = index_width(BEATS);
  localparam int unsigned RoundBits = index_width(ROUNDS);

  logic [BeatBits-1:0] unused_beat;
  logic [RoundBits-1:0] round;
  logic round_ends;
  logic unused_last;
  logic first;
  logic valid;
  logic ready;

  mase_counter #(
      .COUNT(BEATS),
      .WIDTH(BeatBits)
  ) u_beat (
      .clk,
      .rst,
      .enable(valid && ready),
      .count(unused_beat),
      .last(round_ends)
  );

  mase_counter #(
      .COUNT(ROUNDS),
      .WIDTH(RoundBits)
  ) u_round (
      .clk,
      .rst,
      .enable(valid && ready && round_ends),
      .count(round),
      .last(unused_last)
  );

  assign first = round == '0;
  assign valid = first ? data_in_valid : feedback_valid;
  assign data_in_ready = ready && first;
  assign feedback_ready = ready && !first;

  mase_stream_register #(
      .WIDTH(WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(first ? data_in : feedback),
      .data_in_valid(valid),
      .data_in_ready(ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// Takes what leaves a step through which activations go ROUNDS times: all of it goes on, with a
// latency of 2 cycles, and that of all rounds of BEATS beats but the last one also goes back, in the
// same cycle. Throughput 1 beat per cycle.
module mase_loop_return
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
  logic ready;
  logic returns;
  logic take;

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

  assign returns = last || feedback_ready;
  assign data_in_ready = ready && returns;
  assign feedback = data_in;
  assign feedback_valid = data_in_valid && ready && !last;

  mase_stream_register #(
      .WIDTH(WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in,
      .data_in_valid(data_in_valid && returns),
      .data_in_ready(ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

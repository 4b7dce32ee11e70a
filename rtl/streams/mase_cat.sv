// SPDX-License-Identifier: Apache-2.0
// data_out_0 = data_in_0 and data_in_1, one after the other, in rounds of BEATS beats: BEATS_0 beats
// of the first and BEATS_1 of the second. Where the last beat of the first holds SHIFT lanes (0 for
// all), the second follows in the same beat, and all its lanes move up by SHIFT. With WAIT, a round
// begins when the second is there: the first is always there, being constant.
// Latency 1 cycle, throughput 1 beat per cycle.
module mase_cat #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned LANES = 4,
    parameter int unsigned BEATS_0 = 2,
    parameter int unsigned BEATS_1 = 2,
    parameter int unsigned BEATS = 3,
    parameter int unsigned SHIFT = 1,
    parameter bit WAIT = 0
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][WIDTH-1:0] data_in_0,
    input  logic                        data_in_0_valid,
    output logic                        data_in_0_ready,

    input  logic [LANES-1:0][WIDTH-1:0] data_in_1,
    input  logic                        data_in_1_valid,
    output logic                        data_in_1_ready,

    output logic [LANES-1:0][WIDTH-1:0] data_out_0,
    output logic                        data_out_0_valid,
    input  logic                        data_out_0_ready
);

  // The beat of a round in which the second tensor begins, and the one after its last.
  localparam int unsigned From = BEATS_0 - ((SHIFT > 0) ? 1 : 0);
  localparam int unsigned Until = From + BEATS_1;
  localparam int unsigned BeatBits = $clog2(BEATS_0 + BEATS_1 + 1);

  if (SHIFT >= LANES) begin : gen_shift_check
    $error("SHIFT must be less than the lanes of a beat");
  end

  logic [BeatBits-1:0] beat_q;
  logic last;
  logic takes_0;
  logic takes_1;
  logic needs_1;
  logic there;
  logic advance;
  logic make;

  assign last = beat_q == BeatBits'(BEATS - 1);
  assign takes_0 = beat_q < BeatBits'(BEATS_0);
  assign takes_1 = (beat_q + 1'b1 > BeatBits'(From)) && (beat_q < BeatBits'(Until));
  assign needs_1 = takes_1 || (WAIT && takes_0);
  assign there = (data_in_0_valid || !takes_0) && (data_in_1_valid || !needs_1);
  assign make = there && advance;
  assign data_in_0_ready = advance && takes_0 && (data_in_1_valid || !needs_1);
  assign data_in_1_ready = advance && takes_1 && (data_in_0_valid || !takes_0);

  always_ff @(posedge clk) begin
    if (rst) beat_q <= '0;
    else if (make) beat_q <= last ? '0 : beat_q + 1'b1;
  end

  logic [LANES-1:0][WIDTH-1:0] joined;

  if (SHIFT > 0) begin : gen_shift
    // The lanes of the second tensor's last beat that found no room.
    logic [SHIFT-1:0][WIDTH-1:0] rest_q;
    always_ff @(posedge clk) begin
      if (make && takes_1) rest_q <= data_in_1[LANES-1:LANES-SHIFT];
    end
    assign joined = !takes_1 && takes_0 ? data_in_0
        : {data_in_1[LANES-SHIFT-1:0], takes_0 ? data_in_0[SHIFT-1:0] : rest_q};
  end else begin : gen_whole
    assign joined = takes_0 ? data_in_0 : data_in_1;
  end

  mase_stream_register #(
      .WIDTH(LANES * WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(joined),
      .data_in_valid(there),
      .data_in_ready(advance),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

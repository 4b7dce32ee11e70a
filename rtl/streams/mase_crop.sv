// SPDX-License-Identifier: Apache-2.0
// Keeps the elements START to START + SIZE_OUT - 1 of each row of SIZE_IN. Where START is inside a
// beat, a beat of the result begins with the last lanes of one beat and ends with the first of the
// next. Latency 1 cycle, one more for what is left of a row; throughput 1 beat per cycle.
module mase_crop
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned LANES = 4,
    parameter int unsigned SIZE_IN = 10,
    parameter int unsigned SIZE_OUT = 7,
    parameter int unsigned START = 3
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][WIDTH-1:0] data_in_0,
    input  logic                        data_in_0_valid,
    output logic                        data_in_0_ready,

    output logic [LANES-1:0][WIDTH-1:0] data_out_0,
    output logic                        data_out_0_valid,
    input  logic                        data_out_0_ready
);

  localparam int unsigned Shift = START % LANES;
  localparam int unsigned BeatsIn = ceil_div(SIZE_IN, LANES);
  // The beat of a row that completes the first beat of the result, and the one after the last.
  localparam int unsigned From = ceil_div(START, LANES);
  localparam int unsigned Until = From + ceil_div(SIZE_OUT, LANES);
  localparam bit HasRest = Until > BeatsIn;
  localparam int unsigned BeatBits = $clog2(BeatsIn + 2);

  if (START + SIZE_OUT > SIZE_IN) begin : gen_size_check
    $error("START and SIZE_OUT reach beyond SIZE_IN");
  end

  logic [BeatBits-1:0] beat_q;
  // What is left of a row waits for the output; a first beat of the next row may enter with it.
  logic rest_q;
  logic last;
  logic completes;
  logic advance;
  logic take;
  logic [LANES-1:0][WIDTH-1:0] shifted;

  assign last = beat_q == BeatBits'(BeatsIn - 1);
  assign completes = (beat_q + 1'b1 > BeatBits'(From)) && (beat_q < BeatBits'(Until));
  assign data_in_0_ready = advance || !(completes || rest_q);
  assign take = data_in_0_valid && data_in_0_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      beat_q <= '0;
      rest_q <= 1'b0;
    end else begin
      if (take) beat_q <= last ? '0 : beat_q + 1'b1;
      if (take && last && HasRest) rest_q <= 1'b1;
      else if (advance) rest_q <= 1'b0;
    end
  end

  if (Shift > 0) begin : gen_shift
    logic [LANES-Shift-1:0][WIDTH-1:0] held_q;
    always_ff @(posedge clk) begin
      if (take) held_q <= data_in_0[LANES-1:Shift];
    end
    assign shifted = {data_in_0[Shift-1:0], held_q};
  end else begin : gen_whole
    assign shifted = data_in_0;
  end

  mase_stream_register #(
      .WIDTH(LANES * WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(shifted),
      .data_in_valid((data_in_0_valid && completes) || rest_q),
      .data_in_ready(advance),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

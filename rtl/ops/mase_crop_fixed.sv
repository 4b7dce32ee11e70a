// SPDX-License-Identifier: Apache-2.0
// Keeps the elements START to START + DATA_OUT_0_TENSOR_SIZE_DIM_0 - 1 of each row. Where START is
// inside a beat, a beat of the result begins with the last lanes of one beat and ends with the
// first of the next. Latency 1 cycle, one more for what is left of a row; throughput 1 beat per cycle.
module mase_crop_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 10,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 7,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned START = 3,

    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned Width = DATA_IN_0_PRECISION_0
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][Width-1:0] data_in_0,
    input  logic                        data_in_0_valid,
    output logic                        data_in_0_ready,

    output logic [Lanes-1:0][Width-1:0] data_out_0,
    output logic                        data_out_0_valid,
    input  logic                        data_out_0_ready
);

  localparam int unsigned Shift = START % Lanes;
  localparam int unsigned BeatsIn = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  localparam int unsigned BeatsOut = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes;
  // The beat of a row that completes the first beat of the result, and the one after the last.
  localparam int unsigned From = START / Lanes + ((Shift > 0) ? 1 : 0);
  localparam int unsigned Until = From + BeatsOut;
  localparam bit HasRest = Until > BeatsIn;
  localparam int unsigned BeatBits = $clog2(BeatsIn + 2);

  if (DATA_IN_0_PRECISION_0 != DATA_OUT_0_PRECISION_0) begin : gen_format_check
    $error("data_in_0 and data_out_0 must have one width");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1
      || DATA_OUT_0_PARALLELISM_DIM_0 != Lanes) begin : gen_parallelism_check
    $error("data_in_0 and data_out_0 must have equal lanes of one row");
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || START + DATA_OUT_0_TENSOR_SIZE_DIM_0 > DATA_IN_0_TENSOR_SIZE_DIM_0)
  begin : gen_size_check
    $error("START and the size of data_out_0 reach beyond data_in_0");
  end

  logic [BeatBits-1:0] beat_q;
  // What is left of a row waits for the output; a first beat of the next row may enter with it.
  logic rest_q;
  logic last;
  logic completes;
  logic advance;
  logic take;
  logic [Lanes-1:0][Width-1:0] shifted;

  assign last = beat_q == BeatBits'(BeatsIn - 1);
  assign completes = (beat_q + 1'b1 > BeatBits'(From)) && (beat_q < BeatBits'(Until));
  assign advance = !data_out_0_valid || data_out_0_ready;
  assign data_in_0_ready = advance || !(completes || rest_q);
  assign take = data_in_0_valid && data_in_0_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      beat_q <= '0;
      rest_q <= 1'b0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (take) beat_q <= last ? '0 : beat_q + 1'b1;
      if (take && last && HasRest) rest_q <= 1'b1;
      else if (advance) rest_q <= 1'b0;
      if (advance) data_out_0_valid <= (take && completes) || rest_q;
    end
  end

  if (Shift > 0) begin : gen_shift
    logic [Lanes-Shift-1:0][Width-1:0] held_q;
    always_ff @(posedge clk) begin
      if (take) held_q <= data_in_0[Lanes-1:Shift];
    end
    assign shifted = {data_in_0[Shift-1:0], held_q};
  end else begin : gen_whole
    assign shifted = data_in_0;
  end

  always_ff @(posedge clk) begin
    if (advance && ((take && completes) || rest_q)) data_out_0 <= shifted;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The row of a table that each number without sign asks for, the last one where there is no such row:
// every number comes BEATS times, and a row leaves in as many beats. TABLE_FILE has the beats of a row
// at the row's number times BEATS, rounded up to a power of two.
// Latency 5 cycles, throughput 1 beat per cycle.
module mase_lookup
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(4, 0, 1'b0),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 2,
    parameter int unsigned BEATS = 3,
    parameter int unsigned ROWS = 10,
    parameter string TABLE_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [0:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                            data_in_0_valid,
    output logic                            data_in_0_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int unsigned Width = LANES * DATA_OUT_0.width;
  localparam int unsigned RowWidth = index_width(ROWS);
  localparam int unsigned BeatWidth = index_width(BEATS);
  // At least the bits of a row's number, so that any can be compared.
  localparam int unsigned Wide = (DATA_IN_0.width > RowWidth) ? DATA_IN_0.width : RowWidth;

  logic [Width-1:0] table_words[ROWS*((BEATS > 1) ? (1 << BeatWidth) : 1)];
  initial $readmemh(TABLE_FILE, table_words);

  logic [BeatWidth-1:0] beat;
  logic unused_last;
  logic [RowWidth-1:0] row_q;
  logic [BeatWidth-1:0] beat_q;
  logic [Width-1:0] word_q;
  logic [Width-1:0] result;

  mase_counter #(
      .COUNT(BEATS),
      .WIDTH(BeatWidth)
  ) u_beat (
      .clk,
      .rst,
      .enable(data_in_0_valid && data_in_0_ready),
      .count(beat),
      .last(unused_last)
  );

  always_ff @(posedge clk) begin
    row_q <= (Wide'(data_in_0[0]) > Wide'(ROWS - 1)) ? RowWidth'(ROWS - 1)
        : RowWidth'(data_in_0[0]);
    beat_q <= beat;
    result <= word_q;
  end

  if (BEATS > 1) begin : gen_beats
    always_ff @(posedge clk) word_q <= table_words[{row_q, beat_q}];
  end else begin : gen_single
    always_ff @(posedge clk) word_q <= table_words[row_q];
    logic unused_beat;
    assign unused_beat = ^beat_q;
  end

  mase_stream_pipeline #(
      .WIDTH (Width),
      .STAGES(3)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// Takes AXI4-Stream packets, one an inference, and sends their beats: an inference is BEATS beats
// of BEAT_BYTES bytes without gaps, low bytes first, cut into words of BUS_BYTES; the last word may
// be part empty, which TKEEP says. With `batch`, a packet is so many inferences, each on whole
// words, all of whose bytes are marked.
//
// A packet of another length never shifts the ones behind it. What a short packet lacks is sent as
// zeros, and what a long one has too much is dropped; `short_packet`, `long_packet` and `bad_keep`
// (a byte that counts is marked empty, or the reverse) are high for a cycle. `done` is high in the
// cycle in which the last word of an inference moves. While `hold` is high no packet begins, and
// `closed` says that none is under way.
//
// Throughput 1 word or 1 beat per cycle, whichever is less; latency 0 cycles where a word is a
// beat, else that of mase_stream_gearbox.
module mase_axis_sink
  import mase_pkg::*;
#(
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned BEAT_BYTES = 3,
    parameter int unsigned BEATS = 5
) (
    input logic clk,
    input logic rst,
    input logic hold,
    input logic [7:0] batch,

    input  logic [8*BUS_BYTES-1:0] s_axis_tdata,
    input  logic [  BUS_BYTES-1:0] s_axis_tkeep,
    input  logic                   s_axis_tlast,
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready,

    output logic [8*BEAT_BYTES-1:0] data_out,
    output logic                    data_out_valid,
    input  logic                    data_out_ready,

    output logic done,
    output logic closed,
    output logic short_packet,
    output logic long_packet,
    output logic bad_keep
);

  localparam int unsigned Bytes = BEATS * BEAT_BYTES;
  localparam int unsigned Words = (Bytes + BUS_BYTES - 1) / BUS_BYTES;
  localparam int unsigned LastBytes = Bytes - (Words - 1) * BUS_BYTES;
  localparam int unsigned WordWidth = index_width(Words);
  localparam logic [BUS_BYTES-1:0] LastKeep = {BUS_BYTES{1'b1}} >> (BUS_BYTES - LastBytes);

  logic [WordWidth-1:0] word_q;
  logic [7:0] inference_q;
  logic first;
  // Of an inference, and of a packet.
  logic last;
  logic ends;
  logic [BUS_BYTES-1:0] keep;
  // The rest of an inference is filled with zeros; the rest of a packet is dropped.
  logic fill_q;
  logic drop_q;
  logic closed_q;

  logic [8*BUS_BYTES-1:0] word;
  logic word_valid;
  logic word_ready;
  logic moves;
  logic takes;

  assign first = word_q == '0 && inference_q == '0;
  assign ends = last && 9'(inference_q) + 1'b1 >= 9'(batch);
  assign last = word_q == WordWidth'(Words - 1);
  assign word = fill_q ? '0 : s_axis_tdata;
  assign word_valid = !rst && (fill_q || (s_axis_tvalid && !drop_q && !closed_q));
  assign s_axis_tready = !rst && !fill_q && (drop_q || (word_ready && !closed_q));
  assign moves = word_valid && word_ready;
  assign takes = s_axis_tvalid && s_axis_tready;

  assign done = moves && last;
  assign closed = closed_q && !drop_q;
  assign short_packet = takes && !drop_q && s_axis_tlast && !ends;
  assign long_packet = takes && !drop_q && !s_axis_tlast && ends;
  assign keep = (last && batch == '0) ? LastKeep : {BUS_BYTES{1'b1}};
  assign bad_keep = takes && !drop_q && s_axis_tkeep != keep;

  always_ff @(posedge clk) begin
    if (rst) begin
      word_q <= '0;
      inference_q <= '0;
      fill_q <= 1'b0;
      drop_q <= 1'b0;
      closed_q <= hold;
    end else begin
      if (moves) word_q <= last ? '0 : word_q + 1'b1;
      if (moves && last) inference_q <= ends ? '0 : inference_q + 1'b1;
      if (moves) fill_q <= !ends && (fill_q || s_axis_tlast);
      if (takes) drop_q <= (drop_q || ends) && !s_axis_tlast;
      // Never while a word is on offer, which would go away.
      if (!hold) closed_q <= 1'b0;
      else if (moves ? ends : (first && !s_axis_tvalid)) closed_q <= 1'b1;
    end
  end

  if (BUS_BYTES == BEAT_BYTES) begin : gen_word_is_beat
    assign data_out = word;
    assign data_out_valid = word_valid;
    assign word_ready = data_out_ready;
  end else begin : gen_gearbox
    mase_stream_gearbox #(
        .IN_WIDTH (8 * BUS_BYTES),
        .OUT_WIDTH(8 * BEAT_BYTES),
        .WORDS    (BEATS)
    ) u_gearbox (
        .clk,
        .rst,
        .data_in(word),
        .data_in_valid(word_valid),
        .data_in_ready(word_ready),
        .data_out,
        .data_out_valid,
        .data_out_ready
    );
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) in_range : assert (32'(word_q) < Words && !(fill_q && drop_q));
  end
`endif  // MASE_CHECKS

endmodule

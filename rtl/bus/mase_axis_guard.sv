// SPDX-License-Identifier: Apache-2.0
// Keeps the packets of an AXI4-Stream whole while its source is reset: a word on offer stays so,
// and zeros take the place of what is missing of a packet that was begun. An inference is WORDS
// words, the last with LAST_BYTES bytes that count; with `batch`, a packet is so many, and all
// bytes count. `cancel` is high while the source is in reset; `idle` says that nothing from before
// is left. `done` is high in the cycle in which the last word of an inference moves.
//
// Throughput 1 word per cycle; a word is offered the cycle after it came.
module mase_axis_guard
  import mase_pkg::*;
#(
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned WORDS = 4,
    parameter int unsigned LAST_BYTES = 3
) (
    input logic clk,
    input logic rst,
    input logic cancel,
    input logic [7:0] batch,

    input  logic [8*BUS_BYTES-1:0] s_axis_tdata,
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready,

    output logic [8*BUS_BYTES-1:0] m_axis_tdata,
    output logic [  BUS_BYTES-1:0] m_axis_tkeep,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,

    output logic done,
    output logic idle
);

  localparam int unsigned WordWidth = index_width(WORDS);
  localparam logic [BUS_BYTES-1:0] LastKeep = {BUS_BYTES{1'b1}} >> (BUS_BYTES - LAST_BYTES);

  logic [WordWidth-1:0] word_q;
  logic [7:0] inference_q;
  logic last;
  logic ends;
  logic is_open;
  logic out_last;
  logic fill;
  logic valid;
  logic ready;

  assign last = word_q == WordWidth'(WORDS - 1);
  assign ends = last && 9'(inference_q) + 1'b1 >= 9'(batch);
  assign is_open = word_q != '0 || inference_q != '0;
  assign fill = cancel && is_open;
  assign valid = fill || (s_axis_tvalid && !cancel);
  assign s_axis_tready = ready && !cancel;
  assign m_axis_tkeep = (m_axis_tlast && batch == '0) ? LastKeep : {BUS_BYTES{1'b1}};
  assign done = m_axis_tvalid && m_axis_tready && out_last;
  assign idle = !is_open && !m_axis_tvalid;

  always_ff @(posedge clk) begin
    if (rst) begin
      word_q <= '0;
      inference_q <= '0;
    end else if (valid && ready) begin
      word_q <= last ? '0 : word_q + 1'b1;
      if (last) inference_q <= ends ? '0 : inference_q + 1'b1;
    end
  end

  assign ready = !m_axis_tvalid || m_axis_tready;

  always_ff @(posedge clk) begin
    if (rst) m_axis_tvalid <= 1'b0;
    else if (ready) m_axis_tvalid <= valid;
  end

  always_ff @(posedge clk) begin
    if (ready) {out_last, m_axis_tlast, m_axis_tdata} <= {last, ends, fill ? '0 : s_axis_tdata};
  end

endmodule

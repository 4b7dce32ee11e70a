// SPDX-License-Identifier: Apache-2.0
// Reads packets of WORDS words from a memory on AXI4 and sends them as AXI4-Stream: after `start`,
// `count` of them, each beginning on a whole word behind the one before, from `address` on (a
// multiple of the bytes of a word). The last word of a packet has LAST_BYTES bytes that count.
//
// Bursts are of BURST words at most and never cross a multiple of so many, hence no 4 KiB; at most
// OUTSTANDING are on their way. Throughput 1 word per cycle. `bad` is high for a cycle with an
// error.
//
// `cancel` forgets what was asked for: words on their way are taken and dropped. `idle` says that
// none is, and no address on offer; `start` comes then.
module mase_axi_fetch
  import mase_pkg::*;
#(
    parameter int unsigned ADDRESS_WIDTH = 32,
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned WORDS = 5,
    parameter int unsigned LAST_BYTES = 3,
    parameter int unsigned BURST = 16,
    parameter int unsigned OUTSTANDING = 4
) (
    input logic clk,
    input logic rst,
    input logic cancel,

    input  logic                     start,
    input  logic [ADDRESS_WIDTH-1:0] address,
    input  logic [             31:0] count,
    output logic                     idle,
    output logic                     bad,

    output logic [ADDRESS_WIDTH-1:0] m_axi_araddr,
    output logic [              7:0] m_axi_arlen,
    output logic [              2:0] m_axi_arsize,
    output logic [              1:0] m_axi_arburst,
    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,
    input  logic [  8*BUS_BYTES-1:0] m_axi_rdata,
    input  logic [              1:0] m_axi_rresp,
    input  logic                     m_axi_rlast,
    input  logic                     m_axi_rvalid,
    output logic                     m_axi_rready,

    output logic [8*BUS_BYTES-1:0] m_axis_tdata,
    output logic [  BUS_BYTES-1:0] m_axis_tkeep,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready
);

  localparam int unsigned WordWidth = index_width(WORDS);
  localparam logic [BUS_BYTES-1:0] LastKeep = {BUS_BYTES{1'b1}} >> (BUS_BYTES - LAST_BYTES);

  logic issue;
  logic room;
  logic some_out;
  logic bursts_idle;
  logic unused_ends;
  logic unused_single;
  logic unused_out_single;
  logic takes;
  logic answered;
  logic [WordWidth-1:0] word_q;

  mase_axi_bursts #(
      .ADDRESS_WIDTH(ADDRESS_WIDTH),
      .BUS_BYTES    (BUS_BYTES),
      .WORDS        (WORDS),
      .BURST        (BURST)
  ) u_bursts (
      .clk,
      .rst,
      .start,
      .first(address),
      .count,
      .room,
      .stop(cancel),
      .address(m_axi_araddr),
      .length(m_axi_arlen),
      .ends(unused_ends),
      .valid(m_axi_arvalid),
      .ready(m_axi_arready),
      .idle(bursts_idle)
  );

  assign m_axi_arsize = 3'($clog2(BUS_BYTES));
  assign m_axi_arburst = 2'b01;
  assign issue = m_axi_arvalid && m_axi_arready;

  mase_credits #(
      .DEPTH(OUTSTANDING)
  ) u_credits (
      .clk,
      .rst,
      .take(issue),
      .give(answered),
      .room,
      .single(unused_single)
  );

  mase_level #(
      .MOST(OUTSTANDING)
  ) u_out (
      .clk,
      .rst,
      .more(issue),
      .less(answered),
      .some(some_out),
      .single(unused_out_single)
  );

  assign m_axis_tdata = m_axi_rdata;
  assign m_axis_tvalid = m_axi_rvalid && !cancel;
  assign m_axi_rready = m_axis_tready || cancel;
  assign takes = m_axi_rvalid && m_axi_rready;
  assign answered = takes && m_axi_rlast;
  assign idle = bursts_idle && !some_out;
  assign m_axis_tlast = word_q == WordWidth'(WORDS - 1);
  assign m_axis_tkeep = m_axis_tlast ? LastKeep : {BUS_BYTES{1'b1}};
  assign bad = takes && !cancel && m_axi_rresp != 2'b00;

  always_ff @(posedge clk) begin
    if (rst || cancel) word_q <= '0;
    else if (takes) word_q <= m_axis_tlast ? '0 : word_q + 1'b1;
  end

endmodule

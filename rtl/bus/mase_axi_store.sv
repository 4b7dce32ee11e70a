// SPDX-License-Identifier: Apache-2.0
// Writes packets of WORDS words, which come as AXI4-Stream, into a memory on AXI4: the counterpart
// of mase_axi_fetch. Data of a burst are sent once its address was taken. `idle` says that all
// packets are in the memory; `start` comes then. `written` is high for a cycle when one is, `bad`
// for a cycle with an error of it.
//
// `cancel` forgets what was asked for: bursts whose address was taken or is on offer get words that
// write nothing.
module mase_axi_store
  import mase_pkg::*;
#(
    parameter int unsigned ADDRESS_WIDTH = 32,
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned WORDS = 5,
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
    output logic                     written,
    output logic                     bad,

    output logic [ADDRESS_WIDTH-1:0] m_axi_awaddr,
    output logic [              7:0] m_axi_awlen,
    output logic [              2:0] m_axi_awsize,
    output logic [              1:0] m_axi_awburst,
    output logic                     m_axi_awvalid,
    input  logic                     m_axi_awready,
    output logic [  8*BUS_BYTES-1:0] m_axi_wdata,
    output logic [    BUS_BYTES-1:0] m_axi_wstrb,
    output logic                     m_axi_wlast,
    output logic                     m_axi_wvalid,
    input  logic                     m_axi_wready,
    input  logic [              1:0] m_axi_bresp,
    input  logic                     m_axi_bvalid,
    output logic                     m_axi_bready,

    input  logic [8*BUS_BYTES-1:0] s_axis_tdata,
    input  logic [  BUS_BYTES-1:0] s_axis_tkeep,
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready
);

  logic issue;
  logic room;
  logic free;
  logic write;
  logic unused_single;
  logic unused_all_single;
  logic unused_ends_ready;
  logic unused_ends_valid;
  logic bursts_idle;
  logic ends;
  logic packet_ends;
  logic lengths_valid;
  logic lengths_ready;
  logic [7:0] length;
  logic [7:0] word_q;
  logic some_out;
  logic last;
  logic word_ready;

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
      .room(room && lengths_ready && free),
      .stop(cancel),
      .address(m_axi_awaddr),
      .length(m_axi_awlen),
      .ends,
      .valid(m_axi_awvalid),
      .ready(m_axi_awready),
      .idle(bursts_idle)
  );

  assign m_axi_awsize = 3'($clog2(BUS_BYTES));
  assign m_axi_awburst = 2'b01;
  assign issue = m_axi_awvalid && m_axi_awready;
  assign m_axi_bready = 1'b1;
  assign bad = m_axi_bvalid && !cancel && m_axi_bresp != 2'b00;
  assign written = m_axi_bvalid && !cancel && packet_ends;
  assign idle = bursts_idle && !some_out;
  // While no address waits: what is counted is then settled.
  assign free = !m_axi_awvalid;

  mase_credits #(
      .DEPTH(OUTSTANDING)
  ) u_credits (
      .clk,
      .rst,
      .take(issue),
      .give(m_axi_bvalid),
      .room,
      .single(unused_single)
  );

  mase_level #(
      .MOST(OUTSTANDING)
  ) u_out (
      .clk,
      .rst,
      .more(issue),
      .less(m_axi_bvalid),
      .some(some_out),
      .single(unused_all_single)
  );

  // The lengths of bursts whose data are to come.
  mase_stream_fifo #(
      .WIDTH(8),
      .DEPTH(OUTSTANDING)
  ) u_lengths (
      .clk,
      .rst,
      .data_in(m_axi_awlen),
      .data_in_valid(issue),
      .data_in_ready(lengths_ready),
      .data_out(length),
      .data_out_valid(lengths_valid),
      .data_out_ready(write && last)
  );

  // Which of the bursts on their way end a packet.
  mase_stream_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) u_ends (
      .clk,
      .rst,
      .data_in(ends),
      .data_in_valid(issue),
      .data_in_ready(unused_ends_ready),
      .data_out(packet_ends),
      .data_out_valid(unused_ends_valid),
      .data_out_ready(m_axi_bvalid)
  );

  // A word that is on offer stays so when the source is reset.
  assign word_ready = !m_axi_wvalid || m_axi_wready;

  always_ff @(posedge clk) begin
    if (rst) m_axi_wvalid <= 1'b0;
    else if (word_ready) m_axi_wvalid <= write;
  end

  always_ff @(posedge clk) begin
    if (word_ready) {m_axi_wlast, m_axi_wdata} <= {last, s_axis_tdata};
    if (word_ready) m_axi_wstrb <= cancel ? '0 : s_axis_tkeep;
  end

  assign last = word_q == length;
  assign s_axis_tready = word_ready && lengths_valid && !cancel;
  assign write = lengths_valid && word_ready && (s_axis_tvalid || cancel);

  always_ff @(posedge clk) begin
    if (rst) word_q <= '0;
    else if (write) word_q <= last ? '0 : word_q + 1'b1;
  end

endmodule

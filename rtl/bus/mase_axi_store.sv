// SPDX-License-Identifier: Apache-2.0
// Writes packets of WORDS words, which come as AXI4-Stream, into a memory on AXI4: the counterpart of
// mase_axi_fetch. Data of a burst are sent once its address was taken. `done` rises when the last of
// `count` packets is in the memory, and falls with `start`; 0 packets are done at once.
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

    input  logic                     start,
    input  logic [ADDRESS_WIDTH-1:0] address,
    input  logic [             31:0] count,
    output logic                     done,
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
    input  logic                   s_axis_tlast,
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready
);

  logic issue;
  logic room;
  logic free;
  logic write;
  logic unused_single;
  logic unused_all_single;
  logic lengths_valid;
  logic lengths_ready;
  logic [7:0] length;
  logic [7:0] word_q;
  // Packets whose last word is still to be sent, and whether one of them was sent.
  logic [31:0] packets_q;
  logic active_q;
  logic some_out;

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
      .address(m_axi_awaddr),
      .length(m_axi_awlen),
      .valid(m_axi_awvalid),
      .ready(m_axi_awready)
  );

  assign m_axi_awsize = 3'($clog2(BUS_BYTES));
  assign m_axi_awburst = 2'b01;
  assign issue = m_axi_awvalid && m_axi_awready;
  assign m_axi_bready = 1'b1;
  assign bad = m_axi_bvalid && m_axi_bresp != 2'b00;
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
      .data_out_ready(write && m_axi_wlast)
  );

  assign m_axi_wdata = s_axis_tdata;
  assign m_axi_wstrb = s_axis_tkeep;
  assign m_axi_wlast = word_q == length;
  assign m_axi_wvalid = s_axis_tvalid && lengths_valid;
  assign s_axis_tready = m_axi_wready && lengths_valid;
  assign write = m_axi_wvalid && m_axi_wready;

  always_ff @(posedge clk) begin
    if (rst) begin
      word_q <= '0;
      packets_q <= '0;
      active_q <= 1'b0;
      done <= 1'b0;
    end else begin
      if (write) word_q <= m_axi_wlast ? '0 : word_q + 1'b1;
      if (start && !active_q) begin
        packets_q <= count;
        active_q <= 1'b1;
        done <= 1'b0;
      end else if (write && s_axis_tlast) begin
        packets_q <= packets_q - 1'b1;
      end else if (active_q && packets_q == '0 && !some_out) begin
        active_q <= 1'b0;
        done <= 1'b1;
      end
    end
  end

endmodule

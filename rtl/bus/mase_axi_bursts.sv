// SPDX-License-Identifier: Apache-2.0
// Addresses and lengths of the bursts for `count` packets of WORDS words, one behind the other from
// `first` on: at most BURST words, and none crosses a multiple of so many. A burst is offered while
// there is `room`, one every second cycle at most; `ready` takes it, and `ends` marks the last one
// of a packet. `start` comes while `idle`. `stop` forgets all bursts but the one on offer.
module mase_axi_bursts
  import mase_pkg::*;
#(
    parameter int unsigned ADDRESS_WIDTH = 32,
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned WORDS = 5,
    parameter int unsigned BURST = 16
) (
    input logic clk,
    input logic rst,

    input logic                     start,
    input logic [ADDRESS_WIDTH-1:0] first,
    input logic [             31:0] count,
    input logic                     room,
    input logic                     stop,

    output logic [ADDRESS_WIDTH-1:0] address,
    output logic [              7:0] length,
    output logic                     ends,
    output logic                     valid,
    input  logic                     ready,
    output logic                     idle
);

  localparam int unsigned Shift = $clog2(BUS_BYTES);
  localparam int unsigned LeftWidth = $clog2(WORDS + 1);
  localparam int unsigned PlaceWidth = $clog2(BURST);

  if (2 ** PlaceWidth != BURST || BURST * BUS_BYTES > 4096 || BURST > 256) begin : gen_burst_check
    $error("BURST must be a power of two, of at most 256 words and 4096 bytes");
  end

  logic [31:0] packets_q;
  logic [LeftWidth-1:0] left_q;
  logic [8:0] until_edge;
  logic [8:0] words;

  assign idle = packets_q == '0 && !valid;
  assign until_edge = 9'(BURST) - 9'(address[Shift+:PlaceWidth]);
  assign ends = 32'(left_q) <= 32'(until_edge);
  assign words = ends ? 9'(left_q) : until_edge;

  always_ff @(posedge clk) begin
    if (rst) begin
      packets_q <= '0;
      valid <= 1'b0;
    end else if (stop) begin
      packets_q <= '0;
      if (ready) valid <= 1'b0;
    end else if (start) begin
      packets_q <= count;
      left_q <= LeftWidth'(WORDS);
      address <= first;
    end else if (valid && ready) begin
      valid <= 1'b0;
      address <= address + (ADDRESS_WIDTH'(words) << Shift);
      left_q <= ends ? LeftWidth'(WORDS) : left_q - LeftWidth'(words);
      if (ends) packets_q <= packets_q - 1'b1;
    end else if (!valid && packets_q != '0 && room) begin
      valid  <= 1'b1;
      length <= 8'(words - 1'b1);
    end
  end

endmodule

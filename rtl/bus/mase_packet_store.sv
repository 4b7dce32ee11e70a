// SPDX-License-Identifier: Apache-2.0
// Holds a packet of BYTES bytes until it is whole: takes them one by one after `clear`, lets those
// behind them pass (`pass`), and sends all once `send` was high for a cycle, the last one marked.
module mase_packet_store
  import mase_pkg::*;
#(
    parameter int unsigned BYTES = 16
) (
    input logic clk,
    input logic rst,

    input  logic       clear,
    input  logic [7:0] data_in,
    input  logic       write,
    output logic       pass,

    input  logic       send,
    output logic [7:0] data_out,
    output logic       data_out_last,
    output logic       data_out_valid,
    input  logic       data_out_ready
);

  localparam int unsigned AddressWidth = index_width(BYTES);

  logic [7:0] memory[BYTES];
  logic [AddressWidth-1:0] write_q;
  logic [AddressWidth-1:0] read_q;
  logic full_q;
  logic sends_q;
  logic last;
  logic load;

  assign pass = write && full_q;
  assign last = read_q == AddressWidth'(BYTES - 1);
  assign load = sends_q && (!data_out_valid || data_out_ready);

  always_ff @(posedge clk) begin
    if (rst || clear) begin
      write_q <= '0;
      full_q  <= 1'b0;
    end else if (write && !full_q) begin
      write_q <= write_q + 1'b1;
      full_q  <= write_q == AddressWidth'(BYTES - 1);
    end
  end

  always_ff @(posedge clk) begin
    if (write && !full_q) memory[write_q] <= data_in;
    if (load) data_out <= memory[read_q];
    if (load) data_out_last <= last;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      read_q <= '0;
      sends_q <= 1'b0;
      data_out_valid <= 1'b0;
    end else begin
      if (send) sends_q <= 1'b1;
      else if (load && last) sends_q <= 1'b0;
      if (load) read_q <= last ? '0 : read_q + 1'b1;
      if (!data_out_valid || data_out_ready) data_out_valid <= sends_q;
    end
  end

endmodule

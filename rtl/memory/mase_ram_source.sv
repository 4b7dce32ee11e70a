// SPDX-License-Identifier: Apache-2.0
// A mase_rom_source whose words can be loaded while `rst` is high. After `load_clear` it takes the first
// bytes of a row for its words in order, each in whole bytes, the low one first, and lets those behind
// them pass (`load_pass`) to the next source of the row. Nothing is loaded where RELOAD is 0.
module mase_ram_source
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 4,
    parameter int unsigned HOLD = 1,
    parameter bit RELOAD = 0,
    parameter string INIT_FILE = ""
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             load_clear,
    input  logic [      7:0] load_byte,
    input  logic             load_valid,
    output logic             load_pass,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned Bytes = (WIDTH + 7) / 8;
  localparam int unsigned AddressWidth = index_width(DEPTH);
  localparam int unsigned ByteWidth = index_width(Bytes);
  localparam int unsigned HoldWidth = index_width(HOLD);

  logic [WIDTH-1:0] memory[DEPTH];
  initial $readmemh(INIT_FILE, memory);

  logic [8*Bytes-1:0] word_in_q;
  logic [8*Bytes-1:0] word_in;
  logic [ByteWidth-1:0] byte_q;
  logic [AddressWidth-1:0] write_q;
  logic full_q;
  logic last_byte;
  logic take;

  assign last_byte = byte_q == ByteWidth'(Bytes - 1);
  assign take = RELOAD && rst && load_valid && !full_q;
  assign load_pass = RELOAD && load_valid && full_q;
  if (Bytes > 1) begin : gen_bytes
    assign word_in = {load_byte, word_in_q[8*Bytes-1:8]};
  end else begin : gen_byte
    logic unused_word;
    assign unused_word = ^word_in_q;
    assign word_in = load_byte;
  end
  if (8 * Bytes > WIDTH) begin : gen_rest
    logic unused_rest;
    assign unused_rest = ^word_in[8*Bytes-1:WIDTH];
  end

  always_ff @(posedge clk) begin
    if (load_clear || !RELOAD) begin
      byte_q  <= '0;
      write_q <= '0;
      full_q  <= 1'b0;
    end else if (take) begin
      byte_q <= last_byte ? '0 : byte_q + 1'b1;
      if (last_byte) write_q <= write_q + 1'b1;
      if (last_byte) full_q <= write_q == AddressWidth'(DEPTH - 1);
    end
  end

  always_ff @(posedge clk) begin
    if (take) word_in_q <= word_in;
    if (take && last_byte) memory[write_q] <= word_in[WIDTH-1:0];
  end

  logic [AddressWidth-1:0] address_q;
  logic [HoldWidth-1:0] hold_q;
  logic [WIDTH-1:0] word_q;
  logic word_valid;
  logic advance;
  logic last_hold;

  assign advance   = !data_out_valid || data_out_ready;
  assign last_hold = hold_q == HoldWidth'(HOLD - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      address_q <= '0;
      hold_q <= '0;
      word_valid <= 1'b0;
      data_out_valid <= 1'b0;
    end else if (advance) begin
      word_valid <= 1'b1;
      data_out_valid <= word_valid;
      hold_q <= last_hold ? '0 : hold_q + 1'b1;
      if (last_hold) begin
        address_q <= (address_q == AddressWidth'(DEPTH - 1)) ? '0 : address_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      word_q   <= memory[address_q];
      data_out <= word_q;
    end
  end

endmodule

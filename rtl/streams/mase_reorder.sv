// SPDX-License-Identifier: Apache-2.0
// Sends the elements of a tensor in another order and tiling, through BANKS memories that hold two
// tensors. WRITE_FILE says, for each beat in and each bank, whether and from which lane it is
// written; READ_FILE, for each beat out, the address in each bank, the bank of each lane, and how
// many beats must have entered. No two elements of a beat share a bank.
// Throughput 1 beat per cycle on both sides; a beat is offered 2 cycles after its last element.
module mase_reorder
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned LANES_IN = 2,
    parameter int unsigned LANES_OUT = 2,
    parameter int unsigned BEATS_IN = 4,
    parameter int unsigned BEATS_OUT = 4,
    parameter int unsigned BANKS = 2,
    parameter int unsigned BANK_DEPTH = 4,
    parameter string WRITE_FILE = "",
    parameter string READ_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [LANES_IN-1:0][WIDTH-1:0] data_in_0,
    input  logic                           data_in_0_valid,
    output logic                           data_in_0_ready,

    output logic [LANES_OUT-1:0][WIDTH-1:0] data_out_0,
    output logic                            data_out_0_valid,
    input  logic                            data_out_0_ready
);

  localparam int unsigned LaneBits = index_width(LANES_IN);
  localparam int unsigned BankBits = index_width(BANKS);
  localparam int unsigned AddressBits = index_width(BANK_DEPTH);
  localparam int unsigned NeedBits = $clog2(BEATS_IN + 1);
  localparam int unsigned InBits = index_width(BEATS_IN);
  localparam int unsigned OutBits = index_width(BEATS_OUT);

  typedef struct packed {
    logic [NeedBits-1:0] need;
    logic [LANES_OUT-1:0][BankBits-1:0] bank;
    logic [BANKS-1:0][AddressBits-1:0] address;
  } read_entry_t;

  logic [BANKS-1:0][LaneBits:0] write_table[BEATS_IN];
  read_entry_t read_table[BEATS_OUT];
  initial $readmemh(WRITE_FILE, write_table);
  initial $readmemh(READ_FILE, read_table);

  // Writing: `written_q` beats of the tensor in half `write_half_q` are stored.
  logic [NeedBits-1:0] written_q;
  logic write_half_q;
  logic write;
  logic write_last;
  // Reading: the entry of the next beat of the tensor in half `read_half_q`.
  logic [OutBits-1:0] next_q;
  read_entry_t entry_q;
  logic entry_valid_q;
  logic entry_last_q;
  logic read_half_q;
  logic read;
  logic advance;
  // Tensors wholly stored and not wholly read.
  logic [1:0] full_q;
  logic available;

  // Both halves in use: no beat of a third tensor may enter.
  assign data_in_0_ready = full_q != 2'd2;
  assign write = data_in_0_valid && data_in_0_ready;
  assign write_last = written_q == NeedBits'(BEATS_IN - 1);
  assign available = (full_q != 2'd0) || (written_q >= entry_q.need);
  assign advance = !data_out_0_valid || data_out_0_ready;
  assign read = advance && entry_valid_q && available;

  always_ff @(posedge clk) begin
    if (rst) begin
      written_q <= '0;
      write_half_q <= 1'b0;
      next_q <= '0;
      entry_valid_q <= 1'b0;
      read_half_q <= 1'b0;
      full_q <= '0;
      data_out_0_valid <= 1'b0;
    end else begin
      if (write) written_q <= write_last ? '0 : written_q + 1'b1;
      if (write && write_last) write_half_q <= !write_half_q;
      if (!entry_valid_q || read) begin
        entry_valid_q <= 1'b1;
        next_q <= (next_q == OutBits'(BEATS_OUT - 1)) ? '0 : next_q + 1'b1;
      end
      if (read && entry_last_q) read_half_q <= !read_half_q;
      full_q <= full_q + 2'(write && write_last) - 2'(read && entry_last_q);
      if (advance) data_out_0_valid <= read;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst && (!entry_valid_q || read)) begin
      entry_q <= read_table[next_q];
      entry_last_q <= next_q == OutBits'(BEATS_OUT - 1);
    end
  end

  logic [BANKS-1:0][LaneBits:0] write_entry;
  logic [BANKS-1:0][WIDTH-1:0] word_q;
  logic [LANES_OUT-1:0][BankBits-1:0] bank_q;

  assign write_entry = write_table[InBits'(written_q)];

  for (genvar b = 0; b < BANKS; b++) begin : gen_bank
    logic [WIDTH-1:0] memory[2*BANK_DEPTH];
    logic [AddressBits-1:0] filled_q;
    logic enable;

    assign enable = write && write_entry[b][LaneBits];

    always_ff @(posedge clk) begin
      if (rst) filled_q <= '0;
      else if (write && write_last) filled_q <= '0;
      else if (enable) filled_q <= filled_q + 1'b1;
    end

    always_ff @(posedge clk) begin
      if (enable) begin
        memory[{filled_q, write_half_q}] <= data_in_0[write_entry[b][LaneBits-1:0]];
      end
      if (read) word_q[b] <= memory[{entry_q.address[b], read_half_q}];
    end
  end

  always_ff @(posedge clk) begin
    if (read) bank_q <= entry_q.bank;
  end

  for (genvar i = 0; i < LANES_OUT; i++) begin : gen_out
    assign data_out_0[i] = word_q[bank_q[i]];
  end

endmodule

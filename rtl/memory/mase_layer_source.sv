// SPDX-License-Identifier: Apache-2.0
// Streams the words of LAYERS layers, DEPTH of each: those of a layer WALKS times over, each for HOLD
// beats, then those of the next one, and after the last the first again. The file holds one
// hexadecimal word per line, layer by layer. With BLOCK they lie in block memory, with LOGIC in
// look-up tables, else where the tools put them. Like mase_rom_source, the first word is offered in
// the third cycle after reset, and then there is always one. Throughput 1 beat per cycle.
module mase_layer_source
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 4,
    parameter int unsigned LAYERS = 2,
    parameter int unsigned WALKS = 1,
    parameter int unsigned HOLD = 1,
    parameter bit BLOCK = 0,
    parameter bit LOGIC = 0,
    parameter string INIT_FILE = ""
) (
    input  logic             clk,
    input  logic             rst,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned Words = LAYERS * DEPTH;
  localparam int unsigned AddressWidth = index_width(Words);
  localparam int unsigned HoldWidth = index_width(HOLD);

  logic [AddressWidth-1:0] address;
  logic [HoldWidth-1:0] unused_hold;
  logic advance;
  logic read;
  logic last_hold;
  logic word_valid;

  assign advance = !data_out_valid || data_out_ready;
  // Without the first register of a block memory the first word is read one cycle later.
  assign read = advance && (BLOCK || word_valid);

  mase_counter #(
      .COUNT(HOLD),
      .WIDTH(HoldWidth)
  ) u_hold (
      .clk,
      .rst,
      .enable(read),
      .count(unused_hold),
      .last(last_hold)
  );

  mase_layer_walk #(
      .DEPTH(DEPTH),
      .LAYERS(LAYERS),
      .WALKS(WALKS),
      .ADDRESS_WIDTH(AddressWidth)
  ) u_walk (
      .clk,
      .rst,
      .step(read && last_hold),
      .address
  );

  logic [WIDTH-1:0] word;

  if (BLOCK) begin : gen_block
    (* rom_style = "block" *)logic [WIDTH-1:0] memory[Words];
    logic [WIDTH-1:0] word_q;
    initial $readmemh(INIT_FILE, memory);
    always_ff @(posedge clk) begin
      if (advance) word_q <= memory[address];
    end
    assign word = word_q;
  end else if (LOGIC) begin : gen_logic
    (* logic_block *)logic [WIDTH-1:0] memory[Words];
    initial $readmemh(INIT_FILE, memory);
    assign word = memory[address];
  end else begin : gen_any
    logic [WIDTH-1:0] memory[Words];
    initial $readmemh(INIT_FILE, memory);
    assign word = memory[address];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      word_valid <= 1'b0;
      data_out_valid <= 1'b0;
    end else if (advance) begin
      word_valid <= 1'b1;
      data_out_valid <= word_valid;
    end
  end

  always_ff @(posedge clk) begin
    if (advance) data_out <= word;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Streams the DEPTH words of a file for ever, each for HOLD beats. The file holds one hexadecimal
// word per line, lane 0 in the low bits. With BLOCK they lie in block memory, with LOGIC in look-up
// tables, else where the tools put them. A word of block memory passes two registers, which may be its
// own, and another word one. The first word is offered in the third cycle after reset, and then there
// is always one (mase_accumulate_pipeline relies on it). Throughput 1 beat per cycle.
module mase_rom_source #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 4,
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

  localparam int unsigned AddressWidth = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  // Without the first register the first word is read one cycle later.
  localparam int unsigned FirstAddress = BLOCK ? 0 : DEPTH - 1;

  logic [AddressWidth-1:0] address_q;
  logic advance;
  logic last_hold;

  assign advance = !data_out_valid || data_out_ready;

  if (HOLD > 1) begin : gen_hold
    localparam int unsigned HoldWidth = $clog2(HOLD);
    localparam int unsigned FirstHold = BLOCK ? 0 : HOLD - 1;
    logic [HoldWidth-1:0] hold_q;
    assign last_hold = hold_q == HoldWidth'(HOLD - 1);
    always_ff @(posedge clk) begin
      if (rst) hold_q <= HoldWidth'(FirstHold);
      else if (advance) hold_q <= last_hold ? '0 : hold_q + 1'b1;
    end
`ifdef MASE_CHECKS
    always_comb begin
      if (!rst) in_range : assert (32'(hold_q) < HOLD);
    end
`endif  // MASE_CHECKS
  end else begin : gen_no_hold
    assign last_hold = 1'b1;
  end

  logic word_valid;
  logic [WIDTH-1:0] word;

  if (BLOCK) begin : gen_block
    (* rom_style = "block" *)logic [WIDTH-1:0] memory[DEPTH];
    logic [WIDTH-1:0] word_q;
    initial $readmemh(INIT_FILE, memory);
    always_ff @(posedge clk) begin
      if (advance) word_q <= memory[address_q];
    end
    assign word = word_q;
  end else if (LOGIC) begin : gen_logic
    (* logic_block *)logic [WIDTH-1:0] memory[DEPTH];
    initial $readmemh(INIT_FILE, memory);
    assign word = memory[address_q];
  end else begin : gen_any
    logic [WIDTH-1:0] memory[DEPTH];
    initial $readmemh(INIT_FILE, memory);
    assign word = memory[address_q];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      address_q <= AddressWidth'(FirstAddress);
      word_valid <= 1'b0;
      data_out_valid <= 1'b0;
    end else if (advance) begin
      word_valid <= 1'b1;
      data_out_valid <= word_valid;
      if (last_hold) begin
        address_q <= (address_q == AddressWidth'(DEPTH - 1)) ? '0 : address_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (advance) data_out <= word;
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) in_range : assert (32'(address_q) < DEPTH);
  end
`endif  // MASE_CHECKS

endmodule

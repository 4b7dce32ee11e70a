// SPDX-License-Identifier: Apache-2.0
// What the registers of a wrapped design show: cycles since reset, inferences that went in and that
// came out, the first of them whose packet was wrong, and a word of the description. All counters wrap.
//
// `core_rst` is high while `rst` is, and for RESET_CYCLES cycles after `reset`.
module mase_bus_status #(
    parameter int unsigned WORDS = 2,
    parameter logic [WORDS-1:0][31:0] DESCRIPTION = '0,
    parameter int unsigned RESET_CYCLES = 4
) (
    input logic clk,
    input logic rst,

    input  logic reset,
    output logic core_rst,

    input logic entered,
    input logic left,
    input logic wrong,

    output logic [31:0] cycles,
    output logic [31:0] inferences_in,
    output logic [31:0] inferences_out,
    output logic [31:0] first_wrong,
    output logic        busy,

    input  logic [ 7:0] index,
    output logic [31:0] word
);

  logic [RESET_CYCLES-1:0] resets_q;
  logic wrong_q;

  assign busy = inferences_in != inferences_out;
  assign word = (32'(index) < WORDS) ? DESCRIPTION[$clog2(WORDS)'(index)] : '0;

  always_ff @(posedge clk) begin
    if (rst) resets_q <= '1;
    else resets_q <= reset ? '1 : resets_q << 1;
    core_rst <= rst || reset || resets_q[RESET_CYCLES-1];
  end

  always_ff @(posedge clk) begin
    if (core_rst) begin
      cycles <= '0;
      inferences_in <= '0;
      inferences_out <= '0;
      first_wrong <= '0;
      wrong_q <= 1'b0;
    end else begin
      cycles <= cycles + 1'b1;
      if (entered) inferences_in <= inferences_in + 1'b1;
      if (left) inferences_out <= inferences_out + 1'b1;
      if (wrong && !wrong_q) first_wrong <= inferences_in;
      if (wrong) wrong_q <= 1'b1;
    end
  end

endmodule

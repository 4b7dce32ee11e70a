// SPDX-License-Identifier: Apache-2.0
// What the registers of a wrapped design show: cycles since reset, inferences that went in and that
// came out, and a word of the description. Each port has a count of its own; all counts wrap.
// `is_behind` marks inputs that have taken fewer inferences than another one, the one that ends now
// included.
//
// `first_wrong` is the least number of an inference with an error since `clear`, which says that no
// error is shown: of an input (`wrong`), of a result that is in a memory (`wrong_result`, counted
// by `written`), or inside the design (`wrong_inside`), where it is that of the next result.
//
// `core_rst` is high while `rst` is, and after `reset` for RESET_CYCLES cycles and until all is
// `idle`.
module mase_bus_status #(
    parameter int unsigned WORDS = 2,
    parameter logic [WORDS-1:0][31:0] DESCRIPTION = '0,
    parameter int unsigned INPUTS = 1,
    parameter int unsigned OUTPUTS = 1,
    // Errors come in the order of inferences.
    parameter bit IN_ORDER = 1'b0,
    parameter int unsigned RESET_CYCLES = 4
) (
    input logic clk,
    input logic rst,

    input  logic reset,
    input  logic idle,
    output logic core_rst,

    input logic [ INPUTS-1:0] entered,
    input logic [OUTPUTS-1:0] left,
    input logic               written,

    input logic              clear,
    input logic [INPUTS-1:0] wrong,
    input logic              wrong_result,
    input logic              wrong_inside,

    output logic [      31:0] cycles,
    output logic [      31:0] inferences_in,
    output logic [      31:0] inferences_out,
    output logic [      31:0] first_wrong,
    output logic              busy,
    output logic [INPUTS-1:0] is_behind,

    input  logic [ 7:0] index,
    output logic [31:0] word
);

  logic [RESET_CYCLES-1:0] resets_q;
  logic [INPUTS-1:0][31:0] entered_q;
  logic [OUTPUTS-1:0][31:0] left_q;
  logic [31:0] written_q;
  logic [INPUTS+1:0] faults;
  logic [INPUTS+1:0][31:0] places;
  logic is_wrong;
  logic [31:0] number;

  // A design begins in reset.
  initial begin
    core_rst = 1'b1;
    resets_q = '1;
  end

  // Whether `one` was counted before `other`; counts wrap.
  function automatic logic precedes(logic [31:0] one, logic [31:0] other);
    return $signed(one - other) < 0;
  endfunction

  assign inferences_in = entered_q[0];
  assign inferences_out = left_q[0];
  assign word = (32'(index) < WORDS) ? DESCRIPTION[$clog2(WORDS)'(index)] : '0;

  always_comb begin
    busy = 1'b0;
    is_behind = '0;
    for (int unsigned i = 0; i < INPUTS; i++) begin
      busy |= 16'(entered_q[i]) != 16'(inferences_out);
      for (int unsigned j = 0; j < INPUTS; j++) begin
        is_behind[i] |= precedes(entered_q[i] + 32'(entered[i]), entered_q[j] + 32'(entered[j]));
      end
    end
    for (int unsigned i = 1; i < OUTPUTS; i++) busy |= 16'(left_q[i]) != 16'(inferences_out);
  end

  assign faults = {wrong_inside, wrong_result, wrong};
  assign places = {inferences_out, written_q, entered_q};

  // The least number of those with an error in this cycle.
  always_comb begin
    is_wrong = 1'b0;
    number   = entered_q[0];
    for (int unsigned i = 0; i < INPUTS + 2; i++) begin
      if (faults[i] && (!is_wrong || precedes(places[i], number))) number = places[i];
      is_wrong |= faults[i];
    end
  end

  always_ff @(posedge clk) begin
    if (rst) resets_q <= '1;
    else resets_q <= reset ? '1 : resets_q << 1;
    core_rst <= rst || reset || resets_q[RESET_CYCLES-1] || (core_rst && !idle);
  end

  always_ff @(posedge clk) begin
    if (core_rst) begin
      cycles <= '0;
      entered_q <= '0;
      left_q <= '0;
      written_q <= '0;
      first_wrong <= '0;
    end else begin
      cycles <= cycles + 1'b1;
      for (int unsigned i = 0; i < INPUTS; i++) entered_q[i] <= entered_q[i] + 32'(entered[i]);
      for (int unsigned i = 0; i < OUTPUTS; i++) left_q[i] <= left_q[i] + 32'(left[i]);
      written_q <= written_q + 32'(written);
      if (is_wrong && (clear || (!IN_ORDER && precedes(number, first_wrong)))) begin
        first_wrong <= number;
      end
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Watches that a cell makes progress while it is simulated (`sim/checks.py` binds it to the top): when
// all inputs have brought an inference, its next result is offered within CYCLES cycles. The first
// breach is a line on standard output: instance, time in picoseconds, rule.
module mase_progress_check #(
    parameter int unsigned INPUTS = 1,
    // Beats of an inference.
    parameter logic [INPUTS-1:0][31:0] BEATS_IN = '1,
    parameter int unsigned BEATS_OUT = 1,
    parameter int unsigned CYCLES = 1
) (
    input logic clk,
    input logic rst,

    input logic [INPUTS-1:0] taken,
    input logic valid,
    input logic ready
);

  // Of each input, and of the results: the beat that is next, and how many inferences an input is
  // ahead of the results.
  int unsigned beats_q[INPUTS];
  int ahead_q[INPUTS];
  int unsigned result_q;
  int unsigned late_q;
  bit reset_q = 1'b0;
  bit told = 1'b0;
  logic due;
  logic ends;

  assign ends = valid && ready && result_q == BEATS_OUT - 1;

  always_comb begin
    due = 1'b1;
    for (int unsigned i = 0; i < INPUTS; i++) due &= ahead_q[i] > 0;
  end

  always_ff @(posedge clk) begin
    reset_q <= reset_q || rst;
    for (int unsigned i = 0; i < INPUTS; i++) begin
      if (rst) begin
        beats_q[i] <= 0;
        ahead_q[i] <= 0;
      end else begin
        if (taken[i]) beats_q[i] <= (beats_q[i] == BEATS_IN[i] - 1) ? 0 : beats_q[i] + 1;
        ahead_q[i] <= ahead_q[i] + int'(taken[i] && beats_q[i] == BEATS_IN[i] - 1) - int'(ends);
      end
    end
    if (rst) result_q <= 0;
    else if (valid && ready) result_q <= ends ? 0 : result_q + 1;
    late_q <= (rst || valid || !due) ? 0 : late_q + 1;
  end

  always_ff @(posedge clk) begin
    if (!rst && reset_q) begin
      progress : assert (late_q <= CYCLES || told)
      else begin
        told <= 1'b1;
        $display("mase_progress_check: %m %0d no result within %0d cycles of all inputs", $time,
                 CYCLES);
      end
    end
  end

endmodule

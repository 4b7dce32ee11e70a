// SPDX-License-Identifier: Apache-2.0
// Counts what is there, START at first and MOST at most: one more or one less a cycle. `some` says that
// there is any, `single` that there is one; neither waits for a sum.
module mase_level #(
    parameter int unsigned MOST = 4,
    parameter int unsigned START = 0
) (
    input  logic clk,
    input  logic rst,
    input  logic more,
    input  logic less,
    output logic some,
    output logic single
);

  localparam int unsigned Width = $clog2(MOST + 1);

  logic [Width-1:0] level_q;

  assign single = level_q == Width'(1);

  always_ff @(posedge clk) begin
    if (rst) begin
      level_q <= Width'(START);
      some <= START != 0;
    end else begin
      // One, or minus one.
      if (more != less) level_q <= level_q + (Width'(1) | {Width{less}});
      if (more != less) some <= more || !single;
    end
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) in_range : assert (32'(level_q) <= MOST && some == (level_q != 0));
  end
`endif  // MASE_CHECKS

endmodule

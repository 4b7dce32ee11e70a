// SPDX-License-Identifier: Apache-2.0
// One reset for both sides of a crossing between clocks, whatever their ratio: `in_rst` is high
// from `reset_in` until the other side was reset and has left its reset; `out_rst` rises at once,
// and falls with its clock.
module mase_reset_crossing #(
    parameter int unsigned STAGES = 3
) (
    input  logic in_clk,
    input  logic reset_in,
    output logic in_rst,

    input  logic out_clk,
    output logic out_rst
);

  logic asked_q;
  // The same, for the asynchronous side.
  logic raise_q;
  (* async_reg = "true" *)logic [STAGES-1:0] stages_q;
  logic seen_q;
  (* async_reg = "true" *)logic [1:0] seen_here_q;

  // A design begins in reset.
  initial begin
    asked_q  = 1'b1;
    raise_q  = 1'b1;
    stages_q = '1;
  end

  assign in_rst  = reset_in || asked_q || seen_here_q[1];
  assign out_rst = stages_q[STAGES-1];

  always_ff @(posedge in_clk) begin
    asked_q <= reset_in || (asked_q && !seen_here_q[1]);
    raise_q <= reset_in || (asked_q && !seen_here_q[1]);
    seen_here_q <= {seen_here_q[0], seen_q};
  end

  always_ff @(posedge out_clk or posedge raise_q) begin
    if (raise_q) stages_q <= '1;
    else stages_q <= stages_q << 1;
  end

  // The other side met an edge of its clock while it was in reset.
  always_ff @(posedge out_clk) begin
    seen_q <= out_rst;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// How many results may be on their way: one credit for each place of their queue. A result that
// leaves brings its credit back the cycle after. `room` says that one is left; `room_next` says so of
// the next cycle.
module mase_credits #(
    parameter int unsigned DEPTH = 2
) (
    input  logic clk,
    input  logic rst,
    input  logic take,
    input  logic give,
    output logic room,
    output logic room_next
);

  localparam int unsigned Width = $clog2(DEPTH + 1);

  logic [Width-1:0] used_q;
  logic [Width-1:0] used;

  assign used = used_q + Width'(take) - Width'(give);
  assign room_next = used != Width'(DEPTH);

  always_ff @(posedge clk) begin
    if (rst) begin
      used_q <= '0;
      room   <= 1'b1;
    end else begin
      used_q <= used;
      room   <= room_next;
    end
  end

endmodule

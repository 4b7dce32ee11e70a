// SPDX-License-Identifier: Apache-2.0
// How many results may be on their way: one credit for each place of their queue. A result that
// leaves brings its credit back the cycle after. `room` says that one is left, `single` that it is the
// last one.
module mase_credits #(
    parameter int unsigned DEPTH = 2
) (
    input  logic clk,
    input  logic rst,
    input  logic take,
    input  logic give,
    output logic room,
    output logic single
);

  mase_level #(
      .MOST (DEPTH),
      .START(DEPTH)
  ) u_left (
      .clk,
      .rst,
      .more(give),
      .less(take),
      .some(room),
      .single
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out = data_in >>> shift, in two's complement, and whether a one is lost below.
// Latency 2 cycles, ShiftStages, throughput one per cycle; it never stops.
module mase_shift_right #(
    parameter int unsigned WIDTH = 16,
    parameter int unsigned SHIFT_WIDTH = 4
) (
    input  logic                   clk,
    input  logic [      WIDTH-1:0] data_in,
    input  logic [SHIFT_WIDTH-1:0] shift,
    output logic [      WIDTH-1:0] data_out,
    output logic                   lost
);

  // First by multiples of a group of bits, then within one.
  localparam int unsigned FineWidth = (SHIFT_WIDTH < 2) ? 1 : SHIFT_WIDTH / 2;
  localparam int unsigned CoarseWidth = (SHIFT_WIDTH < 2) ? 1 : SHIFT_WIDTH - FineWidth;
  localparam int unsigned Group = 1 << FineWidth;
  localparam int unsigned Groups = (WIDTH + Group - 1) / Group;

  logic [CoarseWidth-1:0] coarse;
  logic [WIDTH-1:0] coarse_q;
  logic [Groups-1:0] lost_q;
  logic [FineWidth-1:0] fine_q;

  assign coarse = CoarseWidth'(shift >> FineWidth);

  always_ff @(posedge clk) begin
    fine_q <= FineWidth'(shift);
    coarse_q <= unsigned'(signed'(data_in) >>> {coarse, FineWidth'(0)});
    for (int unsigned g = 0; g < Groups; g++) begin
      lost_q[g] <= (Groups * Group)'(data_in) >> (g * Group) << ((Groups - 1) * Group) != '0
          && 32'(coarse) > g;
    end
    data_out <= unsigned'(signed'(coarse_q) >>> fine_q);
    lost <= |lost_q || |(coarse_q & ~({WIDTH{1'b1}} << fine_q));
  end

endmodule

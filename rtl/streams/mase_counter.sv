// SPDX-License-Identifier: Apache-2.0
// Counts 0, STEP, 2 * STEP, ... for COUNT cycles in which `enable` is high, and again from 0; `last`
// says that the count is the last one. Both come from registers.
module mase_counter #(
    parameter int unsigned COUNT = 4,
    parameter int unsigned STEP = 1,
    parameter int unsigned WIDTH = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             enable,
    output logic [WIDTH-1:0] count,
    output logic             last
);

  if (COUNT == 1) begin : gen_one
    assign count = '0;
    assign last  = 1'b1;
    logic unused_clocking;
    assign unused_clocking = clk | rst | enable;
  end else begin : gen_counter
    // A power of two wraps by itself.
    localparam bit Wraps = 64'(COUNT) * 64'(STEP) == 64'(1) << WIDTH;
    always_ff @(posedge clk) begin
      if (rst) begin
        count <= '0;
        last  <= 1'b0;
      end else if (enable) begin
        count <= (last && !Wraps) ? '0 : count + WIDTH'(STEP);
        last  <= count == WIDTH'((COUNT - 2) * STEP);
      end
    end

`ifdef MASE_CHECKS
    always_comb begin
      if (!rst) begin
        in_range :
        assert (count <= WIDTH'((COUNT - 1) * STEP) && count % WIDTH'(STEP) == '0
            && last == (count == WIDTH'((COUNT - 1) * STEP)));
      end
    end
`endif  // MASE_CHECKS
  end

endmodule

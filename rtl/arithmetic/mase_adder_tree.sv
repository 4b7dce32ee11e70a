// SPDX-License-Identifier: Apache-2.0
// sum = addend[0] + ... + addend[LANES-1], exact, of signed numbers.
// Latency ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
module mase_adder_tree #(
    parameter  int unsigned LANES    = 4,
    parameter  int unsigned WIDTH    = 16,
    localparam int unsigned SumWidth = WIDTH + $clog2(LANES)
) (
    input  logic                           clk,
    input  logic [LANES-1:0][   WIDTH-1:0] addend,
    output logic [           SumWidth-1:0] sum
);

  localparam int unsigned Levels = $clog2(LANES);

  for (genvar l = 0; l < Levels; l++) begin : gen_level
    localparam int unsigned Inputs = (LANES + (1 << l) - 1) >> l;
    localparam int unsigned Outputs = (Inputs + 1) / 2;
    localparam int unsigned Width = WIDTH + l + 1;
    logic signed [Width-1:0] sum_q[Outputs];
    for (genvar i = 0; i < Outputs; i++) begin : gen_sum
      logic signed [Width-1:0] left;
      logic signed [Width-1:0] right;
      if (l == 0) begin : gen_addends
        assign left = Width'(signed'(addend[2*i]));
        if (2 * i + 1 < Inputs) begin : gen_pair
          assign right = Width'(signed'(addend[2*i+1]));
        end else begin : gen_single
          assign right = '0;
        end
      end else begin : gen_sums
        assign left = Width'(gen_level[l-1].sum_q[2*i]);
        if (2 * i + 1 < Inputs) begin : gen_pair
          assign right = Width'(gen_level[l-1].sum_q[2*i+1]);
        end else begin : gen_single
          assign right = '0;
        end
      end
      always_ff @(posedge clk) begin
        sum_q[i] <= left + right;
      end
    end
  end

  if (Levels == 0) begin : gen_single_lane
    assign sum = addend[0];
    logic unused_clock;
    assign unused_clock = clk;
  end else begin : gen_tree
    assign sum = gen_level[Levels-1].sum_q[0];
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, over the lanes of a beat that lie inside a row; in the last beat of a row those
// are TAIL. Exact; the result is two's complement of OUT_WIDTH bits.
// Latency 2 + ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
module mase_reduce_lanes #(
    parameter bit MAXIMUM = 0,
    parameter int unsigned LANES = 4,
    parameter int unsigned TAIL = 4,
    parameter int unsigned IN_WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned OUT_WIDTH = 10
) (
    input  logic                            clk,
    input  logic [LANES-1:0][ IN_WIDTH-1:0] data,
    input  logic                            last,
    output logic [OUT_WIDTH-1:0]            reduced
);

  localparam int unsigned Levels = $clog2(LANES);
  // With the sign inverted, numbers are in unsigned order, for which one chain of carries is enough.
  localparam logic [OUT_WIDTH-1:0] SignMask = OUT_WIDTH'(1) << (OUT_WIDTH - 1);

  logic [LANES-1:0][IN_WIDTH-1:0] data_q;
  logic last_q;

  always_ff @(posedge clk) begin
    data_q <= data;
    last_q <= last;
  end

  // Lane 0 is always inside, and stands in for lanes that are not.
  logic [OUT_WIDTH-1:0] value_q[LANES];

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic [IN_WIDTH-1:0] inside_row;
    if (i < TAIL) begin : gen_inside
      assign inside_row = data_q[i];
    end else if (MAXIMUM) begin : gen_tail_maximum
      assign inside_row = last_q ? data_q[0] : data_q[i];
    end else begin : gen_tail_sum
      assign inside_row = last_q ? '0 : data_q[i];
    end
    if (SIGNED) begin : gen_signed
      always_ff @(posedge clk) value_q[i] <= OUT_WIDTH'(signed'(inside_row));
    end else begin : gen_unsigned
      always_ff @(posedge clk) value_q[i] <= OUT_WIDTH'(inside_row);
    end
  end

  if (TAIL == LANES) begin : gen_whole
    logic unused_last;
    assign unused_last = last_q;
  end

  for (genvar l = 0; l < Levels; l++) begin : gen_level
    localparam int unsigned Inputs = (LANES + (1 << l) - 1) >> l;
    localparam int unsigned Outputs = (Inputs + 1) / 2;
    logic [OUT_WIDTH-1:0] given[Inputs];
    logic [OUT_WIDTH-1:0] result_q[Outputs];
    if (l == 0) begin : gen_values
      assign given = value_q;
    end else begin : gen_results
      assign given = gen_level[l-1].result_q;
    end
    for (genvar i = 0; i < Outputs; i++) begin : gen_result
      if (2 * i + 1 == Inputs) begin : gen_single
        always_ff @(posedge clk) result_q[i] <= given[2*i];
      end else if (MAXIMUM) begin : gen_maximum
        always_ff @(posedge clk) begin
          result_q[i] <= ((given[2*i+1] ^ SignMask) > (given[2*i] ^ SignMask)) ? given[2*i+1]
              : given[2*i];
        end
      end else begin : gen_sum
        always_ff @(posedge clk) result_q[i] <= given[2*i] + given[2*i+1];
      end
    end
  end

  if (Levels == 0) begin : gen_single_lane
    assign reduced = value_q[0];
  end else begin : gen_tree
    assign reduced = gen_level[Levels-1].result_q[0];
  end

endmodule

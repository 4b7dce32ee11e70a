// SPDX-License-Identifier: Apache-2.0
// out = LOWEST + (COUNT of the bounds that in is above << SHIFT), element by element; every beat
// comes with its bounds, signed codes of in. With FALLS a bit above the bounds of an element says
// that those are counted that it is not above.
// Latency 4 cycles, 5 for more than three bounds; throughput 1 beat per cycle.
module mase_thresholds
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter int unsigned COUNT = 1,
    parameter int unsigned BOUND_WIDTH = 8,
    parameter bit FALLS = 0,
    parameter int LOWEST = 0,
    parameter int unsigned SHIFT = 0
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][COUNT*BOUND_WIDTH+32'(FALLS)-1:0] bounds,
    input  logic                                               bounds_valid,
    output logic                                               bounds_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  // Two's complement for both: an unsigned value gets a zero on top.
  localparam int unsigned DataWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned Width = (DataWidth > BOUND_WIDTH) ? DataWidth : BOUND_WIDTH;

  // Comparisons that are counted in one cycle; more of them in two.
  localparam int unsigned Group = 3;
  localparam int unsigned Groups = (COUNT + Group - 1) / Group;
  localparam int unsigned CountWidth = $clog2(COUNT + 1);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [Width-1:0] operand;
    logic [COUNT-1:0] above;
    logic [COUNT-1:0] above_q;
    logic [CountWidth-1:0] total;

    assign operand = DATA_IN_0.is_signed
        ? Width'(signed'(data_in_0[i])) : Width'(data_in_0[i]);

    for (genvar k = 0; k < COUNT; k++) begin : gen_bound
      logic signed [BOUND_WIDTH-1:0] bound;
      assign bound = bounds[i][k*BOUND_WIDTH+:BOUND_WIDTH];
      assign above[k] = operand > Width'(bound);
    end

    if (FALLS) begin : gen_falls
      always_ff @(posedge clk) above_q <= above ^ {COUNT{bounds[i][COUNT*BOUND_WIDTH]}};
    end else begin : gen_rises
      always_ff @(posedge clk) above_q <= above;
    end

    if (Groups == 1) begin : gen_count
      always_comb begin
        total = '0;
        for (int k = 0; k < COUNT; k++) total += CountWidth'(above_q[k]);
      end
    end else begin : gen_groups
      logic [Groups-1:0][1:0] sums;
      logic [Groups-1:0][1:0] sums_q;
      always_comb begin
        sums = '0;
        for (int k = 0; k < COUNT; k++) sums[k/Group] += 2'(above_q[k]);
      end
      always_ff @(posedge clk) sums_q <= sums;
      always_comb begin
        total = '0;
        for (int k = 0; k < Groups; k++) total += CountWidth'(sums_q[k]);
      end
    end

    always_ff @(posedge clk) begin
      result[i] <= DATA_OUT_0.width'(unsigned'(LOWEST)) + (DATA_OUT_0.width'(total) << SHIFT);
    end
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({bounds_valid, data_in_0_valid}),
      .data_in_ready ({bounds_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES((Groups == 1) ? 2 : 3)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0[i] = data_in_0[0] + ... + data_in_0[i] in each row of ROW elements, exact, in two's
// complement of OUT_WIDTH bits.
// Latency 3 cycles, throughput 1 beat per cycle.
module mase_running_sum
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter int unsigned ROW = 4,
    parameter int unsigned OUT_WIDTH = 10
) (
    input logic clk,
    input logic rst,

    input  logic [0:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                            data_in_0_valid,
    output logic                            data_in_0_ready,

    output logic [0:0][OUT_WIDTH-1:0] data_out_0,
    output logic                      data_out_0_valid,
    input  logic                      data_out_0_ready
);

  localparam int unsigned Width = DATA_IN_0.width;

  logic take;
  logic first_q;
  logic last;
  logic [index_width(ROW)-1:0] unused_place;
  logic signed [Width:0] element;
  logic [OUT_WIDTH-1:0] sum_q;

  assign take = data_in_0_valid && data_in_0_ready;
  assign element = $signed({DATA_IN_0.is_signed && data_in_0[0][Width-1], data_in_0[0]});

  mase_counter #(
      .COUNT(ROW),
      .WIDTH(index_width(ROW))
  ) u_turn (
      .clk,
      .rst,
      .enable(take),
      .count (unused_place),
      .last
  );

  always_ff @(posedge clk) begin
    if (rst) first_q <= 1'b1;
    else if (take) first_q <= last;
  end

  always_ff @(posedge clk) begin
    if (take) sum_q <= OUT_WIDTH'(element) + (first_q ? '0 : sum_q);
  end

  mase_stream_pipeline #(
      .WIDTH (OUT_WIDTH),
      .STAGES(1)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .result(sum_q),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

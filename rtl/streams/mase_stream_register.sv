// SPDX-License-Identifier: Apache-2.0
// One stage of a stream: a beat is stored, and leaves through a register. No path leads from
// data_out_ready to data_in_ready. Latency 2 cycles, throughput 1 beat per cycle.
module mase_stream_register #(
    parameter int unsigned WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  mase_stream_pipeline #(
      .WIDTH (WIDTH),
      .STAGES(0)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid,
      .data_in_ready,
      .result(data_in),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

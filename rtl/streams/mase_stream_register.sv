// SPDX-License-Identifier: Apache-2.0
// A register of a stream, and a spare one: a consumer that pauses is seen a cycle later, so that no
// path leads from data_out_ready to data_in_ready. Latency 1 cycle, throughput 1 beat per cycle.
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

  logic spare_valid;
  assign data_in_ready = !spare_valid;

  mase_result_queue #(
      .WIDTH(WIDTH),
      .DEPTH(2)
  ) u_queue (
      .clk,
      .rst,
      .data_in,
      .data_in_valid(data_in_valid && !spare_valid),
      .waiting(spare_valid),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

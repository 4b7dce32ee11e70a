// SPDX-License-Identifier: Apache-2.0
// One register of a stream. Latency 1 cycle, throughput 1 beat per cycle.
module plain_register #(
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

  assign data_in_ready = !data_out_valid || data_out_ready;

  always_ff @(posedge clk) begin
    if (rst) data_out_valid <= 1'b0;
    else if (data_in_ready) data_out_valid <= data_in_valid;
  end

  always_ff @(posedge clk) begin
    if (data_in_ready && data_in_valid) data_out <= data_in;
  end

endmodule

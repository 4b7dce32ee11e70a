// SPDX-License-Identifier: Apache-2.0
// Sends every beat to COUNT consumers, each of which takes it when it is ready; the producer goes
// on when all have. The payload is shared. Combinational, but for one bit per consumer.
module mase_stream_fork #(
    parameter int unsigned COUNT = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    output logic [COUNT-1:0] data_out_valid,
    input  logic [COUNT-1:0] data_out_ready
);

  // Consumers that have taken the beat which is still offered.
  logic [COUNT-1:0] done_q;

  assign data_out_valid = {COUNT{data_in_valid}} & ~done_q;
  assign data_in_ready  = &(data_out_ready | done_q);

  always_ff @(posedge clk) begin
    if (rst || (data_in_valid && data_in_ready)) done_q <= '0;
    else done_q <= done_q | (data_out_valid & data_out_ready);
  end

endmodule

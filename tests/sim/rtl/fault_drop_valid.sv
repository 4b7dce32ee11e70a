// SPDX-License-Identifier: Apache-2.0
// Withdraws valid for a cycle after a cycle in which the consumer was not ready.
module fault_drop_valid #(
    parameter int unsigned WIDTH = 32
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

  logic stalled_q;
  assign data_out = data_in;
  assign data_out_valid = data_in_valid && !stalled_q;
  assign data_in_ready = data_out_ready && !stalled_q;

  always_ff @(posedge clk) begin
    stalled_q <= !rst && data_out_valid && !data_out_ready;
  end

endmodule

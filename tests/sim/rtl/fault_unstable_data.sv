// SPDX-License-Identifier: Apache-2.0
// Turns lane 0 over while the consumer is not ready; right in the cycle the beat moves.
module fault_unstable_data #(
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
  assign data_out = data_in ^ WIDTH'(stalled_q && !data_out_ready);
  assign data_out_valid = data_in_valid;
  assign data_in_ready = data_out_ready;

  always_ff @(posedge clk) begin
    stalled_q <= !rst && data_out_valid && !data_out_ready;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Swaps lanes 0 and 1, of eight bits.
module fault_swap_lanes #(
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

  assign data_out = {data_in[WIDTH-1:16], data_in[7:0], data_in[15:8]};
  assign data_out_valid = data_in_valid;
  assign data_in_ready = data_out_ready;
  logic unused_clocking;
  assign unused_clocking = clk | rst;

endmodule

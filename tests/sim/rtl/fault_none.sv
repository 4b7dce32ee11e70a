// SPDX-License-Identifier: Apache-2.0
// A wire.
module fault_none #(
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

  assign data_out = data_in;
  assign data_out_valid = data_in_valid;
  assign data_in_ready = data_out_ready;
  logic unused_clocking;
  assign unused_clocking = clk | rst;

endmodule

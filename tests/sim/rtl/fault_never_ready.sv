// SPDX-License-Identifier: Apache-2.0
// Accepts ten beats, then none.
module fault_never_ready #(
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

  logic [7:0] count_q;
  logic open;
  assign open = count_q != 8'd10;
  assign data_out = data_in;
  assign data_out_valid = data_in_valid && open;
  assign data_in_ready = data_out_ready && open;

  always_ff @(posedge clk) begin
    if (rst) count_q <= '0;
    else if (data_out_valid && data_out_ready) count_q <= count_q + 1'b1;
  end

endmodule

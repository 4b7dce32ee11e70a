// SPDX-License-Identifier: Apache-2.0
// Swallows the eleventh beat.
module fault_drop_beat #(
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
  logic drop;
  assign drop = count_q == 8'd10;
  assign data_out = data_in;
  assign data_out_valid = data_in_valid && !drop;
  assign data_in_ready = data_out_ready || drop;

  always_ff @(posedge clk) begin
    if (rst) count_q <= '0;
    else if (data_in_valid && data_in_ready && count_q != '1) count_q <= count_q + 1'b1;
  end

endmodule

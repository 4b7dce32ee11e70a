// SPDX-License-Identifier: Apache-2.0
// Sends the eleventh beat twice.
module fault_duplicate_beat #(
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
  logic hold;
  assign hold = count_q == 8'd10;
  assign data_out = data_in;
  assign data_out_valid = data_in_valid;
  assign data_in_ready = data_out_ready && !hold;

  always_ff @(posedge clk) begin
    if (rst) count_q <= '0;
    else if (data_out_valid && data_out_ready && count_q != '1) count_q <= count_q + 1'b1;
  end

endmodule

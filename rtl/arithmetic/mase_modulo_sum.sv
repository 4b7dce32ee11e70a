// SPDX-License-Identifier: Apache-2.0
// sum = (left + right) mod MODULUS of two addresses below MODULUS.
// Latency 2 cycles, throughput one per cycle; it never stops.
module mase_modulo_sum #(
    parameter int unsigned MODULUS = 8,

    localparam int unsigned Width = (MODULUS > 1) ? $clog2(MODULUS) : 1
) (
    input  logic             clk,
    input  logic [Width-1:0] left,
    input  logic [Width-1:0] right,
    output logic [Width-1:0] sum
);

  logic [  Width:0] exact_q;
  logic [Width+1:0] beyond;

  assign beyond = (Width + 2)'(exact_q) - (Width + 2)'(MODULUS);

  always_ff @(posedge clk) begin
    exact_q <= (Width + 1)'(left) + (Width + 1)'(right);
    sum <= beyond[Width+1] ? Width'(exact_q) : Width'(beyond);
  end

endmodule

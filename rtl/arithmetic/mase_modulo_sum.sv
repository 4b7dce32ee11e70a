// SPDX-License-Identifier: Apache-2.0
// sum = (left + right) mod MODULUS of two addresses below MODULUS. Combinational.
module mase_modulo_sum #(
    parameter int unsigned MODULUS = 8,

    localparam int unsigned Width = (MODULUS > 1) ? $clog2(MODULUS) : 1
) (
    input  logic [Width-1:0] left,
    input  logic [Width-1:0] right,
    output logic [Width-1:0] sum
);

  logic [Width:0] exact;

  assign exact = (Width + 1)'(left) + (Width + 1)'(right);
  assign sum = (exact >= (Width + 1)'(MODULUS)) ? Width'(exact - (Width + 1)'(MODULUS))
      : Width'(exact);

endmodule

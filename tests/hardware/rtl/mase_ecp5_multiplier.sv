// SPDX-License-Identifier: Apache-2.0
// MULT18X18D of ECP5 with one clock and without resets (FPGA-TN-02205): p = a * b, 18 x 18 bits, with
// a register in front of each operand and behind the product where a parameter says so.
module mase_ecp5_multiplier #(
    parameter bit INPUT_A = 0,
    parameter bit INPUT_B = 0,
    parameter bit OUTPUT  = 0
) (
    input  logic        clk,
    input  logic [17:0] a,
    input  logic        a_signed,
    input  logic [17:0] b,
    input  logic        b_signed,
    output logic [35:0] p
);

  logic [17:0] left;
  logic [17:0] right;
  logic signed [37:0] product;

  assign product = 38'(signed'({a_signed && left[17], left}))
      * 38'(signed'({b_signed && right[17], right}));

  if (INPUT_A) begin : gen_input_a
    always_ff @(posedge clk) left <= a;
  end else begin : gen_no_input_a
    assign left = a;
  end

  if (INPUT_B) begin : gen_input_b
    always_ff @(posedge clk) right <= b;
  end else begin : gen_no_input_b
    assign right = b;
  end

  if (OUTPUT) begin : gen_output
    always_ff @(posedge clk) p <= product[35:0];
  end else begin : gen_no_output
    assign p = product[35:0];
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out = the code of data_in * 2**-IN_FRACTION / DIVISOR in DATA_OUT, fixed point, lane by lane,
// for an odd DIVISOR: the exact quotient is rounded once.
//
// The quotient comes from a product with the reciprocal, wide enough to be exact (Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994); whether a rest
// remains is one more bit below.
// Latency 1 cycle for DIVISOR 1, else 2; throughput 1 beat per cycle.
module mase_fixed_divide
  import mase_pkg::*;
#(
    parameter int unsigned LANES = 1,
    parameter int unsigned IN_WIDTH = 12,
    parameter int IN_FRACTION = 4,
    parameter int unsigned DIVISOR = 9,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][IN_WIDTH-1:0] data_in,
    input  logic                           data_in_valid,
    output logic                           data_in_ready,

    output logic [LANES-1:0][DATA_OUT.width-1:0] data_out,
    output logic                               data_out_valid,
    input  logic                               data_out_ready
);

  if (DIVISOR % 2 != 1) begin : gen_divisor_check
    $error("DIVISOR must be odd");
  end

  logic [LANES-1:0][DATA_OUT.width-1:0] rounded;
  logic rounded_valid;
  logic rounded_ready;

  if (DIVISOR == 1) begin : gen_cast
    assign rounded_valid = data_in_valid;
    assign data_in_ready = rounded_ready;
    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      mase_fixed_cast #(
          .IN_WIDTH(IN_WIDTH),
          .IN_FRACTION(IN_FRACTION),
          .DATA_OUT(DATA_OUT)
      ) u_cast (
          .data_in (data_in[i]),
          .data_out(rounded[i])
      );
    end
  end else begin : gen_divide
    // The quotient has a bit below the result's half, or more.
    localparam int Missing = DATA_OUT.fraction + 1 - IN_FRACTION;
    localparam int unsigned Shift = (Missing > 0) ? unsigned'(Missing) : 0;
    localparam int unsigned Width = IN_WIDTH + Shift;
    // A multiple of the divisor is added, so that all numerators are positive.
    localparam int unsigned Wide = Width + 2;
    localparam int unsigned DivisorBits = $clog2(DIVISOR);
    localparam int unsigned Position = Wide + DivisorBits;
    localparam logic [Position+1:0] Half = (Position + 2)'(1) << (Width - 1);
    localparam logic [Position+1:0] Added = (Half + (Position + 2)'(DIVISOR) - 1)
        / (Position + 2)'(DIVISOR);
    localparam logic [Position+1:0] Reciprocal = (((Position + 2)'(1) << Position)
        + (Position + 2)'(DIVISOR) - 1) / (Position + 2)'(DIVISOR);
    localparam int unsigned ProductWidth = Wide + Wide + 2;
    localparam int unsigned QuotientWidth = ProductWidth - Position;

    logic [LANES-1:0][ProductWidth-1:0] product;
    logic [LANES-1:0][ProductWidth-1:0] product_q;

    mase_stream_register #(
        .WIDTH(LANES * ProductWidth)
    ) u_product (
        .clk,
        .rst,
        .data_in(product),
        .data_in_valid,
        .data_in_ready,
        .data_out(product_q),
        .data_out_valid(rounded_valid),
        .data_out_ready(rounded_ready)
    );

    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic [Wide-1:0] numerator;
      logic signed [QuotientWidth:0] quotient;
      logic rest;

      assign numerator = (Wide'(signed'(data_in[i])) << Shift)
          + Wide'(Added * (Position + 2)'(DIVISOR));
      assign product[i] = ProductWidth'(numerator) * ProductWidth'(Reciprocal);
      assign quotient = signed'({1'b0, product_q[i][ProductWidth-1:Position]})
          - signed'((QuotientWidth + 1)'(Added));
      assign rest = {2'b0, product_q[i][Position-1:0]} >= Reciprocal;

      mase_fixed_cast #(
          .IN_WIDTH(QuotientWidth + 2),
          .IN_FRACTION(IN_FRACTION + int'(Shift) + 1),
          .DATA_OUT(DATA_OUT)
      ) u_cast (
          .data_in ({quotient, rest}),
          .data_out(rounded[i])
      );
    end
  end

  mase_stream_register #(
      .WIDTH(LANES * DATA_OUT.width)
  ) u_register (
      .clk,
      .rst,
      .data_in(rounded),
      .data_in_valid(rounded_valid),
      .data_in_ready(rounded_ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out = the code of data_in * 2**-IN_FRACTION / DIVISOR in DATA_OUT, fixed point, lane by lane,
// for an odd DIVISOR: the exact quotient is rounded once.
//
// The quotient comes from a product with the reciprocal, wide enough to be exact (Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994); whether a rest
// remains is one more bit below.
// One cycle behind data_in for DIVISOR 1, else 3; it never stops.
module mase_fixed_divide
  import mase_pkg::*;
#(
    parameter int unsigned LANES = 1,
    parameter int unsigned IN_WIDTH = 12,
    parameter int IN_FRACTION = 4,
    parameter int unsigned DIVISOR = 9,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input  logic                               clk,
    input  logic [LANES-1:0][    IN_WIDTH-1:0] data_in,
    output logic [LANES-1:0][DATA_OUT.width-1:0] data_out
);

  if (DIVISOR % 2 != 1) begin : gen_divisor_check
    $error("DIVISOR must be odd");
  end

  if (DIVISOR == 1) begin : gen_cast
    localparam int unsigned RoundedWidth = rounded_width(IN_WIDTH, IN_FRACTION, DATA_OUT);

    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic [RoundedWidth-1:0] rounded;
      logic [RoundedWidth-1:0] rounded_q;

      mase_fixed_round #(
          .IN_WIDTH(IN_WIDTH),
          .IN_FRACTION(IN_FRACTION),
          .DATA_OUT(DATA_OUT)
      ) u_round (
          .data_in (data_in[i]),
          .data_out(rounded)
      );

      always_ff @(posedge clk) rounded_q <= rounded;

      mase_fixed_bound #(
          .IN_WIDTH(RoundedWidth),
          .DATA_OUT(DATA_OUT)
      ) u_bound (
          .data_in (rounded_q),
          .data_out(data_out[i])
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

    localparam int unsigned RoundedWidth =
        rounded_width(QuotientWidth + 2, IN_FRACTION + int'(Shift) + 1, DATA_OUT);

    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic [Wide-1:0] numerator_q;
      logic [ProductWidth-1:0] product_q;
      logic signed [QuotientWidth:0] quotient;
      logic rest;
      logic [RoundedWidth-1:0] rounded;
      logic [RoundedWidth-1:0] rounded_q;

      always_ff @(posedge clk) begin
        numerator_q <= (Wide'(signed'(data_in[i])) << Shift)
            + Wide'(Added * (Position + 2)'(DIVISOR));
        product_q <= ProductWidth'(numerator_q) * ProductWidth'(Reciprocal);
        rounded_q <= rounded;
      end

      assign quotient = signed'({1'b0, product_q[ProductWidth-1:Position]})
          - signed'((QuotientWidth + 1)'(Added));
      assign rest = {2'b0, product_q[Position-1:0]} >= Reciprocal;

      mase_fixed_round #(
          .IN_WIDTH(QuotientWidth + 2),
          .IN_FRACTION(IN_FRACTION + int'(Shift) + 1),
          .DATA_OUT(DATA_OUT)
      ) u_round (
          .data_in ({quotient, rest}),
          .data_out(rounded)
      );

      mase_fixed_bound #(
          .IN_WIDTH(RoundedWidth),
          .DATA_OUT(DATA_OUT)
      ) u_bound (
          .data_in (rounded_q),
          .data_out(data_out[i])
      );
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// root * 2**(-FRACTION - half_place) is about 1 / sqrt(data_in), for data_in from 1: a table of the
// leading bits, and with STEP one step of Newton's iteration. The integers are those of
// mase_hw/approximation/reciprocal_root.py.
// Latency 8 cycles, 12 with STEP, throughput one per cycle; it never stops.
module mase_reciprocal_root
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 24,
    parameter int unsigned FRACTION = 10,
    parameter int unsigned INDEX_BITS = 9,
    parameter bit STEP = 0,
    parameter string TABLE_FILE = "",

    localparam int unsigned HalfWidth = index_width((WIDTH + 1) / 2)
) (
    input  logic                 clk,
    input  logic [    WIDTH-1:0] data_in,
    output logic [   FRACTION:0] root,
    output logic [HalfWidth-1:0] half_place
);

  // Bits below the leading one.
  localparam int unsigned Mantissa = STEP ? FRACTION + 1 : INDEX_BITS;
  localparam int unsigned WordFraction = STEP ? INDEX_BITS + 2 : FRACTION;
  localparam int unsigned Stages = STEP ? 6 : 2;

  logic [WordFraction:0] words[2<<INDEX_BITS];
  initial $readmemh(TABLE_FILE, words);

  logic unused_negative;
  logic signed [9:0] place;
  logic [Mantissa+1:0] significand;
  logic [Stages-1:0][HalfWidth-1:0] half_place_q;
  logic [WordFraction:0] word_1_q;
  logic [WordFraction:0] word_2_q;

  mase_normalize #(
      .IN_WIDTH(WIDTH + 1),
      .EXPONENT_WIDTH(8),
      .OUT_WIDTH(Mantissa + 2)
  ) u_normalize (
      .clk,
      .data_in({1'b0, data_in}),
      .exponent('0),
      .negative(unused_negative),
      .place,
      .significand
  );

  always_ff @(posedge clk) begin
    half_place_q <= (Stages * HalfWidth)'({half_place_q, HalfWidth'(place >>> 1)});
    word_1_q <= words[{place[0], significand[Mantissa-:INDEX_BITS]}];
    word_2_q <= word_1_q;
  end

  assign half_place = half_place_q[Stages-1];

  // The leading one, and whether anything lies below.
  logic unused_bits;
  assign unused_bits = significand[Mantissa+1] ^ significand[0] ^ (^place);

  if (!STEP) begin : gen_table
    assign root = word_2_q;
  end else begin : gen_step
    localparam int unsigned SquareWidth = 2 * WordFraction + 2;
    localparam int unsigned ProductWidth = SquareWidth + Mantissa + 2;
    localparam int unsigned ResultWidth = WordFraction + Mantissa + 3;
    localparam int unsigned Below = WordFraction + Mantissa + 1 - FRACTION;
    logic [2:0][Mantissa+1:0] number_q;
    logic [2:0][WordFraction:0] words_q;
    logic [SquareWidth-1:0] square_q;
    logic [ProductWidth-1:0] product_q;
    logic [Mantissa+1:0] rest_q;
    logic [ResultWidth-1:0] result;

    assign result = ResultWidth'(words_q[2]) * ResultWidth'(rest_q);

    always_ff @(posedge clk) begin
      number_q[0] <= place[0] ? {significand[Mantissa+1:1], 1'b0}
          : {1'b0, significand[Mantissa+1:1]};
      number_q[2:1] <= number_q[1:0];
      words_q <= {words_q[1:0], word_2_q};
      square_q <= SquareWidth'(word_2_q) * SquareWidth'(word_2_q);
      product_q <= ProductWidth'(square_q) * ProductWidth'(number_q[2]);
      rest_q <= ((Mantissa + 2)'(3) << Mantissa)
          - product_q[2*WordFraction+:Mantissa+2];
      root <= result[Below+:FRACTION+1];
    end

    logic unused_low;
    assign unused_low = (^product_q[2*WordFraction-1:0])
        ^ (^product_q[ProductWidth-1:2*WordFraction+Mantissa+2]) ^ (^result[Below-1:0])
        ^ (^result[ResultWidth-1:Below+FRACTION]);
  end

endmodule

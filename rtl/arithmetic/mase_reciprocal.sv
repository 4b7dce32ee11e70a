// SPDX-License-Identifier: Apache-2.0
// data_out * 2**-FRACTION is about 2**POINT / data_in, for data_in from 2**POINT: a table of the
// leading bits, and with STEP one step of Newton's iteration. The integers are those of
// mase_hw/approximation/reciprocal.py.
// Latency 5 cycles, 8 with STEP, throughput one per cycle; it never stops.
module mase_reciprocal
  import mase_pkg::*;
#(
    parameter int unsigned POINT = 11,
    parameter int unsigned GROWTH = 2,
    parameter int unsigned FRACTION = 10,
    parameter int unsigned INDEX_BITS = 9,
    parameter bit STEP = 0,
    parameter string TABLE_FILE = ""
) (
    input  logic                    clk,
    input  logic [POINT+GROWTH:0]   data_in,
    output logic [      FRACTION:0] data_out
);

  localparam int unsigned Width = POINT + GROWTH + 1;
  localparam int unsigned PlaceWidth = index_width(GROWTH + 1);
  // Bits below the leading one.
  localparam int unsigned Mantissa = STEP ? FRACTION + 1 : INDEX_BITS;
  localparam int unsigned WordFraction = STEP ? INDEX_BITS + 2 : FRACTION;
  localparam int unsigned Stages = STEP ? 7 : 4;

  logic [WordFraction:0] words[1<<INDEX_BITS];
  initial $readmemh(TABLE_FILE, words);

  logic [PlaceWidth-1:0] place;
  logic [Stages-1:0][PlaceWidth-1:0] place_q;
  logic [Width-1:0] number_q;
  logic [Width-1:0] scaled;
  logic [Mantissa-1:0] mantissa_q;
  logic [WordFraction:0] word_1_q;
  logic [WordFraction:0] word_2_q;

  always_comb begin
    place = '0;
    for (int unsigned k = 1; k <= GROWTH; k++) if (data_in[POINT+k]) place = PlaceWidth'(k);
  end

  assign scaled = number_q << (PlaceWidth'(GROWTH) - place_q[0]);

  always_ff @(posedge clk) begin
    place_q <= (Stages * PlaceWidth)'({place_q, place});
    number_q <= data_in;
    mantissa_q <= scaled[Width-2-:Mantissa];
    word_1_q <= words[mantissa_q[Mantissa-1-:INDEX_BITS]];
    word_2_q <= word_1_q;
  end

  // The leading one, and bits that no result needs.
  logic unused_scaled;
  assign unused_scaled = scaled[Width-1] ^ (^scaled[Width-2-Mantissa:0]);

  if (!STEP) begin : gen_table
    always_ff @(posedge clk) data_out <= word_2_q >> place_q[Stages-1];
  end else begin : gen_step
    localparam int unsigned ProductWidth = Mantissa + WordFraction + 2;
    logic [1:0][Mantissa-1:0] mantissas_q;
    logic [1:0][WordFraction:0] words_q;
    logic [ProductWidth-1:0] product_q;
    logic [ProductWidth-1:0] rest;
    logic [Mantissa+1:0] rest_q;
    logic [ProductWidth:0] result_q;
    logic [ProductWidth:0] shifted;

    assign rest = (ProductWidth'(2) << (Mantissa + WordFraction)) - product_q;
    assign shifted = result_q >> (WordFraction + 1) >> place_q[Stages-1];

    always_ff @(posedge clk) begin
      mantissas_q <= {mantissas_q[0], mantissa_q};
      words_q <= {words_q[0], word_2_q};
      product_q <= ProductWidth'({1'b1, mantissas_q[1]}) * ProductWidth'(word_2_q);
      rest_q <= rest[ProductWidth-1:WordFraction];
      result_q <= (ProductWidth + 1)'(words_q[1]) * (ProductWidth + 1)'(rest_q);
      data_out <= shifted[FRACTION:0];
    end

    logic unused_bits;
    assign unused_bits = (^rest[WordFraction-1:0]) ^ (^shifted[ProductWidth:FRACTION+1]);
  end

endmodule

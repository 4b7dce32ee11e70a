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
    input  logic                  clk,
    input  logic [POINT+GROWTH:0] data_in,
    output logic [    FRACTION:0] data_out
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
    // Seeds are so near that of the rest only its difference from one is computed.
    localparam int unsigned ErrorWidth = Mantissa - INDEX_BITS + 1;
    localparam int unsigned KeptWidth = WordFraction + ErrorWidth;
    // Products of so few bits are sums of shifted operands, three at a time, and take no multiplier;
    // words are shifted before, so that nothing but a sum is in front of the result.
    localparam bit InLogic = WordFraction < 10;
    localparam int unsigned Groups = InLogic ? 3 : 1;
    localparam int unsigned WordRows = ceil_div(WordFraction + 1, Groups);
    localparam int unsigned ErrorRows = ceil_div(ErrorWidth + 1, Groups);
    localparam int unsigned Early = InLogic ? GROWTH : 0;
    localparam int unsigned ScaledWidth = WordFraction + 1 + Early;
    localparam int unsigned ResultWidth = Mantissa + 1 + ScaledWidth;

    logic [1:0][KeptWidth-1:0] negated_q;
    logic [WordFraction:0] word_3_q;
    logic [ScaledWidth-1:0] scaled_q;
    logic [Groups-1:0][KeptWidth-1:0] product;
    logic [Groups-1:0][KeptWidth-1:0] product_q;
    logic [KeptWidth-1:0] rest;
    logic signed [ErrorWidth-1:0] error_q;
    logic [Groups-1:0][ResultWidth-1:0] part;
    logic [Groups-1:0][ResultWidth-1:0] part_q;
    logic [ResultWidth-1:0] result;
    logic [ResultWidth-1:0] shifted;

    always_comb begin
      product = '0;
      part = '0;
      part[0] = ResultWidth'(scaled_q) << Mantissa;
      if (InLogic) begin
        for (int unsigned i = 0; i <= WordFraction; i++)
        product[i/WordRows] += {KeptWidth{word_2_q[i]}} & (negated_q[1] << i);
        for (int unsigned i = 0; i < ErrorWidth - 1; i++)
        part[(i+1)/ErrorRows] += {ResultWidth{error_q[i]}} & (ResultWidth'(scaled_q) << i);
        part[Groups-1] -= {ResultWidth{error_q[ErrorWidth-1]}}
            & (ResultWidth'(scaled_q) << (ErrorWidth - 1));
      end else begin
        product[0] = negated_q[1] * KeptWidth'(word_2_q);
        part[0] += ResultWidth'(error_q) * ResultWidth'(scaled_q);
      end
      rest   = '0;
      result = '0;
      for (int unsigned g = 0; g < Groups; g++) begin
        rest += product_q[g];
        result += part_q[g];
      end
    end

    assign shifted = result >> (WordFraction + 1 + Early) >> (InLogic ? '0 : place_q[Stages-1]);

    always_ff @(posedge clk) begin
      negated_q <= {negated_q[0], -KeptWidth'({1'b1, mantissa_q})};
      word_3_q <= word_2_q;
      scaled_q <= ScaledWidth'(word_3_q) << (InLogic ? PlaceWidth'(GROWTH) - place_q[4] : '0);
      product_q <= product;
      error_q <= rest[KeptWidth-1:WordFraction];
      part_q <= part;
      data_out <= shifted[FRACTION:0];
    end

    logic unused_bits;
    assign unused_bits = (^rest[WordFraction-1:0]) ^ (^shifted[ResultWidth-1:FRACTION+1]);
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(F(data_in_0)), element by element, on blocks of integers or floats with shared scales:
// any function F of one operand. An element is (-1)**s * 1.f * 2**k, zero aside. The file holds F, as
// {exponent, integer}, at each sign, each of OCTAVES octaves k from LOW_OCTAVE on and each f in this
// order, then at zero; beyond the octaves it is F at the nearest one times 2**(ORDER * distance),
// with the orders for plus and minus below (0, 1) and above (2, 3). Results are encoded in blocks.
// They are looked up in 8 cycles; see mase_encode for the rest. Throughput 1 beat per cycle.
module mase_unary_blocks
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_OUT_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row of the tensor.
    parameter int unsigned SIZE = 8,
    parameter int LOW_OCTAVE = 0,
    parameter int unsigned OCTAVES = 1,
    parameter int unsigned WORD_WIDTH = 10,
    parameter int unsigned WORD_EXPONENT_WIDTH = 6,
    parameter int unsigned ORDER_0 = 1,
    parameter int unsigned ORDER_1 = 1,
    parameter int unsigned ORDER_2 = 1,
    parameter int unsigned ORDER_3 = 1,
    parameter string TABLE_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][      DATA_IN_0.width-1:0] data_in_0,
    input  logic [      ROWS-1:0][DATA_IN_0.scale_width-1:0] data_in_0_exponent,
    input  logic                                             data_in_0_valid,
    output logic                                             data_in_0_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT_0.width-1:0] data_out_0,
    output logic [      ROWS-1:0][DATA_OUT_0.scale_width-1:0] data_out_0_exponent,
    output logic                                              data_out_0_valid,
    input  logic                                              data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned Width = DATA_IN_0.significand_width;
  localparam int unsigned FractionBits = Width - 2;
  localparam int unsigned FractionWidth = (FractionBits > 0) ? FractionBits : 1;
  localparam int unsigned Depth = (2 * OCTAVES << FractionBits) + 1;
  localparam int unsigned AddressWidth = $clog2(Depth);
  localparam int unsigned LeadingWidth = $clog2(Width);
  localparam int unsigned RowWidth = $clog2(2 * OCTAVES);
  localparam int HighOctave = LOW_OCTAVE + int'(OCTAVES) - 1;

  if (DATA_IN_0.block_size % LANES != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  typedef struct packed {
    logic signed [WORD_EXPONENT_WIDTH-1:0] exponent;
    logic [WORD_WIDTH-1:0] integer_part;
  } word_t;

  word_t memory[Depth];
  initial $readmemh(TABLE_FILE, memory);

  exponent_t [ROWS*LANES-1:0] exponent;
  logic [ROWS*LANES-1:0][WORD_WIDTH-1:0] mantissa;

  for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
    // The magnitude; its leading one, which moves to the top and out; its octave; the row of the
    // table that is nearest; the address; the word, through two registers; the result.
    logic signed [Width-1:0] significand;
    logic [DATA_IN_0.exponent_width-1:0] shift;
    logic [DATA_IN_0.exponent_width-1:0] shift_q[2];
    logic [3:0] negative_q;
    logic [Width-1:0] magnitude_q;
    logic [DATA_IN_0.scale_width-1:0] scale_q[2];
    logic [Width-1:0] fraction;
    logic [FractionWidth-1:0] fraction_q[3];
    logic [2:0] zero_q;
    logic [LeadingWidth-1:0] leading;
    logic [LeadingWidth-1:0] leading_q;
    exponent_t octave_q;
    logic [RowWidth-1:0] row_q;
    logic [RowWidth-1:0] row;
    exponent_t distance_q;
    logic [1:0] beyond_q;
    logic beyond_some_q;
    logic [AddressWidth-1:0] address_q;
    exponent_t added_q[3];
    word_t memory_q;
    word_t word_q;

    mase_scalar_decode #(
        .CODE(DATA_IN_0)
    ) u_decode (
        .code(data_in_0[i]),
        .significand,
        .shift
    );

    always_comb begin
      leading  = '0;
      fraction = '0;
      for (int unsigned b = 0; b < Width; b++) begin
        if (magnitude_q[b]) begin
          leading  = LeadingWidth'(b);
          fraction = magnitude_q << (Width - b);
        end
      end
    end

    assign row = row_q + RowWidth'(negative_q[3] ? OCTAVES : 0);

    always_ff @(posedge clk) begin
      negative_q <= 4'({negative_q, significand[Width-1]});
      magnitude_q <= significand[Width-1] ? -significand : significand;
      scale_q[0] <= data_in_0_exponent[i/LANES];
      shift_q[0] <= shift;

      leading_q <= leading;
      fraction_q[0] <= FractionWidth'(fraction >> 2);
      zero_q <= 3'({zero_q, magnitude_q == '0});
      scale_q[1] <= scale_q[0];
      shift_q[1] <= shift_q[0];

      octave_q <= exponent_t'(int'({1'b0, scale_q[1]}) + int'({1'b0, shift_q[1]})
          + int'({1'b0, leading_q}) + DATA_IN_0.lowest_step);
      fraction_q[1] <= fraction_q[0];

      beyond_some_q <= 1'b0;
      beyond_q <= {1'b0, negative_q[2]};
      distance_q <= octave_q - exponent_t'(LOW_OCTAVE);
      row_q <= RowWidth'(octave_q - exponent_t'(LOW_OCTAVE));
      if (octave_q < exponent_t'(LOW_OCTAVE)) begin
        beyond_some_q <= 1'b1;
        row_q <= '0;
      end else if (octave_q > exponent_t'(HighOctave)) begin
        beyond_some_q <= 1'b1;
        beyond_q[1] <= 1'b1;
        distance_q <= octave_q - exponent_t'(HighOctave);
        row_q <= RowWidth'(OCTAVES - 1);
      end
      fraction_q[2] <= fraction_q[1];

      address_q <= zero_q[2] ? AddressWidth'(Depth - 1)
          : (AddressWidth'(row) << FractionBits) + AddressWidth'(fraction_q[2]);
      added_q[0] <= '0;
      if (beyond_some_q && !zero_q[2]) begin
        case (beyond_q)
          2'd0: added_q[0] <= distance_q * exponent_t'(ORDER_0);
          2'd1: added_q[0] <= distance_q * exponent_t'(ORDER_1);
          2'd2: added_q[0] <= distance_q * exponent_t'(ORDER_2);
          default: added_q[0] <= distance_q * exponent_t'(ORDER_3);
        endcase
      end

      memory_q <= memory[address_q];
      added_q[1] <= added_q[0];
      word_q <= memory_q;
      added_q[2] <= added_q[1];
      mantissa[i] <= word_q.integer_part;
      exponent[i] <= exponent_t'(signed'(word_q.exponent)) + added_q[2];
    end
  end

  mase_encode #(
      .IN_WIDTH(WORD_WIDTH),
      .DATA_OUT(DATA_OUT_0),
      .STAGES(8),
      .ROWS(ROWS),
      .LANES(LANES),
      .SIZE(SIZE)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

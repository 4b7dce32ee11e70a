// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(F(data_in_0)), element by element, on blocks of integers with shared scales: any
// function F of one operand. An element is (-1)**s * 1.f * 2**k, zero aside. The file holds F, as
// {exponent, integer}, at each sign, each of OCTAVES octaves k from LOW_OCTAVE on and each f in this
// order, then at zero; beyond the octaves it is F at the nearest one times 2**(ORDER * distance),
// with the orders for plus and minus below (0, 1) and above (2, 3). Results are encoded in blocks.
// They are looked up in 5 cycles; see mase_block_encode for the rest. Throughput 1 beat per cycle.
module mase_unary_blocks
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_OUT_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
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

  localparam int unsigned Width = DATA_IN_0.width;
  localparam int unsigned FractionBits = Width - 2;
  localparam int unsigned Depth = (2 * OCTAVES << FractionBits) + 1;
  localparam int unsigned AddressWidth = $clog2(Depth);
  localparam int HighOctave = LOW_OCTAVE + int'(OCTAVES) - 1;

  if (DATA_IN_0.block_size % LANES != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  typedef struct packed {
    logic [AddressWidth-1:0] address;
    exponent_t added_exponent;
  } place_t;

  typedef struct packed {
    logic signed [WORD_EXPONENT_WIDTH-1:0] exponent;
    logic [WORD_WIDTH-1:0] integer_part;
  } word_t;

  word_t memory[Depth];
  initial $readmemh(TABLE_FILE, memory);

  place_t [ROWS*LANES-1:0] place;
  exponent_t [ROWS*LANES-1:0] found_exponent;
  exponent_t [ROWS*LANES-1:0] exponent;
  logic [ROWS*LANES-1:0][WORD_WIDTH-1:0] found_mantissa;
  logic [ROWS*LANES-1:0][WORD_WIDTH-1:0] mantissa;
  logic word_valid;
  logic word_ready;

  for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_place
    logic negative;
    logic [Width-1:0] magnitude;
    // The leading one moves to the top and out.
    logic [Width-1:0] fraction;
    int octave;
    int row;
    int unsigned order;

    assign negative  = data_in_0[i][Width-1];
    assign magnitude = negative ? -data_in_0[i] : data_in_0[i];

    always_comb begin
      octave   = 0;
      fraction = '0;
      for (int unsigned b = 0; b < Width; b++) begin
        if (magnitude[b]) begin
          octave   = int'(b);
          fraction = magnitude << (Width - b);
        end
      end
      octave = octave + int'({1'b0, data_in_0_exponent[i/LANES]}) + DATA_IN_0.lowest_step;
      row = octave;
      order = 0;
      if (octave < LOW_OCTAVE) begin
        row   = LOW_OCTAVE;
        order = negative ? ORDER_1 : ORDER_0;
      end else if (octave > HighOctave) begin
        row   = HighOctave;
        order = negative ? ORDER_3 : ORDER_2;
      end
      place[i].address = AddressWidth'(
          ((row - LOW_OCTAVE + (negative ? int'(OCTAVES) : 0)) << FractionBits)
          + int'({1'b0, fraction >> 2}));
      place[i].added_exponent = exponent_t'((octave - row) * int'(order));
      if (magnitude == '0) begin
        place[i].address = AddressWidth'(Depth - 1);
        place[i].added_exponent = '0;
      end
    end
  end

  for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_word
    place_t place_q;
    exponent_t added_q;
    word_t word_q;

    always_ff @(posedge clk) begin
      place_q <= place[i];
      word_q <= memory[place_q.address];
      added_q <= place_q.added_exponent;
      found_mantissa[i] <= word_q.integer_part;
      found_exponent[i] <= exponent_t'(signed'(word_q.exponent)) + added_q;
    end
  end

  mase_stream_pipeline #(
      .WIDTH (ROWS * LANES * (WORD_WIDTH + $bits(exponent_t))),
      .STAGES(3)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .result({found_mantissa, found_exponent}),
      .data_out({mantissa, exponent}),
      .data_out_valid(word_valid),
      .data_out_ready(word_ready)
  );

  mase_encode #(
      .IN_WIDTH(WORD_WIDTH),
      .DATA_OUT(DATA_OUT_0),
      .ROWS(ROWS),
      .LANES(LANES),
      .SIZE(SIZE)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(word_valid),
      .data_in_ready(word_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

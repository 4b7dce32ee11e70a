// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(F(data_in_0)), element by element, on blocks of integers with shared scales: any
// function F of one operand. An element is (-1)**s * 1.f * 2**k, zero aside. The file holds F, as
// {exponent, integer}, at each sign, each of OCTAVES octaves k from LOW_OCTAVE on and each f in this
// order, then at zero; beyond the octaves it is F at the nearest one times 2**(ORDER * distance),
// with the orders for plus and minus below (0, 1) and above (2, 3). Results are encoded in blocks.
// They are looked up in 2 cycles; see mase_block_encode for the rest. Throughput 1 beat per cycle.
module mase_unary_mxint #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 8,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 8,
    parameter int DATA_OUT_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_OUT_0_SCALE_CODES = 255,
    parameter int unsigned DATA_OUT_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int LOW_OCTAVE = 0,
    parameter int unsigned OCTAVES = 1,
    parameter int unsigned WORD_WIDTH = 10,
    parameter int unsigned WORD_EXPONENT_WIDTH = 6,
    parameter int unsigned ORDER_0 = 1,
    parameter int unsigned ORDER_1 = 1,
    parameter int unsigned ORDER_2 = 1,
    parameter int unsigned ORDER_3 = 1,
    parameter string TABLE_FILE = "",

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned Columns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned Lanes = Rows * Columns,
    localparam int unsigned ScaleWidth = unsigned'(DATA_IN_0_PRECISION_1),
    localparam int unsigned OutScaleWidth = unsigned'(DATA_OUT_0_PRECISION_1)
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic [ Rows-1:0][           ScaleWidth-1:0] data_in_0_exponent,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [ Rows-1:0][         OutScaleWidth-1:0] data_out_0_exponent,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int unsigned Width = DATA_IN_0_PRECISION_0;
  localparam int unsigned FractionBits = Width - 2;
  localparam int unsigned Depth = (2 * OCTAVES << FractionBits) + 1;
  localparam int unsigned AddressWidth = $clog2(Depth);
  localparam int Offset = 2 - int'(Width) - DATA_IN_0_SCALE_BIAS;
  localparam int HighOctave = LOW_OCTAVE + int'(OCTAVES) - 1;

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_size_check
    $error("data_in_0 and data_out_0 must have one size and one parallelism");
  end
  if (DATA_IN_0_BLOCK_SIZE % Columns != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  typedef struct packed {
    logic [AddressWidth-1:0] address;
    logic signed [11:0] added_exponent;
  } place_t;

  typedef struct packed {
    logic signed [WORD_EXPONENT_WIDTH-1:0] exponent;
    logic [WORD_WIDTH-1:0] integer_part;
  } word_t;

  word_t memory[Depth];
  initial $readmemh(TABLE_FILE, memory);

  place_t [Lanes-1:0] place;
  place_t [Lanes-1:0] place_q;
  logic place_valid;
  logic place_ready;

  for (genvar i = 0; i < Lanes; i++) begin : gen_place
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
      octave = octave + int'({1'b0, data_in_0_exponent[i/Columns]}) + Offset;
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
      place[i].added_exponent = 12'((octave - row) * int'(order));
      if (magnitude == '0) begin
        place[i].address = AddressWidth'(Depth - 1);
        place[i].added_exponent = '0;
      end
    end
  end

  mase_stream_register #(
      .WIDTH(Lanes * $bits(place_t))
  ) u_place (
      .clk,
      .rst,
      .data_in(place),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(place_q),
      .data_out_valid(place_valid),
      .data_out_ready(place_ready)
  );

  word_t [Lanes-1:0] word_q;
  logic signed [Lanes-1:0][11:0] added_q;
  logic word_valid;
  logic word_ready;

  assign place_ready = !word_valid || word_ready;

  always_ff @(posedge clk) begin
    if (rst) word_valid <= 1'b0;
    else if (place_ready) word_valid <= place_valid;
  end

  logic [Lanes-1:0][WORD_WIDTH-1:0] mantissa;
  logic [Lanes-1:0][11:0] exponent;

  for (genvar i = 0; i < Lanes; i++) begin : gen_word
    always_ff @(posedge clk) begin
      if (place_ready && place_valid) begin
        word_q[i]  <= memory[place_q[i].address];
        added_q[i] <= place_q[i].added_exponent;
      end
    end
    assign mantissa[i] = word_q[i].integer_part;
    assign exponent[i] = 12'(signed'(word_q[i].exponent)) + added_q[i];
  end

  mase_block_encode #(
      .ROWS(Rows),
      .LANES(Columns),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
      .IN_WIDTH(WORD_WIDTH),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .SCALE_WIDTH(OutScaleWidth),
      .SCALE_BIAS(DATA_OUT_0_SCALE_BIAS),
      .SCALE_CODES(DATA_OUT_0_SCALE_CODES),
      .SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0)
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

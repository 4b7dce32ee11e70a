// SPDX-License-Identifier: Apache-2.0
// Rows of ROW elements over their standard deviation, or with CENTRED 0 over their root mean square,
// with AFFINE times a weight and plus a bias for each place of a row, in the integers of
// mase_hw/approximation/row_norm.py: sums and products are exact, the reciprocal square root has a
// table, and a result is rounded once. A row waits in a store until its sums are known; the next
// ones go through meanwhile.
// AFFINE_FILE has a word for each beat of a row: for each lane a weight and above it a bias. Where it
// has those of LAYERS layers, one after the other, they change after ROWS rows.
// Throughput 1 beat per cycle, without gaps between rows.
module mase_row_norm
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 5),
    parameter format_t WEIGHT = fixed(8, 6),
    parameter format_t BIAS = fixed(8, 5),
    parameter bit AFFINE = 1,
    parameter bit CENTRED = 1,
    parameter int unsigned LANES = 4,
    parameter int unsigned ROW = 6,
    parameter int unsigned BELOW_BITS = 6,
    // The constant below the root.
    parameter int unsigned CONSTANT_HIGH = 0,
    parameter int unsigned CONSTANT_LOW = 6,
    parameter int unsigned SQUARE_WIDTH = 27,
    parameter int unsigned ROOT_FRACTION = 10,
    parameter int unsigned INDEX_BITS = 9,
    parameter bit STEP = 0,
    parameter int unsigned TERM_FRACTION = 10,
    parameter int unsigned TERM_WIDTH = 14,
    parameter int unsigned LAYERS = 1,
    parameter int unsigned ROWS = 1,
    parameter string TABLE_FILE = "",
    parameter string AFFINE_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int unsigned InWidth = DATA_IN_0.width;
  localparam int unsigned Width = InWidth + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned Beats = ceil_div(ROW, LANES);
  localparam int unsigned TotalWidth = Width + $clog2(ROW);
  localparam int unsigned SquaresWidth = 2 * Width - 1 + $clog2(ROW);
  localparam int unsigned RootStages = STEP ? 12 : 8;
  localparam int unsigned ValueStages = RootStages + 2;
  localparam int unsigned HalfWidth = index_width((SQUARE_WIDTH + 1) / 2);

  logic last;
  logic take;
  logic [1:0] take_q;
  (* mase_register = "stages" *)
  logic [1:0] last_q;
  logic [1:0][LANES-1:0][InWidth-1:0] data_q;
  logic [LANES-1:0][2*Width-2:0] square_q;

  assign take = data_in_0_valid && data_in_0_ready;

  always_ff @(posedge clk) begin
    if (rst) take_q <= '0;
    else take_q <= {take_q[0], take};
  end

  always_ff @(posedge clk) begin
    last_q <= {last_q[0], last};
    data_q <= {data_q[0], data_in_0};
  end

  function automatic logic signed [Width-1:0] number(input logic [InWidth-1:0] code);
    return DATA_IN_0.is_signed ? Width'(signed'(code)) : Width'(code);
  endfunction

  for (genvar i = 0; i < LANES; i++) begin : gen_square
    logic signed [Width-1:0] element;
    assign element = number(data_q[0][i]);
    always_ff @(posedge clk) begin
      square_q[i] <= (2 * Width - 1)'(element) * (2 * Width - 1)'(element);
    end
  end

  // The sums of the elements and of their squares.
  logic signed [TotalWidth-1:0] total;
  logic [SquaresWidth-1:0] squares;
  logic squares_valid;
  logic unused_total_valid;

  mase_row_fold #(
      .LANES(LANES),
      .ROW(ROW),
      .IN_WIDTH(InWidth),
      .SIGNED(DATA_IN_0.is_signed),
      .OUT_WIDTH(TotalWidth)
  ) u_total (
      .clk,
      .rst,
      .data(data_q[1]),
      .take(take_q[1]),
      .last(last_q[1]),
      .reduced(total),
      .reduced_valid(unused_total_valid)
  );

  mase_row_fold #(
      .LANES(LANES),
      .ROW(ROW),
      .IN_WIDTH(2 * Width - 1),
      .SIGNED(0),
      .OUT_WIDTH(SquaresWidth)
  ) u_squares (
      .clk,
      .rst,
      .data(square_q),
      .take(take_q[1]),
      .last(last_q[1]),
      .reduced(squares),
      .reduced_valid(squares_valid)
  );

  // The number below the root.
  localparam logic [SQUARE_WIDTH-1:0] Constant = SQUARE_WIDTH'({
    31'(CONSTANT_HIGH), 31'(CONSTANT_LOW)
  });
  logic [SQUARE_WIDTH-1:0] scaled_squares_q;
  logic [SQUARE_WIDTH-1:0] square_of_total_q;
  logic [SQUARE_WIDTH-1:0] below_root_q;
  logic [ROOT_FRACTION:0] root;
  logic [HalfWidth-1:0] half_place;
  logic signed [TotalWidth-1:0] total_q[ValueStages];
  (* mase_register = "stages" *)
  logic [ValueStages-1:0] value_valid_q;

  // A product with 2**i + 2**j or 2**i - 2**j is one sum, and one with any other row that of a
  // multiplier.
  localparam int unsigned RowPlace = $clog2(ROW & (~ROW + 1));
  localparam int unsigned RowOdd = ROW >> RowPlace;
  localparam bit RowIsSum = RowOdd > 1 && 1 << $clog2(RowOdd - 1) == RowOdd - 1;
  localparam bit RowIsDifference = RowOdd > 1 && !RowIsSum && 1 << $clog2(RowOdd) == RowOdd + 1;
  localparam int unsigned RowHigh = $clog2(RowIsSum ? RowOdd - 1 : RowOdd);

  function automatic logic [SQUARE_WIDTH-1:0] squares_of_row(
      input logic [SQUARE_WIDTH-1:0] operand);
    if (RowIsSum) return ((operand << RowHigh) + operand) << RowPlace;
    if (RowIsDifference) return ((operand << RowHigh) - operand) << RowPlace;
    return operand * SQUARE_WIDTH'(ROW);
  endfunction

  if (CENTRED) begin : gen_square_of_total
    always_ff @(posedge clk) begin
      square_of_total_q <= SQUARE_WIDTH'((2 * TotalWidth)'(total) * (2 * TotalWidth)'(total));
    end
  end else begin : gen_not_centred
    assign square_of_total_q = '0;
  end

  always_ff @(posedge clk) begin
    scaled_squares_q <= squares_of_row(SQUARE_WIDTH'(squares));
    below_root_q <= ((scaled_squares_q - square_of_total_q) << BELOW_BITS) + Constant;
    total_q[0] <= CENTRED ? total : '0;
    for (int i = 1; i < int'(ValueStages); i++) total_q[i] <= total_q[i-1];
    if (rst) value_valid_q <= '0;
    else value_valid_q <= ValueStages'({value_valid_q, squares_valid});
  end

  mase_reciprocal_root #(
      .WIDTH(SQUARE_WIDTH),
      .FRACTION(ROOT_FRACTION),
      .INDEX_BITS(INDEX_BITS),
      .STEP(STEP),
      .TABLE_FILE(TABLE_FILE)
  ) u_root (
      .clk,
      .data_in(below_root_q),
      .root,
      .half_place
  );

  typedef struct packed {
    logic signed [TotalWidth-1:0] total;
    logic [ROOT_FRACTION:0] root;
    logic [HalfWidth-1:0] half_place;
  } value_t;

  value_t value;
  value_t row_value;
  logic whole;
  logic room;
  logic [LANES-1:0][InWidth-1:0] element;

  assign value = '{total: total_q[ValueStages-1], root: root, half_place: half_place};

  mase_row_store #(
      .WIDTH(LANES * InWidth),
      .ROW(Beats),
      .DELAY(6 + $clog2(LANES) + ValueStages),
      .VALUE_WIDTH($bits(value_t))
  ) u_elements (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_in_last(last),
      .value,
      .value_valid(value_valid_q[ValueStages-1]),
      .there(whole),
      .room,
      .word(element),
      .word_value(row_value)
  );

  // A weight and a bias for each lane, two cycles after its place in the row is counted.
  localparam int unsigned WeightWidth = AFFINE ? WEIGHT.width : 1;
  localparam int unsigned BiasWidth = AFFINE ? BIAS.width : 1;
  typedef struct packed {
    logic [BiasWidth-1:0] bias;
    logic [WeightWidth-1:0] weight;
  } affine_t;
  affine_t [LANES-1:0] affine_2_q;
  affine_t [LANES-1:0] affine_3_q;

  if (AFFINE) begin : gen_affine
    localparam int unsigned BeatWidth = index_width(LAYERS * Beats);
    affine_t [LANES-1:0] words[LAYERS*Beats];
    initial $readmemh(AFFINE_FILE, words);
    logic [4:0] read_q;
    logic [BeatWidth-1:0] beat;
    affine_t [LANES-1:0] affine_1_q;

    if (LAYERS > 1) begin : gen_layers
      mase_layer_walk #(
          .DEPTH(Beats),
          .LAYERS(LAYERS),
          .WALKS(ROWS),
          .ADDRESS_WIDTH(BeatWidth)
      ) u_beat (
          .clk,
          .rst,
          .step(read_q[4]),
          .address(beat)
      );
    end else begin : gen_layer
      logic unused_last;
      mase_counter #(
          .COUNT(Beats),
          .WIDTH(BeatWidth)
      ) u_beat (
          .clk,
          .rst,
          .enable(read_q[4]),
          .count(beat),
          .last(unused_last)
      );
    end

    always_ff @(posedge clk) begin
      if (rst) read_q <= '0;
      else read_q <= {read_q[3:0], whole && room};
    end

    always_ff @(posedge clk) begin
      affine_1_q <= words[beat];
      affine_2_q <= affine_1_q;
      affine_3_q <= affine_2_q;
    end
  end else begin : gen_not_affine
    assign affine_2_q = '0;
    assign affine_3_q = '0;
    logic unused_affine;
    assign unused_affine = (^affine_2_q) ^ (^affine_3_q);
  end

  // Differences, times the root, shifted to their place.
  localparam int unsigned DifferenceWidth = TotalWidth + 1;
  localparam int Lift = int'(TERM_FRACTION) + int'(BELOW_BITS / 2) - int'(ROOT_FRACTION);
  localparam int unsigned LiftBits = (Lift > 0) ? unsigned'(Lift) : 0;
  localparam int unsigned DropBits = (Lift < 0) ? unsigned'(-Lift) : 0;
  localparam int unsigned ProductWidth = DifferenceWidth + ROOT_FRACTION + 1;
  localparam int unsigned LiftedWidth = ProductWidth + LiftBits;
  localparam int unsigned ShiftWidth = $clog2((SQUARE_WIDTH + 1) / 2 + DropBits + 1);
  localparam int unsigned ShiftedWidth = (LiftedWidth > TERM_WIDTH) ? LiftedWidth : TERM_WIDTH;

  localparam int WeightedFraction = int'(TERM_FRACTION) + (AFFINE ? WEIGHT.fraction : 0);
  localparam int SumFraction = (AFFINE && BIAS.fraction > WeightedFraction)
      ? BIAS.fraction : WeightedFraction;
  localparam int unsigned WeightedWidth = TERM_WIDTH + (AFFINE ? WEIGHT.width + 1 : 0)
      + unsigned'(SumFraction - WeightedFraction);
  localparam int unsigned AlignedWidth = AFFINE
      ? BIAS.width + 1 + unsigned'(SumFraction - BIAS.fraction) : 1;
  localparam int unsigned SumWidth = 1
      + ((WeightedWidth > AlignedWidth) ? WeightedWidth : AlignedWidth);
  localparam int unsigned RoundedWidth = rounded_width(SumWidth, SumFraction, DATA_OUT_0);

  logic signed [TotalWidth-1:0] row_total_q;
  logic [1:0][ROOT_FRACTION:0] row_root_q;
  logic [2:0][ShiftWidth-1:0] row_shift_q;
  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  always_ff @(posedge clk) begin
    row_total_q <= row_value.total;
    row_root_q <= {row_root_q[0], row_value.root};
    row_shift_q <= {
      row_shift_q[1:0], ShiftWidth'(row_value.half_place) + ShiftWidth'(DropBits)
    };
  end

  function automatic logic signed [DifferenceWidth-1:0] times_row(
      input logic signed [DifferenceWidth-1:0] operand);
    if (RowIsSum) return ((operand <<< RowHigh) + operand) <<< RowPlace;
    if (RowIsDifference) return ((operand <<< RowHigh) - operand) <<< RowPlace;
    return operand * DifferenceWidth'(signed'(ROW));
  endfunction

  for (genvar i = 0; i < LANES; i++) begin : gen_result
    logic signed [DifferenceWidth-1:0] scaled_q;
    logic signed [DifferenceWidth-1:0] difference_q;
    logic signed [ProductWidth-1:0] product_q;
    logic [ShiftedWidth-1:0] shifted;
    logic unused_lost;
    logic signed [TERM_WIDTH-1:0] term;
    logic signed [SumWidth-1:0] weighted_q;
    logic signed [SumWidth-1:0] sum_q;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;

    mase_shift_right #(
        .WIDTH(ShiftedWidth),
        .SHIFT_WIDTH(ShiftWidth)
    ) u_shift (
        .clk,
        .data_in (ShiftedWidth'(product_q) << LiftBits),
        .shift   (row_shift_q[2]),
        .data_out(shifted),
        .lost    (unused_lost)
    );

    // No normalised element is larger.
    assign term = signed'(shifted[TERM_WIDTH-1:0]);
    if (ShiftedWidth > TERM_WIDTH) begin : gen_upper
      logic unused_upper;
      assign unused_upper = ^shifted[ShiftedWidth-1:TERM_WIDTH];
    end

    mase_fixed_round #(
        .IN_WIDTH(SumWidth),
        .IN_FRACTION(SumFraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (sum_q),
        .data_out(rounded)
    );

    mase_fixed_bound #(
        .IN_WIDTH(RoundedWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_bound (
        .data_in (rounded_q),
        .data_out(bounded)
    );

    always_ff @(posedge clk) begin
      scaled_q <= times_row(DifferenceWidth'(number(element[i])));
      difference_q <= scaled_q - DifferenceWidth'(row_total_q);
      product_q <= ProductWidth'(difference_q) * ProductWidth'(signed'({1'b0, row_root_q[1]}));
      rounded_q <= rounded;
      result[i] <= bounded;
    end

    if (AFFINE) begin : gen_weighted
      logic signed [WEIGHT.width:0] weight;
      logic signed [BIAS.width:0] bias;
      assign weight = signed'({WEIGHT.is_signed && affine_2_q[i].weight[WEIGHT.width-1],
                               affine_2_q[i].weight});
      assign bias = signed'({BIAS.is_signed && affine_3_q[i].bias[BIAS.width-1],
                             affine_3_q[i].bias});
      always_ff @(posedge clk) begin
        weighted_q <= (SumWidth'(term) * SumWidth'(weight)) <<< (SumFraction - WeightedFraction);
        sum_q <= weighted_q + (SumWidth'(bias) <<< (SumFraction - BIAS.fraction));
      end
    end else begin : gen_plain
      always_ff @(posedge clk) begin
        weighted_q <= SumWidth'(term);
        sum_q <= weighted_q;
      end
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(11)
  ) u_results (
      .clk,
      .rst,
      .data_in_valid(whole),
      .data_in_ready(room),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

`ifdef MASE_CHECKS
  // The ends of rows go through the sums and the root.
  always_comb begin
    if (!rst) begin
      ends_match :
      assert (u_elements.ends_q == {
        value_valid_q, u_squares.lasts_q, take_q & last_q
      });
    end
  end
`endif  // MASE_CHECKS

endmodule

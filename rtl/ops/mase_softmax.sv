// SPDX-License-Identifier: Apache-2.0
// Softmax over rows of ROW elements, in the integers of mase_hw/approximation/softmax.py: the
// exponentials of the differences from the exact maximum, times the reciprocal of their exact sum,
// rounded once. Three passes over a row, each while the next rows go through those before: a store
// for the elements until the maximum is known, and one for the exponentials until the sum is.
// With MASKED a bit comes with each element, which is left out where that is zero; with PADDED a
// number does likewise.
// With EVERY, rows grow (mase_row_store), by beats; lanes outside of the last row must be left out.
// FINE_BITS are the bits of a difference that the first table takes, COARSE_FILE takes the rest.
// Throughput 1 beat per cycle, without gaps between rows.
module mase_softmax
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 7),
    parameter int unsigned LANES = 4,
    parameter int unsigned ROW = 6,
    parameter int unsigned EVERY = 0,
    parameter int unsigned ROWS = 1,
    parameter int unsigned GROWTH = 3,
    parameter int unsigned EXPONENTIAL_FRACTION = 12,
    parameter int unsigned FINE_BITS = 8,
    parameter int unsigned WORD_FRACTION = 12,
    parameter int unsigned FRACTION = 10,
    parameter int unsigned INDEX_BITS = 9,
    parameter bit STEP = 0,
    parameter bit MASKED = 0,
    parameter bit PADDED = 0,
    parameter format_t DATA_IN_1 = fixed(1, 0),
    parameter string FINE_FILE = "",
    parameter string COARSE_FILE = "",
    parameter string RECIPROCAL_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][DATA_IN_1.width-1:0] data_in_1,
    input  logic                                  data_in_1_valid,
    output logic                                  data_in_1_ready,

    input  logic [LANES-1:0][0:0] mask,
    input  logic                  mask_valid,
    output logic                  mask_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int unsigned InWidth = DATA_IN_0.width;
  localparam int unsigned MaximumWidth = InWidth + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned Beats = ceil_div(ROW, LANES);
  // Elements of a row that are looked at.
  localparam int unsigned Counted = (EVERY > 0) ? Beats * LANES : ROW;
  localparam int unsigned FoldDelay = 4 + $clog2(LANES);
  localparam int unsigned ReciprocalStages = STEP ? 8 : 5;
  localparam int unsigned CoarseBits = InWidth - FINE_BITS;
  localparam int unsigned ExponentialStages = (CoarseBits > 0) ? 7 : 5;
  // Below 2, as all numbers that stand for exponentials.
  localparam int unsigned ExponentialWidth = EXPONENTIAL_FRACTION + 1;
  localparam int unsigned SumWidth = ExponentialWidth + GROWTH;

  // With elements that are left out as small as they can be: whatever the maximum is, it stays.
  localparam logic [InWidth-1:0] Least = InWidth'(DATA_IN_0.is_signed) << (InWidth - 1);
  logic [LANES-1:0] kept;
  logic [LANES-1:0][InWidth-1:0] counted;
  logic met;
  logic ready;

  logic mask_there;
  logic padding_there;

  assign mask_there = mask_valid || !MASKED;
  assign padding_there = data_in_1_valid || !PADDED;
  assign data_in_0_ready = ready && mask_there && padding_there;
  assign data_in_1_ready = PADDED && ready && mask_there && data_in_0_valid;
  assign mask_ready = MASKED && ready && padding_there && data_in_0_valid;
  assign met = data_in_0_valid && mask_there && padding_there;

  for (genvar i = 0; i < LANES; i++) begin : gen_counted
    assign kept[i] = (mask[i][0] || !MASKED) && ((|data_in_1[i]) || !PADDED);
    assign counted[i] = kept[i] ? data_in_0[i] : Least;
  end

  // The maximum.
  logic last;
  logic [MaximumWidth-1:0] maximum;
  logic maximum_valid;
  logic whole;
  logic whole_room;
  logic [LANES-1:0][InWidth-1:0] element;
  logic [LANES-1:0] element_kept;
  logic [MaximumWidth-1:0] row_maximum;

  mase_row_fold #(
      .MAXIMUM(1),
      .LANES(LANES),
      .ROW(Counted),
      .IN_WIDTH(InWidth),
      .SIGNED(DATA_IN_0.is_signed),
      .OUT_WIDTH(MaximumWidth)
  ) u_maximum (
      .clk,
      .rst,
      .data(counted),
      .take(met && ready),
      .last,
      .reduced(maximum),
      .reduced_valid(maximum_valid)
  );

  localparam int unsigned StoredWidth = LANES * (InWidth + ((MASKED || PADDED) ? 1 : 0));
  logic [StoredWidth-1:0] stored;
  logic [StoredWidth-1:0] word;

  if (MASKED || PADDED) begin : gen_masked
    assign stored = {kept, counted};
    assign {element_kept, element} = word;
  end else begin : gen_all
    assign stored = counted;
    assign element = word;
    assign element_kept = '1;
  end

  mase_row_store #(
      .WIDTH(StoredWidth),
      .ROW(Beats),
      .EVERY(EVERY),
      .ROWS(ROWS),
      .DELAY(FoldDelay),
      .VALUE_WIDTH(MaximumWidth)
  ) u_elements (
      .clk,
      .rst,
      .data_in(stored),
      .data_in_valid(met),
      .data_in_ready(ready),
      .data_in_last(last),
      .value(maximum),
      .value_valid(maximum_valid),
      .there(whole),
      .room(whole_room),
      .word,
      .word_value(row_maximum)
  );

  // The exponentials.
  logic [LANES-1:0][ExponentialWidth-1:0] exponential;
  // From the store's word on.
  logic [LANES-1:0] kept_q[ExponentialStages-2];
  logic [LANES-1:0][ExponentialWidth-1:0] entering;
  logic entering_valid;
  logic entering_ready;

  logic [WORD_FRACTION:0] fine_words[1<<FINE_BITS];
  initial $readmemh(FINE_FILE, fine_words);

  always_ff @(posedge clk) begin
    kept_q[0] <= element_kept;
    for (int i = 1; i < int'(ExponentialStages) - 2; i++) kept_q[i] <= kept_q[i-1];
  end

  for (genvar i = 0; i < LANES; i++) begin : gen_exponential
    logic last_kept;
    assign last_kept = kept_q[ExponentialStages-3][i];
    logic [InWidth-1:0] difference_q;
    logic [WORD_FRACTION:0] fine_1_q;
    logic [WORD_FRACTION:0] fine_2_q;

    always_ff @(posedge clk) begin
      difference_q <= InWidth'(row_maximum) - element[i];
      fine_1_q <= fine_words[difference_q[FINE_BITS-1:0]];
      fine_2_q <= fine_1_q;
    end

    if (CoarseBits == 0) begin : gen_whole
      assign exponential[i] = last_kept ? fine_2_q : '0;
    end else begin : gen_halves
      localparam int unsigned Below = 2 * WORD_FRACTION - EXPONENTIAL_FRACTION;
      logic [WORD_FRACTION:0] coarse_words[1<<CoarseBits];
      initial $readmemh(COARSE_FILE, coarse_words);
      logic [WORD_FRACTION:0] coarse_1_q;
      logic [WORD_FRACTION:0] coarse_2_q;
      logic [2*WORD_FRACTION:0] product_q;
      logic [2*WORD_FRACTION:0] rounded;
      logic [ExponentialWidth-1:0] exponential_q;

      assign rounded = product_q + ((2 * WORD_FRACTION + 1)'(1) << (Below - 1));
      assign exponential[i] = last_kept ? exponential_q : '0;

      always_ff @(posedge clk) begin
        coarse_1_q <= coarse_words[difference_q[InWidth-1:FINE_BITS]];
        coarse_2_q <= coarse_1_q;
        product_q <= (2 * WORD_FRACTION + 1)'(fine_2_q) * (2 * WORD_FRACTION + 1)'(coarse_2_q);
        exponential_q <= rounded[2*WORD_FRACTION:Below];
      end

      logic unused_below;
      assign unused_below = ^rounded[Below-1:0];
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * ExponentialWidth),
      .STAGES(ExponentialStages)
  ) u_exponentials (
      .clk,
      .rst,
      .data_in_valid(whole),
      .data_in_ready(whole_room),
      .result(exponential),
      .data_out(entering),
      .data_out_valid(entering_valid),
      .data_out_ready(entering_ready)
  );

  // Their sum, and its reciprocal.
  logic entering_last;
  logic [SumWidth-1:0] sum;
  logic sum_valid;
  (* mase_register = "stages" *)
  logic [ReciprocalStages-1:0] sum_valid_q;
  logic [FRACTION:0] scale;
  logic summed;
  logic summed_room;
  logic [LANES-1:0][ExponentialWidth-1:0] term;
  logic [FRACTION:0] row_scale;

  mase_row_fold #(
      .LANES(LANES),
      .ROW(Counted),
      .IN_WIDTH(ExponentialWidth),
      .SIGNED(0),
      .OUT_WIDTH(SumWidth)
  ) u_sum (
      .clk,
      .rst,
      .data(entering),
      .take(entering_valid && entering_ready),
      .last(entering_last),
      .reduced(sum),
      .reduced_valid(sum_valid)
  );

  mase_reciprocal #(
      .POINT(EXPONENTIAL_FRACTION),
      .GROWTH(GROWTH),
      .FRACTION(FRACTION),
      .INDEX_BITS(INDEX_BITS),
      .STEP(STEP),
      .TABLE_FILE(RECIPROCAL_FILE)
  ) u_reciprocal (
      .clk,
      .data_in (sum),
      .data_out(scale)
  );

  always_ff @(posedge clk) begin
    if (rst) sum_valid_q <= '0;
    else sum_valid_q <= ReciprocalStages'({sum_valid_q, sum_valid});
  end

  mase_row_store #(
      .WIDTH(LANES * ExponentialWidth),
      .ROW(Beats),
      .EVERY(EVERY),
      .ROWS(ROWS),
      .DELAY(FoldDelay + ReciprocalStages),
      .VALUE_WIDTH(FRACTION + 1)
  ) u_terms (
      .clk,
      .rst,
      .data_in(entering),
      .data_in_valid(entering_valid),
      .data_in_ready(entering_ready),
      .data_in_last(entering_last),
      .value(scale),
      .value_valid(sum_valid_q[ReciprocalStages-1]),
      .there(summed),
      .room(summed_room),
      .word(term),
      .word_value(row_scale)
  );

  // The results.
  localparam int unsigned ProductWidth = ExponentialWidth + FRACTION + 1;
  localparam int ProductFraction = int'(EXPONENTIAL_FRACTION + FRACTION);
  localparam int unsigned RoundedWidth =
      rounded_width(ProductWidth + 1, ProductFraction, DATA_OUT_0);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_result
    logic [ProductWidth-1:0] product_q;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;

    mase_fixed_round #(
        .IN_WIDTH(ProductWidth + 1),
        .IN_FRACTION(ProductFraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in ({1'b0, product_q}),
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
      product_q <= ProductWidth'(term[i]) * ProductWidth'(row_scale);
      rounded_q <= rounded;
      result[i] <= bounded;
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(5)
  ) u_results (
      .clk,
      .rst,
      .data_in_valid(summed),
      .data_in_ready(summed_room),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

`ifdef MASE_CHECKS
  // The ends of rows go through the maximum, and then through the sum and its reciprocal. What was
  // read of one store and not written to the next one, or has not left, is on its way; rounds of rows
  // that end are counted as the stores do.
  localparam int unsigned CheckWidth = $clog2(16 * (ExponentialStages + 3 + Beats * ROWS));
  typedef logic [CheckWidth-1:0] check_t;
  check_t exponential_rounds_q;
  check_t result_rounds_q;
  check_t exponentials_held;
  check_t results_held;
  logic leave;
  logic [index_width(Beats)-1:0] unused_leaving;
  logic unused_leaving_last;
  logic unused_leaving_next;

  assign leave = data_out_0_valid && data_out_0_ready;

  mase_growing_counter #(
      .COUNT(Beats),
      .EVERY(EVERY),
      .RUNS(ROWS),
      .WIDTH(index_width(Beats))
  ) u_leaving (
      .clk,
      .rst,
      .enable(leave),
      .count(unused_leaving),
      .last(unused_leaving_last),
      .next_last(unused_leaving_next)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      exponential_rounds_q <= '0;
      result_rounds_q <= '0;
    end else begin
      exponential_rounds_q <= exponential_rounds_q
          + check_t'(u_elements.read && u_elements.u_read_beat.unused_returns)
          - check_t'(u_terms.write && u_terms.u_write_beat.unused_returns);
      result_rounds_q <= result_rounds_q
          + check_t'(u_terms.read && u_terms.u_read_beat.unused_returns)
          - check_t'(leave && u_leaving.unused_returns);
    end
  end

  always_comb begin
    exponentials_held =
        check_t'(u_exponentials.Depth) - check_t'(u_exponentials.u_credits.u_left.level_q);
    results_held = check_t'(u_results.Depth) - check_t'(u_results.u_credits.u_left.level_q);
    if (!rst) begin
      maxima_match : assert (u_elements.ends_q == u_maximum.lasts_q);
      sums_match : assert (u_terms.ends_q == {sum_valid_q, u_sum.lasts_q});
      exponentials_match :
      assert (exponentials_held == check_t'(u_elements.u_read_beat.unused_place)
          - check_t'(u_terms.u_write_beat.unused_place)
          + check_t'(u_leaving.unused_round) * exponential_rounds_q);
      results_match :
      assert (results_held == check_t'(u_terms.u_read_beat.unused_place)
          - check_t'(u_leaving.unused_place)
          + check_t'(u_leaving.unused_round) * result_rounds_q);
    end
  end
`endif  // MASE_CHECKS

endmodule

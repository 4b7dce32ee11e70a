// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: data_out_0 = encode(bias + the sum of the dot products of blocks with shared
// scales), for ROWS rows of OUT_LANES results. Elements are integers or floats, see
// mase_block_encode; the result is of any format, see mase_encode.
//
// The products of a block are summed exactly. Blocks, in order, are then added in floating point:
// of the sum so far and the next block, both with GUARD_BITS further bits, the one of the smaller
// exponent is shifted right, rounding down. The sum begins with the bias. Blocks begin anew every
// GROUP_TERMS beats.
//
// The exponents of all sums are found ahead of them, so that blocks come shifted to their sum. The
// exponent of a stored sum is a multiple of 16: a sum moves by units of 16 bits, right when the block
// before is added, and the bits below its true last one, which nothing is added to, are cleared at the
// end. Stored sums are 2**(16 * units) too large and so have no sign.
//
// A sum is complete 8 + ceil(log2(IN_LANES)) cycles after its last operands met, 2 more with floats,
// but not before 11 cycles. One beat per cycle without gaps.
module mase_block_accumulate
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t WEIGHT = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter bit HAS_BIAS = 1,
    parameter format_t BIAS = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned TERMS = 4,
    parameter int unsigned GROUP_TERMS = 4,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    // Results of a row.
    parameter int unsigned SIZE = 8,
    parameter int unsigned GUARD_BITS = 8,
    parameter int unsigned SUM_WIDTH = 32,

    localparam int unsigned Scales = (DATA_OUT_0.block_size > 0) ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*IN_LANES-1:0][      DATA_IN_0.width-1:0] data_in_0,
    input  logic [         ROWS-1:0][DATA_IN_0.scale_width-1:0] data_in_0_exponent,
    input  logic                                                data_in_0_valid,
    output logic                                                data_in_0_ready,

    input  logic [OUT_LANES*IN_LANES-1:0][      WEIGHT.width-1:0] weight,
    input  logic [         OUT_LANES-1:0][WEIGHT.scale_width-1:0] weight_exponent,
    input  logic                                                  weight_valid,
    output logic                                                  weight_ready,

    input  logic [       OUT_LANES-1:0][BIAS.width-1:0] bias,
    input  logic [BIAS.scale_width-1:0]                 bias_exponent,
    input  logic                                        bias_valid,
    output logic                                        bias_ready,

    output logic [ROWS*OUT_LANES-1:0][      DATA_OUT_0.width-1:0] data_out_0,
    output logic [        Scales-1:0][DATA_OUT_0.scale_width-1:0] data_out_0_exponent,
    output logic                                                  data_out_0_valid,
    input  logic                                                  data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned Wanted = DATA_IN_0.block_size / IN_LANES;
  localparam int unsigned BlockTerms = (Wanted < GROUP_TERMS) ? Wanted : GROUP_TERMS;
  localparam int unsigned GroupWidth = index_width(GROUP_TERMS);
  localparam int unsigned BlockCountWidth = index_width(BlockTerms);
  localparam bit Integers = DATA_IN_0.encoding == Integer && WEIGHT.encoding == Integer;
  localparam int unsigned DotLatency = (Integers ? 2 : 4) + $clog2(IN_LANES);
  // From the operands to the scales of a block, from there to their shifts and then to their sum.
  localparam int unsigned AlignStages = 5;
  localparam int unsigned SumStages = AlignStages + ShiftStages + 3;
  localparam int unsigned Latency = (DotLatency > AlignStages) ? DotLatency + 1 - AlignStages : 1;
  // A block that is summed up waits so long for its shift.
  localparam int unsigned Wait = Latency + AlignStages - DotLatency - 1;
  // A product of significands, and how far it may be shifted.
  localparam int unsigned DotWidth = DATA_IN_0.significand_width + WEIGHT.significand_width
      + (1 << DATA_IN_0.exponent_width) + (1 << WEIGHT.exponent_width) - 4 + $clog2(IN_LANES);
  localparam int unsigned BlockWidth = DotWidth + ((BlockTerms > 1) ? $clog2(BlockTerms) : 0);
  localparam int DotPlace = DATA_IN_0.lowest_step + WEIGHT.lowest_step - int'(GUARD_BITS);
  // A bias keeps as many further bits as a product has below it.
  localparam int unsigned BiasLeft =
      unsigned'(int'(GUARD_BITS) - DATA_IN_0.lowest_step - DATA_IN_0.scale_bias);
  localparam int StartPlace = BIAS.lowest_step - int'(BiasLeft);
  localparam int unsigned Unit = 16;
  localparam int unsigned UnitWidth = $clog2(Unit);
  localparam int unsigned Wide = SUM_WIDTH + Unit - 1;
  localparam int unsigned Units = ceil_div(Wide - 1, Unit);
  localparam int unsigned UnitsWidth = $clog2(Units + 1);
  localparam int unsigned StoredWidth = Units * Unit + 1;
  localparam logic [StoredWidth-1:0] TooLarge = StoredWidth'(1) << (StoredWidth - 1);
  localparam int unsigned ShiftWidth = $clog2(Wide + 1);
  localparam int unsigned ExponentWidth = $bits(exponent_t);

  if (DATA_IN_0.block_size % IN_LANES != 0 || TERMS % GROUP_TERMS != 0) begin : gen_block_check
    $error("IN_LANES must divide a block, and GROUP_TERMS must divide TERMS");
  end
  if (WEIGHT.block_size != DATA_IN_0.block_size
      || (HAS_BIAS && BIAS.block_size % OUT_LANES != 0)) begin : gen_operands_check
    $error("operands must have one block size, and a tile of biases must lie in one block");
  end

  logic met;
  logic part_valid;
  logic part_first;
  logic [OUT_LANES-1:0][BIAS.width-1:0] part_bias;
  logic [BIAS.scale_width-1:0] part_bias_exponent;
  logic [ROWS*OUT_LANES-1:0][Wide-1:0] mantissa;
  exponent_t [ROWS*OUT_LANES-1:0] exponent;

  mase_accumulate_encode #(
      .TERMS(TERMS),
      .PART_STAGES(Latency),
      .SUM_STAGES(SumStages),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(OUT_LANES * BIAS.width + BIAS.scale_width),
      .SUM_WIDTH(Wide),
      .DATA_OUT(DATA_OUT_0),
      .ROWS(ROWS),
      .LANES(OUT_LANES),
      .SIZE(SIZE)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .weight_valid,
      .weight_ready,
      .bias({bias_exponent, bias}),
      .bias_valid,
      .bias_ready,
      .part_valid,
      .part_first,
      .part_bias({part_bias_exponent, part_bias}),
      .mantissa,
      .exponent,
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

  assign met = data_in_0_valid && data_in_0_ready;

  // Where in its block and in its group the beat lies that meets its weights.
  logic [BlockCountWidth-1:0] part_q;
  logic [GroupWidth-1:0] tile_q;
  logic starts;
  logic ends;
  logic group_ends;

  assign starts = part_q == '0;
  assign group_ends = tile_q == GroupWidth'(GROUP_TERMS - 1);
  assign ends = group_ends || part_q == BlockCountWidth'(BlockTerms - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      part_q <= '0;
      tile_q <= '0;
    end else if (met) begin
      part_q <= ends ? '0 : part_q + 1'b1;
      tile_q <= group_ends ? '0 : tile_q + 1'b1;
    end
  end

  // Beside the dot products: whether a beat begins or ends a block, and the scales.
  (* mase_register = "stages" *)
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] starts_q;
  logic [Latency-1:0] ends_q;
  logic [Latency-1:0][ROWS-1:0][DATA_IN_0.scale_width-1:0] data_scale_q;
  logic [Latency-1:0][OUT_LANES-1:0][WEIGHT.scale_width-1:0] weight_scale_q;
  logic [ROWS*IN_LANES-1:0][DATA_IN_0.width-1:0] data_q;
  logic [OUT_LANES*IN_LANES-1:0][WEIGHT.width-1:0] weight_q;

  always_ff @(posedge clk) begin
    if (rst) valid_q <= '0;
    else valid_q <= DotLatency'({valid_q, met});
  end

  always_ff @(posedge clk) begin
    starts_q <= DotLatency'({starts_q, starts});
    ends_q <= Latency'({ends_q, ends});
    data_scale_q <= (Latency * ROWS * DATA_IN_0.scale_width)'({data_scale_q, data_in_0_exponent});
    weight_scale_q <= (Latency * OUT_LANES * WEIGHT.scale_width)
        '({weight_scale_q, weight_exponent});
    data_q <= data_in_0;
    weight_q <= weight;
  end

  // The end of a block, and whether it is the first of its sum, stage by stage.
  logic ended;
  logic pending_q;
  logic [SumStages-4:0] end_q;
  logic [SumStages-4:0] first_q;

  assign ended = part_valid && ends_q[Latency-1];

  always_ff @(posedge clk) begin
    end_q <= (SumStages - 3)'({end_q, ended});
    first_q <= (SumStages - 3)'({first_q, part_first || pending_q});
    if (part_valid) pending_q <= !ends_q[Latency-1] && (part_first || pending_q);
  end

  // Bits of a unit that lie below a place in it.
  function automatic logic [Wide-1:0] below(input logic [UnitWidth-1:0] place);
    return ~({Wide{1'b1}} << place);
  endfunction

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic [Wide-1:0] start;
    exponent_t start_exponent_q;
    if (HAS_BIAS) begin : gen_bias
      logic [BIAS.width-1:0] code_q;
      logic [BIAS.scale_width-1:0] scale_q;
      logic signed [BIAS.significand_width-1:0] significand;
      logic [BIAS.exponent_width-1:0] shift;
      logic signed [BIAS.significand_width-1:0] significand_q[AlignStages-1];
      mase_scalar_decode #(
          .CODE(BIAS)
      ) u_bias (
          .code(code_q),
          .significand,
          .shift
      );
      always_ff @(posedge clk) begin
        if (part_valid && part_first) begin
          code_q  <= part_bias[o];
          scale_q <= part_bias_exponent;
        end
        significand_q[0] <= significand;
        start_exponent_q <=
            exponent_t'(int'({1'b0, scale_q}) + int'({1'b0, shift}) + StartPlace);
        for (int s = 1; s < int'(AlignStages) - 1; s++) significand_q[s] <= significand_q[s-1];
      end
      assign start =
          (Wide'(significand_q[AlignStages-2]) <<< BiasLeft) <<< (Unit - 1);
    end else begin : gen_no_bias
      assign start = '0;
      assign start_exponent_q = {1'b1, {(ExponentWidth - 1) {1'b0}}};
      localparam int UnusedPlace = StartPlace;
      logic unused_bias;
      assign unused_bias = |{part_bias[o], part_bias_exponent, UnusedPlace == 0};
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [DotWidth-1:0] dot;
      logic signed [BlockWidth-1:0] block_q[Wait+1];

      if (Integers) begin : gen_integers
        mase_dot_product #(
            .LANES(IN_LANES),
            .DATA_WIDTH(DATA_IN_0.width),
            .WEIGHT_WIDTH(WEIGHT.width),
            .SUM_WIDTH(DotWidth)
        ) u_dot (
            .clk,
            .data(data_q[r*IN_LANES+:IN_LANES]),
            .weight(weight_q[o*IN_LANES+:IN_LANES]),
            .sum(dot)
        );
      end else begin : gen_floats
        mase_scalar_dot_product #(
            .DATA(DATA_IN_0),
            .WEIGHT(WEIGHT),
            .LANES(IN_LANES),
            .SUM_WIDTH(DotWidth),
            .STAGES(4)
        ) u_dot (
            .clk,
            .valid('1),
            .data(data_in_0[r*IN_LANES+:IN_LANES]),
            .weight(weight[o*IN_LANES+:IN_LANES]),
            .sum(dot)
        );
      end

      always_ff @(posedge clk) begin
        if (valid_q[DotLatency-1]) begin
          block_q[0] <= (starts_q[DotLatency-1] ? '0 : block_q[0]) + BlockWidth'(dot);
        end
        for (int s = 1; s <= int'(Wait); s++) block_q[s] <= block_q[s-1];
      end

      // Exponents of a block and of the sum before and after it.
      logic [((DATA_IN_0.scale_width > WEIGHT.scale_width)
          ? DATA_IN_0.scale_width : WEIGHT.scale_width):0] scales_q;
      exponent_t part_exponent_q[2];
      exponent_t start_late_q;
      exponent_t base;
      exponent_t before_q;
      exponent_t sum_exponent_q;
      exponent_t after_q[ShiftStages+5];
      exponent_t top;
      exponent_t moved_exponent_q;
      // How far the block and the bias are shifted to the right, and the sum in units.
      logic [ExponentWidth:0] part_places_q;
      logic [ExponentWidth:0] start_places_q;
      logic [ExponentWidth-UnitWidth-1:0] sum_units_q;
      logic [ShiftWidth-1:0] part_shift_q;
      logic [ShiftWidth-1:0] start_shift_q;
      logic [UnitsWidth-1:0] units_q[ShiftStages+1];

      // Both comparisons begin with registers: which of them counts is known after.
      logic above_start;
      logic above_sum;
      exponent_t larger;
      assign base = first_q[1] ? start_exponent_q : sum_exponent_q;
      assign above_start = part_exponent_q[0] > start_exponent_q;
      assign above_sum = part_exponent_q[0] > sum_exponent_q;
      assign larger = (first_q[1] ? above_start : above_sum) ? part_exponent_q[0] : base;
      // The last place of the unit that holds the sum's.
      assign top = after_q[0] | exponent_t'(Unit - 1);

      always_ff @(posedge clk) begin
        scales_q <= $bits(scales_q)'(data_scale_q[Latency-1][r])
            + $bits(scales_q)'(weight_scale_q[Latency-1][o]);
        part_exponent_q[0] <= exponent_t'(int'({1'b0, scales_q}) + DotPlace);

        if (end_q[1]) sum_exponent_q <= larger;
        after_q[0] <= larger;
        before_q <= base;
        part_exponent_q[1] <= part_exponent_q[0];
        start_late_q <= start_exponent_q;

        part_places_q <= (ExponentWidth + 1)'(top) - (ExponentWidth + 1)'(part_exponent_q[1]);
        start_places_q <= (ExponentWidth + 1)'(top) - (ExponentWidth + 1)'(start_late_q);
        sum_units_q <= (ExponentWidth - UnitWidth)'(after_q[0] >>> UnitWidth)
            - (ExponentWidth - UnitWidth)'(before_q >>> UnitWidth);

        part_shift_q <= (part_places_q > (ExponentWidth + 1)'(Wide))
            ? ShiftWidth'(Wide) : ShiftWidth'(part_places_q);
        start_shift_q <= (start_places_q > (ExponentWidth + 1)'(Wide))
            ? ShiftWidth'(Wide) : ShiftWidth'(start_places_q);
        units_q[0] <= (32'(sum_units_q) > Units) ? UnitsWidth'(Units) : UnitsWidth'(sum_units_q);
        for (int s = 1; s < int'(ShiftStages) + 1; s++) units_q[s] <= units_q[s-1];
        for (int s = 1; s < int'(ShiftStages) + 5; s++) after_q[s] <= after_q[s-1];
      end

      // The block and the bias at their places, without the bits below the sum's last one.
      logic [Wide-1:0] part_shifted;
      logic [Wide-1:0] start_shifted;
      logic [Wide-1:0] mask_q;
      logic [1:0] unused_lost;

      mase_shift_right #(
          .WIDTH(Wide),
          .SHIFT_WIDTH(ShiftWidth)
      ) u_part (
          .clk,
          .data_in((Wide'(block_q[Wait]) <<< GUARD_BITS) <<< (Unit - 1)),
          .shift(part_shift_q),
          .data_out(part_shifted),
          .lost(unused_lost[0])
      );

      mase_shift_right #(
          .WIDTH(Wide),
          .SHIFT_WIDTH(ShiftWidth)
      ) u_start (
          .clk,
          .data_in(start),
          .shift(start_shift_q),
          .data_out(start_shifted),
          .lost(unused_lost[1])
      );

      // The sum moves while the block is here that is added to it next; a sum that moves, or begins,
      // gets back what is too large about it.
      logic [StoredWidth-1:0] restored;
      logic [StoredWidth-1:0] restored_q;
      logic [StoredWidth-1:0] block_addend_q;
      logic [StoredWidth-1:0] other_addend_q;
      logic [StoredWidth-1:0] addend_q;
      logic [StoredWidth-1:0] stored_q;
      logic [StoredWidth-1:0] added;
      logic [Wide-1:0] sum_q;
      logic [Wide-1:0] sum_mask_q;
      logic [UnitsWidth-1:0] move_q;
      logic begin_q;

      always_comb begin
        restored = '0;
        for (int unsigned k = 1; k <= Units; k++) begin
          if (units_q[ShiftStages-1] == UnitsWidth'(k)) begin
            restored = TooLarge - (TooLarge >> (k * Unit));
          end
        end
      end

      assign added = stored_q + addend_q;

      always_ff @(posedge clk) begin
        mask_q <= ~below(UnitWidth'(after_q[ShiftStages+1]));
        restored_q <= restored;
        move_q <= end_q[SumStages-4] ? units_q[ShiftStages] : '0;
        begin_q <= end_q[SumStages-4] && first_q[SumStages-4];

        block_addend_q <= '0;
        other_addend_q <= '0;
        if (end_q[SumStages-4]) begin
          block_addend_q <= StoredWidth'(signed'(part_shifted & mask_q));
          other_addend_q <= first_q[SumStages-4]
              ? StoredWidth'(signed'(start_shifted & mask_q)) ^ TooLarge : restored_q;
        end
        addend_q <= block_addend_q + other_addend_q;

        if (begin_q) stored_q <= '0;
        else stored_q <= added >> {move_q, UnitWidth'(0)};

        sum_mask_q <= ~below(UnitWidth'(after_q[ShiftStages+3]));
        sum_q <= Wide'(added ^ TooLarge) & sum_mask_q;
        moved_exponent_q <= after_q[ShiftStages+4];
      end

      assign mantissa[r*OUT_LANES+o] = sum_q;
      assign exponent[r*OUT_LANES+o] = moved_exponent_q & ~exponent_t'(Unit - 1);
    end
  end

endmodule

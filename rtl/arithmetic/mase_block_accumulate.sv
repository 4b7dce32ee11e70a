// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: result = encode(bias + the sum of the dot products of blocks with shared
// scales), for ROWS rows of OUT_LANES results. Elements are integers (KIND 0) or floats (KIND 1), see
// mase_block_encode; results are of any format, see mase_encode.
//
// The products of a block are summed exactly. Blocks, in order, are then added in floating point:
// of the sum so far and the next block, both with GUARD_BITS further bits, the one of the smaller
// exponent is shifted right, rounding down. The sum begins with the bias. Blocks of BLOCK_SIZE begin
// anew every GROUP_TERMS beats.
//
// A sum is complete 3 + ceil(log2(IN_LANES)) cycles after its last operands met. One beat per cycle
// without gaps.
module mase_block_accumulate #(
    parameter int unsigned TERMS = 4,
    parameter int unsigned GROUP_TERMS = 4,
    parameter int unsigned BLOCK_SIZE = 4,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    // Results of a row.
    parameter int unsigned SIZE = 8,

    parameter int unsigned DATA_KIND = 0,
    parameter int unsigned DATA_WIDTH = 8,
    parameter int unsigned DATA_EXPONENT_WIDTH = 4,
    parameter int DATA_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_SCALE_WIDTH = 8,
    parameter int DATA_SCALE_BIAS = 127,

    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_WIDTH = 8,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,
    parameter int WEIGHT_EXPONENT_BIAS = 7,
    parameter int unsigned WEIGHT_SCALE_WIDTH = 8,
    parameter int WEIGHT_SCALE_BIAS = 127,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_KIND = 0,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter int unsigned BIAS_EXPONENT_WIDTH = 4,
    parameter int BIAS_EXPONENT_BIAS = 7,
    parameter int unsigned BIAS_SCALE_WIDTH = 8,
    parameter int BIAS_SCALE_BIAS = 127,

    parameter int unsigned GUARD_BITS = 8,
    parameter int unsigned SUM_WIDTH  = 32,

    parameter bit OUT_BLOCK = 0,
    parameter int unsigned OUT_KIND = 0,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned OUT_ROUNDING = 0,
    parameter int unsigned OUT_OVERFLOW = 0,
    parameter int unsigned OUT_EXPONENT_WIDTH = 4,
    parameter int OUT_EXPONENT_BIAS = 7,
    parameter int unsigned OUT_MAXIMUM_CODE = 127,
    parameter bit OUT_SYMMETRIC = 1,
    parameter int unsigned OUT_BLOCK_SIZE = 4,
    parameter int OUT_SCALE_BIAS = 127,
    parameter int unsigned OUT_SCALE_CODES = 255,

    localparam int unsigned ScaleWidth = OUT_BLOCK ? unsigned'(OUT_FRACTION) : 1,
    localparam int unsigned Scales = OUT_BLOCK ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*IN_LANES-1:0][      DATA_WIDTH-1:0] data,
    input  logic [         ROWS-1:0][DATA_SCALE_WIDTH-1:0] data_scale,
    input  logic                                           data_valid,
    output logic                                           data_ready,

    input  logic [OUT_LANES*IN_LANES-1:0][      WEIGHT_WIDTH-1:0] weight,
    input  logic [         OUT_LANES-1:0][WEIGHT_SCALE_WIDTH-1:0] weight_scale,
    input  logic                                                  weight_valid,
    output logic                                                  weight_ready,

    input  logic [       OUT_LANES-1:0][BIAS_WIDTH-1:0] bias,
    input  logic [BIAS_SCALE_WIDTH-1:0]                 bias_scale,
    input  logic                                        bias_valid,
    output logic                                        bias_ready,

    output logic [ROWS*OUT_LANES-1:0][ OUT_WIDTH-1:0] result,
    output logic [        Scales-1:0][ScaleWidth-1:0] scale,
    output logic                                      result_valid,
    input  logic                                      result_ready
);

  localparam int unsigned TermWidth = (TERMS > 1) ? $clog2(TERMS) : 1;
  localparam int unsigned Wanted = BLOCK_SIZE / IN_LANES;
  localparam int unsigned BlockTerms = (Wanted < GROUP_TERMS) ? Wanted : GROUP_TERMS;
  localparam int unsigned GroupWidth = (GROUP_TERMS > 1) ? $clog2(GROUP_TERMS) : 1;
  localparam int unsigned BlockCountWidth = (BlockTerms > 1) ? $clog2(BlockTerms) : 1;
  localparam int unsigned Levels = $clog2(IN_LANES);
  localparam int unsigned DotLatency = 1 + Levels;
  localparam int unsigned Latency = DotLatency + 1;
  // Bits of an element as an integer in units of its lowest step.
  localparam int unsigned DataBits = (DATA_KIND == 1)
      ? DATA_WIDTH - DATA_EXPONENT_WIDTH + (1 << DATA_EXPONENT_WIDTH) - 1 : DATA_WIDTH;
  localparam int unsigned WeightBits = (WEIGHT_KIND == 1)
      ? WEIGHT_WIDTH - WEIGHT_EXPONENT_WIDTH + (1 << WEIGHT_EXPONENT_WIDTH) - 1 : WEIGHT_WIDTH;
  localparam int unsigned DotWidth = DataBits + WeightBits + Levels;
  localparam int unsigned BlockWidth = DotWidth + ((BlockTerms > 1) ? $clog2(BlockTerms) : 0);
  // Exponents of the lowest steps when the code of the scale is 0.
  localparam int unsigned PlaceWidth = 12;
  localparam int DataPlace = (DATA_KIND == 1)
      ? 2 + int'(DATA_EXPONENT_WIDTH) - int'(DATA_WIDTH) - DATA_EXPONENT_BIAS
      : 2 - int'(DATA_WIDTH);
  localparam int WeightPlace = (WEIGHT_KIND == 1)
      ? 2 + int'(WEIGHT_EXPONENT_WIDTH) - int'(WEIGHT_WIDTH) - WEIGHT_EXPONENT_BIAS
      : 2 - int'(WEIGHT_WIDTH);
  localparam int BiasPlace = (BIAS_KIND == 1)
      ? 2 + int'(BIAS_EXPONENT_WIDTH) - int'(BIAS_WIDTH) - BIAS_EXPONENT_BIAS
      : 2 - int'(BIAS_WIDTH);
  localparam int DotPlace =
      DataPlace + WeightPlace - DATA_SCALE_BIAS - WEIGHT_SCALE_BIAS - int'(GUARD_BITS);
  // A bias keeps as many further bits as a product has below it.
  localparam int unsigned BiasLeft = unsigned'(int'(GUARD_BITS) - DataPlace);
  localparam int StartPlace = BiasPlace - BIAS_SCALE_BIAS - int'(BiasLeft);

  if (BLOCK_SIZE % IN_LANES != 0 || TERMS % GROUP_TERMS != 0) begin : gen_block_check
    $error("IN_LANES must divide BLOCK_SIZE, and GROUP_TERMS must divide TERMS");
  end

  logic met;
  logic [TermWidth-1:0] unused_term;
  logic advance;
  logic part_valid;
  logic part_first;
  logic sum_valid;
  logic sum_ready;

  mase_accumulate_control #(
      .TERMS  (TERMS),
      .LATENCY(Latency)
  ) u_control (
      .clk,
      .rst,
      .data_in_valid(data_valid),
      .data_in_ready(data_ready),
      .weight_valid,
      .weight_ready,
      .bias_valid,
      .bias_ready,
      .met,
      .term(unused_term),
      .advance,
      .part_valid,
      .part_first,
      .sum_valid,
      .sum_ready
  );

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
    end else if (advance && met) begin
      part_q <= ends ? '0 : part_q + 1'b1;
      tile_q <= group_ends ? '0 : tile_q + 1'b1;
    end
  end

  // Beside the dot products: whether a beat begins or ends a block, and the scales.
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] starts_q;
  logic [Latency-1:0] ends_q;
  logic [Latency-1:0][ROWS-1:0][DATA_SCALE_WIDTH-1:0] data_scale_q;
  logic [Latency-1:0][OUT_LANES-1:0][WEIGHT_SCALE_WIDTH-1:0] weight_scale_q;

  always_ff @(posedge clk) begin
    if (rst) valid_q <= '0;
    else if (advance) valid_q <= DotLatency'({valid_q, met});
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      starts_q <= DotLatency'({starts_q, starts});
      ends_q <= Latency'({ends_q, ends});
      data_scale_q <= (Latency * ROWS * DATA_SCALE_WIDTH)'({data_scale_q, data_scale});
      weight_scale_q <= (Latency * OUT_LANES * WEIGHT_SCALE_WIDTH)'({weight_scale_q, weight_scale});
    end
  end

  logic [ROWS*OUT_LANES-1:0][ SUM_WIDTH-1:0] mantissa;
  logic [ROWS*OUT_LANES-1:0][PlaceWidth-1:0] exponent;

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [ SUM_WIDTH-1:0] start;
    logic signed [PlaceWidth-1:0] start_exponent;
    if (HAS_BIAS) begin : gen_bias
      localparam int unsigned BiasBits =
          (BIAS_KIND == 1) ? BIAS_WIDTH - BIAS_EXPONENT_WIDTH + 1 : BIAS_WIDTH + 2;
      logic signed [BiasBits-1:0] significand;
      logic [BIAS_EXPONENT_WIDTH-1:0] shift;
      mase_scalar_decode #(
          .KIND(BIAS_KIND),
          .WIDTH(BIAS_WIDTH),
          .EXPONENT_WIDTH(BIAS_EXPONENT_WIDTH),
          .SIGNIFICAND_WIDTH(BiasBits)
      ) u_bias (
          .code(bias[o]),
          .significand,
          .shift
      );
      assign start = SUM_WIDTH'(significand) <<< BiasLeft;
      assign start_exponent =
          PlaceWidth'(int'({1'b0, bias_scale}) + int'({1'b0, shift}) + StartPlace);
    end else begin : gen_no_bias
      assign start = '0;
      assign start_exponent = {1'b1, {(PlaceWidth - 1) {1'b0}}};
      localparam int UnusedPlace = StartPlace;
      logic unused_bias;
      assign unused_bias = |{bias[o], bias_scale, UnusedPlace == 0};
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [DotWidth-1:0] dot;
      logic signed [BlockWidth-1:0] block_q;
      logic signed [SUM_WIDTH-1:0] base;
      logic signed [SUM_WIDTH-1:0] part;
      logic signed [SUM_WIDTH-1:0] sum_q;
      logic signed [PlaceWidth-1:0] base_exponent;
      logic signed [PlaceWidth-1:0] part_exponent;
      logic signed [PlaceWidth-1:0] exponent_q;
      logic part_larger;
      logic [PlaceWidth-1:0] distance;

      if (DATA_KIND == 0 && WEIGHT_KIND == 0) begin : gen_integers
        mase_dot_product #(
            .LANES(IN_LANES),
            .DATA_WIDTH(DATA_WIDTH),
            .WEIGHT_WIDTH(WEIGHT_WIDTH),
            .SUM_WIDTH(DotWidth)
        ) u_dot (
            .clk,
            .enable(advance),
            .data(data[r*IN_LANES+:IN_LANES]),
            .weight(weight[o*IN_LANES+:IN_LANES]),
            .sum(dot)
        );
      end else begin : gen_floats
        mase_scalar_dot_product #(
            .LANES(IN_LANES),
            .DATA_KIND(DATA_KIND),
            .DATA_WIDTH(DATA_WIDTH),
            .DATA_EXPONENT_WIDTH(DATA_EXPONENT_WIDTH),
            .WEIGHT_KIND(WEIGHT_KIND),
            .WEIGHT_WIDTH(WEIGHT_WIDTH),
            .WEIGHT_EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
            .SUM_WIDTH(DotWidth)
        ) u_dot (
            .clk,
            .enable(advance),
            .valid('1),
            .data(data[r*IN_LANES+:IN_LANES]),
            .weight(weight[o*IN_LANES+:IN_LANES]),
            .sum(dot)
        );
      end

      always_ff @(posedge clk) begin
        if (advance && valid_q[DotLatency-1]) begin
          block_q <= (starts_q[DotLatency-1] ? '0 : block_q) + BlockWidth'(dot);
        end
      end

      assign base = part_first ? start : sum_q;
      assign base_exponent = part_first ? start_exponent : exponent_q;
      assign part = SUM_WIDTH'(block_q) <<< GUARD_BITS;
      assign part_exponent = PlaceWidth'(int'({1'b0, data_scale_q[Latency-1][r]})
          + int'({1'b0, weight_scale_q[Latency-1][o]}) + DotPlace);
      assign part_larger = part_exponent > base_exponent;
      assign distance = part_larger ? part_exponent - base_exponent : base_exponent - part_exponent;

      always_ff @(posedge clk) begin
        if (advance && part_valid) begin
          if (!ends_q[Latency-1]) begin
            sum_q <= base;
            exponent_q <= base_exponent;
          end else begin
            sum_q <= part_larger ? (base >>> distance) + part : base + (part >>> distance);
            exponent_q <= part_larger ? part_exponent : base_exponent;
          end
        end
      end

      assign mantissa[r*OUT_LANES+o] = sum_q;
      assign exponent[r*OUT_LANES+o] = exponent_q;
    end
  end

  mase_encode #(
      .ROWS(ROWS),
      .LANES(OUT_LANES),
      .SIZE(SIZE),
      .IN_WIDTH(SUM_WIDTH),
      .PLACE_WIDTH(PlaceWidth),
      .BLOCK(OUT_BLOCK),
      .KIND(OUT_KIND),
      .OUT_WIDTH(OUT_WIDTH),
      .OUT_FRACTION(OUT_FRACTION),
      .OUT_SIGNED(OUT_SIGNED),
      .ROUNDING(OUT_ROUNDING),
      .OVERFLOW(OUT_OVERFLOW),
      .EXPONENT_WIDTH(OUT_EXPONENT_WIDTH),
      .EXPONENT_BIAS(OUT_EXPONENT_BIAS),
      .MAXIMUM_CODE(OUT_MAXIMUM_CODE),
      .SYMMETRIC(OUT_SYMMETRIC),
      .BLOCK_SIZE(OUT_BLOCK_SIZE),
      .SCALE_BIAS(OUT_SCALE_BIAS),
      .SCALE_CODES(OUT_SCALE_CODES)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(result),
      .scale,
      .data_out_valid(result_valid),
      .data_out_ready(result_ready)
  );

endmodule

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
// A sum is complete 3 + ceil(log2(IN_LANES)) cycles after its last operands met. One beat per cycle
// without gaps.
module mase_block_accumulate
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t WEIGHT = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter bit HAS_BIAS = 1,
    parameter format_t BIAS = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
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

  localparam int unsigned Wanted = DATA_IN_0.block_size / IN_LANES;
  localparam int unsigned BlockTerms = (Wanted < GROUP_TERMS) ? Wanted : GROUP_TERMS;
  localparam int unsigned GroupWidth = index_width(GROUP_TERMS);
  localparam int unsigned BlockCountWidth = index_width(BlockTerms);
  localparam int unsigned DotLatency = 1 + $clog2(IN_LANES);
  localparam int unsigned Latency = DotLatency + 1;
  // A product of significands, and how far it may be shifted.
  localparam int unsigned DotWidth = DATA_IN_0.significand_width + WEIGHT.significand_width
      + (1 << DATA_IN_0.exponent_width) + (1 << WEIGHT.exponent_width) - 4 + $clog2(IN_LANES);
  localparam int unsigned BlockWidth = DotWidth + ((BlockTerms > 1) ? $clog2(BlockTerms) : 0);
  localparam int DotPlace = DATA_IN_0.lowest_step + WEIGHT.lowest_step - int'(GUARD_BITS);
  // A bias keeps as many further bits as a product has below it.
  localparam int unsigned BiasLeft =
      unsigned'(int'(GUARD_BITS) - DATA_IN_0.lowest_step - DATA_IN_0.scale_bias);
  localparam int StartPlace = BIAS.lowest_step - int'(BiasLeft);

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
  logic [ROWS*OUT_LANES-1:0][SUM_WIDTH-1:0] result;
  exponent_t [ROWS*OUT_LANES-1:0] result_exponent;
  logic [ROWS*OUT_LANES-1:0][SUM_WIDTH-1:0] mantissa;
  exponent_t [ROWS*OUT_LANES-1:0] exponent;
  logic sum_valid;
  logic sum_ready;

  mase_accumulate_pipeline #(
      .TERMS(TERMS),
      .PART_STAGES(Latency),
      .RESULT_STAGES(1),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(OUT_LANES * BIAS.width + BIAS.scale_width),
      .WIDTH(ROWS * OUT_LANES * (SUM_WIDTH + $bits(exponent_t)))
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
      .result({result_exponent, result}),
      .data_out({exponent, mantissa}),
      .data_out_valid(sum_valid),
      .data_out_ready(sum_ready)
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
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] starts_q;
  logic [Latency-1:0] ends_q;
  logic [Latency-1:0][ROWS-1:0][DATA_IN_0.scale_width-1:0] data_scale_q;
  logic [Latency-1:0][OUT_LANES-1:0][WEIGHT.scale_width-1:0] weight_scale_q;

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
  end

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [SUM_WIDTH-1:0] start;
    exponent_t start_exponent;
    if (HAS_BIAS) begin : gen_bias
      logic signed [BIAS.significand_width-1:0] significand;
      logic [BIAS.exponent_width-1:0] shift;
      mase_scalar_decode #(
          .CODE(BIAS)
      ) u_bias (
          .code(part_bias[o]),
          .significand,
          .shift
      );
      assign start = SUM_WIDTH'(significand) <<< BiasLeft;
      assign start_exponent =
          exponent_t'(int'({1'b0, part_bias_exponent}) + int'({1'b0, shift}) + StartPlace);
    end else begin : gen_no_bias
      assign start = '0;
      assign start_exponent = {1'b1, {($bits(exponent_t) - 1) {1'b0}}};
      localparam int UnusedPlace = StartPlace;
      logic unused_bias;
      assign unused_bias = |{part_bias[o], part_bias_exponent, UnusedPlace == 0};
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [DotWidth-1:0] dot;
      logic signed [BlockWidth-1:0] block_q;
      logic signed [SUM_WIDTH-1:0] base;
      logic signed [SUM_WIDTH-1:0] part;
      logic signed [SUM_WIDTH-1:0] sum_q;
      exponent_t base_exponent;
      exponent_t part_exponent;
      exponent_t exponent_q;
      logic part_larger;
      logic [$bits(exponent_t)-1:0] distance;

      if (DATA_IN_0.encoding == Integer && WEIGHT.encoding == Integer) begin : gen_integers
        mase_dot_product #(
            .LANES(IN_LANES),
            .DATA_WIDTH(DATA_IN_0.width),
            .WEIGHT_WIDTH(WEIGHT.width),
            .SUM_WIDTH(DotWidth)
        ) u_dot (
            .clk,
            .data(data_in_0[r*IN_LANES+:IN_LANES]),
            .weight(weight[o*IN_LANES+:IN_LANES]),
            .sum(dot)
        );
      end else begin : gen_floats
        mase_scalar_dot_product #(
            .DATA(DATA_IN_0),
            .WEIGHT(WEIGHT),
            .LANES(IN_LANES),
            .SUM_WIDTH(DotWidth)
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
          block_q <= (starts_q[DotLatency-1] ? '0 : block_q) + BlockWidth'(dot);
        end
      end

      assign base = part_first ? start : sum_q;
      assign base_exponent = part_first ? start_exponent : exponent_q;
      assign part = SUM_WIDTH'(block_q) <<< GUARD_BITS;
      assign part_exponent = exponent_t'(int'({1'b0, data_scale_q[Latency-1][r]})
          + int'({1'b0, weight_scale_q[Latency-1][o]}) + DotPlace);
      assign part_larger = part_exponent > base_exponent;
      assign distance = part_larger ? part_exponent - base_exponent : base_exponent - part_exponent;

      always_ff @(posedge clk) begin
        if (part_valid) begin
          if (!ends_q[Latency-1]) begin
            sum_q <= base;
            exponent_q <= base_exponent;
          end else begin
            sum_q <= part_larger ? (base >>> distance) + part : base + (part >>> distance);
            exponent_q <= part_larger ? part_exponent : base_exponent;
          end
        end
      end

      assign result[r*OUT_LANES+o] = sum_q;
      assign result_exponent[r*OUT_LANES+o] = exponent_q;
    end
  end

  mase_encode #(
      .IN_WIDTH(SUM_WIDTH),
      .DATA_OUT(DATA_OUT_0),
      .ROWS(ROWS),
      .LANES(OUT_LANES),
      .SIZE(SIZE)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

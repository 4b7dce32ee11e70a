// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: data_out_0 = encode(bias + the sum over beats and lanes that count of
// data_in_0 * weight), every product and sum exact, rounded once, for ROWS rows of OUT_LANES results.
// Operands are of any scalar formats, see mase_scalar_decode, the result of any format, see
// mase_encode.
//
// Of the last of every GROUP_TERMS beats only TAIL lanes count; with MARKED, which takes one row, a
// lane counts if the bit above it is set. Sums are in units of 2**-SUM_FRACTION; products and biases
// are shifted to it. A sum is complete 3 + ceil(log2(IN_LANES)) cycles after its last operands met, 2
// more with floats. One beat per cycle without gaps.
module mase_scalar_accumulate
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t WEIGHT = fixed(8, 4),
    parameter bit HAS_BIAS = 1,
    parameter format_t BIAS = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned TERMS = 4,
    parameter int unsigned GROUP_TERMS = 4,
    parameter int unsigned TAIL = 4,
    parameter bit MARKED = 0,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    // Results of a row.
    parameter int unsigned SIZE = 8,
    parameter int unsigned SUM_WIDTH = 32,
    parameter int SUM_FRACTION = 8,
    parameter int unsigned DOT_SHIFT = 0,
    parameter int unsigned BIAS_SHIFT = 4,

    localparam int unsigned InWidth = DATA_IN_0.width + (MARKED ? 1 : 0),
    localparam int unsigned Scales = (DATA_OUT_0.block_size > 0) ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*IN_LANES-1:0][InWidth-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [OUT_LANES*IN_LANES-1:0][WEIGHT.width-1:0] weight,
    input  logic                                            weight_valid,
    output logic                                            weight_ready,

    input  logic [OUT_LANES-1:0][BIAS.width-1:0] bias,
    input  logic                                 bias_valid,
    output logic                                 bias_ready,

    output logic [ROWS*OUT_LANES-1:0][      DATA_OUT_0.width-1:0] data_out_0,
    output logic [        Scales-1:0][DATA_OUT_0.scale_width-1:0] data_out_0_exponent,
    output logic                                                  data_out_0_valid,
    input  logic                                                  data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned GroupWidth = index_width(GROUP_TERMS);

  if (MARKED && ROWS > 1 || TERMS % GROUP_TERMS != 0) begin : gen_group_check
    $error("GROUP_TERMS must divide TERMS, and MARKED takes one row");
  end

  localparam int unsigned DotStages = HAS_BIAS && BIAS.encoding == Float
      ? 4 : dot_stages(DATA_IN_0.encoding, WEIGHT.encoding);
  // A part and its bias are announced so many cycles before their sums are here.
  localparam int unsigned BiasStages = DotStages - 1;

  logic met;
  logic part_valid;
  logic part_first;
  (* mase_register = "stages" *)
  logic [BiasStages-1:0] valid_q;
  logic [BiasStages-1:0] first_q;
  logic [OUT_LANES-1:0][BIAS.width-1:0] part_bias;
  logic [ROWS*OUT_LANES-1:0][SUM_WIDTH-1:0] sums;

  mase_accumulate_encode #(
      .TERMS(TERMS),
      .PART_STAGES(1 + $clog2(IN_LANES)),
      .SUM_STAGES(BiasStages + 1),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(OUT_LANES * BIAS.width),
      .SUM_WIDTH(SUM_WIDTH),
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
      .bias,
      .bias_valid,
      .bias_ready,
      .part_valid,
      .part_first,
      .part_bias,
      .mantissa(sums),
      .exponent({ROWS * OUT_LANES{exponent_t'(-SUM_FRACTION)}}),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

  always_ff @(posedge clk) begin
    valid_q <= BiasStages'({valid_q, part_valid});
    first_q <= BiasStages'({first_q, part_first});
  end

  assign met = data_in_0_valid && data_in_0_ready;

  // Where in its group the beat lies that meets its weights, and which of its lanes count.
  logic [GroupWidth-1:0] place_q;
  logic group_ends;
  logic [ROWS*IN_LANES-1:0][DATA_IN_0.width-1:0] data;
  logic [IN_LANES-1:0] lanes;

  assign group_ends = place_q == GroupWidth'(GROUP_TERMS - 1);

  always_ff @(posedge clk) begin
    if (rst) place_q <= '0;
    else if (met) place_q <= group_ends ? '0 : place_q + 1'b1;
  end

  for (genvar i = 0; i < ROWS * IN_LANES; i++) begin : gen_data
    assign data[i] = data_in_0[i][DATA_IN_0.width-1:0];
  end
  for (genvar i = 0; i < IN_LANES; i++) begin : gen_lane
    logic counts;
    assign counts = i < TAIL || !group_ends;
    if (MARKED) begin : gen_marked
      assign lanes[i] = counts && data_in_0[i][InWidth-1];
    end else begin : gen_all
      assign lanes[i] = counts;
    end
  end

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [SUM_WIDTH-1:0] start;
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
      if (BIAS.encoding == Float) begin : gen_shift
        logic signed [BIAS.significand_width-1:0] significand_q;
        logic [BIAS.exponent_width-1:0] shift_q;
        logic [BIAS.exponent_width-1:0] coarse_q;
        logic signed [BIAS.significand_width+2:0] fine_q;
        logic signed [SUM_WIDTH-1:0] start_q;
        always_ff @(posedge clk) begin
          significand_q <= significand;
          shift_q <= shift;
          fine_q <= (BIAS.significand_width + 3)'(significand_q) <<< (shift_q & 3);
          coarse_q <= shift_q & ~BIAS.exponent_width'(3);
          start_q <= (SUM_WIDTH'(fine_q) <<< BIAS_SHIFT) <<< coarse_q;
        end
        assign start = start_q;
      end else begin : gen_same_step
        logic signed [SUM_WIDTH-1:0] start_q[BiasStages];
        always_ff @(posedge clk) begin
          start_q[0] <= SUM_WIDTH'(significand) <<< BIAS_SHIFT;
          for (int s = 1; s < int'(BiasStages); s++) start_q[s] <= start_q[s-1];
        end
        assign start = start_q[BiasStages-1];
        logic unused_shift;
        assign unused_shift = |shift;
      end
    end else begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |part_bias[o];
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [SUM_WIDTH-1:0] dot;
      logic signed [SUM_WIDTH-1:0] sum_q;

      mase_scalar_dot_product #(
          .DATA(DATA_IN_0),
          .WEIGHT(WEIGHT),
          .LANES(IN_LANES),
          .SUM_WIDTH(SUM_WIDTH),
          .STAGES(DotStages)
      ) u_dot (
          .clk,
          .valid(lanes),
          .data(data[r*IN_LANES+:IN_LANES]),
          .weight(weight[o*IN_LANES+:IN_LANES]),
          .sum(dot)
      );

      always_ff @(posedge clk) begin
        if (valid_q[BiasStages-1]) begin
          sum_q <= (first_q[BiasStages-1] ? start : sum_q) + (dot <<< DOT_SHIFT);
        end
      end
      assign sums[r*OUT_LANES+o] = sum_q;
    end
  end

endmodule

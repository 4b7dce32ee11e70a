// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: data_out_0 = cast(bias + the sum over beats and lanes of data_in_0 * weight), in
// fixed point, every product and sum exact, rounded once, for ROWS rows of OUT_LANES results.
//
// All results of a row share the row's IN_LANES elements; with SEPARATE each result has IN_LANES
// elements of its own, which lie OUT_LANES apart. With TAIL, only so many elements of a row count in
// the last beat of a sum. With EVERY, sums grow: EVERY of them have one beat, EVERY two and so on up to
// TERMS, and after SUMS those of one come again. Weights come as [results, elements] beside the data, a bias tile once per
// result tile. One beat per cycle without gaps; a result is offered 7 + ceil(log2(IN_LANES)) cycles
// after its last operands met: operands, products, a tree of adders, the sum, its rounding and its
// bounds each have a register. Results of a row share their elements: a DEVICE may have blocks that
// make two products at once, or four (mase_dot_shared).
module mase_multiply_accumulate
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t WEIGHT = fixed(8, 4),
    parameter bit HAS_BIAS = 1,
    parameter format_t BIAS = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned TERMS = 4,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    parameter bit SEPARATE = 0,
    parameter int unsigned ACCUMULATOR_WIDTH = 20,
    parameter int unsigned TAIL = 0,
    parameter int unsigned EVERY = 0,
    parameter int unsigned SUMS = 1,
    parameter device_e DEVICE = Generic,
    // Whether weights and biases come from memories that never pause (mase_accumulate_pipeline).
    parameter bit STEADY = 0,

    localparam int unsigned DataLanes = ROWS * IN_LANES * (SEPARATE ? OUT_LANES : 1)
) (
    input logic clk,
    input logic rst,

    input  logic [DataLanes-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                      data_in_0_valid,
    output logic                                      data_in_0_ready,

    input  logic [OUT_LANES*IN_LANES-1:0][WEIGHT.width-1:0] weight,
    input  logic                                            weight_valid,
    output logic                                            weight_ready,

    input  logic [OUT_LANES-1:0][BIAS.width-1:0] bias,
    input  logic                                 bias_valid,
    output logic                                 bias_ready,

    output logic [ROWS*OUT_LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                            data_out_0_valid,
    input  logic                                            data_out_0_ready
);

  localparam int unsigned DotWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1)
      + WEIGHT.width + (WEIGHT.is_signed ? 0 : 1) + $clog2(IN_LANES);
  localparam int ProductFraction = DATA_IN_0.fraction + WEIGHT.fraction;
  localparam int Fraction = (HAS_BIAS && BIAS.fraction > ProductFraction)
      ? BIAS.fraction : ProductFraction;
  localparam int unsigned DotShift = unsigned'(Fraction - ProductFraction);
  localparam int unsigned BiasShift = HAS_BIAS ? unsigned'(Fraction - BIAS.fraction) : 0;

  // Results of a row whose products come from one block, and those of which there are as many.
  localparam int unsigned Group = SEPARATE ? 1 : block_products(
      DEVICE, DATA_IN_0.width, DATA_IN_0.is_signed, WEIGHT.width, WEIGHT.is_signed
  );
  localparam int unsigned Grouped = (Group == 1) ? 0 : OUT_LANES / Group * Group;

  localparam int unsigned RoundedWidth = rounded_width(ACCUMULATOR_WIDTH, Fraction, DATA_OUT_0);

  logic part_valid;
  logic [ROWS*OUT_LANES-1:0] part_first;
  logic [OUT_LANES-1:0][BIAS.width-1:0] part_bias;
  logic [DataLanes-1:0][DATA_IN_0.width-1:0] data;
  logic [DataLanes-1:0][DATA_IN_0.width-1:0] data_q;
  logic [OUT_LANES*IN_LANES-1:0][WEIGHT.width-1:0] weight_q;
  logic [ROWS-1:0][OUT_LANES-1:0][DotWidth-1:0] dots;
  logic [ROWS*OUT_LANES-1:0][DATA_OUT_0.width-1:0] result;

  always_ff @(posedge clk) begin
    weight_q <= weight;
    data_q   <= data;
  end

  if (TAIL == 0) begin : gen_all
    assign data = data_in_0;
  end else begin : gen_tail
    localparam int unsigned TermWidth = index_width(TERMS);
    logic [TermWidth-1:0] unused_term;
    logic last;

    mase_counter #(
        .COUNT(TERMS),
        .WIDTH(TermWidth)
    ) u_term (
        .clk,
        .rst,
        .enable(data_in_0_valid && data_in_0_ready),
        .count(unused_term),
        .last
    );

    for (genvar d = 0; d < DataLanes; d++) begin : gen_element
      assign data[d] = (last && d % IN_LANES >= TAIL) ? '0 : data_in_0[d];
    end
  end

  mase_accumulate_pipeline #(
      .TERMS(TERMS),
      .EVERY(EVERY),
      .SUMS(SUMS),
      .PART_STAGES(2 + $clog2(IN_LANES)),
      .RESULT_STAGES(3),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(OUT_LANES * BIAS.width),
      .WIDTH(ROWS * OUT_LANES * DATA_OUT_0.width),
      .STEADY(STEADY),
      .COPIES(ROWS * OUT_LANES)
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
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

  for (genvar r = 0; r < ROWS; r++) begin : gen_dots
    for (genvar o = 0; o < Grouped; o += Group) begin : gen_group
      mase_dot_shared #(
          .LANES(IN_LANES),
          .RESULTS(Group),
          .SHARED_WIDTH(DATA_IN_0.width),
          .SHARED_SIGNED(DATA_IN_0.is_signed),
          .OWN_WIDTH(WEIGHT.width),
          .OWN_SIGNED(WEIGHT.is_signed),
          .SUM_WIDTH(DotWidth),
          .DEVICE(DEVICE)
      ) u_group (
          .clk,
          .shared(data[r*IN_LANES+:IN_LANES]),
          .own(weight[o*IN_LANES+:Group*IN_LANES]),
          .sum(dots[r][o+:Group])
      );
    end

    for (genvar o = Grouped; o < OUT_LANES; o++) begin : gen_single
      logic [IN_LANES-1:0][DATA_IN_0.width-1:0] elements;

      if (SEPARATE) begin : gen_separate
        for (genvar i = 0; i < IN_LANES; i++) begin : gen_element
          assign elements[i] = data_q[i*OUT_LANES+o];
        end
      end else begin : gen_shared
        assign elements = data_q[r*IN_LANES+:IN_LANES];
      end

      mase_dot_product #(
          .LANES(IN_LANES),
          .DATA_WIDTH(DATA_IN_0.width),
          .DATA_SIGNED(DATA_IN_0.is_signed),
          .WEIGHT_WIDTH(WEIGHT.width),
          .WEIGHT_SIGNED(WEIGHT.is_signed),
          .SUM_WIDTH(DotWidth)
      ) u_dot (
          .clk,
          .data(elements),
          .weight(weight_q[o*IN_LANES+:IN_LANES]),
          .sum(dots[r][o])
      );
    end
  end

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [ACCUMULATOR_WIDTH-1:0] start;
    if (!HAS_BIAS) begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |part_bias[o];
    end else if (BIAS.is_signed) begin : gen_bias_signed
      assign start = ACCUMULATOR_WIDTH'(signed'(part_bias[o])) <<< BiasShift;
    end else begin : gen_bias_unsigned
      assign start = ACCUMULATOR_WIDTH'(part_bias[o]) << BiasShift;
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic [DotWidth-1:0] dot;
      logic signed [ACCUMULATOR_WIDTH-1:0] addend;
      logic signed [ACCUMULATOR_WIDTH-1:0] sum_q;
      logic [RoundedWidth-1:0] rounded;
      logic [RoundedWidth-1:0] rounded_q;
      logic [DATA_OUT_0.width-1:0] bounded;

      assign dot = dots[r][o];
      assign addend = ACCUMULATOR_WIDTH'(signed'(dot)) <<< DotShift;
      if (DotWidth > ACCUMULATOR_WIDTH) begin : gen_narrow
        // The actual weights bound the sums closer than the width of any product.
        logic unused_dot;
        assign unused_dot = ^dot[DotWidth-1:ACCUMULATOR_WIDTH];
      end

      always_ff @(posedge clk) begin
        if (part_valid) sum_q <= (part_first[r*OUT_LANES+o] ? start : sum_q) + addend;
      end

      mase_fixed_round #(
          .IN_WIDTH(ACCUMULATOR_WIDTH),
          .IN_FRACTION(Fraction),
          .DATA_OUT(DATA_OUT_0)
      ) u_round (
          .data_in (sum_q),
          .data_out(rounded)
      );

      always_ff @(posedge clk) rounded_q <= rounded;

      mase_fixed_bound #(
          .IN_WIDTH(RoundedWidth),
          .DATA_OUT(DATA_OUT_0)
      ) u_bound (
          .data_in (rounded_q),
          .data_out(bounded)
      );

      always_ff @(posedge clk) result[r*OUT_LANES+o] <= bounded;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: data_out_0 = cast(bias + the sum over beats and lanes of data_in_0 * weight), in
// fixed point, every product and sum exact, rounded once, for ROWS rows of OUT_LANES results.
//
// All results of a row share the row's IN_LANES elements; with SEPARATE each result has IN_LANES
// elements of its own, which lie OUT_LANES apart. Weights come as [results, elements] beside the
// data, a bias tile once per result tile. One beat per cycle without gaps; a result is offered
// 3 + ceil(log2(IN_LANES)) cycles after its last operands met.
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

  logic unused_met;
  logic [index_width(TERMS)-1:0] unused_term;
  logic advance;
  logic part_valid;
  logic part_first;
  logic sum_valid;
  logic sum_ready;
  logic [ROWS*OUT_LANES-1:0][DATA_OUT_0.width-1:0] rounded;

  mase_accumulate_control #(
      .TERMS  (TERMS),
      .LATENCY(1 + $clog2(IN_LANES))
  ) u_control (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .weight_valid,
      .weight_ready,
      .bias_valid,
      .bias_ready,
      .met(unused_met),
      .term(unused_term),
      .advance,
      .part_valid,
      .part_first,
      .sum_valid,
      .sum_ready
  );

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [ACCUMULATOR_WIDTH-1:0] start;
    if (!HAS_BIAS) begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |bias[o];
    end else if (BIAS.is_signed) begin : gen_bias_signed
      assign start = ACCUMULATOR_WIDTH'(signed'(bias[o])) <<< BiasShift;
    end else begin : gen_bias_unsigned
      assign start = ACCUMULATOR_WIDTH'(bias[o]) << BiasShift;
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic [IN_LANES-1:0][DATA_IN_0.width-1:0] elements;
      logic [DotWidth-1:0] dot;
      logic signed [ACCUMULATOR_WIDTH-1:0] addend;
      logic signed [ACCUMULATOR_WIDTH-1:0] sum_q;

      if (SEPARATE) begin : gen_separate
        for (genvar i = 0; i < IN_LANES; i++) begin : gen_element
          assign elements[i] = data_in_0[i*OUT_LANES+o];
        end
      end else begin : gen_shared
        assign elements = data_in_0[r*IN_LANES+:IN_LANES];
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
          .enable(advance),
          .data(elements),
          .weight(weight[o*IN_LANES+:IN_LANES]),
          .sum(dot)
      );

      assign addend = ACCUMULATOR_WIDTH'(signed'(dot)) <<< DotShift;
      if (DotWidth > ACCUMULATOR_WIDTH) begin : gen_narrow
        // The actual weights bound the sums closer than the width of any product.
        logic unused_dot;
        assign unused_dot = ^dot[DotWidth-1:ACCUMULATOR_WIDTH];
      end

      always_ff @(posedge clk) begin
        if (advance && part_valid) sum_q <= (part_first ? start : sum_q) + addend;
      end

      mase_fixed_cast #(
          .IN_WIDTH(ACCUMULATOR_WIDTH),
          .IN_FRACTION(Fraction),
          .DATA_OUT(DATA_OUT_0)
      ) u_cast (
          .data_in (sum_q),
          .data_out(rounded[r*OUT_LANES+o])
      );
    end
  end

  mase_stream_register #(
      .WIDTH(ROWS * OUT_LANES * DATA_OUT_0.width)
  ) u_result (
      .clk,
      .rst,
      .data_in(rounded),
      .data_in_valid(sum_valid),
      .data_in_ready(sum_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

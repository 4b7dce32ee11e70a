// SPDX-License-Identifier: Apache-2.0
// Every TERMS beats: result = cast(bias + the sum over beats and lanes of data * weight), every
// product and sum exact, rounded once, for ROWS rows of OUT_LANES results.
//
// All results of a row share the row's IN_LANES elements; with SEPARATE each result has IN_LANES
// elements of its own. Weights come as [results, elements] beside the data, a bias tile once per
// result tile. One beat per cycle without gaps; a result is offered 3 + ceil(log2(IN_LANES)) cycles
// after its last operands met.
module mase_multiply_accumulate #(
    parameter int unsigned TERMS = 4,
    parameter int unsigned ROWS = 1,
    parameter int unsigned IN_LANES = 4,
    parameter int unsigned OUT_LANES = 4,
    parameter bit SEPARATE = 0,
    parameter int unsigned DATA_WIDTH = 8,
    parameter int DATA_FRACTION = 4,
    parameter bit DATA_SIGNED = 1,
    parameter int unsigned WEIGHT_WIDTH = 8,
    parameter int WEIGHT_FRACTION = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter int BIAS_FRACTION = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned ACCUMULATOR_WIDTH = 20,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned OUT_ROUNDING = 0,
    parameter int unsigned OUT_OVERFLOW = 0,

    localparam int unsigned DataLanes = ROWS * IN_LANES * (SEPARATE ? OUT_LANES : 1)
) (
    input logic clk,
    input logic rst,

    input  logic [DataLanes-1:0][DATA_WIDTH-1:0] data,
    input  logic                                 data_valid,
    output logic                                 data_ready,

    input  logic [OUT_LANES*IN_LANES-1:0][WEIGHT_WIDTH-1:0] weight,
    input  logic                                            weight_valid,
    output logic                                            weight_ready,

    input  logic [OUT_LANES-1:0][BIAS_WIDTH-1:0] bias,
    input  logic                                 bias_valid,
    output logic                                 bias_ready,

    output logic [ROWS*OUT_LANES-1:0][OUT_WIDTH-1:0] result,
    output logic                                     result_valid,
    input  logic                                     result_ready
);

  localparam int unsigned TermWidth = (TERMS > 1) ? $clog2(TERMS) : 1;
  localparam int unsigned Levels = $clog2(IN_LANES);
  localparam int unsigned DotLatency = 1 + Levels;
  localparam int unsigned DotWidth = DATA_WIDTH + (DATA_SIGNED ? 0 : 1)
      + WEIGHT_WIDTH + (WEIGHT_SIGNED ? 0 : 1) + Levels;
  localparam int ProductFraction = DATA_FRACTION + WEIGHT_FRACTION;
  localparam int AccFraction = (HAS_BIAS && BIAS_FRACTION > ProductFraction)
      ? BIAS_FRACTION : ProductFraction;
  localparam int unsigned DotShift = unsigned'(AccFraction - ProductFraction);
  localparam int unsigned BiasShift = HAS_BIAS ? unsigned'(AccFraction - BIAS_FRACTION) : 0;

  logic operands_valid;
  logic advance;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, data_valid}),
      .data_in_ready ({weight_ready, data_ready}),
      .data_out_valid(operands_valid),
      .data_out_ready(advance)
  );

  // Which term of the sum the operands are, carried beside the dot products.
  logic [TermWidth-1:0] term_q;
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] first_q;
  logic [DotLatency-1:0] last_q;
  logic last;

  assign last = term_q == TermWidth'(TERMS - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      term_q  <= '0;
      valid_q <= '0;
    end else if (advance) begin
      if (operands_valid) term_q <= last ? '0 : term_q + 1'b1;
      valid_q <= DotLatency'({valid_q, operands_valid});
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      first_q <= DotLatency'({first_q, term_q == '0});
      last_q  <= DotLatency'({last_q, last});
    end
  end

  logic dot_valid;
  logic dot_first;
  logic sum_valid_q;
  logic sum_moves;

  assign dot_valid = valid_q[DotLatency-1];
  assign dot_first = first_q[DotLatency-1];
  assign sum_moves = sum_valid_q && (!result_valid || result_ready);
  assign advance = !(sum_valid_q && !sum_moves) && !(dot_valid && dot_first && !bias_valid);
  assign bias_ready = dot_valid && dot_first && !(sum_valid_q && !sum_moves);

  always_ff @(posedge clk) begin
    if (rst) sum_valid_q <= 1'b0;
    else if (advance) sum_valid_q <= dot_valid && last_q[DotLatency-1];
    else if (sum_moves) sum_valid_q <= 1'b0;
  end

  always_ff @(posedge clk) begin
    if (rst) result_valid <= 1'b0;
    else if (!result_valid || result_ready) result_valid <= sum_valid_q;
  end

  for (genvar o = 0; o < OUT_LANES; o++) begin : gen_out
    logic signed [ACCUMULATOR_WIDTH-1:0] start;
    if (!HAS_BIAS) begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |bias[o];
    end else if (BIAS_SIGNED) begin : gen_bias_signed
      assign start = ACCUMULATOR_WIDTH'(signed'(bias[o])) <<< BiasShift;
    end else begin : gen_bias_unsigned
      assign start = ACCUMULATOR_WIDTH'(bias[o]) << BiasShift;
    end

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      localparam int unsigned Place = SEPARATE ? r * OUT_LANES + o : r;
      logic [DotWidth-1:0] dot;
      logic signed [ACCUMULATOR_WIDTH-1:0] addend;
      logic signed [ACCUMULATOR_WIDTH-1:0] sum_q;
      logic [OUT_WIDTH-1:0] rounded;

      mase_dot_product #(
          .LANES(IN_LANES),
          .DATA_WIDTH(DATA_WIDTH),
          .DATA_SIGNED(DATA_SIGNED),
          .WEIGHT_WIDTH(WEIGHT_WIDTH),
          .WEIGHT_SIGNED(WEIGHT_SIGNED),
          .SUM_WIDTH(DotWidth)
      ) u_dot (
          .clk,
          .enable(advance),
          .data(data[Place*IN_LANES+:IN_LANES]),
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
        if (advance && dot_valid) sum_q <= (dot_first ? start : sum_q) + addend;
      end

      mase_fixed_cast #(
          .IN_WIDTH(ACCUMULATOR_WIDTH),
          .IN_FRACTION(AccFraction),
          .OUT_WIDTH(OUT_WIDTH),
          .OUT_FRACTION(OUT_FRACTION),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING(OUT_ROUNDING),
          .OVERFLOW(OUT_OVERFLOW)
      ) u_cast (
          .data_in (sum_q),
          .data_out(rounded)
      );

      always_ff @(posedge clk) begin
        if (sum_moves) result[r*OUT_LANES+o] <= rounded;
      end
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// sum = data[0] * weight[0] + ... over the lanes that are valid, exact modulo 2**SUM_WIDTH, in units
// of the product of both formats' smallest steps; formats as in mase_scalar_decode.
// Significands are multiplied and shifted; of two single signs the equal ones are counted.
// Latency 1 + ceil(log2(LANES)) enabled cycles, throughput one per cycle.
module mase_scalar_dot_product #(
    parameter int unsigned LANES = 4,
    parameter int unsigned DATA_KIND = 0,
    parameter int unsigned DATA_WIDTH = 8,
    parameter bit DATA_SIGNED = 1,
    parameter int unsigned DATA_EXPONENT_WIDTH = 4,
    parameter int unsigned WEIGHT_KIND = 0,
    parameter int unsigned WEIGHT_WIDTH = 8,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_EXPONENT_WIDTH = 4,
    parameter int unsigned SUM_WIDTH = 20
) (
    input  logic                                      clk,
    input  logic                                      enable,
    input  logic        [LANES-1:0]                   valid,
    input  logic        [LANES-1:0][  DATA_WIDTH-1:0] data,
    input  logic        [LANES-1:0][WEIGHT_WIDTH-1:0] weight,
    output logic signed [SUM_WIDTH-1:0]               sum
);

  localparam int unsigned Levels = $clog2(LANES);
  localparam bit Signs = DATA_KIND == 2 && WEIGHT_KIND == 2 && DATA_WIDTH == 1 && WEIGHT_WIDTH == 1;
  // Of signs, the equal ones are counted: sum = 2 * count - lanes.
  localparam int unsigned TermWidth = Signs ? $clog2(LANES + 1) + 1 : SUM_WIDTH;

  logic signed [TermWidth-1:0] term_q[LANES];

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    if (Signs) begin : gen_signs
      always_ff @(posedge clk) begin
        if (enable) term_q[i] <= TermWidth'(valid[i] && (data[i] == weight[i]));
      end
    end else begin : gen_product
      localparam int unsigned DataBits =
          (DATA_KIND == 1) ? DATA_WIDTH - DATA_EXPONENT_WIDTH + 1 : DATA_WIDTH + 2;
      localparam int unsigned WeightBits =
          (WEIGHT_KIND == 1) ? WEIGHT_WIDTH - WEIGHT_EXPONENT_WIDTH + 1 : WEIGHT_WIDTH + 2;
      logic signed [DataBits-1:0] data_significand;
      logic signed [WeightBits-1:0] weight_significand;
      logic signed [DataBits+WeightBits-1:0] product;
      logic [DATA_EXPONENT_WIDTH-1:0] data_shift;
      logic [WEIGHT_EXPONENT_WIDTH-1:0] weight_shift;
      int unsigned shift;

      mase_scalar_decode #(
          .KIND(DATA_KIND),
          .WIDTH(DATA_WIDTH),
          .SIGNED(DATA_SIGNED),
          .EXPONENT_WIDTH(DATA_EXPONENT_WIDTH),
          .SIGNIFICAND_WIDTH(DataBits)
      ) u_data (
          .code(data[i]),
          .significand(data_significand),
          .shift(data_shift)
      );

      mase_scalar_decode #(
          .KIND(WEIGHT_KIND),
          .WIDTH(WEIGHT_WIDTH),
          .SIGNED(WEIGHT_SIGNED),
          .EXPONENT_WIDTH(WEIGHT_EXPONENT_WIDTH),
          .SIGNIFICAND_WIDTH(WeightBits)
      ) u_weight (
          .code(weight[i]),
          .significand(weight_significand),
          .shift(weight_shift)
      );

      assign product = data_significand * weight_significand;
      assign shift = 32'(data_shift) + 32'(weight_shift);

      always_ff @(posedge clk) begin
        if (enable) term_q[i] <= valid[i] ? TermWidth'(product) <<< shift : '0;
      end
    end
  end

  for (genvar l = 0; l < Levels; l++) begin : gen_level
    localparam int unsigned Inputs = (LANES + (1 << l) - 1) >> l;
    localparam int unsigned Outputs = (Inputs + 1) / 2;
    logic signed [TermWidth-1:0] sum_q[Outputs];
    for (genvar i = 0; i < Outputs; i++) begin : gen_sum
      logic signed [TermWidth-1:0] left;
      logic signed [TermWidth-1:0] right;
      if (l == 0) begin : gen_terms
        assign left = term_q[2*i];
        if (2 * i + 1 < Inputs) begin : gen_pair
          assign right = term_q[2*i+1];
        end else begin : gen_single
          assign right = '0;
        end
      end else begin : gen_sums
        assign left = gen_level[l-1].sum_q[2*i];
        if (2 * i + 1 < Inputs) begin : gen_pair
          assign right = gen_level[l-1].sum_q[2*i+1];
        end else begin : gen_single
          assign right = '0;
        end
      end
      always_ff @(posedge clk) begin
        if (enable) sum_q[i] <= left + right;
      end
    end
  end

  logic signed [TermWidth-1:0] total;
  if (Levels == 0) begin : gen_single_lane
    assign total = term_q[0];
  end else begin : gen_tree
    assign total = gen_level[Levels-1].sum_q[0];
  end

  if (Signs) begin : gen_count
    logic signed [TermWidth-1:0] lanes_q[Levels+1];
    always_ff @(posedge clk) begin
      if (enable) begin
        lanes_q[0] <= TermWidth'($countones(valid));
        for (int l = 1; l <= int'(Levels); l++) lanes_q[l] <= lanes_q[l-1];
      end
    end
    assign sum = (SUM_WIDTH'(total) <<< 1) - SUM_WIDTH'(lanes_q[Levels]);
  end else begin : gen_sum
    assign sum = total;
  end

endmodule

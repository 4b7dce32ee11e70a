// SPDX-License-Identifier: Apache-2.0
// sum = data[0] * weight[0] + ... over the lanes that are valid, exact modulo 2**SUM_WIDTH, in units
// of the product of both formats' lowest steps; formats as in mase_scalar_decode.
// Significands are multiplied and shifted; of two single signs the equal ones are counted.
// Latency STAGES + ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
module mase_scalar_dot_product
  import mase_pkg::*;
#(
    parameter format_t DATA = fixed(8, 4),
    parameter format_t WEIGHT = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter int unsigned SUM_WIDTH = 20,
    // Decoded, multiplied; with floats 4, also shifted, in two steps.
    parameter int unsigned STAGES = dot_stages(DATA.encoding, WEIGHT.encoding)
) (
    input  logic                                      clk,
    input  logic        [LANES-1:0]                   valid,
    input  logic        [LANES-1:0][  DATA.width-1:0] data,
    input  logic        [LANES-1:0][WEIGHT.width-1:0] weight,
    output logic signed [SUM_WIDTH-1:0]               sum
);

  localparam int unsigned Depth = $clog2(LANES);
  localparam bit Signs = DATA.encoding == Levels && DATA.width == 1
      && WEIGHT.encoding == Levels && WEIGHT.width == 1;
  // Of signs, the equal ones are counted: sum = 2 * count - lanes.
  localparam int unsigned TermWidth = Signs ? $clog2(LANES + 1) + 1 : SUM_WIDTH;

  if (STAGES != 4 && STAGES != dot_stages(DATA.encoding, WEIGHT.encoding)) begin : gen_stages_check
    $error("STAGES must be 4, or 2 without floats");
  end

  logic signed [TermWidth-1:0] term_q[LANES];

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    if (Signs) begin : gen_signs
      // One of the stages is behind the tree.
      logic [STAGES-2:0] equal_q;
      always_ff @(posedge clk) begin
        equal_q <= (STAGES - 1)'({equal_q, valid[i] && data[i] == weight[i]});
      end
      assign term_q[i] = TermWidth'({1'b0, equal_q[STAGES-2]});
    end else begin : gen_product
      localparam int unsigned DataBits = DATA.significand_width;
      localparam int unsigned WeightBits = WEIGHT.significand_width;
      localparam int unsigned ShiftWidth = ((DATA.exponent_width > WEIGHT.exponent_width)
          ? DATA.exponent_width : WEIGHT.exponent_width) + 1;
      logic signed [DataBits-1:0] data_significand;
      logic signed [WeightBits-1:0] weight_significand;
      logic signed [DataBits-1:0] data_q;
      logic signed [WeightBits-1:0] weight_q;
      logic signed [DataBits+WeightBits-1:0] product_q;
      logic [DATA.exponent_width-1:0] data_shift;
      logic [WEIGHT.exponent_width-1:0] weight_shift;

      mase_scalar_decode #(
          .CODE(DATA)
      ) u_data (
          .code(data[i]),
          .significand(data_significand),
          .shift(data_shift)
      );

      mase_scalar_decode #(
          .CODE(WEIGHT)
      ) u_weight (
          .code(weight[i]),
          .significand(weight_significand),
          .shift(weight_shift)
      );

      always_ff @(posedge clk) begin
        data_q <= valid[i] ? data_significand : '0;
        weight_q <= weight_significand;
        product_q <= data_q * weight_q;
      end

      if (STAGES == 2) begin : gen_same_step
        assign term_q[i] = TermWidth'(product_q);
        logic unused_shift;
        assign unused_shift = |{data_shift, weight_shift};
      end else begin : gen_shift
        // First by up to three places, then by multiples of four.
        localparam int unsigned FineBits = DataBits + WeightBits + 3;
        logic [DATA.exponent_width-1:0] data_shift_q;
        logic [WEIGHT.exponent_width-1:0] weight_shift_q;
        logic [ShiftWidth-1:0] shift_q;
        logic [ShiftWidth-1:0] coarse_q;
        logic signed [FineBits-1:0] fine_q;
        logic signed [TermWidth-1:0] shifted_q;
        always_ff @(posedge clk) begin
          data_shift_q <= data_shift;
          weight_shift_q <= weight_shift;
          shift_q <= ShiftWidth'(data_shift_q) + ShiftWidth'(weight_shift_q);
          fine_q <= FineBits'(product_q) <<< shift_q[1:0];
          coarse_q <= shift_q & ~ShiftWidth'(3);
          shifted_q <= TermWidth'(fine_q) <<< coarse_q;
        end
        assign term_q[i] = shifted_q;
      end
    end
  end

  for (genvar l = 0; l < Depth; l++) begin : gen_level
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
        sum_q[i] <= left + right;
      end
    end
  end

  logic signed [TermWidth-1:0] total;
  if (Depth == 0) begin : gen_single_lane
    assign total = term_q[0];
  end else begin : gen_tree
    assign total = gen_level[Depth-1].sum_q[0];
  end

  if (Signs) begin : gen_count
    localparam int unsigned Last = STAGES - 2 + Depth;
    logic signed [TermWidth-1:0] lanes_q[Last+1];
    logic signed [SUM_WIDTH-1:0] sum_q;
    always_ff @(posedge clk) begin
      lanes_q[0] <= TermWidth'($countones(valid));
      for (int l = 1; l <= int'(Last); l++) lanes_q[l] <= lanes_q[l-1];
      sum_q <= (SUM_WIDTH'(total) <<< 1) - SUM_WIDTH'(lanes_q[Last]);
    end
    assign sum = sum_q;
  end else begin : gen_sum
    assign sum = total;
  end

endmodule

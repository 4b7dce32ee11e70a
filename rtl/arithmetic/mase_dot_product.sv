// SPDX-License-Identifier: Apache-2.0
// sum = data[0] * weight[0] + ... + data[LANES-1] * weight[LANES-1], exact.
// Latency 1 + ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
module mase_dot_product #(
    parameter int unsigned LANES = 4,
    parameter int unsigned DATA_WIDTH = 8,
    parameter bit DATA_SIGNED = 1,
    parameter int unsigned WEIGHT_WIDTH = 8,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned SUM_WIDTH = 18
) (
    input  logic                               clk,
    input  logic [LANES-1:0][  DATA_WIDTH-1:0] data,
    input  logic [LANES-1:0][WEIGHT_WIDTH-1:0] weight,
    output logic [                SUM_WIDTH-1:0] sum
);

  // An unsigned operand gets a zero on top.
  localparam int unsigned DataWidth = DATA_WIDTH + (DATA_SIGNED ? 0 : 1);
  localparam int unsigned WeightWidth = WEIGHT_WIDTH + (WEIGHT_SIGNED ? 0 : 1);
  localparam int unsigned ProductWidth = DataWidth + WeightWidth;

  if (SUM_WIDTH != ProductWidth + $clog2(LANES)) begin : gen_width_check
    $error("SUM_WIDTH must be %0d", ProductWidth + $clog2(LANES));
  end

  logic [LANES-1:0][ProductWidth-1:0] product;

  for (genvar i = 0; i < LANES; i++) begin : gen_product
    logic signed [DataWidth-1:0] data_lane;
    logic signed [WeightWidth-1:0] weight_lane;
    logic signed [ProductWidth-1:0] product_q;
    if (DATA_SIGNED) begin : gen_data_signed
      assign data_lane = signed'(data[i]);
    end else begin : gen_data_unsigned
      assign data_lane = signed'({1'b0, data[i]});
    end
    if (WEIGHT_SIGNED) begin : gen_weight_signed
      assign weight_lane = signed'(weight[i]);
    end else begin : gen_weight_unsigned
      assign weight_lane = signed'({1'b0, weight[i]});
    end
    always_ff @(posedge clk) begin
      product_q <= data_lane * weight_lane;
    end
    assign product[i] = product_q;
  end

  mase_adder_tree #(
      .LANES(LANES),
      .WIDTH(ProductWidth)
  ) u_tree (
      .clk,
      .addend(product),
      .sum
  );

endmodule

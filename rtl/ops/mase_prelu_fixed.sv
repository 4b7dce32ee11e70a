// SPDX-License-Identifier: Apache-2.0
// out = cast(in < 0 ? weight * in : in), element by element; every beat comes with its slopes.
// Products are exact, rounding and saturation as the result says. Latency 1 cycle, throughput 1
// beat per cycle.
module mase_prelu_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t WEIGHT = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][WEIGHT.width-1:0] weight,
    input  logic                               weight_valid,
    output logic                               weight_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  // Two's complement for both: an unsigned value gets a zero on top.
  localparam int unsigned InWidth = DATA_IN_0.significand_width;
  localparam int unsigned SlopeWidth = WEIGHT.significand_width;
  localparam int unsigned ProductWidth = InWidth + SlopeWidth;

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [InWidth-1:0] operand;
    logic signed [SlopeWidth-1:0] slope;
    logic signed [ProductWidth-1:0] product;
    logic [DATA_OUT_0.width-1:0] scaled;
    logic [DATA_OUT_0.width-1:0] kept;

    assign operand = DATA_IN_0.is_signed ? InWidth'(signed'(data_in_0[i])) : InWidth'(data_in_0[i]);
    assign slope = WEIGHT.is_signed ? SlopeWidth'(signed'(weight[i])) : SlopeWidth'(weight[i]);
    assign product = operand * slope;

    mase_fixed_cast #(
        .IN_WIDTH(ProductWidth),
        .IN_FRACTION(DATA_IN_0.fraction + WEIGHT.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_scaled (
        .data_in (product),
        .data_out(scaled)
    );

    mase_fixed_cast #(
        .IN_WIDTH(InWidth),
        .IN_FRACTION(DATA_IN_0.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_kept (
        .data_in (operand),
        .data_out(kept)
    );

    assign result[i] = operand[InWidth-1] ? scaled : kept;
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, data_in_0_valid}),
      .data_in_ready ({weight_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  mase_stream_register #(
      .WIDTH(LANES * DATA_OUT_0.width)
  ) u_register (
      .clk(clk),
      .rst(rst),
      .data_in(result),
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

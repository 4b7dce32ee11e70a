// SPDX-License-Identifier: Apache-2.0
// out = cast(in < 0 ? weight * in : in), element by element; every beat comes with its slopes.
// Products are exact, rounding and saturation as the result says. Latency 1 cycle, throughput 1
// beat per cycle.
module mase_prelu_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [Lanes-1:0][    WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                         weight_valid,
    output logic                                         weight_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_shape_error
    $error("mase_prelu_fixed: operand and result differ in size or parallelism");
  end
  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != WEIGHT_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != WEIGHT_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != WEIGHT_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != WEIGHT_PARALLELISM_DIM_1) begin : gen_weight_error
    $error("mase_prelu_fixed: operand and broadcast weight differ in size or parallelism");
  end

  // Two's complement for both: an unsigned value gets a zero on top.
  localparam int unsigned InWidth = DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1);
  localparam int unsigned SlopeWidth = WEIGHT_PRECISION_0 + (WEIGHT_SIGNED ? 0 : 1);
  localparam int unsigned ProductWidth = InWidth + SlopeWidth;

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    logic signed [InWidth-1:0] operand;
    logic signed [SlopeWidth-1:0] slope;
    logic signed [ProductWidth-1:0] product;
    logic [DATA_OUT_0_PRECISION_0-1:0] scaled;
    logic [DATA_OUT_0_PRECISION_0-1:0] kept;

    assign operand = DATA_IN_0_SIGNED ? InWidth'(signed'(data_in_0[i])) : InWidth'(data_in_0[i]);
    assign slope = WEIGHT_SIGNED ? SlopeWidth'(signed'(weight[i])) : SlopeWidth'(weight[i]);
    assign product = operand * slope;

    mase_fixed_cast #(
        .IN_WIDTH(ProductWidth),
        .IN_FRACTION(DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW)
    ) u_scaled (
        .data_in (product),
        .data_out(scaled)
    );

    mase_fixed_cast #(
        .IN_WIDTH(InWidth),
        .IN_FRACTION(DATA_IN_0_PRECISION_1),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW)
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
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
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

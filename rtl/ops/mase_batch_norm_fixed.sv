// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * weight + bias), lane by lane, exact and rounded once.
// Latency 3 cycles, throughput 1 beat per cycle.
module mase_batch_norm_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 1,

    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,

    localparam int unsigned Lanes = DATA_OUT_0_PARALLELISM_DIM_0 * DATA_OUT_0_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    input  logic [Lanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                        weight_valid,
    output logic                                        weight_ready,

    input  logic [Lanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input  logic                                   bias_valid,
    output logic                                   bias_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int ExactFraction = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1;
  localparam int unsigned ExactWidth = DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1)
      + WEIGHT_PRECISION_0 + (WEIGHT_SIGNED ? 0 : 1);

  logic [Lanes-1:0][ExactWidth-1:0] product;
  logic product_valid;
  logic product_ready;

  mase_mul_fixed #(
      .DATA_IN_0_PRECISION_0(DATA_IN_0_PRECISION_0),
      .DATA_IN_0_PRECISION_1(DATA_IN_0_PRECISION_1),
      .DATA_IN_0_SIGNED(DATA_IN_0_SIGNED),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(DATA_IN_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(DATA_IN_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(DATA_IN_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(DATA_IN_0_PARALLELISM_DIM_1),
      .DATA_IN_1_PRECISION_0(WEIGHT_PRECISION_0),
      .DATA_IN_1_PRECISION_1(WEIGHT_PRECISION_1),
      .DATA_IN_1_SIGNED(WEIGHT_SIGNED),
      .DATA_IN_1_TENSOR_SIZE_DIM_0(WEIGHT_TENSOR_SIZE_DIM_0),
      .DATA_IN_1_TENSOR_SIZE_DIM_1(WEIGHT_TENSOR_SIZE_DIM_1),
      .DATA_IN_1_PARALLELISM_DIM_0(WEIGHT_PARALLELISM_DIM_0),
      .DATA_IN_1_PARALLELISM_DIM_1(WEIGHT_PARALLELISM_DIM_1),
      .DATA_OUT_0_PRECISION_0(ExactWidth),
      .DATA_OUT_0_PRECISION_1(ExactFraction),
      .DATA_OUT_0_SIGNED(1),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(DATA_OUT_0_PARALLELISM_DIM_1)
  ) u_mul (
      .clk,
      .rst,
      .data_in_0,
      .data_in_0_valid,
      .data_in_0_ready,
      .data_in_1(weight),
      .data_in_1_valid(weight_valid),
      .data_in_1_ready(weight_ready),
      .data_out_0(product),
      .data_out_0_valid(product_valid),
      .data_out_0_ready(product_ready)
  );

  mase_add_fixed #(
      .DATA_IN_0_PRECISION_0(ExactWidth),
      .DATA_IN_0_PRECISION_1(ExactFraction),
      .DATA_IN_0_SIGNED(1),
      .DATA_IN_0_TENSOR_SIZE_DIM_0(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_IN_0_TENSOR_SIZE_DIM_1(DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_IN_0_PARALLELISM_DIM_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_IN_0_PARALLELISM_DIM_1(DATA_OUT_0_PARALLELISM_DIM_1),
      .DATA_IN_1_PRECISION_0(BIAS_PRECISION_0),
      .DATA_IN_1_PRECISION_1(BIAS_PRECISION_1),
      .DATA_IN_1_SIGNED(BIAS_SIGNED),
      .DATA_IN_1_TENSOR_SIZE_DIM_0(BIAS_TENSOR_SIZE_DIM_0),
      .DATA_IN_1_TENSOR_SIZE_DIM_1(BIAS_TENSOR_SIZE_DIM_1),
      .DATA_IN_1_PARALLELISM_DIM_0(BIAS_PARALLELISM_DIM_0),
      .DATA_IN_1_PARALLELISM_DIM_1(BIAS_PARALLELISM_DIM_1),
      .DATA_OUT_0_PRECISION_0(DATA_OUT_0_PRECISION_0),
      .DATA_OUT_0_PRECISION_1(DATA_OUT_0_PRECISION_1),
      .DATA_OUT_0_SIGNED(DATA_OUT_0_SIGNED),
      .DATA_OUT_0_TENSOR_SIZE_DIM_0(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .DATA_OUT_0_TENSOR_SIZE_DIM_1(DATA_OUT_0_TENSOR_SIZE_DIM_1),
      .DATA_OUT_0_PARALLELISM_DIM_0(DATA_OUT_0_PARALLELISM_DIM_0),
      .DATA_OUT_0_PARALLELISM_DIM_1(DATA_OUT_0_PARALLELISM_DIM_1),
      .DATA_OUT_0_ROUNDING(DATA_OUT_0_ROUNDING),
      .DATA_OUT_0_OVERFLOW(DATA_OUT_0_OVERFLOW)
  ) u_add (
      .clk,
      .rst,
      .data_in_0(product),
      .data_in_0_valid(product_valid),
      .data_in_0_ready(product_ready),
      .data_in_1(bias),
      .data_in_1_valid(bias_valid),
      .data_in_1_ready(bias_ready),
      .data_out_0,
      .data_out_0_valid,
      .data_out_0_ready
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * data_in_1), lane by lane, exact and rounded once.
// Latency 2 cycles, throughput 1 beat per cycle.
module mase_mul_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_IN_1_PRECISION_0 = 8,
    parameter int DATA_IN_1_PRECISION_1 = 4,
    parameter bit DATA_IN_1_SIGNED = 1,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_1 = 1,

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

    input  logic [Lanes-1:0][DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic                                        data_in_1_valid,
    output logic                                        data_in_1_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int unsigned LeftWidth = DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1);
  localparam int unsigned RightWidth = DATA_IN_1_PRECISION_0 + (DATA_IN_1_SIGNED ? 0 : 1);
  localparam int ExactFraction = DATA_IN_0_PRECISION_1 + DATA_IN_1_PRECISION_1;
  localparam int unsigned ExactWidth = LeftWidth + RightWidth;

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_1_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_1_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1) begin : gen_size_check
    $error("data_in_0, data_in_1 and data_out_0 must have one size");
  end
  if (DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1
      || DATA_IN_1_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_1_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_lanes_check
    $error("data_in_0, data_in_1 and data_out_0 must have one parallelism");
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({data_in_1_valid, data_in_0_valid}),
      .data_in_ready ({data_in_1_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  logic [Lanes-1:0][ExactWidth-1:0] product;
  logic [Lanes-1:0][ExactWidth-1:0] exact;
  logic exact_valid;
  logic exact_ready;
  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [RightWidth-1:0] right;
    if (DATA_IN_0_SIGNED) begin : gen_left_signed
      assign left = signed'(data_in_0[i]);
    end else begin : gen_left_unsigned
      assign left = signed'({1'b0, data_in_0[i]});
    end
    if (DATA_IN_1_SIGNED) begin : gen_right_signed
      assign right = signed'(data_in_1[i]);
    end else begin : gen_right_unsigned
      assign right = signed'({1'b0, data_in_1[i]});
    end
    assign product[i] = ExactWidth'(left) * ExactWidth'(right);

    mase_fixed_cast #(
        .IN_WIDTH(ExactWidth),
        .IN_FRACTION(ExactFraction),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW)
    ) u_cast (
        .data_in (exact[i]),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * ExactWidth)
  ) u_product (
      .clk,
      .rst,
      .data_in(product),
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .data_out(exact),
      .data_out_valid(exact_valid),
      .data_out_ready(exact_ready)
  );

  mase_stream_register #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(exact_valid),
      .data_in_ready(exact_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference (OPERATION 1) or product (2), lane by
// lane, on blocks of integers with shared scales: exact, see mase_scaled_arithmetic, and encoded in
// blocks once. Blocks of operands and result may differ in size. Exact results follow their
// operands by 1 cycle; see mase_block_encode for the rest. Throughput 1 beat per cycle.
module mase_binary_mxint #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 8,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_IN_1_PRECISION_0 = 8,
    parameter int DATA_IN_1_PRECISION_1 = 8,
    parameter int DATA_IN_1_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_1_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_1_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_1_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 8,
    parameter int DATA_OUT_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_OUT_0_SCALE_CODES = 255,
    parameter int unsigned DATA_OUT_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned OPERATION   = 0,
    parameter int unsigned GUARD_BITS  = 10,
    parameter int unsigned EXACT_WIDTH = 19,

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned Columns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned Lanes = Rows * Columns,
    localparam int unsigned LeftScaleWidth = unsigned'(DATA_IN_0_PRECISION_1),
    localparam int unsigned RightScaleWidth = unsigned'(DATA_IN_1_PRECISION_1),
    localparam int unsigned OutScaleWidth = unsigned'(DATA_OUT_0_PRECISION_1)
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic [ Rows-1:0][       LeftScaleWidth-1:0] data_in_0_exponent,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    input  logic [Lanes-1:0][DATA_IN_1_PRECISION_0-1:0] data_in_1,
    input  logic [ Rows-1:0][      RightScaleWidth-1:0] data_in_1_exponent,
    input  logic                                        data_in_1_valid,
    output logic                                        data_in_1_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [ Rows-1:0][         OutScaleWidth-1:0] data_out_0_exponent,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int LeftOffset = 2 - int'(DATA_IN_0_PRECISION_0) - DATA_IN_0_SCALE_BIAS;
  localparam int RightOffset = 2 - int'(DATA_IN_1_PRECISION_0) - DATA_IN_1_SCALE_BIAS;
  localparam int unsigned ExactBits = EXACT_WIDTH + 12;

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
  if (DATA_IN_0_BLOCK_SIZE % Columns != 0 || DATA_IN_1_BLOCK_SIZE % Columns != 0) begin : gen_blocks
    $error("the tiles of a row must divide the blocks");
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

  logic [Lanes-1:0][EXACT_WIDTH-1:0] exact;
  logic [Lanes-1:0][11:0] exact_exponent;
  logic [Lanes-1:0][EXACT_WIDTH-1:0] mantissa;
  logic [Lanes-1:0][11:0] exponent;
  logic exact_valid;
  logic exact_ready;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    mase_scaled_arithmetic #(
        .OPERATION  (OPERATION),
        .LEFT_WIDTH (DATA_IN_0_PRECISION_0),
        .RIGHT_WIDTH(DATA_IN_1_PRECISION_0),
        .GUARD_BITS (GUARD_BITS),
        .OUT_WIDTH  (EXACT_WIDTH)
    ) u_arithmetic (
        .left(data_in_0[i]),
        .left_exponent(12'(int'({1'b0, data_in_0_exponent[i/Columns]}) + LeftOffset)),
        .right(data_in_1[i]),
        .right_exponent(12'(int'({1'b0, data_in_1_exponent[i/Columns]}) + RightOffset)),
        .result(exact[i]),
        .exponent(exact_exponent[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * ExactBits)
  ) u_exact (
      .clk,
      .rst,
      .data_in({exact_exponent, exact}),
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .data_out({exponent, mantissa}),
      .data_out_valid(exact_valid),
      .data_out_ready(exact_ready)
  );

  mase_block_encode #(
      .ROWS(Rows),
      .LANES(Columns),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
      .IN_WIDTH(EXACT_WIDTH),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .SCALE_WIDTH(OutScaleWidth),
      .SCALE_BIAS(DATA_OUT_0_SCALE_BIAS),
      .SCALE_CODES(DATA_OUT_0_SCALE_CODES),
      .SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(exact_valid),
      .data_in_ready(exact_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

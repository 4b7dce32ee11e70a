// SPDX-License-Identifier: Apache-2.0
// Fixed point out of blocks of integers with shared scales. Latency 1 cycle, throughput 1 beat per
// cycle.
module mase_cast_mxint_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 8,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned Columns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned Lanes = Rows * Columns,
    localparam int unsigned ScaleWidth = unsigned'(DATA_IN_0_PRECISION_1)
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic [Rows-1:0][ScaleWidth-1:0] data_in_0_exponent,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_size_check
    $error("data_in_0 and data_out_0 must have one size and one parallelism");
  end
  if (DATA_IN_0_BLOCK_SIZE % Columns != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  localparam int unsigned ExponentWidth = 12;
  localparam int unsigned InWidth = DATA_IN_0_PRECISION_0;
  localparam int Offset = 2 - int'(DATA_IN_0_PRECISION_0) - DATA_IN_0_SCALE_BIAS;

  logic [Lanes-1:0][InWidth-1:0] mantissa;
  logic [Lanes-1:0][ExponentWidth-1:0] exponent;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    assign mantissa[i] = data_in_0[i];
    assign exponent[i] = ExponentWidth'(int'({1'b0, data_in_0_exponent[i/Columns]}) + Offset);
  end

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_cast
    mase_scaled_cast #(
        .IN_WIDTH(InWidth),
        .EXPONENT_WIDTH(ExponentWidth),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW)
    ) u_cast (
        .data_in (mantissa[i]),
        .exponent(exponent[i]),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

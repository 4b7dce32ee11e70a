// SPDX-License-Identifier: Apache-2.0
// Blocks of integers with shared scales out of fixed point; latency as mase_block_encode.
module mase_cast_fixed_mxint #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

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

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned Columns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned Lanes = Rows * Columns,
    localparam int unsigned OutScaleWidth = unsigned'(DATA_OUT_0_PRECISION_1)
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [Rows-1:0][OutScaleWidth-1:0] data_out_0_exponent,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_size_check
    $error("data_in_0 and data_out_0 must have one size and one parallelism");
  end

  localparam int unsigned ExponentWidth = 12;
  localparam int unsigned InWidth = DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1);

  logic [Lanes-1:0][InWidth-1:0] mantissa;
  logic [Lanes-1:0][ExponentWidth-1:0] exponent;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    if (DATA_IN_0_SIGNED) begin : gen_signed
      assign mantissa[i] = data_in_0[i];
    end else begin : gen_unsigned
      assign mantissa[i] = {1'b0, data_in_0[i]};
    end
    assign exponent[i] = ExponentWidth'(-DATA_IN_0_PRECISION_1);
  end

  mase_block_encode #(
      .ROWS(Rows),
      .LANES(Columns),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
      .IN_WIDTH(InWidth),
      .EXPONENT_WIDTH(ExponentWidth),
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
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

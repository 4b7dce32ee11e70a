// SPDX-License-Identifier: Apache-2.0
// out = table[in], element by element: any function of one operand of at most 12 bits, a float or
// fixed point. The file holds the result for every bit pattern, already rounded; all lanes read the
// same memory. Latency 1 cycle, throughput 1 beat per cycle.
module mase_unary_table_minifloat #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter string TABLE_FILE = "",

    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
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
  if (DATA_IN_0_PRECISION_0 > 12) begin : gen_width_check
    $error("the operand has %0d bits; at most 12", DATA_IN_0_PRECISION_0);
  end

  // The file knows both formats; they must be floats or fixed point.
  localparam bit OperandKnown = DATA_IN_0_KIND == 0
      ? DATA_IN_0_PRECISION_1 >= -64 && DATA_IN_0_PRECISION_1 <= 64
          && DATA_IN_0_PRECISION_0 > 32'(DATA_IN_0_SIGNED)
      : DATA_IN_0_KIND == 1 && DATA_IN_0_PRECISION_0 > DATA_IN_0_EXPONENT_WIDTH
          && DATA_IN_0_EXPONENT_BIAS >= -255 && DATA_IN_0_EXPONENT_BIAS <= 255;
  localparam bit ResultKnown = DATA_OUT_0_KIND == 0
      ? DATA_OUT_0_PRECISION_1 >= -64 && DATA_OUT_0_PRECISION_1 <= 64
          && DATA_OUT_0_PRECISION_0 > 32'(DATA_OUT_0_SIGNED)
          && DATA_OUT_0_ROUNDING <= 3 && DATA_OUT_0_OVERFLOW == 0
      : DATA_OUT_0_KIND == 1 && DATA_OUT_0_PRECISION_0 > DATA_OUT_0_EXPONENT_WIDTH
          && DATA_OUT_0_EXPONENT_BIAS >= -255 && DATA_OUT_0_EXPONENT_BIAS <= 255
          && DATA_OUT_0_MAXIMUM_CODE < (1 << (DATA_OUT_0_PRECISION_0 - 1));
  if (!OperandKnown || !ResultKnown) begin : gen_format_check
    $error("operand and result must be floats, or fixed point that saturates");
  end

  logic [DATA_OUT_0_PRECISION_0-1:0] memory[1<<DATA_IN_0_PRECISION_0];
  initial $readmemh(TABLE_FILE, memory);

  assign data_in_0_ready = !data_out_0_valid || data_out_0_ready;

  always_ff @(posedge clk) begin
    if (rst) data_out_0_valid <= 1'b0;
    else if (data_in_0_ready) data_out_0_valid <= data_in_0_valid;
  end

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    always_ff @(posedge clk) begin
      if (data_in_0_ready && data_in_0_valid) data_out_0[i] <= memory[data_in_0[i]];
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// out = table[in], element by element: any function of one operand of at most 12 bits. The file
// holds the result for every code, smallest code first, already rounded and bounded; all lanes
// read the same memory. Latency 1 cycle, throughput 1 beat per cycle.
module mase_unary_table_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter string TABLE_FILE = "",
    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_shape_error
    $error("mase_unary_table_fixed: operand and result differ in size or parallelism");
  end
  if (DATA_IN_0_PRECISION_0 > 12) begin : gen_width_error
    $error("mase_unary_table_fixed: the operand has %0d bits; at most 12", DATA_IN_0_PRECISION_0);
  end
  // The words already are in the result's format; it must be one that exists.
  if (DATA_IN_0_PRECISION_1 < -64 || DATA_IN_0_PRECISION_1 > 64
      || DATA_OUT_0_PRECISION_1 < -64 || DATA_OUT_0_PRECISION_1 > 64
      || DATA_OUT_0_PRECISION_0 < 1 + 32'(DATA_OUT_0_SIGNED)
      || DATA_OUT_0_ROUNDING > 3 || DATA_OUT_0_OVERFLOW > 1) begin : gen_format_error
    $error("mase_unary_table_fixed: not a fixed-point format");
  end

  localparam int unsigned Depth = 1 << DATA_IN_0_PRECISION_0;
  // The order of the codes is that of their bits with the sign inverted.
  localparam logic [DATA_IN_0_PRECISION_0-1:0] SignMask =
      DATA_IN_0_PRECISION_0'(DATA_IN_0_SIGNED) << (DATA_IN_0_PRECISION_0 - 1);

  logic [DATA_OUT_0_PRECISION_0-1:0] memory[Depth];
  initial $readmemh(TABLE_FILE, memory);

  assign data_in_0_ready = !data_out_0_valid || data_out_0_ready;

  always_ff @(posedge clk) begin
    if (rst) data_out_0_valid <= 1'b0;
    else if (data_in_0_ready) data_out_0_valid <= data_in_0_valid;
  end

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    always_ff @(posedge clk) begin
      if (data_in_0_ready && data_in_0_valid) data_out_0[i] <= memory[data_in_0[i]^SignMask];
    end
  end

endmodule

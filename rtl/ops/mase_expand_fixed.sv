// SPDX-License-Identifier: Apache-2.0
// Repeats a tensor along dimensions of size 1: stage n sends every block of BLOCK_n beats REPEATS_n
// times, the outermost dimension first; a dimension of one lane goes to all lanes.
// Latency 2 cycles for each stage that repeats, throughput 1 beat per cycle.
module mase_expand_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 6,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned BLOCK_0 = 1,
    parameter int unsigned REPEATS_0 = 6,
    parameter int unsigned BLOCK_1 = 1,
    parameter int unsigned REPEATS_1 = 1,
    parameter int unsigned BLOCK_2 = 1,
    parameter int unsigned REPEATS_2 = 1,

    localparam int unsigned Width = DATA_IN_0_PRECISION_0,
    localparam int unsigned InColumns = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned InRows = DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned OutColumns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned OutRows = DATA_OUT_0_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [InRows*InColumns-1:0][Width-1:0] data_in_0,
    input  logic                                   data_in_0_valid,
    output logic                                   data_in_0_ready,

    output logic [OutRows*OutColumns-1:0][Width-1:0] data_out_0,
    output logic                                     data_out_0_valid,
    input  logic                                     data_out_0_ready
);

  localparam int unsigned Bits = InRows * InColumns * Width;
  localparam int unsigned BeatsIn = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InColumns - 1) / InColumns;
  localparam int unsigned BeatsOut = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutColumns - 1) / OutColumns;

  if (DATA_IN_0_PRECISION_0 != DATA_OUT_0_PRECISION_0) begin : gen_format_check
    $error("data_in_0 and data_out_0 must have one width");
  end
  if ((InColumns != 1 && InColumns != OutColumns) || (InRows != 1 && InRows != OutRows))
  begin : gen_lanes_check
    $error("data_in_0 must have one lane, or as many as data_out_0, along each dimension");
  end
  if (InRows == 1 && OutRows == 1
      && BeatsIn * DATA_IN_0_TENSOR_SIZE_DIM_1 * REPEATS_0 * REPEATS_1 * REPEATS_2
      != BeatsOut * DATA_OUT_0_TENSOR_SIZE_DIM_1) begin : gen_size_check
    $error("REPEATS_0, REPEATS_1 and REPEATS_2 disagree with the sizes");
  end

  logic [3:0][Bits-1:0] beat;
  logic [3:0] valid;
  logic [3:0] ready;

  assign beat[0] = data_in_0;
  assign valid[0] = data_in_0_valid;
  assign data_in_0_ready = ready[0];
  assign data_out_0_valid = valid[3];
  assign ready[3] = data_out_0_ready;

  for (genvar i = 0; i < 3; i++) begin : gen_stage
    mase_stream_replay #(
        .WIDTH(Bits),
        .BLOCK((i == 0) ? BLOCK_0 : (i == 1) ? BLOCK_1 : BLOCK_2),
        .REPEATS((i == 0) ? REPEATS_0 : (i == 1) ? REPEATS_1 : REPEATS_2)
    ) u_replay (
        .clk,
        .rst,
        .data_in(beat[i]),
        .data_in_valid(valid[i]),
        .data_in_ready(ready[i]),
        .data_out(beat[i+1]),
        .data_out_valid(valid[i+1]),
        .data_out_ready(ready[i+1])
    );
  end

  for (genvar row = 0; row < OutRows; row++) begin : gen_row
    for (genvar column = 0; column < OutColumns; column++) begin : gen_column
      localparam int unsigned From = ((InRows == 1) ? 0 : row) * InColumns
          + ((InColumns == 1) ? 0 : column);
      assign data_out_0[row*OutColumns+column] = beat[3][From*Width+:Width];
    end
  end

endmodule

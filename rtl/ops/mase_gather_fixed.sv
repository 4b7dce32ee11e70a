// SPDX-License-Identifier: Apache-2.0
// Copies chosen rows and columns of a stream, any number of times and in nearly any order, through
// a buffer of DEPTH beats: padding, cropping, nearest upsampling. A tensor is one image, or several,
// of INPUTS beats. What the tables place outside is PAD_CODE. Throughput one beat per cycle on both sides; a beat is offered 2 cycles after it entered.
module mase_gather_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 16,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter int PAD_CODE = 0,
    parameter int unsigned TILES = 1,
    parameter int unsigned INPUTS = 16,
    parameter int unsigned ROWS = 2,
    parameter int unsigned COLUMNS = 2,
    parameter int unsigned KERNEL_ROWS = 1,
    parameter int unsigned KERNEL_COLUMNS = 1,
    parameter int unsigned BLOCK_TILES = 1,
    parameter int unsigned BLOCK_REPEATS = 1,
    parameter int unsigned DEPTH = 16,
    parameter string ROW_FILE = "",
    parameter string COLUMN_FILE = "",

    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                          data_out_0_valid,
    input  logic                                          data_out_0_ready
);

  localparam int unsigned BeatsIn = (DATA_IN_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes
      * DATA_IN_0_TENSOR_SIZE_DIM_1;
  localparam int unsigned BeatsOut = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + Lanes - 1) / Lanes
      * DATA_OUT_0_TENSOR_SIZE_DIM_1;

  if (DATA_IN_0_PRECISION_0 != DATA_OUT_0_PRECISION_0) begin : gen_format_check
    $error("data_in_0 and data_out_0 must have one width");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1
      || DATA_OUT_0_PARALLELISM_DIM_0 != Lanes) begin : gen_parallelism_check
    $error("data_in_0 and data_out_0 must have equal lanes of one row");
  end
  if (BeatsIn % INPUTS != 0 || BeatsOut
      != BeatsIn / INPUTS * ROWS * COLUMNS * KERNEL_ROWS * KERNEL_COLUMNS * TILES)
  begin : gen_size_check
    $error("INPUTS, ROWS, COLUMNS and TILES disagree with the sizes");
  end

  mase_sliding_window #(
      .LANES(Lanes),
      .LANE_WIDTH(DATA_IN_0_PRECISION_0),
      .TILES(TILES),
      .INPUTS(INPUTS),
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .KERNEL_ROWS(KERNEL_ROWS),
      .KERNEL_COLUMNS(KERNEL_COLUMNS),
      .BLOCK_TILES(BLOCK_TILES),
      .BLOCK_REPEATS(BLOCK_REPEATS),
      .DEPTH(DEPTH),
      .PAD_CODE(DATA_IN_0_PRECISION_0'(unsigned'(PAD_CODE))),
      .ROW_FILE(ROW_FILE),
      .COLUMN_FILE(COLUMN_FILE)
  ) u_window (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

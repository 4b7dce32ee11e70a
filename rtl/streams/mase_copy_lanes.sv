// SPDX-License-Identifier: Apache-2.0
// Copies a row of lanes to ROWS_OUT rows, where ROWS_IN is 1, and a column to COLUMNS_OUT columns,
// where COLUMNS_IN is 1. Combinational.
module mase_copy_lanes #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned ROWS_IN = 2,
    parameter int unsigned COLUMNS_IN = 1,
    parameter int unsigned ROWS_OUT = 2,
    parameter int unsigned COLUMNS_OUT = 3
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS_IN*COLUMNS_IN-1:0][WIDTH-1:0] data_in_0,
    input  logic                                     data_in_0_valid,
    output logic                                     data_in_0_ready,

    output logic [ROWS_OUT*COLUMNS_OUT-1:0][WIDTH-1:0] data_out_0,
    output logic                                       data_out_0_valid,
    input  logic                                       data_out_0_ready
);

  if ((COLUMNS_IN != 1 && COLUMNS_IN != COLUMNS_OUT) || (ROWS_IN != 1 && ROWS_IN != ROWS_OUT))
  begin : gen_lanes_check
    $error("data_in_0 must have one lane, or as many as data_out_0, along each dimension");
  end

  assign data_out_0_valid = data_in_0_valid;
  assign data_in_0_ready  = data_out_0_ready;

  for (genvar row = 0; row < ROWS_OUT; row++) begin : gen_row
    for (genvar column = 0; column < COLUMNS_OUT; column++) begin : gen_column
      assign data_out_0[row*COLUMNS_OUT+column] =
          data_in_0[(row%ROWS_IN)*COLUMNS_IN+column%COLUMNS_IN];
    end
  end

  logic unused_clocking;
  assign unused_clocking = clk | rst;

endmodule

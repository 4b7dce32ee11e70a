// SPDX-License-Identifier: Apache-2.0
// Counts elements `(row, column, tile)` in row-major order, from element FIRST on in steps of STEP;
// beyond the last one `in_window` is low and the place is the first row's. `rst` starts again.
module mase_window_element #(
    parameter int unsigned ROWS = 3,
    parameter int unsigned COLUMNS = 3,
    parameter int unsigned TILES = 1,
    parameter int unsigned FIRST = 0,
    parameter int unsigned STEP = 1,
    parameter int unsigned TILE_WIDTH = 1,

    localparam int unsigned RowWidth = (ROWS > 1) ? $clog2(ROWS) : 1,
    localparam int unsigned ColumnWidth = (COLUMNS > 1) ? $clog2(COLUMNS) : 1
) (
    input logic clk,
    input logic rst,
    input logic enable,

    output logic [   RowWidth-1:0] row,
    output logic [ColumnWidth-1:0] column,
    output logic [ TILE_WIDTH-1:0] tile,
    output logic                   in_window
);

  localparam int unsigned RowSumWidth = $clog2(2 * ROWS);
  localparam int unsigned ColumnSumWidth = $clog2(2 * COLUMNS);
  localparam int unsigned TileSumWidth = $clog2(2 * TILES);

  // The rows beyond the last one are counted too.
  logic [RowSumWidth-1:0] row_q;
  logic [ColumnSumWidth-1:0] column_q;
  logic [TileSumWidth-1:0] tile_q;
  logic [ColumnSumWidth-1:0] column_sum;
  logic [TileSumWidth-1:0] tile_sum;
  logic column_carry;
  logic tile_carry;

  assign tile_sum = tile_q + TileSumWidth'(STEP % TILES);
  assign tile_carry = tile_sum >= TileSumWidth'(TILES);
  assign column_sum = column_q + ColumnSumWidth'(STEP / TILES % COLUMNS)
      + ColumnSumWidth'(tile_carry);
  assign column_carry = column_sum >= ColumnSumWidth'(COLUMNS);

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q <= TileSumWidth'(FIRST % TILES);
      column_q <= ColumnSumWidth'(FIRST / TILES % COLUMNS);
      row_q <= RowSumWidth'(FIRST / TILES / COLUMNS);
    end else if (enable) begin
      tile_q <= tile_carry ? tile_sum - TileSumWidth'(TILES) : tile_sum;
      column_q <= column_carry ? column_sum - ColumnSumWidth'(COLUMNS) : column_sum;
      row_q <= row_q + RowSumWidth'(STEP / TILES / COLUMNS) + RowSumWidth'(column_carry);
    end
  end

  assign in_window = (ROWS * COLUMNS * TILES % STEP == 0) || row_q < RowSumWidth'(ROWS);
  assign row = in_window ? RowWidth'(row_q) : '0;
  assign column = ColumnWidth'(column_q);
  assign tile = TILE_WIDTH'(tile_q);

endmodule

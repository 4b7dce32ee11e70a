// SPDX-License-Identifier: Apache-2.0
// Rows of ROW beats wait here until a value of the whole row is known, which comes DELAY - 1 cycles
// after the row's last beat moved; then they leave in order, with it. A beat leaves where `there` and
// `room` meet; it and its row's value come 2 cycles later.
// Throughput 1 beat per cycle, without gaps between rows. With EVERY, rows grow: EVERY of them have one
// beat, EVERY two and so on up to ROW, and after ROWS those of one come again.
module mase_row_store
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned ROW = 4,
    parameter int unsigned EVERY = 0,
    parameter int unsigned ROWS = 1,
    parameter int unsigned DELAY = 2,
    parameter int unsigned VALUE_WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    // Whether the beat that may enter now is the last of its row.
    output logic             data_in_last,

    input logic [VALUE_WIDTH-1:0] value,
    input logic                   value_valid,

    output logic                   there,
    input  logic                   room,
    output logic [      WIDTH-1:0] word,
    output logic [VALUE_WIDTH-1:0] word_value
);

  // As many as come until the first beat of a row has left.
  localparam int unsigned Depth = ROW + DELAY;
  localparam int unsigned Rows = (Depth - 1) / ((EVERY > 0) ? 1 : ROW) + 1;
  localparam int unsigned PointerWidth = index_width(Depth);
  localparam int unsigned RowWidth = index_width(Rows);
  localparam int unsigned BeatWidth = index_width(ROW);

  // No place is read in the cycle in which it is written, but for words that nobody looks at.
  (* no_rw_check *)
  logic [WIDTH-1:0] memory[Depth];
  (* no_rw_check *)
  logic [VALUE_WIDTH-1:0] values[Rows];

  logic write;
  logic read;
  logic read_last;
  logic [PointerWidth-1:0] write_place;
  logic [PointerWidth-1:0] read_place;
  logic [RowWidth-1:0] write_row;
  logic [RowWidth-1:0] read_row;
  logic [BeatWidth-1:0] unused_write_beat;
  logic [BeatWidth-1:0] unused_read_beat;
  logic unused_next_write_last;
  logic unused_next_read_last;
  logic unused_single;
  logic unused_single_row;
  logic unused_write_wrap;
  logic unused_read_wrap;
  logic unused_write_row_wrap;
  logic unused_read_row_wrap;

  assign write = data_in_valid && data_in_ready;
  assign read  = there && room;

  mase_credits #(
      .DEPTH(Depth)
  ) u_places (
      .clk,
      .rst,
      .take(write),
      .give(read),
      .room(data_in_ready),
      .single(unused_single)
  );

  mase_level #(
      .MOST(Rows)
  ) u_rows (
      .clk,
      .rst,
      .more(value_valid),
      .less(read && read_last),
      .some(there),
      .single(unused_single_row)
  );

  mase_growing_counter #(
      .COUNT(ROW),
      .EVERY(EVERY),
      .RUNS(ROWS),
      .WIDTH(BeatWidth)
  ) u_write_beat (
      .clk,
      .rst,
      .enable(write),
      .count(unused_write_beat),
      .last(data_in_last),
      .next_last(unused_next_write_last)
  );

  mase_growing_counter #(
      .COUNT(ROW),
      .EVERY(EVERY),
      .RUNS(ROWS),
      .WIDTH(BeatWidth)
  ) u_read_beat (
      .clk,
      .rst,
      .enable(read),
      .count(unused_read_beat),
      .last(read_last),
      .next_last(unused_next_read_last)
  );

  mase_counter #(
      .COUNT(Depth),
      .WIDTH(PointerWidth)
  ) u_write_place (
      .clk,
      .rst,
      .enable(write),
      .count(write_place),
      .last(unused_write_wrap)
  );

  mase_counter #(
      .COUNT(Depth),
      .WIDTH(PointerWidth)
  ) u_read_place (
      .clk,
      .rst,
      .enable(read),
      .count(read_place),
      .last(unused_read_wrap)
  );

  mase_counter #(
      .COUNT(Rows),
      .WIDTH(RowWidth)
  ) u_write_row (
      .clk,
      .rst,
      .enable(value_valid),
      .count(write_row),
      .last(unused_write_row_wrap)
  );

  mase_counter #(
      .COUNT(Rows),
      .WIDTH(RowWidth)
  ) u_read_row (
      .clk,
      .rst,
      .enable(read && read_last),
      .count(read_row),
      .last(unused_read_row_wrap)
  );

  logic [WIDTH-1:0] word_q;
  logic [VALUE_WIDTH-1:0] value_q;

  always_ff @(posedge clk) begin
    if (write) memory[write_place] <= data_in;
    if (value_valid) values[write_row] <= value;
    word_q <= memory[read_place];
    value_q <= values[read_row];
    word <= word_q;
    word_value <= value_q;
  end

`ifdef MASE_CHECKS
  // Rows that are written and not read, those whose value is on its way, too; and how often the first
  // one was written more often than read.
  localparam int unsigned Runs = (EVERY > 0) ? ROWS : 1;
  localparam int unsigned CheckWidth = $clog2(8 * (Depth + ROW * (Rows + 1) * Runs));
  typedef logic [CheckWidth-1:0] check_t;
  check_t write_run;
  check_t read_run;
  check_t rounds_q;
  logic [DELAY-2:0] ends_q;
  check_t ended;

  if (EVERY > 0) begin : gen_turns
    assign write_run = check_t'(u_write_beat.gen_growing.unused_runs);
    assign read_run  = check_t'(u_read_beat.gen_growing.unused_runs);
  end else begin : gen_no_turns
    assign write_run = '0;
    assign read_run  = '0;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      rounds_q <= '0;
      ends_q   <= '0;
    end else begin
      rounds_q <= rounds_q + check_t'(write && u_write_beat.unused_returns)
          - check_t'(read && u_read_beat.unused_returns);
      ends_q <= (DELAY - 1)'({ends_q, write && data_in_last});
    end
  end

  always_comb begin
    ended = check_t'(u_rows.level_q);
    for (int i = 0; i < int'(DELAY) - 1; i++) ended += check_t'(ends_q[i]);
    if (!rst) begin
      value_in_time : assert (value_valid == ends_q[DELAY-2]);
      rows_match : assert (ended == write_run - read_run + check_t'(Runs) * rounds_q);
      beats_match :
      assert (check_t'(Depth) - check_t'(u_places.u_left.level_q)
          == check_t'(u_write_beat.unused_place) - check_t'(u_read_beat.unused_place)
          + check_t'(u_write_beat.unused_round) * rounds_q);
    end
  end
`endif  // MASE_CHECKS

endmodule

// SPDX-License-Identifier: Apache-2.0
// Sends every block of BLOCK beats REPEATS times. Two blocks are stored, so that the next one is
// written while this one is replayed: output throughput is 1 beat per cycle without gaps.
// A beat is offered 5 cycles after it entered. With REPEATS 1 the stream is a wire.
// Blocks or repeats may grow. With BLOCK_EVERY, so many blocks have one beat, then so many two and so on
// up to BLOCK; with REPEATS_EVERY, so many blocks are sent once, then so many twice and so on up to
// REPEATS; after BLOCKS blocks it begins anew.
module mase_stream_replay
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BLOCK = 4,
    parameter int unsigned REPEATS = 2,
    parameter int unsigned BLOCK_EVERY = 0,
    parameter int unsigned REPEATS_EVERY = 0,
    parameter int unsigned BLOCKS = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  if (BLOCK_EVERY > 0 && REPEATS_EVERY > 0) begin : gen_growth_check
    $error("blocks or repeats may grow, not both");
  end

  if (REPEATS == 1) begin : gen_wire
    assign data_out = data_in;
    assign data_out_valid = data_in_valid;
    assign data_in_ready = data_out_ready;
    logic unused_clocking;
    assign unused_clocking = clk | rst;
  end else begin : gen_buffer
    localparam int unsigned Depth = 2 * BLOCK;
    localparam int unsigned BeatWidth = index_width(BLOCK);
    localparam int unsigned RepeatWidth = $clog2(REPEATS);

    // Each beat of the first block, and behind it that of the second. No place is read in the cycle
    // in which it is written, but for words that nobody looks at.
    (* no_rw_check *)
    logic [WIDTH-1:0] memory[2<<$clog2(BLOCK)];
    logic [BeatWidth-1:0] write_beat;
    logic write_last;
    logic write_second_q;
    logic [BeatWidth-1:0] read_beat;
    logic read_last;
    logic read_second_q;
    logic [RepeatWidth-1:0] unused_repeat;
    logic last_repeat;
    logic block_ends;

    logic unused_next_write_last;
    logic unused_next_read_last;
    logic unused_next_last_repeat;
    logic unused_single;
    // How many beats wait to be read for the first time, and whether the next one would be.
    logic waiting;
    logic waiting_single;
    logic waiting_next;
    logic first_q;
    logic first;
    logic there_q;
    logic room;
    logic write;
    logic read;

    assign write = data_in_valid && data_in_ready;
    assign read = there_q && room;
    assign block_ends = read && read_last && last_repeat;
    assign first = (read && read_last) ? last_repeat : first_q;

    assign waiting_next = (write == (read && first_q)) ? waiting : write || !waiting_single;

    // A beat may enter while one of both blocks is not full.
    mase_credits #(
        .DEPTH(2)
    ) u_blocks (
        .clk,
        .rst,
        .take(write && write_last),
        .give(block_ends),
        .room(data_in_ready),
        .single(unused_single)
    );

    mase_level #(
        .MOST(Depth)
    ) u_waiting (
        .clk,
        .rst,
        .more(write),
        .less(read && first_q),
        .some(waiting),
        .single(waiting_single)
    );

    mase_growing_counter #(
        .COUNT(BLOCK),
        .EVERY(BLOCK_EVERY),
        .RUNS(BLOCKS),
        .WIDTH(BeatWidth)
    ) u_write (
        .clk,
        .rst,
        .enable(write),
        .count(write_beat),
        .last(write_last),
        .next_last(unused_next_write_last)
    );

    mase_growing_counter #(
        .COUNT(BLOCK),
        .EVERY(BLOCK_EVERY * REPEATS),
        .RUNS(BLOCKS * REPEATS),
        .WIDTH(BeatWidth)
    ) u_read (
        .clk,
        .rst,
        .enable(read),
        .count(read_beat),
        .last(read_last),
        .next_last(unused_next_read_last)
    );

    mase_growing_counter #(
        .COUNT(REPEATS),
        .EVERY(REPEATS_EVERY),
        .RUNS(BLOCKS),
        .WIDTH(RepeatWidth)
    ) u_repeat (
        .clk,
        .rst,
        .enable(read && read_last),
        .count(unused_repeat),
        .last(last_repeat),
        .next_last(unused_next_last_repeat)
    );

    always_ff @(posedge clk) begin
      if (rst) begin
        write_second_q <= 1'b0;
        read_second_q <= 1'b0;
        first_q <= 1'b1;
        there_q <= 1'b0;
      end else begin
        if (write && write_last) write_second_q <= !write_second_q;
        if (block_ends) read_second_q <= !read_second_q;
        first_q <= first;
        there_q <= !first || waiting_next;
      end
    end

    logic [WIDTH-1:0] word_q;
    logic [WIDTH-1:0] result_q;

    if (BLOCK == 1) begin : gen_single
      always_ff @(posedge clk) begin
        if (write) memory[write_second_q] <= data_in;
        word_q <= memory[read_second_q];
      end
      logic unused_beats;
      assign unused_beats = write_beat[0] | read_beat[0];
    end else begin : gen_beats
      always_ff @(posedge clk) begin
        if (write) memory[{write_beat, write_second_q}] <= data_in;
        word_q <= memory[{read_beat, read_second_q}];
      end
    end

    always_ff @(posedge clk) result_q <= word_q;

    mase_stream_pipeline #(
        .WIDTH (WIDTH),
        .STAGES(2)
    ) u_pipeline (
        .clk,
        .rst,
        .data_in_valid(there_q),
        .data_in_ready(room),
        .result(result_q),
        .data_out,
        .data_out_valid,
        .data_out_ready
    );

`ifdef MASE_CHECKS
    // The block that is read, as blocks grow, and how many beats it and the next one have; blocks that
    // are full and not wholly sent.
    localparam int unsigned Runs = (BLOCK_EVERY > 0) ? BLOCKS : 1;
    localparam int unsigned Step = (BLOCK_EVERY > 0) ? BLOCK_EVERY : 1;
    localparam int unsigned CheckWidth = $clog2(8 * (Depth + Runs * REPEATS));
    typedef logic [CheckWidth-1:0] check_t;
    check_t full;
    check_t run;
    check_t this_block;
    check_t next_block;
    check_t unread;
    logic   in_turn;

    function automatic check_t size(check_t block);
      return (BLOCK_EVERY > 0) ? block / check_t'(Step) + 1'b1 : check_t'(BLOCK);
    endfunction

    if (BLOCK_EVERY > 0) begin : gen_turns
      assign run = check_t'(u_read.gen_growing.unused_runs) / check_t'(REPEATS);
      assign in_turn = check_t'(u_write.gen_growing.unused_runs)
          == (run + full) % check_t'(Runs)
          && check_t'(unused_repeat)
          == check_t'(u_read.gen_growing.unused_runs) % check_t'(REPEATS);
    end else begin : gen_no_turns
      assign run = '0;
      assign in_turn = 1'b1;
    end

    always_comb begin
      full = check_t'(2) - check_t'(u_blocks.u_left.level_q);
      this_block = size(run);
      next_block = size((run == check_t'(Runs - 1)) ? '0 : run + 1'b1);
      unread = check_t'(write_beat) - (first_q ? check_t'(read_beat) : this_block);
      if (full != '0) unread += this_block;
      if (full == check_t'(2)) unread += next_block;
      if (!rst) begin
        beats_match :
        assert (check_t'(u_waiting.level_q) == unread && there_q == (!first_q || waiting)
            && first_q == (unused_repeat == '0) && (first_q || full != '0) && in_turn
            && (write_second_q ^ read_second_q) == full[0]);
      end
    end
`endif  // MASE_CHECKS
  end

endmodule

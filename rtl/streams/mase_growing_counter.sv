// SPDX-License-Identifier: Apache-2.0
// Counts 0, 1, ... for COUNT cycles in which `enable` is high, and again from 0; `last` says that the
// count is the last one, `next_last` that the one after it is. With EVERY, runs grow: the first EVERY
// runs have UNIT counts, the next EVERY ones 2 * UNIT and so on, and after RUNS runs, of which the
// last ones have COUNT, those of UNIT come again. Count and last come from registers.
module mase_growing_counter #(
    parameter int unsigned COUNT = 4,
    parameter int unsigned UNIT  = 1,
    parameter int unsigned EVERY = 0,
    parameter int unsigned RUNS = 4,
    parameter int unsigned WIDTH = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             enable,
    output logic [WIDTH-1:0] count,
    output logic             last,
    output logic             next_last
);

`ifdef MASE_CHECKS
  // How many counts come before this one from the first run on, how many in all until that comes
  // again, and whether it comes next.
  int unsigned unused_place;
  int unsigned unused_round;
  logic unused_returns;
`endif  // MASE_CHECKS

  if (EVERY == 0) begin : gen_even
    mase_counter #(
        .COUNT(COUNT),
        .WIDTH(WIDTH)
    ) u_turn (
        .clk,
        .rst,
        .enable,
        .count,
        .last
    );
    if (COUNT == 1) begin : gen_one
      assign next_last = 1'b1;
    end else begin : gen_more
      assign next_last = count == WIDTH'(COUNT - 2) && !last;
    end

`ifdef MASE_CHECKS
    assign unused_place = 32'(count);
    assign unused_round = COUNT;
    assign unused_returns = last;
`endif  // MASE_CHECKS
  end else begin : gen_growing
    localparam int unsigned EveryWidth = (EVERY > 1) ? $clog2(EVERY) : 1;
    localparam int unsigned RunsWidth = (RUNS > 1) ? $clog2(RUNS) : 1;
    // The count before the last one of a run; all ones where a run has a single one.
    localparam logic [WIDTH-1:0] First = WIDTH'(UNIT) - WIDTH'(2);

    logic [WIDTH-1:0] stop_q;
    logic [WIDTH-1:0] stop;
    logic ends;
    logic grows;
    logic wraps;
    logic [EveryWidth-1:0] unused_every;
    logic [RunsWidth-1:0] unused_runs;

    assign ends = enable && last;
    assign stop = wraps ? First : grows ? stop_q + WIDTH'(UNIT) : stop_q;
    assign next_last = last ? stop == '1 : count == stop_q;

    mase_counter #(
        .COUNT(EVERY),
        .WIDTH(EveryWidth)
    ) u_every (
        .clk,
        .rst(rst || (ends && wraps)),
        .enable(ends),
        .count(unused_every),
        .last(grows)
    );

    mase_counter #(
        .COUNT(RUNS),
        .WIDTH(RunsWidth)
    ) u_turns (
        .clk,
        .rst,
        .enable(ends),
        .count(unused_runs),
        .last(wraps)
    );

    always_ff @(posedge clk) begin
      if (rst) begin
        count <= '0;
        last <= UNIT == 1;
        stop_q <= First;
      end else if (enable) begin
        count <= last ? '0 : count + 1'b1;
        last  <= next_last;
        if (last) stop_q <= stop;
      end
    end

`ifdef MASE_CHECKS
    // How many units the counts of this run are, less one.
    localparam int unsigned CheckWidth = RunsWidth + EveryWidth + WIDTH + 1;
    typedef logic [CheckWidth-1:0] check_t;
    check_t grown;
    check_t final_count;
    always_comb begin
      grown = check_t'(unused_runs) / check_t'(EVERY);
      final_count = check_t'(UNIT) * (grown + 1'b1) - 1'b1;
      unused_place = 32'(count);
      unused_round = '0;
      for (int unsigned i = 0; i < RUNS; i++) begin
        if (i < 32'(unused_runs)) unused_place += UNIT * (i / EVERY + 1);
        unused_round += UNIT * (i / EVERY + 1);
      end
      unused_returns = last && wraps;
      if (!rst) begin
        in_range :
        assert (check_t'(unused_every) == check_t'(unused_runs) % check_t'(EVERY)
            && stop_q == WIDTH'(final_count - 1'b1) && check_t'(count) <= final_count
            && last == (check_t'(count) == final_count));
      end
    end
`endif  // MASE_CHECKS
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// The handshakes of a pipeline that never stops and reduces TERMS rounds of INNER beats to one round
// of results: beat j of the results comes of beat j of every round. A part is a beat that is ready
// to be reduced, PART_STAGES cycles after it moved (2 or more where part_comes is read); the result
// comes RESULT_STAGES cycles after its last part, and waits here. A beat of the last round moves
// while there is room for its result. Throughput one beat per cycle, without gaps between rounds and
// results. With EVERY, which takes an INNER of 1, results grow: EVERY of them take one beat, EVERY two
// and so on up to TERMS, and after RESULTS those of one come again.
module mase_round_pipeline
  import mase_pkg::*;
#(
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,
    parameter int unsigned EVERY = 0,
    parameter int unsigned RESULTS = 1,
    parameter int unsigned PART_STAGES = 2,
    parameter int unsigned RESULT_STAGES = 1,
    parameter int unsigned WIDTH = 8,
    // Registers that say the same of a part: what it begins may have many readers.
    parameter int unsigned COPIES = 1,
    // Whether beats wait for what is on offer from the third cycle after reset on.
    parameter bit WAIT = 0
) (
    input  logic clk,
    input  logic rst,
    input  logic data_in_valid,
    output logic data_in_ready,
    // Whether the beat that may enter now is of a last round.
    output logic last_term,

    // The part that is here, and whether it is of a first round; the one that is here in 2 cycles.
    output logic              part_valid,
    output logic [COPIES-1:0] part_first,
    output logic              part_comes,
    input  logic [ WIDTH-1:0] result,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned TermWidth = index_width(TERMS);
  localparam int unsigned InnerWidth = index_width(INNER);
  localparam int unsigned Beats = (EVERY > 0) ? 1 : TERMS * INNER;
  // From the last beat to its result, and the cycle in which a place becomes free.
  localparam int unsigned Cycles = PART_STAGES + RESULT_STAGES + 3;
  localparam int unsigned More = (Cycles % Beats < INNER) ? Cycles % Beats : INNER;
  localparam int unsigned Held = Cycles / Beats * INNER + More;
  // One more, which waits for its turn with a consumer that takes results in bursts.
  localparam int unsigned Depth = Held + 1;

  logic [TermWidth-1:0] term;
  logic [InnerWidth-1:0] unused_inner;
  logic last_inner;
  logic next_round_last;
  logic next_last_term;
  logic take;
  logic may_q;
  logic room;
  logic room_single;
  logic give;
  logic room_kept;
  logic may_kept;
  logic may_taken;
  (* mase_register = "stages" *)
  logic [PART_STAGES-1:0] valid_q;
  (* mase_register = "stages" *)
  logic [PART_STAGES+RESULT_STAGES-1:0] last_q;

  assign data_in_ready = may_q;
  assign take = data_in_valid && may_q;

  mase_counter #(
      .COUNT(INNER),
      .WIDTH(InnerWidth)
  ) u_inner (
      .clk,
      .rst,
      .enable(take),
      .count(unused_inner),
      .last(last_inner)
  );

  mase_growing_counter #(
      .COUNT(TERMS),
      .EVERY(EVERY),
      .RUNS(RESULTS),
      .WIDTH(TermWidth)
  ) u_term (
      .clk,
      .rst,
      .enable(take && last_inner),
      .count(term),
      .last(last_term),
      .next_last(next_round_last)
  );

  // Whether the beat after one that is taken now is of a last round.
  assign next_last_term = last_inner ? next_round_last : last_term;

  if (EVERY > 0 && INNER > 1) begin : gen_inner_check
    $error("results grow beat by beat: INNER must be 1");
  end

  // Whether a beat may enter next, with and without one now: operands arrive last, and choose.
  assign give = data_out_valid && data_out_ready;
  assign room_kept = room || give;
  assign may_kept = room_kept || !last_term;
  assign may_taken = (!last_term ? room_kept : give ? room : !room_single) || !next_last_term;

  logic started;
  if (WAIT) begin : gen_wait
    always_ff @(posedge clk) started <= !rst;
  end else begin : gen_no_wait
    assign started = 1'b1;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      may_q <= !WAIT;
      valid_q <= '0;
      last_q <= '0;
    end else begin
      may_q <= started && (take ? may_taken : may_kept);
      valid_q <= PART_STAGES'({valid_q, take});
      last_q <= (PART_STAGES + RESULT_STAGES)'({last_q, take && last_term});
    end
  end

  // Whether the part that is here next is of a first round.
  logic first_next;

  if (PART_STAGES == 1) begin : gen_first
    assign first_next = term == '0;
  end else begin : gen_first_stages
    logic [PART_STAGES-2:0] first_q;
    assign first_next = first_q[PART_STAGES-2];
    always_ff @(posedge clk) first_q <= (PART_STAGES - 1)'({first_q, term == '0});
  end

  for (genvar i = 0; i < COPIES; i++) begin : gen_copy
    if (COPIES > 1) begin : gen_kept
      (* keep *)logic copy_q;
      always_ff @(posedge clk) copy_q <= first_next;
      assign part_first[i] = copy_q;
    end else begin : gen_only
      always_ff @(posedge clk) part_first[i] <= first_next;
    end
  end

  assign part_valid = valid_q[PART_STAGES-1];
  if (PART_STAGES < 2) begin : gen_never
    assign part_comes = 1'b0;
  end else if (PART_STAGES == 2) begin : gen_at_once
    assign part_comes = take;
  end else begin : gen_later
    assign part_comes = valid_q[PART_STAGES-3];
  end

  mase_credits #(
      .DEPTH(Depth)
  ) u_credits (
      .clk,
      .rst,
      .take(take && last_term),
      .give,
      .room,
      .single(room_single)
  );

  mase_result_queue #(
      .WIDTH(WIDTH),
      .DEPTH(Depth)
  ) u_queue (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(last_q[PART_STAGES+RESULT_STAGES-1]),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

`ifdef MASE_CHECKS
  // Whatever has a credit is on its way, waits, or is offered.
  localparam int unsigned HeldWidth = $clog2(8 * Depth);
  logic [HeldWidth-1:0] held;
  always_comb begin
    held = HeldWidth'(u_queue.u_level.level_q) + HeldWidth'(data_out_valid);
    for (int i = 0; i < PART_STAGES + RESULT_STAGES; i++) held += HeldWidth'(last_q[i]);
    if (!rst) begin
      credits_match : assert (HeldWidth'(u_credits.u_left.level_q) + held == HeldWidth'(Depth));
    end
  end
`endif  // MASE_CHECKS

endmodule

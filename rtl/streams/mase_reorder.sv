// SPDX-License-Identifier: Apache-2.0
// Sends the elements of a tensor in another order and tiling, through BANKS memories that hold two
// tensors. WRITE_FILE says, for each beat in and each bank, whether and from which lane it is
// written; READ_FILE, for each beat out, the address in each bank and the bank of each lane. No two
// elements of a beat share a bank. The first beat out needs the beat FIRST_NEED; STEP_FILE says how
// many beats more the next one needs, in two's complement, negated; with REPEATS, which is how often
// a tensor is sent, one more word says so of the first beat after the last of the same tensor.
// With EVERY, a tensor that is sent REPEATS times is sent as far as it has come: its beats lie in
// SEGMENTS segments, of each of which UNIT beats are sent EVERY times, then 2 * UNIT and so on, and
// after PASSES times UNIT beats again (mase_growing_walk). FIRST_NEED is then what the first pass
// needs, and STEP_FILE says how much more the next one does.
// Throughput 1 beat per cycle on both sides; a beat is offered 9 cycles after its last element.
module mase_reorder
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned LANES_IN = 2,
    parameter int unsigned LANES_OUT = 2,
    parameter int unsigned BEATS_IN = 4,
    parameter int unsigned BEATS_OUT = 4,
    parameter int unsigned BANKS = 2,
    parameter int unsigned BANK_DEPTH = 4,
    parameter int unsigned FIRST_NEED = 0,
    parameter int unsigned REPEATS = 1,
    parameter int unsigned SEGMENTS = 1,
    parameter int unsigned UNIT = 1,
    parameter int unsigned EVERY = 0,
    parameter int unsigned PASSES = 1,
    parameter string WRITE_FILE = "",
    parameter string READ_FILE = "",
    parameter string STEP_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [LANES_IN-1:0][WIDTH-1:0] data_in_0,
    input  logic                           data_in_0_valid,
    output logic                           data_in_0_ready,

    output logic [LANES_OUT-1:0][WIDTH-1:0] data_out_0,
    output logic                            data_out_0_valid,
    input  logic                            data_out_0_ready
);

  localparam int unsigned LaneBits = index_width(LANES_IN);
  localparam int unsigned BankBits = index_width(BANKS);
  localparam int unsigned AddressBits = index_width(BANK_DEPTH);
  // Beats of two tensors, with a sign.
  localparam int unsigned CountBits = $clog2(BEATS_IN + 1) + 2;
  localparam int unsigned InBits = index_width(BEATS_IN);
  localparam int unsigned OutBits = index_width(BEATS_OUT);

  typedef struct packed {
    logic is_written;
    logic [LaneBits-1:0] lane;
  } write_entry_t;
  typedef struct packed {
    logic [LANES_OUT-1:0][BankBits-1:0] bank;
    logic [BANKS-1:0][AddressBits-1:0] address;
  } read_entry_t;

  write_entry_t [BANKS-1:0] write_table[BEATS_IN];
  read_entry_t read_table[BEATS_OUT];
  localparam bit Grows = EVERY > 0;
  localparam int unsigned Steps = Grows ? REPEATS : BEATS_OUT + ((REPEATS > 1) ? 1 : 0);
  localparam int unsigned StepBits = index_width(Steps);
  localparam int unsigned RepeatBits = index_width(REPEATS);
  logic [CountBits-1:0] step_table[Steps];
  initial $readmemh(WRITE_FILE, write_table);
  initial $readmemh(READ_FILE, read_table);
  initial $readmemh(STEP_FILE, step_table);

  logic write;
  logic [InBits-1:0] write_beat;
  logic write_last;
  logic write_half_q;
  logic read;
  logic [OutBits-1:0] read_beat;
  logic read_last_beat;
  logic read_last_repeat;
  logic read_last;
  logic [RepeatBits-1:0] unused_read_repeat;
  logic read_half_q;
  logic room;
  // Tensors wholly stored and not wholly read. Both halves in use: no beat of a third one may enter.
  logic [1:0] full_q;
  logic [1:0] full;

  assign write = data_in_0_valid && data_in_0_ready;
  assign full  = full_q + 2'(write && write_last) - 2'(read && read_last);

  mase_counter #(
      .COUNT(BEATS_IN),
      .WIDTH(InBits)
  ) u_write (
      .clk,
      .rst,
      .enable(write),
      .count(write_beat),
      .last(write_last)
  );

  if (Grows) begin : gen_growing_read
    mase_growing_walk #(
        .STRIDE(BEATS_OUT / SEGMENTS),
        .SEGMENTS(SEGMENTS),
        .UNIT(UNIT),
        .EVERY(EVERY),
        .PASSES(PASSES),
        .WIDTH(OutBits)
    ) u_read (
        .clk,
        .rst,
        .enable(read),
        .place(read_beat),
        .last(read_last_beat)
    );
  end else begin : gen_read
    mase_counter #(
        .COUNT(BEATS_OUT),
        .WIDTH(OutBits)
    ) u_read (
        .clk,
        .rst,
        .enable(read),
        .count(read_beat),
        .last(read_last_beat)
    );
  end

  mase_counter #(
      .COUNT(REPEATS),
      .WIDTH(RepeatBits)
  ) u_repeat (
      .clk,
      .rst,
      .enable(read && read_last_beat),
      .count(unused_read_repeat),
      .last(read_last_repeat)
  );

  assign read_last = read_last_beat && read_last_repeat;

  always_ff @(posedge clk) begin
    if (rst) begin
      write_half_q <= 1'b0;
      read_half_q <= 1'b0;
      full_q <= '0;
      data_in_0_ready <= 1'b1;
    end else begin
      if (write && write_last) write_half_q <= !write_half_q;
      if (read && read_last) read_half_q <= !read_half_q;
      full_q <= full;
      data_in_0_ready <= full != 2'd2;
    end
  end

  // How many beats more have entered than the next beat out needs, or the next pass, less one; it may
  // leave where this is not negative. The steps from one to the next are read ahead.
  logic [1:0] ahead_q;
  logic leaves;
  logic step;
  logic [StepBits-1:0] step_place;
  logic [CountBits-1:0] step_1_q;
  logic [CountBits-1:0] step_2_q;
  logic signed [CountBits-1:0] beyond_q;
  logic signed [CountBits-1:0] beyond;
  logic unused_below;
  logic there;

  assign there = ahead_q[1] && !beyond_q[CountBits-1];
  assign read  = there && room;
  // A bit below both summands carries the beat that enters: one chain of carries.
  assign {beyond, unused_below} = {beyond_q, write} + {leaves ? step_2_q : '0, write};
  assign leaves = read && (read_last_beat || !Grows);
  assign step = leaves || !ahead_q[1];

  if (Grows) begin : gen_growing_step
    logic unused_step_last;

    mase_counter #(
        .COUNT(REPEATS),
        .WIDTH(StepBits)
    ) u_step (
        .clk,
        .rst,
        .enable(step),
        .count(step_place),
        .last(unused_step_last)
    );
  end else begin : gen_step
    logic [OutBits-1:0] step_beat;
    logic step_last;
    logic step_last_repeat;
    logic [RepeatBits-1:0] unused_step_repeat;

    mase_counter #(
        .COUNT(BEATS_OUT),
        .WIDTH(OutBits)
    ) u_step (
        .clk,
        .rst,
        .enable(step),
        .count(step_beat),
        .last(step_last)
    );

    mase_counter #(
        .COUNT(REPEATS),
        .WIDTH(RepeatBits)
    ) u_step_repeat (
        .clk,
        .rst,
        .enable(step && step_last),
        .count(unused_step_repeat),
        .last(step_last_repeat)
    );

    assign step_place = (step_last && !step_last_repeat) ? StepBits'(BEATS_OUT)
        : StepBits'(step_beat);
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      ahead_q  <= '0;
      beyond_q <= -CountBits'(FIRST_NEED + 1);
    end else begin
      ahead_q  <= {ahead_q[0], 1'b1};
      beyond_q <= beyond;
    end
  end

  always_ff @(posedge clk) begin
    if (step) begin
      step_1_q <= step_table[step_place];
      step_2_q <= step_1_q;
    end
  end

  // A beat is stored 3 cycles after it entered and read 3 cycles after it may leave: the tables, and
  // what they choose, have registers.
  write_entry_t [BANKS-1:0] write_1_q;
  write_entry_t [BANKS-1:0] write_2_q;
  logic [1:0][LANES_IN-1:0][WIDTH-1:0] data_q;
  logic [1:0] write_q;
  (* mase_register = "stages" *)
  logic [2:0] write_last_q;
  logic [2:0] write_halves_q;
  read_entry_t read_1_q;
  read_entry_t read_2_q;
  read_entry_t read_3_q;
  logic [2:0] read_halves_q;
  logic [1:0][LANES_OUT-1:0][BankBits-1:0] bank_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      write_last_q <= '0;
    end else begin
      write_q <= {write_q[0], write};
      write_last_q <= {write_last_q[1:0], write && write_last};
    end
  end

  always_ff @(posedge clk) begin
    write_1_q <= write_table[write_beat];
    write_2_q <= write_1_q;
    data_q <= {data_q[0], data_in_0};
    write_halves_q <= {write_halves_q[1:0], write_half_q};
    read_1_q <= read_table[read_beat];
    read_2_q <= read_1_q;
    read_3_q <= read_2_q;
    read_halves_q <= {read_halves_q[1:0], read_half_q};
    bank_q <= {bank_q[0], read_3_q.bank};
  end

  logic [BANKS-1:0][WIDTH-1:0] word_q;

  for (genvar b = 0; b < BANKS; b++) begin : gen_bank
    // No place is read in the cycle in which it is written, but for words that nobody looks at.
    (* no_rw_check *)
    logic [WIDTH-1:0] memory[2*BANK_DEPTH];
    logic [AddressBits-1:0] filled_q;
    logic enable_q;
    logic [WIDTH-1:0] entering_q;
    logic [WIDTH-1:0] read_q;

    always_ff @(posedge clk) begin
      if (rst) begin
        enable_q <= 1'b0;
        filled_q <= '0;
      end else begin
        enable_q <= write_q[1] && write_2_q[b].is_written;
        if (write_last_q[2]) filled_q <= '0;
        else if (enable_q) filled_q <= filled_q + 1'b1;
      end
    end

    always_ff @(posedge clk) begin
      entering_q <= data_q[1][write_2_q[b].lane];
      if (enable_q) memory[{filled_q, write_halves_q[2]}] <= entering_q;
      read_q <= memory[{read_3_q.address[b], read_halves_q[2]}];
      word_q[b] <= read_q;
    end
  end

  logic [LANES_OUT-1:0][WIDTH-1:0] result;

  for (genvar i = 0; i < LANES_OUT; i++) begin : gen_out
    always_ff @(posedge clk) result[i] <= word_q[bank_q[1][i]];
  end

  mase_stream_pipeline #(
      .WIDTH (LANES_OUT * WIDTH),
      .STAGES(6)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(there),
      .data_in_ready(room),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

`ifdef MASE_CHECKS
  if (!Grows) begin : gen_checks
    // The beat out that is next, over all repeats of a tensor; the step that is read ahead is the one
    // after the next two. What is stored and not read, and what the next beat out needs of it.
    localparam int unsigned Beats = BEATS_OUT * REPEATS;
    localparam int unsigned CheckWidth = $clog2(8 * (BEATS_IN + Beats)) + CountBits;
    typedef logic [CheckWidth-1:0] check_t;
    check_t place;
    check_t need;
    check_t stored;
    logic steps_follow;

    function automatic check_t after(check_t from, int unsigned count);
      return (from + check_t'(count)) % check_t'(Beats);
    endfunction

    function automatic logic [StepBits-1:0] entry(check_t from);
      return (from % check_t'(BEATS_OUT) == check_t'(BEATS_OUT - 1) && from != check_t'(Beats - 1))
          ? StepBits'(Steps - 1) : StepBits'(from % check_t'(BEATS_OUT));
    endfunction

    always_comb begin
      place = check_t'(read_beat) + check_t'(BEATS_OUT) * check_t'(unused_read_repeat);
      need = check_t'(FIRST_NEED);
      for (int unsigned i = 0; i < BEATS_OUT; i++) begin
        if (check_t'(i) < check_t'(read_beat)) need -= check_t'(signed'(step_table[i]));
      end
      stored = check_t'(BEATS_IN) * check_t'(full_q) + check_t'(write_beat);
      steps_follow = 1'b1;
      if (ahead_q[0]) begin
        steps_follow &= step_1_q
            == step_table[entry(after(place, ahead_q[1] ? 1 : 0))];
      end
      if (ahead_q[1]) steps_follow &= step_2_q == step_table[entry(place)];
      steps_follow &= step_place
          == entry(after(place, ahead_q[1] ? 2 : ahead_q[0] ? 1 : 0));
      if (!rst) begin
        steps_match :
        assert (steps_follow && (ahead_q[1] || place == '0) && ahead_q != 2'd2
            && check_t'(gen_step.step_beat)
            + check_t'(BEATS_OUT) * check_t'(gen_step.unused_step_repeat)
            == after(place, ahead_q[1] ? 2 : ahead_q[0] ? 1 : 0));
        tensors_match :
        assert (full_q != 2'd3 && data_in_0_ready == (full_q != 2'd2)
            && (write_half_q ^ read_half_q) == full_q[0]
            && check_t'(beyond_q) == stored - need - 1'b1);
      end
    end
  end
`endif  // MASE_CHECKS

endmodule

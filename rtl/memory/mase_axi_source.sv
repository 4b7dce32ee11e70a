// SPDX-License-Identifier: Apache-2.0
// Streams the WORDS words of a region of an external memory for ever, in the order of addresses.
// The region is BEATS beats of DATA_WIDTH bits from OFFSET on, words packed without gaps.
//
// Asks for bursts of BURST_BEATS beats as soon as its buffer of BUFFER_BEATS has room for one, so
// that a beat that arrives always has a place. With REPEATS beyond 1 two rounds of words stay on
// chip, and each is streamed REPEATS times before the memory is read again. Bursts start at
// multiples of their size: they cross no boundary of 4 KiB when OFFSET and the base lie on one.
// A word is offered 4 cycles after its last beat arrived, 9 with REPEATS.
module mase_axi_source #(
    parameter int unsigned WIDTH = 24,
    parameter int unsigned WORDS = 5,
    parameter int unsigned REPEATS = 1,
    parameter int unsigned DATA_WIDTH = 64,
    parameter int unsigned ADDRESS_WIDTH = 32,
    parameter int unsigned OFFSET = 0,
    parameter int unsigned BURST_BEATS = 16,
    parameter int unsigned BUFFER_BEATS = 32
) (
    input logic clk,
    input logic rst,

    output logic [ADDRESS_WIDTH-1:0] request_offset,
    output logic [              7:0] request_length,
    output logic                     request_valid,
    input  logic                     request_ready,

    input logic [DATA_WIDTH-1:0] beat,
    input logic                  beat_valid,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned Beats = (WORDS * WIDTH + DATA_WIDTH - 1) / DATA_WIDTH;
  localparam int unsigned Bursts = (Beats + BURST_BEATS - 1) / BURST_BEATS;
  localparam int unsigned LastBeats = Beats - (Bursts - 1) * BURST_BEATS;
  localparam int unsigned BurstWidth = (Bursts > 1) ? $clog2(Bursts) : 1;
  // The buffer, and one of the two registers behind it: while the second waits, the first may be
  // empty.
  localparam int unsigned Places = BUFFER_BEATS + 1;
  localparam int unsigned CreditWidth = $clog2(Places + 1);
  localparam int unsigned BurstBytes = BURST_BEATS * DATA_WIDTH / 8;

  if (BURST_BEATS > 256 || BurstBytes > 4096 || 4096 % BurstBytes != 0) begin : gen_burst_check
    $error("a burst has at most 256 beats and 4096 bytes, and divides 4096");
  end
  if (OFFSET % 4096 != 0 || BUFFER_BEATS < BURST_BEATS) begin : gen_place_check
    $error("OFFSET must be a multiple of 4096 and BUFFER_BEATS hold a burst");
  end

  // Places that no request has taken.
  logic [CreditWidth-1:0] credit_q;
  logic [CreditWidth-1:0] wanted;
  logic [BurstWidth-1:0] burst_q;
  logic last;
  logic ask;
  logic leave;

  assign last = burst_q == BurstWidth'(Bursts - 1);
  assign wanted = last ? CreditWidth'(LastBeats) : CreditWidth'(BURST_BEATS);
  assign request_valid = credit_q >= wanted;
  assign request_offset = ADDRESS_WIDTH'(OFFSET)
      + ADDRESS_WIDTH'(burst_q) * ADDRESS_WIDTH'(BurstBytes);
  assign request_length = last ? 8'(LastBeats - 1) : 8'(BURST_BEATS - 1);
  assign ask = request_valid && request_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      credit_q <= CreditWidth'(Places);
      burst_q  <= '0;
    end else begin
      credit_q <= credit_q - (ask ? wanted : '0) + CreditWidth'(leave);
      if (ask) burst_q <= last ? '0 : burst_q + 1'b1;
    end
  end

  logic [DATA_WIDTH-1:0] queued;
  logic queued_valid;
  logic queued_ready;

  mase_result_queue #(
      .WIDTH(DATA_WIDTH),
      .DEPTH(BUFFER_BEATS + 2),
      .REGISTERS(2)
  ) u_buffer (
      .clk,
      .rst,
      .data_in(beat),
      .data_in_valid(beat_valid),
      .data_out(queued),
      .data_out_valid(queued_valid),
      .data_out_ready(queued_ready)
  );

  assign leave = queued_valid && queued_ready;

  logic [WIDTH-1:0] word;
  logic word_valid;
  logic word_ready;

  mase_stream_gearbox #(
      .IN_WIDTH(DATA_WIDTH),
      .OUT_WIDTH(WIDTH),
      .WORDS(WORDS)
  ) u_gearbox (
      .clk,
      .rst,
      .data_in(queued),
      .data_in_valid(queued_valid),
      .data_in_ready(queued_ready),
      .data_out(word),
      .data_out_valid(word_valid),
      .data_out_ready(word_ready)
  );

  mase_stream_replay #(
      .WIDTH(WIDTH),
      .BLOCK(WORDS),
      .REPEATS(REPEATS)
  ) u_replay (
      .clk,
      .rst,
      .data_in(word),
      .data_in_valid(word_valid),
      .data_in_ready(word_ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

`ifdef MASE_CHECKS
  // Beats that were asked for and have not come; those that have, since the first of the round that
  // is cut into words; and those of them in the buffer.
  localparam int unsigned CheckWidth = $clog2(4 * (Places + Beats));
  typedef logic [CheckWidth-1:0] check_t;
  check_t due_q;
  check_t come_q;
  check_t held;
  logic unasked_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      due_q  <= '0;
      come_q <= '0;
      unasked_q <= 1'b0;
    end else begin
      due_q <= due_q + (ask ? check_t'(wanted) : '0) - check_t'(beat_valid);
      come_q <= come_q + check_t'(beat_valid)
          - ((u_gearbox.read && u_gearbox.last) ? check_t'(Beats) : '0);
      // As it is at the edge: what answers may change `beat_valid` some time behind it.
      unasked_q <= beat_valid && due_q == '0;
    end
  end

  always_comb begin
    held = check_t'(u_buffer.u_level.level_q) + check_t'(u_buffer.gen_registers.word_valid)
        + check_t'(queued_valid);
    if (!rst) begin
      asked_for : assert (!unasked_q);
      credits_match : assert (check_t'(credit_q) + due_q + held == check_t'(Places));
      beats_match : assert (come_q == check_t'(u_gearbox.taken_q) + held);
      in_range : assert (check_t'(burst_q) < check_t'(Bursts));
    end
  end
`endif  // MASE_CHECKS

endmodule

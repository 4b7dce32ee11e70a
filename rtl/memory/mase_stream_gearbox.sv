// SPDX-License-Identifier: Apache-2.0
// Cuts beats of IN_WIDTH bits into words of OUT_WIDTH bits without gaps between them, low bits
// first. After every WORDS words the rest of the last beat is dropped: each period starts on a beat.
//
// Takes a beat in the cycle in which no complete word stays behind; a word is offered the cycle
// after the last beat that it needs. Throughput 1 beat or 1 word per cycle, whichever is less.
module mase_stream_gearbox
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 64,
    parameter int unsigned OUT_WIDTH = 24,
    parameter int unsigned WORDS = 5
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [ IN_WIDTH-1:0] data_in,
    input  logic                 data_in_valid,
    output logic                 data_in_ready,
    output logic [OUT_WIDTH-1:0] data_out,
    output logic                 data_out_valid,
    input  logic                 data_out_ready
);

  // Everything moves in units of UNIT bits.
  localparam int unsigned Unit = common_divisor(IN_WIDTH, OUT_WIDTH);
  localparam int unsigned InUnits = IN_WIDTH / Unit;
  localparam int unsigned OutUnits = OUT_WIDTH / Unit;
  localparam int unsigned Capacity = InUnits + OutUnits - 1;
  localparam int unsigned RestUnits = (InUnits - (WORDS * OutUnits) % InUnits) % InUnits;
  localparam int unsigned LevelWidth = $clog2(Capacity + 1);
  localparam int unsigned WordWidth = (WORDS > 1) ? $clog2(WORDS) : 1;

  logic [Capacity*Unit-1:0] held_q;
  logic [Capacity*Unit-1:0] held_d;
  logic [LevelWidth-1:0] level_q;
  logic [LevelWidth-1:0] kept;
  logic [WordWidth-1:0] word_q;
  logic last;
  logic read;
  logic write;

  assign data_out = held_q[OUT_WIDTH-1:0];
  assign data_out_valid = level_q >= LevelWidth'(OutUnits);
  assign last = word_q == WordWidth'(WORDS - 1);
  assign read = data_out_valid && data_out_ready;
  assign data_in_ready = kept < LevelWidth'(OutUnits);
  assign write = data_in_valid && data_in_ready;

  always_comb begin
    held_d = held_q;
    kept   = level_q;
    if (read && last) begin
      held_d = held_q >> ((OutUnits + RestUnits) * Unit);
      kept   = level_q - LevelWidth'(OutUnits + RestUnits);
    end else if (read) begin
      held_d = held_q >> (OutUnits * Unit);
      kept   = level_q - LevelWidth'(OutUnits);
    end
    for (int unsigned place = 0; place < OutUnits; place++) begin
      if (write && kept == LevelWidth'(place)) held_d[place*Unit+:IN_WIDTH] = data_in;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      level_q <= '0;
      word_q  <= '0;
    end else begin
      level_q <= kept + (write ? LevelWidth'(InUnits) : '0);
      if (read) word_q <= last ? '0 : word_q + 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    held_q <= held_d;
  end

`ifdef MASE_CHECKS
  // Beats of this period that were taken.
  localparam int unsigned Beats = (WORDS * OutUnits + RestUnits) / InUnits;
  localparam int unsigned CheckWidth = $clog2(4 * ((Beats + 1) * InUnits + OutUnits));
  typedef logic [CheckWidth-1:0] check_t;
  check_t taken_q;

  always_ff @(posedge clk) begin
    if (rst) taken_q <= '0;
    else taken_q <= taken_q + check_t'(write) - ((read && last) ? check_t'(Beats) : '0);
  end

  always_comb begin
    if (!rst) begin
      beats_match :
      assert (taken_q <= check_t'(Beats) && check_t'(word_q) < check_t'(WORDS)
          && check_t'(level_q) <= check_t'(Capacity) && taken_q * check_t'(InUnits)
          == check_t'(word_q) * check_t'(OutUnits) + check_t'(level_q));
    end
  end
`endif  // MASE_CHECKS

endmodule

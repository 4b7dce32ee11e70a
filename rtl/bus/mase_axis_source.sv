// SPDX-License-Identifier: Apache-2.0
// Sends inferences of BEATS beats as AXI4-Stream packets: their BEAT_BYTES bytes each without gaps,
// low bytes first, in words of BUS_BYTES. TLAST marks the last word of an inference, and TKEEP the
// bytes of it that count. `done` is high in the cycle in which that word moves.
//
// Throughput 1 beat or 1 word per cycle, whichever is less, without a pause between inferences;
// latency 0 cycles where a word is a beat, else a word is offered the cycle after its last beat.
module mase_axis_source
  import mase_pkg::*;
#(
    parameter int unsigned BUS_BYTES = 4,
    parameter int unsigned BEAT_BYTES = 3,
    parameter int unsigned BEATS = 5
) (
    input logic clk,
    input logic rst,

    input  logic [8*BEAT_BYTES-1:0] data_in,
    input  logic                    data_in_valid,
    output logic                    data_in_ready,

    output logic [8*BUS_BYTES-1:0] m_axis_tdata,
    output logic [  BUS_BYTES-1:0] m_axis_tkeep,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,

    output logic done
);

  localparam int unsigned Bytes = BEATS * BEAT_BYTES;
  localparam int unsigned Words = (Bytes + BUS_BYTES - 1) / BUS_BYTES;
  localparam int unsigned LastBytes = Bytes - (Words - 1) * BUS_BYTES;
  localparam int unsigned BeatWidth = index_width(BEATS);
  localparam logic [BUS_BYTES-1:0] LastKeep = {BUS_BYTES{1'b1}} >> (BUS_BYTES - LastBytes);

  logic [BeatWidth-1:0] beat_q;
  logic last_beat;
  logic write;
  logic read;

  assign last_beat = beat_q == BeatWidth'(BEATS - 1);
  assign write = data_in_valid && data_in_ready;
  assign read = m_axis_tvalid && m_axis_tready;
  assign m_axis_tkeep = m_axis_tlast ? LastKeep : {BUS_BYTES{1'b1}};
  assign done = read && m_axis_tlast;

  always_ff @(posedge clk) begin
    if (rst) beat_q <= '0;
    else if (write) beat_q <= last_beat ? '0 : beat_q + 1'b1;
  end

  if (BUS_BYTES == BEAT_BYTES) begin : gen_word_is_beat
    assign m_axis_tdata = data_in;
    assign m_axis_tlast = last_beat;
    assign m_axis_tvalid = !rst && data_in_valid;
    assign data_in_ready = !rst && m_axis_tready;
  end else begin : gen_words
    // Everything moves in units of Unit bytes.
    localparam int unsigned Unit = common_divisor(BUS_BYTES, BEAT_BYTES);
    localparam int unsigned InUnits = BEAT_BYTES / Unit;
    localparam int unsigned OutUnits = BUS_BYTES / Unit;
    localparam int unsigned Capacity = InUnits + OutUnits - 1;
    localparam int unsigned LevelWidth = $clog2(Capacity + 1);

    logic [Capacity*Unit*8-1:0] held_q;
    logic [Capacity*Unit*8-1:0] held_d;
    logic [LevelWidth-1:0] level_q;
    logic [LevelWidth-1:0] kept;
    // The last beat of an inference is inside.
    logic ends_q;
    logic ended;

    assign m_axis_tdata = held_q[8*BUS_BYTES-1:0];
    assign m_axis_tlast = ends_q && level_q <= LevelWidth'(OutUnits);
    assign m_axis_tvalid = !rst && (ends_q || level_q >= LevelWidth'(OutUnits));
    assign ended = ends_q && !done;
    assign data_in_ready = !rst && !ended && kept < LevelWidth'(OutUnits);

    always_comb begin
      held_d = held_q;
      kept   = level_q;
      if (read) begin
        held_d = held_q >> (8 * BUS_BYTES);
        kept   = m_axis_tlast ? '0 : level_q - LevelWidth'(OutUnits);
      end
      for (int unsigned place = 0; place < OutUnits; place++) begin
        if (write && kept == LevelWidth'(place)) held_d[place*Unit*8+:8*BEAT_BYTES] = data_in;
      end
    end

    always_ff @(posedge clk) begin
      if (rst) begin
        level_q <= '0;
        ends_q  <= 1'b0;
      end else begin
        level_q <= kept + (write ? LevelWidth'(InUnits) : '0);
        ends_q  <= ended || (write && last_beat);
      end
    end

    always_ff @(posedge clk) begin
      held_q <= held_d;
    end

`ifdef MASE_CHECKS
    always_comb begin
      if (!rst) in_range : assert (32'(level_q) <= Capacity && (!ends_q || level_q != '0));
    end
`endif  // MASE_CHECKS
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) beat_in_range : assert (32'(beat_q) < BEATS);
  end
`endif  // MASE_CHECKS

endmodule

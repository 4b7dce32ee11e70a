// SPDX-License-Identifier: Apache-2.0
// Watches the streams that leave a module while it is simulated (`sim/checks.py` binds it): what is
// offered stays as it is until it is taken, and a reset leaves nothing on offer. The first breach of
// each rule is a line on standard output: instance, time in picoseconds, rule.
module mase_stream_check #(
    // Bits of the payloads together, and how many streams share them.
    parameter int unsigned WIDTH   = 1,
    parameter int unsigned STREAMS = 1
) (
    input logic clk,
    input logic rst,

    // Whether anything is on offer to the module.
    input logic given,

    input logic [  WIDTH-1:0] data,
    input logic [STREAMS-1:0] valid,
    input logic [STREAMS-1:0] ready
);

  // Before the first reset nothing holds.
  bit reset_q = 1'b0;
  logic started_q;
  logic [STREAMS-1:0] waiting_q;
  logic [WIDTH-1:0] data_q;
  always_ff @(posedge clk) begin
    reset_q <= reset_q || rst;
    started_q <= rst;
    waiting_q <= rst ? '0 : valid & ~ready;
    data_q <= data;
  end

  bit told_fell = 1'b0;
  bit told_changed = 1'b0;
  bit told_stale = 1'b0;
  always_ff @(posedge clk) begin
    if (!rst && reset_q) begin
      fell : assert ((waiting_q & ~valid) == '0 || told_fell)
      else begin
        told_fell <= 1'b1;
        $display("mase_stream_check: %m %0d valid fell before the beat moved", $time);
      end
      changed : assert (waiting_q == '0 || data == data_q || told_changed)
      else begin
        told_changed <= 1'b1;
        $display("mase_stream_check: %m %0d data changed before the beat moved", $time);
      end
      stale : assert (!started_q || given || valid == '0 || told_stale)
      else begin
        told_stale <= 1'b1;
        $display("mase_stream_check: %m %0d a beat is on offer although none came since the reset",
                 $time);
      end
    end
  end

endmodule

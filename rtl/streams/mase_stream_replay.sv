// SPDX-License-Identifier: Apache-2.0
// Sends every block of BLOCK beats REPEATS times. Two blocks are stored, so that the next one is
// written while this one is replayed: output throughput is 1 beat per cycle without gaps.
// A beat can be read 2 cycles after it was written. With REPEATS 1 the stream is a wire.
module mase_stream_replay #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BLOCK = 4,
    parameter int unsigned REPEATS = 2
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

  if (REPEATS == 1) begin : gen_wire
    assign data_out = data_in;
    assign data_out_valid = data_in_valid;
    assign data_in_ready = data_out_ready;
    logic unused_clocking;
    assign unused_clocking = clk | rst;
  end else begin : gen_buffer
    localparam int unsigned Depth = 2 * BLOCK;
    localparam int unsigned AddressWidth = $clog2(Depth);
    localparam int unsigned LevelWidth = $clog2(Depth + 1);
    localparam int unsigned RepeatWidth = $clog2(REPEATS);

    logic [       WIDTH-1:0] memory         [Depth];
    logic [AddressWidth-1:0] write_q;
    logic [AddressWidth-1:0] read_q;
    logic                    second_q;
    logic [ RepeatWidth-1:0] repeat_q;
    // Beats stored since the start of the block that is being read, and its position in it.
    logic [  LevelWidth-1:0] level_q;
    logic [  LevelWidth-1:0] offset_q;

    logic write;
    logic read;
    logic advance;
    logic last_beat;
    logic last_repeat;

    assign data_in_ready = level_q != LevelWidth'(Depth);
    assign write = data_in_valid && data_in_ready;
    assign advance = !data_out_valid || data_out_ready;
    assign read = advance && (offset_q < level_q);
    assign last_beat = offset_q == LevelWidth'(BLOCK - 1);
    assign last_repeat = repeat_q == RepeatWidth'(REPEATS - 1);

    always_ff @(posedge clk) begin
      if (rst) begin
        write_q <= '0;
        read_q <= '0;
        second_q <= 1'b0;
        repeat_q <= '0;
        level_q <= '0;
        offset_q <= '0;
        data_out_valid <= 1'b0;
      end else begin
        if (advance) data_out_valid <= read;
        if (write) write_q <= (write_q == AddressWidth'(Depth - 1)) ? '0 : write_q + 1'b1;
        if (read) begin
          offset_q <= last_beat ? '0 : offset_q + 1'b1;
          if (!last_beat) read_q <= read_q + 1'b1;
          else if (!last_repeat) read_q <= second_q ? AddressWidth'(BLOCK) : '0;
          else read_q <= second_q ? '0 : AddressWidth'(BLOCK);
          if (last_beat) repeat_q <= last_repeat ? '0 : repeat_q + 1'b1;
          if (last_beat && last_repeat) second_q <= !second_q;
        end
        if (read && last_beat && last_repeat) begin
          level_q <= level_q - LevelWidth'(BLOCK) + LevelWidth'(write);
        end else begin
          level_q <= level_q + LevelWidth'(write);
        end
      end
    end

    always_ff @(posedge clk) begin
      if (write) memory[write_q] <= data_in;
      if (read) data_out <= memory[read_q];
    end
  end

endmodule

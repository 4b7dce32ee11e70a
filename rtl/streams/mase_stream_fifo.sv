// SPDX-License-Identifier: Apache-2.0
// A queue of DEPTH beats. A beat is offered the cycle after it entered; throughput 1 beat per cycle,
// half of that where DEPTH is 1.
module mase_stream_fifo #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 4
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

  localparam int unsigned AddressWidth = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam int unsigned LevelWidth = $clog2(DEPTH + 1);

  logic [WIDTH-1:0] memory[DEPTH];
  logic [AddressWidth-1:0] write_q;
  logic [AddressWidth-1:0] read_q;
  logic [LevelWidth-1:0] level_q;
  logic write;
  logic read;

  assign data_in_ready = level_q != LevelWidth'(DEPTH);
  assign data_out_valid = level_q != '0;
  assign data_out = memory[read_q];
  assign write = data_in_valid && data_in_ready;
  assign read = data_out_valid && data_out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      read_q  <= '0;
      level_q <= '0;
    end else begin
      if (write) write_q <= (write_q == AddressWidth'(DEPTH - 1)) ? '0 : write_q + 1'b1;
      if (read) read_q <= (read_q == AddressWidth'(DEPTH - 1)) ? '0 : read_q + 1'b1;
      level_q <= level_q + LevelWidth'(write) - LevelWidth'(read);
    end
  end

  always_ff @(posedge clk) begin
    if (write) memory[write_q] <= data_in;
  end

endmodule

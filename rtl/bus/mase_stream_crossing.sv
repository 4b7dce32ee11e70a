// SPDX-License-Identifier: Apache-2.0
// A queue of 2^ADDRESS_WIDTH beats between two clocks that have nothing in common: pointers cross
// as Gray codes through two registers. Both sides are reset together, and each reset is held for
// three cycles of the slower clock (mase_reset_crossing). Throughput 1 beat per cycle of the slower
// clock.
module mase_stream_crossing #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned ADDRESS_WIDTH = 3
) (
    input  logic             in_clk,
    input  logic             in_rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,

    input  logic             out_clk,
    input  logic             out_rst,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  typedef logic [ADDRESS_WIDTH:0] pointer_t;

  function automatic pointer_t gray(pointer_t binary);
    return binary ^ (binary >> 1);
  endfunction

  (* no_rw_check *)
  logic [WIDTH-1:0] memory[1<<ADDRESS_WIDTH];
  pointer_t write_q;
  pointer_t write_gray_q;
  pointer_t read_q;
  pointer_t read_gray_q;
  (* async_reg = "true" *)pointer_t write_gray_meta_q;
  (* async_reg = "true" *)pointer_t write_gray_there_q;
  (* async_reg = "true" *)pointer_t read_gray_meta_q;
  (* async_reg = "true" *)pointer_t read_gray_there_q;
  logic write;
  logic read;
  logic some;

  // The two highest bits of a Gray code differ between pointers that are a whole memory apart.
  assign data_in_ready =
      !in_rst && write_gray_q != (read_gray_there_q ^ (pointer_t'(3) << (ADDRESS_WIDTH - 1)));
  assign write = data_in_valid && data_in_ready;
  assign some = read_gray_q != write_gray_there_q;
  assign read = some && (!data_out_valid || data_out_ready);

  always_ff @(posedge in_clk) begin
    if (in_rst) begin
      write_q <= '0;
      write_gray_q <= '0;
      read_gray_meta_q <= '0;
      read_gray_there_q <= '0;
    end else begin
      read_gray_meta_q  <= read_gray_q;
      read_gray_there_q <= read_gray_meta_q;
      if (write) write_q <= write_q + 1'b1;
      if (write) write_gray_q <= gray(write_q + 1'b1);
    end
  end

  always_ff @(posedge in_clk) begin
    if (write) memory[write_q[ADDRESS_WIDTH-1:0]] <= data_in;
  end

  always_ff @(posedge out_clk) begin
    if (out_rst) begin
      read_q <= '0;
      read_gray_q <= '0;
      write_gray_meta_q <= '0;
      write_gray_there_q <= '0;
      data_out_valid <= 1'b0;
    end else begin
      write_gray_meta_q  <= write_gray_q;
      write_gray_there_q <= write_gray_meta_q;
      if (read) read_q <= read_q + 1'b1;
      if (read) read_gray_q <= gray(read_q + 1'b1);
      if (!data_out_valid || data_out_ready) data_out_valid <= some;
    end
  end

  always_ff @(posedge out_clk) begin
    if (read) data_out <= memory[read_q[ADDRESS_WIDTH-1:0]];
  end

endmodule

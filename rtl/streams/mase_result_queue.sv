// SPDX-License-Identifier: Apache-2.0
// Where the results of a pipeline end that nobody can stop: a memory of DEPTH - 1 places and a
// register behind it. Whoever sends them counts them (mase_credits), so that there is always room.
// A result is offered 2 cycles after it came; throughput 1 beat per cycle.
module mase_result_queue
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 3
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  // A power of two, so that pointers wrap by themselves.
  localparam int unsigned PointerWidth = index_width(DEPTH - 1);

  // No place is read in the cycle in which it is written, but for words that nobody looks at.
  (* no_rw_check *)
  logic [WIDTH-1:0] memory[1<<PointerWidth];
  logic [PointerWidth-1:0] write_q;
  logic [PointerWidth-1:0] read_q;
  logic waiting;
  logic unused_waiting_single;
  logic load;
  // The opposite of data_out_valid, for what counts: the enable of the data has far to go.
  logic empty_q;
  logic leave;

  if (DEPTH < 2) begin : gen_depth_check
    $error("DEPTH must be 2 or more");
  end

  assign load  = !data_out_valid || data_out_ready;
  assign leave = waiting && (empty_q || data_out_ready);

  mase_level #(
      .MOST(1 << PointerWidth)
  ) u_level (
      .clk,
      .rst,
      .more(data_in_valid),
      .less(leave),
      .some(waiting),
      .single(unused_waiting_single)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      read_q <= '0;
      data_out_valid <= 1'b0;
      empty_q <= 1'b1;
    end else begin
      if (data_in_valid) write_q <= write_q + 1'b1;
      if (leave) read_q <= read_q + 1'b1;
      if (load) data_out_valid <= waiting;
      if (empty_q || data_out_ready) empty_q <= !waiting;
    end
  end

  always_ff @(posedge clk) begin
    if (data_in_valid) memory[write_q] <= data_in;
    if (load) data_out <= memory[read_q];
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) begin
      places_match :
      assert (PointerWidth'(write_q - read_q) == PointerWidth'(u_level.level_q));
      register_matches : assert (empty_q == !data_out_valid);
    end
  end
`endif  // MASE_CHECKS

endmodule

// SPDX-License-Identifier: Apache-2.0
// A queue of DEPTH beats, the first of them in a register at its output: a beat that finds the queue
// empty goes there at once. No path leads from data_out_ready to data_in_ready. A beat is offered
// the cycle after it entered; throughput 1 beat per cycle, half of that where DEPTH is 1.
module mase_stream_fifo
  import mase_pkg::*;
#(
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

  logic write;
  logic load;
  logic unused_single;

  assign write = data_in_valid && data_in_ready;
  assign load  = !data_out_valid || data_out_ready;

  mase_credits #(
      .DEPTH(DEPTH)
  ) u_credits (
      .clk,
      .rst,
      .take(write),
      .give(data_out_valid && data_out_ready),
      .room(data_in_ready),
      .single(unused_single)
  );

  if (DEPTH == 1) begin : gen_register
    always_ff @(posedge clk) begin
      if (rst) data_out_valid <= 1'b0;
      else if (load) data_out_valid <= write;
    end

    always_ff @(posedge clk) if (load) data_out <= data_in;
  end else begin : gen_memory
    // A power of two, so that pointers wrap by themselves.
    localparam int unsigned PointerWidth = index_width(DEPTH - 1);

    // No place is read in the cycle in which it is written, but for words that nobody looks at.
    (* no_rw_check *)
    logic [WIDTH-1:0] memory[1<<PointerWidth];
    logic [PointerWidth-1:0] write_q;
    logic [PointerWidth-1:0] read_q;
    logic waiting;
    logic unused_waiting_single;
    logic store;
    // The opposite of data_out_valid, for what counts: the enable of the data has far to go.
    logic empty_q;
    logic leave;

    assign store = write && (waiting || !(empty_q || data_out_ready));
    assign leave = waiting && (empty_q || data_out_ready);

    mase_level #(
        .MOST(DEPTH - 1)
    ) u_level (
        .clk,
        .rst,
        .more(store),
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
        if (store) write_q <= write_q + 1'b1;
        if (leave) read_q <= read_q + 1'b1;
        if (load) data_out_valid <= waiting || write;
        if (empty_q || data_out_ready) empty_q <= !(waiting || write);
      end
    end

    always_ff @(posedge clk) begin
      if (write) memory[write_q] <= data_in;
      if (load) data_out <= waiting ? memory[read_q] : data_in;
    end

`ifdef MASE_CHECKS
    int unsigned held;
    assign held = 32'(u_level.level_q) + 32'(data_out_valid);
    always_comb begin
      if (!rst) begin
        places_match :
        assert (PointerWidth'(write_q - read_q) == PointerWidth'(u_level.level_q));
        register_matches : assert (empty_q == !data_out_valid);
        credits_match :
        assert (32'(u_credits.u_left.level_q) + held == DEPTH);
      end
    end
`endif  // MASE_CHECKS
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Where the results of a pipeline end that nobody can stop: a memory of DEPTH - REGISTERS places and
// one register behind it, or two, which a block memory has inside. Whoever sends them counts them
// (mase_credits), so that there is always room; of two registers one does not count, because it may be
// empty while the other waits.
// A result is offered 1 + REGISTERS cycles after it came; throughput 1 beat per cycle.
module mase_result_queue
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 3,
    parameter int unsigned REGISTERS = 1
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
  localparam int unsigned PointerWidth = index_width(DEPTH - REGISTERS);

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
  // Whether a result moves into the register that offers it.
  logic comes;

  if (REGISTERS < 1 || REGISTERS > 2 || DEPTH <= REGISTERS) begin : gen_depth_check
    $error("REGISTERS must be 1 or 2, and DEPTH more");
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
      if (load) data_out_valid <= comes;
      if (empty_q || data_out_ready) empty_q <= !comes;
    end
  end

  always_ff @(posedge clk) if (data_in_valid) memory[write_q] <= data_in;

  // Both registers move at once.
  if (REGISTERS == 1) begin : gen_register
    assign comes = waiting;
    always_ff @(posedge clk) if (load) data_out <= memory[read_q];
  end else begin : gen_registers
    logic [WIDTH-1:0] word_q;
    logic word_valid;
    assign comes = word_valid;
    always_ff @(posedge clk) begin
      if (rst) word_valid <= 1'b0;
      else if (empty_q || data_out_ready) word_valid <= waiting;
    end
    always_ff @(posedge clk) begin
      if (load) begin
        word_q   <= memory[read_q];
        data_out <= word_q;
      end
    end
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

// SPDX-License-Identifier: Apache-2.0
// Where results end that nobody can stop: a register, and behind it room for DEPTH - 1 more. Whoever
// sends them counts them (mase_credits), so that there is always room. A result is offered the cycle
// after it came. `waiting` says that the register is not the only result.
module mase_result_queue
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned DEPTH = 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             waiting,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned Places = DEPTH - 1;

  logic load;
  logic store;
  logic [WIDTH-1:0] next;

  if (DEPTH < 2) begin : gen_depth_check
    $error("DEPTH must be 2 or more");
  end

  assign load  = !data_out_valid || data_out_ready;
  assign store = data_in_valid && (waiting || !load);

  always_ff @(posedge clk) begin
    if (rst) data_out_valid <= 1'b0;
    else if (load) data_out_valid <= waiting || data_in_valid;
  end

  always_ff @(posedge clk) begin
    if (load) data_out <= waiting ? next : data_in;
  end

  if (Places == 1) begin : gen_register
    always_ff @(posedge clk) begin
      if (rst) waiting <= 1'b0;
      else waiting <= store || (waiting && !load);
    end
    always_ff @(posedge clk) begin
      if (!waiting) next <= data_in;
    end
  end else begin : gen_memory
    localparam int unsigned AddressWidth = index_width(Places);
    localparam int unsigned LevelWidth = $clog2(Places + 1);
    localparam logic [AddressWidth-1:0] Last = AddressWidth'(Places - 1);

    logic [WIDTH-1:0] memory[Places];
    logic [AddressWidth-1:0] write_q;
    logic [AddressWidth-1:0] read_q;
    logic [LevelWidth-1:0] level_q;
    logic [LevelWidth-1:0] level;
    logic read;

    assign read  = waiting && load;
    assign level = level_q + LevelWidth'(store) - LevelWidth'(read);
    assign next  = memory[read_q];

    always_ff @(posedge clk) begin
      if (rst) begin
        write_q <= '0;
        read_q  <= '0;
        level_q <= '0;
        waiting <= 1'b0;
      end else begin
        if (store) write_q <= (write_q == Last) ? '0 : write_q + 1'b1;
        if (read) read_q <= (read_q == Last) ? '0 : read_q + 1'b1;
        level_q <= level;
        waiting <= level != '0;
      end
    end

    always_ff @(posedge clk) begin
      if (store) memory[write_q] <= data_in;
    end
  end

endmodule

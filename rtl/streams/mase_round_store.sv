// SPDX-License-Identifier: Apache-2.0
// Keeps a round of INNER parts that are being reduced: `kept` is what the round before gave in the
// place of the part that is here, `reduced` what this one gives, and `reduced_q` the same a cycle
// later. It never stops; `comes` says that a part is here in 2 cycles (mase_round_pipeline).
module mase_round_store
  import mase_pkg::*;
#(
    parameter int unsigned INNER = 1,
    parameter int unsigned WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             comes,
    input  logic             valid,
    input  logic [WIDTH-1:0] reduced,
    output logic [WIDTH-1:0] kept,
    output logic [WIDTH-1:0] reduced_q
);

  always_ff @(posedge clk) if (valid) reduced_q <= reduced;

  if (INNER == 1) begin : gen_register
    assign kept = reduced_q;
    logic unused_control;
    assign unused_control = rst | comes;
  end else if (INNER == 2) begin : gen_registers
    always_ff @(posedge clk) if (valid) kept <= reduced_q;
    logic unused_control;
    assign unused_control = rst | comes;
  end else begin : gen_memory
    // A part is written 3 cycles or more before it is read again.
    localparam int unsigned Width = index_width(INNER);

    logic [Width-1:0] read;
    logic [Width-1:0] write;
    logic unused_last_read;
    logic unused_last_write;
    (* no_rw_check *)
    logic [WIDTH-1:0] memory[INNER];
    logic [WIDTH-1:0] read_q;

    mase_counter #(
        .COUNT(INNER),
        .WIDTH(Width)
    ) u_read (
        .clk,
        .rst,
        .enable(comes),
        .count(read),
        .last(unused_last_read)
    );

    mase_counter #(
        .COUNT(INNER),
        .WIDTH(Width)
    ) u_write (
        .clk,
        .rst,
        .enable(valid),
        .count(write),
        .last(unused_last_write)
    );

    always_ff @(posedge clk) begin
      if (valid) memory[write] <= reduced;
      read_q <= memory[read];
      kept   <= read_q;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Delays a stream by the BEATS beats of one inference: beat i of an inference is beat i of the one
// before; zeros after reset.
// Latency 4 cycles, throughput 1 beat per cycle.
module mase_previous
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BEATS = 4
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

  localparam int unsigned AddressWidth = index_width(BEATS);

  logic take;
  logic [AddressWidth-1:0] address;
  logic last;
  // All beats of an inference are stored.
  logic filled_q;
  logic there_q;
  logic [WIDTH-1:0] memory[BEATS];
  logic [WIDTH-1:0] word_q;
  logic [WIDTH-1:0] result_q;

  assign take = data_in_valid && data_in_ready;

  mase_counter #(
      .COUNT(BEATS),
      .WIDTH(AddressWidth)
  ) u_address (
      .clk,
      .rst,
      .enable(take),
      .count(address),
      .last
  );

  always_ff @(posedge clk) begin
    if (rst) filled_q <= 1'b0;
    else if (take && last) filled_q <= 1'b1;
  end

  // A beat is read in the cycle in which the next inference's takes its place.
  always_ff @(posedge clk) begin
    if (take) memory[address] <= data_in;
    word_q   <= memory[address];
    there_q  <= filled_q;
    result_q <= there_q ? word_q : '0;
  end

  mase_stream_pipeline #(
      .WIDTH (WIDTH),
      .STAGES(2)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid,
      .data_in_ready,
      .result(result_q),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

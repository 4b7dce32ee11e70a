// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, lane by lane over TERMS rounds of INNER beats each: beat j of the result reduces
// beat j of every round. Exact; the result is two's complement of OUT_WIDTH bits.
// Latency 1 cycle after the last round's beat, throughput 1 beat per cycle.
module mase_reduce_beats
  import mase_pkg::*;
#(
    parameter bit MAXIMUM = 0,
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,
    parameter int unsigned LANES = 1,
    parameter int unsigned IN_WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned OUT_WIDTH = 10
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][IN_WIDTH-1:0] data_in,
    input  logic                           data_in_valid,
    output logic                           data_in_ready,

    output logic [LANES-1:0][OUT_WIDTH-1:0] data_out,
    output logic                            data_out_valid,
    input  logic                            data_out_ready
);

  localparam int unsigned TermBits = index_width(TERMS);
  localparam int unsigned InnerBits = index_width(INNER);

  logic [TermBits-1:0] term_q;
  logic [InnerBits-1:0] inner_q;
  logic last_term;
  logic last_inner;
  logic result_ready;
  logic move;

  assign last_term = term_q == TermBits'(TERMS - 1);
  assign last_inner = inner_q == InnerBits'(INNER - 1);
  assign data_in_ready = !last_term || result_ready;
  assign move = data_in_valid && data_in_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      term_q <= '0;
      inner_q <= '0;
    end else if (move) begin
      inner_q <= last_inner ? '0 : inner_q + 1'b1;
      if (last_inner) term_q <= last_term ? '0 : term_q + 1'b1;
    end
  end

  logic [LANES-1:0][OUT_WIDTH-1:0] partial[INNER];
  logic [LANES-1:0][OUT_WIDTH-1:0] kept;
  logic [LANES-1:0][OUT_WIDTH-1:0] reduced;

  assign kept = partial[inner_q];

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [OUT_WIDTH-1:0] addend;
    logic signed [OUT_WIDTH-1:0] earlier;
    if (SIGNED) begin : gen_signed
      assign addend = OUT_WIDTH'(signed'(data_in[i]));
    end else begin : gen_unsigned
      assign addend = OUT_WIDTH'(data_in[i]);
    end
    assign earlier = signed'(kept[i]);
    if (MAXIMUM) begin : gen_maximum
      assign reduced[i] = (term_q == '0 || addend > earlier) ? addend : earlier;
    end else begin : gen_sum
      assign reduced[i] = (term_q == '0) ? addend : earlier + addend;
    end
  end

  always_ff @(posedge clk) begin
    if (move) partial[inner_q] <= reduced;
  end

  mase_stream_register #(
      .WIDTH(LANES * OUT_WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(reduced),
      .data_in_valid(data_in_valid && last_term),
      .data_in_ready(result_ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

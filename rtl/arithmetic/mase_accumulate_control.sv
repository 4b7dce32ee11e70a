// SPDX-License-Identifier: Apache-2.0
// The handshakes of sums of TERMS beats: data and weights meet, products of LATENCY enabled cycles
// run beside their flags, and a sum leaves when its last part is in. A bias is taken with the first
// part. Throughput one beat per cycle, without gaps between sums.
module mase_accumulate_control #(
    parameter int unsigned TERMS = 4,
    parameter int unsigned LATENCY = 2,

    localparam int unsigned TermWidth = (TERMS > 1) ? $clog2(TERMS) : 1
) (
    input logic clk,
    input logic rst,

    input  logic data_in_valid,
    output logic data_in_ready,
    input  logic weight_valid,
    output logic weight_ready,
    input  logic bias_valid,
    output logic bias_ready,

    // Whether operands meet, and which term of the sum they are.
    output logic                 met,
    output logic [TermWidth-1:0] term,
    // Whether everything up to the sums moves on.
    output logic                 advance,
    // The part that reaches the sums, LATENCY enabled cycles after its operands met.
    output logic                 part_valid,
    output logic                 part_first,
    output logic                 sum_valid,
    input  logic                 sum_ready
);

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, data_in_valid}),
      .data_in_ready ({weight_ready, data_in_ready}),
      .data_out_valid(met),
      .data_out_ready(advance)
  );

  logic [TermWidth-1:0] term_q;
  logic [LATENCY-1:0] valid_q;
  logic [LATENCY-1:0] first_q;
  logic [LATENCY-1:0] last_q;
  logic last;

  assign term = term_q;
  assign last = term_q == TermWidth'(TERMS - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      term_q  <= '0;
      valid_q <= '0;
    end else if (advance) begin
      if (met) term_q <= last ? '0 : term_q + 1'b1;
      valid_q <= LATENCY'({valid_q, met});
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      first_q <= LATENCY'({first_q, term_q == '0});
      last_q  <= LATENCY'({last_q, last});
    end
  end

  logic sum_moves;

  assign part_valid = valid_q[LATENCY-1];
  assign part_first = first_q[LATENCY-1];
  assign sum_moves = sum_valid && sum_ready;
  assign advance = !(sum_valid && !sum_moves) && !(part_valid && part_first && !bias_valid);
  assign bias_ready = part_valid && part_first && !(sum_valid && !sum_moves);

  always_ff @(posedge clk) begin
    if (rst) sum_valid <= 1'b0;
    else if (advance) sum_valid <= part_valid && last_q[LATENCY-1];
    else if (sum_moves) sum_valid <= 1'b0;
  end

endmodule

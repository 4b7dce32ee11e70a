// SPDX-License-Identifier: Apache-2.0
// The handshakes of sums of TERMS beats in a pipeline that never stops: data, weights and, with the
// first of them, a bias move together; the last moves only while there is room for its result.
// A part of a sum comes PART_STAGES cycles after its operands moved, the result RESULT_STAGES cycles
// after the last part, and waits here. Throughput one beat per cycle, without gaps between sums.
module mase_accumulate_pipeline
  import mase_pkg::*;
#(
    parameter int unsigned TERMS = 4,
    parameter int unsigned PART_STAGES = 2,
    parameter int unsigned RESULT_STAGES = 1,
    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter int unsigned WIDTH = 8
) (
    input logic clk,
    input logic rst,

    input  logic                  data_in_valid,
    output logic                  data_in_ready,
    input  logic                  weight_valid,
    output logic                  weight_ready,
    input  logic [BIAS_WIDTH-1:0] bias,
    input  logic                  bias_valid,
    output logic                  bias_ready,

    // The part of a sum that is here, and the bias of the sum that it begins.
    output logic                  part_valid,
    output logic                  part_first,
    output logic [BIAS_WIDTH-1:0] part_bias,
    input  logic [     WIDTH-1:0] result,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned TermWidth = index_width(TERMS);
  // From the last operands to the result, and the cycle in which a place becomes free.
  localparam int unsigned Cycles = PART_STAGES + RESULT_STAGES + 3;
  localparam int unsigned Depth = (Cycles > 2 * TERMS) ? ceil_div(Cycles, TERMS) : 2;

  logic [TermWidth-1:0] term_q;
  logic [TermWidth-1:0] term;
  logic [PART_STAGES-1:0] valid_q;
  logic [PART_STAGES-1:0] first_q;
  logic [PART_STAGES+RESULT_STAGES-1:0] last_q;
  logic first;
  logic last;
  logic take;
  logic may_q;
  logic unused_room;
  logic room_next;

  assign last = term_q == TermWidth'(TERMS - 1);
  assign data_in_ready = may_q && weight_valid && (!first || bias_valid);
  assign weight_ready = may_q && data_in_valid && (!first || bias_valid);
  assign bias_ready = may_q && data_in_valid && weight_valid && first;
  assign take = data_in_valid && data_in_ready;
  assign term = !take ? term_q : last ? '0 : term_q + 1'b1;

  always_ff @(posedge clk) begin
    if (rst) begin
      term_q <= '0;
      first <= HAS_BIAS;
      may_q <= 1'b1;
      valid_q <= '0;
      last_q <= '0;
    end else begin
      term_q <= term;
      first <= HAS_BIAS && term == '0;
      may_q <= room_next || term != TermWidth'(TERMS - 1);
      valid_q <= PART_STAGES'({valid_q, take});
      last_q <= (PART_STAGES + RESULT_STAGES)'({last_q, take && last});
    end
  end

  always_ff @(posedge clk) first_q <= PART_STAGES'({first_q, term_q == '0});

  assign part_valid = valid_q[PART_STAGES-1];
  assign part_first = first_q[PART_STAGES-1];

  // Biases wait for their first part: as many as sums may begin until then.
  if (HAS_BIAS) begin : gen_bias
    localparam int unsigned Biases = ceil_div(PART_STAGES, TERMS);
    if (Biases == 1) begin : gen_register
      always_ff @(posedge clk) if (bias_ready) part_bias <= bias;
    end else begin : gen_memory
      localparam int unsigned AddressWidth = index_width(Biases);
      localparam logic [AddressWidth-1:0] Last = AddressWidth'(Biases - 1);
      logic [BIAS_WIDTH-1:0] memory[Biases];
      logic [AddressWidth-1:0] write_q;
      logic [AddressWidth-1:0] read_q;
      logic read;
      assign read = part_valid && part_first;
      assign part_bias = memory[read_q];
      always_ff @(posedge clk) begin
        if (rst) begin
          write_q <= '0;
          read_q  <= '0;
        end else begin
          if (bias_ready) write_q <= (write_q == Last) ? '0 : write_q + 1'b1;
          if (read) read_q <= (read_q == Last) ? '0 : read_q + 1'b1;
        end
      end
      always_ff @(posedge clk) if (bias_ready) memory[write_q] <= bias;
    end
  end else begin : gen_no_bias
    assign part_bias = '0;
    logic unused_bias;
    assign unused_bias = |bias;
  end

  mase_credits #(
      .DEPTH(Depth)
  ) u_credits (
      .clk,
      .rst,
      .take(take && last),
      .give(data_out_valid && data_out_ready),
      .room(unused_room),
      .room_next
  );

  mase_result_queue #(
      .WIDTH(WIDTH),
      .DEPTH(Depth)
  ) u_queue (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(last_q[PART_STAGES+RESULT_STAGES-1]),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

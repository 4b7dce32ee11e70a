// SPDX-License-Identifier: Apache-2.0
// The handshakes of sums of TERMS beats in a pipeline that never stops: data, weights and, with the
// first of them, a bias move together; the last moves only while there is room for its result.
// A part of a sum comes PART_STAGES cycles after its operands moved, the result RESULT_STAGES cycles
// after the last part, and waits here. Throughput one beat per cycle, without gaps between sums.
// With EVERY, SUMS sums grow (mase_round_pipeline), and have no bias.
//
// STEADY weights and biases are those of a memory, which offers them from the third cycle after reset
// on and never pauses: nothing waits for them, and a bias is taken when the first part is here.
module mase_accumulate_pipeline
  import mase_pkg::*;
#(
    parameter int unsigned TERMS = 4,
    parameter int unsigned EVERY = 0,
    parameter int unsigned SUMS = 1,
    parameter int unsigned PART_STAGES = 2,
    parameter int unsigned RESULT_STAGES = 1,
    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter int unsigned WIDTH = 8,
    parameter bit STEADY = 0,
    // Registers of part_first.
    parameter int unsigned COPIES = 1
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
    output logic [    COPIES-1:0] part_first,
    output logic [BIAS_WIDTH-1:0] part_bias,
    input  logic [     WIDTH-1:0] result,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  logic last;
  logic may;
  logic met;
  logic take_bias;
  logic unused_part_comes;

  if (STEADY) begin : gen_steady
    assign met = data_in_valid;
    assign data_in_ready = may;
    assign weight_ready = may && data_in_valid;
    assign bias_ready = HAS_BIAS && part_valid && part_first[0];
    assign take_bias = bias_ready;
    logic unused_last;
    assign unused_last = last;
`ifdef MASE_CHECKS
    always_comb begin
      if (!rst) begin
        weights_are_there : assert (!weight_ready || weight_valid);
        biases_are_there : assert (!bias_ready || bias_valid);
      end
    end
`else
    logic unused_valid;
    assign unused_valid = weight_valid | bias_valid;
`endif  // MASE_CHECKS
  end else begin : gen_met
    logic first;
    assign met = data_in_valid && weight_valid && (!first || bias_valid);
    assign data_in_ready = may && weight_valid && (!first || bias_valid);
    assign weight_ready = may && data_in_valid && (!first || bias_valid);
    assign bias_ready = may && data_in_valid && weight_valid && first;
    assign take_bias = bias_valid && bias_ready;

    // Whether a bias is taken with the operands that come next.
    always_ff @(posedge clk) begin
      if (rst) first <= HAS_BIAS;
      else if (met && may) first <= HAS_BIAS && last;
    end
  end

  mase_round_pipeline #(
      .TERMS(TERMS),
      .EVERY(EVERY),
      .RESULTS(SUMS),
      .PART_STAGES(PART_STAGES),
      .RESULT_STAGES(RESULT_STAGES),
      .WIDTH(WIDTH),
      .COPIES(COPIES),
      .WAIT(STEADY)
  ) u_rounds (
      .clk,
      .rst,
      .data_in_valid(met),
      .data_in_ready(may),
      .last_term(last),
      .part_valid,
      .part_first,
      .part_comes(unused_part_comes),
      .result,
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

  // Biases wait for their first part: as many as sums may begin until then.
  if (HAS_BIAS && STEADY) begin : gen_steady_bias
    assign part_bias = bias;
    logic unused_take;
    assign unused_take = take_bias;
  end else if (HAS_BIAS) begin : gen_bias
    localparam int unsigned Biases = ceil_div(PART_STAGES, TERMS);
    if (Biases == 1) begin : gen_register
      always_ff @(posedge clk) if (take_bias) part_bias <= bias;
    end else begin : gen_memory
      localparam int unsigned AddressWidth = index_width(Biases);
      localparam logic [AddressWidth-1:0] Last = AddressWidth'(Biases - 1);
      logic [BIAS_WIDTH-1:0] memory[Biases];
      logic [AddressWidth-1:0] write_q;
      logic [AddressWidth-1:0] read_q;
      logic read;
      assign read = part_valid && part_first[0];
      assign part_bias = memory[read_q];
      always_ff @(posedge clk) begin
        if (rst) begin
          write_q <= '0;
          read_q  <= '0;
        end else begin
          if (take_bias) write_q <= (write_q == Last) ? '0 : write_q + 1'b1;
          if (read) read_q <= (read_q == Last) ? '0 : read_q + 1'b1;
        end
      end
      always_ff @(posedge clk) if (take_bias) memory[write_q] <= bias;
    end
  end else begin : gen_no_bias
    assign part_bias = '0;
    logic unused_bias;
    assign unused_bias = |{bias, take_bias};
  end

endmodule

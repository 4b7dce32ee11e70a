// SPDX-License-Identifier: Apache-2.0
// out = table[in], element by element: any function of one operand of at most 12 bits. The file holds
// the result for every bit pattern, already rounded and bounded; all lanes read the same memory.
// Latency 4 cycles, throughput 1 beat per cycle.
module mase_unary_table
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter string TABLE_FILE = ""
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  if (DATA_IN_0.width > 12) begin : gen_width_error
    $error("mase_unary_table: the operand has %0d bits; at most 12", DATA_IN_0.width);
  end

  logic [DATA_OUT_0.width-1:0] memory[1<<DATA_IN_0.width];
  initial $readmemh(TABLE_FILE, memory);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] word_q;
  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    always_ff @(posedge clk) begin
      word_q[i] <= memory[data_in_0[i]];
      result[i] <= word_q[i];
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(2)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

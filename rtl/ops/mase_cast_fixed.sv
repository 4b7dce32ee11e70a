// SPDX-License-Identifier: Apache-2.0
// data_out_0 = bound(round(data_in_0)) in the format of the result, or of the negative when NEGATE is
// set, lane by lane. Latency 4 cycles, throughput 1 beat per cycle.
module mase_cast_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter bit NEGATE = 0
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

  // Room for the sign of an unsigned operand, and for the negative of the least code.
  localparam int unsigned InWidth = DATA_IN_0.width + ((DATA_IN_0.is_signed && !NEGATE) ? 0 : 1);

  localparam int unsigned RoundedWidth = rounded_width(InWidth, DATA_IN_0.fraction, DATA_OUT_0);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic [InWidth-1:0] extended;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;

    assign extended = DATA_IN_0.is_signed
        ? InWidth'(signed'(data_in_0[i])) : InWidth'(data_in_0[i]);

    mase_fixed_round #(
        .IN_WIDTH(InWidth),
        .IN_FRACTION(DATA_IN_0.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (NEGATE ? -extended : extended),
        .data_out(rounded)
    );

    mase_fixed_bound #(
        .IN_WIDTH(RoundedWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_bound (
        .data_in (rounded_q),
        .data_out(bounded)
    );

    always_ff @(posedge clk) begin
      rounded_q <= rounded;
      result[i] <= bounded;
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

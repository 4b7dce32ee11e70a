// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_2 != 0 ? data_in_0 : data_in_1), lane by lane; rounding and overflow as
// the result says.
// Latency 4 cycles, throughput 1 beat per cycle.
module mase_where_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_IN_1 = fixed(8, 4),
    parameter format_t DATA_IN_2 = fixed(2, 0),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][DATA_IN_1.width-1:0] data_in_1,
    input  logic                                  data_in_1_valid,
    output logic                                  data_in_1_ready,

    input  logic [LANES-1:0][DATA_IN_2.width-1:0] data_in_2,
    input  logic                                  data_in_2_valid,
    output logic                                  data_in_2_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  // Two's complement for both, with the larger fraction.
  localparam int unsigned LeftWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned RightWidth = DATA_IN_1.width + (DATA_IN_1.is_signed ? 0 : 1);
  localparam int Distance = DATA_IN_0.fraction - DATA_IN_1.fraction;
  localparam int unsigned LeftShift = (Distance < 0) ? unsigned'(-Distance) : 0;
  localparam int unsigned RightShift = (Distance > 0) ? unsigned'(Distance) : 0;
  localparam int unsigned Width = (LeftWidth + LeftShift > RightWidth + RightShift)
      ? LeftWidth + LeftShift : RightWidth + RightShift;
  localparam int Fraction = DATA_IN_0.fraction + int'(LeftShift);
  localparam int unsigned RoundedWidth = rounded_width(Width, Fraction, DATA_OUT_0);

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(3)
  ) u_join (
      .data_in_valid ({data_in_2_valid, data_in_1_valid, data_in_0_valid}),
      .data_in_ready ({data_in_2_ready, data_in_1_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [RightWidth-1:0] right;
    logic signed [Width-1:0] chosen;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;

    assign left = DATA_IN_0.is_signed
        ? LeftWidth'(signed'(data_in_0[i])) : LeftWidth'(data_in_0[i]);
    assign right = DATA_IN_1.is_signed
        ? RightWidth'(signed'(data_in_1[i])) : RightWidth'(data_in_1[i]);
    assign chosen = (data_in_2[i] != '0)
        ? Width'(left) <<< LeftShift : Width'(right) <<< RightShift;

    mase_fixed_round #(
        .IN_WIDTH(Width),
        .IN_FRACTION(Fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (chosen),
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
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

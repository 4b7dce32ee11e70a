// SPDX-License-Identifier: Apache-2.0
// out = cast(min(max(in, LOW), HIGH)), element by element: relu, relu6, hardtanh, clamp.
// LOW and HIGH are bit patterns of codes: of the result, bounded after the cast, when
// BOUNDS_ON_RESULT, else of the operand, bounded before. Rounding and saturation as the result says.
// Latency 1 cycle, throughput 1 beat per cycle.
module mase_clamp_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter int LOW = 0,
    parameter int HIGH = 127,
    parameter bit BOUNDS_ON_RESULT = 1
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

  // The cast takes two's complement: an unsigned operand gets a zero on top.
  localparam int unsigned CastWidth = DATA_IN_0.significand_width;

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic [ DATA_IN_0.width-1:0] operand;
    logic [       CastWidth-1:0] extended;
    logic [DATA_OUT_0.width-1:0] cast;

    assign extended = DATA_IN_0.is_signed ? CastWidth'(signed'(operand)) : CastWidth'(operand);

    mase_fixed_cast #(
        .IN_WIDTH(CastWidth),
        .IN_FRACTION(DATA_IN_0.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_cast (
        .data_in (extended),
        .data_out(cast)
    );

    if (BOUNDS_ON_RESULT) begin : gen_bound_result
      assign operand = data_in_0[i];
      mase_fixed_clip #(
          .WIDTH (DATA_OUT_0.width),
          .SIGNED(DATA_OUT_0.is_signed),
          .LOW   (LOW),
          .HIGH  (HIGH)
      ) u_clip (
          .data_in (cast),
          .data_out(result[i])
      );
    end else begin : gen_bound_operand
      mase_fixed_clip #(
          .WIDTH (DATA_IN_0.width),
          .SIGNED(DATA_IN_0.is_signed),
          .LOW   (LOW),
          .HIGH  (HIGH)
      ) u_clip (
          .data_in (data_in_0[i]),
          .data_out(operand)
      );
      assign result[i] = cast;
    end
  end

  mase_stream_register #(
      .WIDTH(LANES * DATA_OUT_0.width)
  ) u_register (
      .clk(clk),
      .rst(rst),
      .data_in(result),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

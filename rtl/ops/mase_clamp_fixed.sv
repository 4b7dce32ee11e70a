// SPDX-License-Identifier: Apache-2.0
// out = cast(min(max(in, LOW), HIGH)), element by element: relu, relu6, hardtanh, clamp.
// LOW and HIGH are bit patterns of codes: of the result, bounded after the cast, when
// BOUNDS_ON_RESULT, else of the operand, bounded before. Rounding and saturation as the result says.
// Latency 4 cycles; 5 where codes of the operand are compared with a bound, 6 where those of the
// result are; throughput 1 beat per cycle.
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
  localparam int unsigned CastWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1);

  localparam int unsigned RoundedWidth = rounded_width(CastWidth, DATA_IN_0.fraction, DATA_OUT_0);

  // Zero is told by the sign, and an end of the range needs nothing.
  localparam format_t Bounded = BOUNDS_ON_RESULT ? DATA_OUT_0 : DATA_IN_0;
  localparam int unsigned BoundWidth = Bounded.width;
  localparam logic [BoundWidth-1:0] SignMask = BoundWidth'(Bounded.is_signed) << (BoundWidth - 1);
  localparam logic [BoundWidth-1:0] Low = BoundWidth'(unsigned'(LOW));
  localparam logic [BoundWidth-1:0] High = BoundWidth'(unsigned'(HIGH));
  localparam bit IsCompared = ((Low ^ SignMask) != '0 && !(Bounded.is_signed && Low == '0))
      || (High ^ SignMask) != '1;

  localparam int unsigned Stages = !IsCompared ? 2 : BOUNDS_ON_RESULT ? 4 : 3;

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic [ DATA_IN_0.width-1:0] operand;
    logic [       CastWidth-1:0] extended;
    logic [    RoundedWidth-1:0] rounded;
    logic [    RoundedWidth-1:0] to_bound;
    logic [DATA_OUT_0.width-1:0] bounded;

    assign extended = DATA_IN_0.is_signed ? CastWidth'(signed'(operand)) : CastWidth'(operand);

    mase_fixed_round #(
        .IN_WIDTH(CastWidth),
        .IN_FRACTION(DATA_IN_0.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (extended),
        .data_out(rounded)
    );

    mase_fixed_bound #(
        .IN_WIDTH(RoundedWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_bound (
        .data_in (to_bound),
        .data_out(bounded)
    );

    if (BOUNDS_ON_RESULT) begin : gen_bound_result
      logic [DATA_OUT_0.width-1:0] to_clip;
      logic [DATA_OUT_0.width-1:0] clipped;
      if (IsCompared) begin : gen_staged
        always_ff @(posedge clk) to_clip <= bounded;
      end else begin : gen_at_once
        assign to_clip = bounded;
      end
      mase_fixed_clip #(
          .WIDTH (DATA_OUT_0.width),
          .SIGNED(DATA_OUT_0.is_signed),
          .LOW   (LOW),
          .HIGH  (HIGH),
          .STAGED(IsCompared)
      ) u_clip (
          .clk,
          .data_in (to_clip),
          .data_out(clipped)
      );
      assign operand = data_in_0[i];
      always_ff @(posedge clk) begin
        to_bound  <= rounded;
        result[i] <= clipped;
      end
    end else begin : gen_bound_operand
      logic [DATA_IN_0.width-1:0] clipped;
      mase_fixed_clip #(
          .WIDTH (DATA_IN_0.width),
          .SIGNED(DATA_IN_0.is_signed),
          .LOW   (LOW),
          .HIGH  (HIGH),
          .STAGED(IsCompared)
      ) u_clip (
          .clk,
          .data_in (data_in_0[i]),
          .data_out(clipped)
      );
      assign to_bound = rounded;
      always_ff @(posedge clk) begin
        operand   <= clipped;
        result[i] <= bounded;
      end
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(Stages)
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

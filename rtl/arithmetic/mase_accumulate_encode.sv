// SPDX-License-Identifier: Apache-2.0
// The handshakes of mase_accumulate_pipeline, and codes of any format out of the sums mantissa *
// 2**exponent, ROWS rows of LANES, which come SUM_STAGES cycles after their last part.
//
// Scalars follow their sum by cast_stages() + 2 cycles. Numbers that share a scale are normalized and
// wait for mase_block_encode in a queue.
module mase_accumulate_encode
  import mase_pkg::*;
#(
    parameter int unsigned TERMS = 4,
    parameter int unsigned PART_STAGES = 2,
    parameter int unsigned SUM_STAGES = 1,
    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_WIDTH = 8,
    parameter int unsigned SUM_WIDTH = 32,
    parameter format_t DATA_OUT = fixed(8, 4),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Results of a row.
    parameter int unsigned SIZE = 8,

    localparam int unsigned Scales = (DATA_OUT.block_size > 0) ? ROWS : 1
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

    output logic                  part_valid,
    output logic                  part_first,
    output logic [BIAS_WIDTH-1:0] part_bias,

    input logic      [ROWS*LANES-1:0][SUM_WIDTH-1:0] mantissa,
    input exponent_t [ROWS*LANES-1:0]                exponent,

    output logic [ROWS*LANES-1:0][      DATA_OUT.width-1:0] data_out,
    output logic [    Scales-1:0][DATA_OUT.scale_width-1:0] scale,
    output logic                                            data_out_valid,
    input  logic                                            data_out_ready
);

  localparam bit Blocks = DATA_OUT.block_size > 0;
  localparam int unsigned Kept = kept_bits(DATA_OUT);
  localparam int unsigned PlaceWidth = $bits(exponent_t) + 2;
  localparam int unsigned MadeStages =
      Blocks ? NormalizeStages : cast_stages(DATA_OUT.encoding, DATA_OUT.width);
  localparam int unsigned ResultWidth = Blocks ? 1 + PlaceWidth + Kept : DATA_OUT.width;

  logic [ROWS*LANES-1:0][ResultWidth-1:0] result;
  logic [ROWS*LANES-1:0][ResultWidth-1:0] made;
  logic made_valid;
  logic made_ready;

  mase_accumulate_pipeline #(
      .TERMS(TERMS),
      .PART_STAGES(PART_STAGES),
      .RESULT_STAGES(SUM_STAGES + MadeStages),
      .HAS_BIAS(HAS_BIAS),
      .BIAS_WIDTH(BIAS_WIDTH),
      .WIDTH(ROWS * LANES * ResultWidth)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid,
      .data_in_ready,
      .weight_valid,
      .weight_ready,
      .bias,
      .bias_valid,
      .bias_ready,
      .part_valid,
      .part_first,
      .part_bias,
      .result,
      .data_out(made),
      .data_out_valid(made_valid),
      .data_out_ready(made_ready)
  );

  if (Blocks) begin : gen_blocks
    logic [ROWS*LANES-1:0] negative;
    logic [ROWS*LANES-1:0][PlaceWidth-1:0] place;
    logic [ROWS*LANES-1:0][Kept-1:0] significand;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      logic sum_negative;
      logic [PlaceWidth-1:0] sum_place;
      logic [Kept-1:0] sum_significand;

      mase_normalize #(
          .IN_WIDTH (SUM_WIDTH),
          .OUT_WIDTH(Kept)
      ) u_normalize (
          .clk,
          .data_in(mantissa[i]),
          .exponent(exponent[i]),
          .negative(sum_negative),
          .place(sum_place),
          .significand(sum_significand)
      );
      assign result[i] = {sum_negative, sum_place, sum_significand};
      assign {negative[i], place[i], significand[i]} = made[i];
    end

    mase_block_encode #(
        .DATA_OUT(DATA_OUT),
        .PLACE_WIDTH(PlaceWidth),
        .INTERVAL(TERMS),
        .ROWS(ROWS),
        .LANES(LANES),
        .SIZE(SIZE)
    ) u_encode (
        .clk,
        .rst,
        .negative,
        .place,
        .significand,
        .data_in_valid(made_valid),
        .data_in_ready(made_ready),
        .data_out,
        .scale,
        .data_out_valid,
        .data_out_ready
    );
  end else begin : gen_scalars
    logic unused_size;
    assign unused_size = SIZE == 0;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      mase_scalar_cast #(
          .IN_WIDTH(SUM_WIDTH),
          .DATA_OUT(DATA_OUT)
      ) u_cast (
          .clk,
          .data_in (mantissa[i]),
          .exponent(exponent[i]),
          .data_out(result[i])
      );
    end

    assign data_out = made;
    assign scale = '0;
    assign data_out_valid = made_valid;
    assign made_ready = data_out_ready;
  end

endmodule

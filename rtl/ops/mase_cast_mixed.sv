// SPDX-License-Identifier: Apache-2.0
// data_out_0 = data_in_0 in another format, from any to any: codes are decoded to exact values, see
// mase_scalar_decode, and encoded again, see mase_encode. Between integers with a real scale and
// other formats, values are multiplied by MULTIPLIER * 2**-MULTIPLIER_SHIFT. Exact values follow their
// codes by 2 cycles, 1 more where scales are floats and 1 more with a multiplier.
// Throughput 1 beat per cycle.
module mase_cast_mixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row of the tensor.
    parameter int unsigned SIZE = 8,
    parameter int unsigned MULTIPLIER_WIDTH = 0,
    parameter logic [63:0] MULTIPLIER = 1,
    parameter int MULTIPLIER_SHIFT = 0,

    localparam bit InBlock = DATA_IN_0.block_size > 0,
    localparam int unsigned InScales = InBlock ? ROWS : 1,
    localparam int unsigned OutScales = (DATA_OUT_0.block_size > 0) ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][      DATA_IN_0.width-1:0] data_in_0,
    input  logic [  InScales-1:0][DATA_IN_0.scale_width-1:0] data_in_0_exponent,
    input  logic                                             data_in_0_valid,
    output logic                                             data_in_0_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT_0.width-1:0] data_out_0,
    output logic [ OutScales-1:0][DATA_OUT_0.scale_width-1:0] data_out_0_exponent,
    output logic                                              data_out_0_valid,
    input  logic                                              data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned Bits = DATA_IN_0.significand_width;
  localparam bit Fine = DATA_IN_0.scale_is_float;
  localparam format_t Scale = floating(8, 4, 7, 126);
  localparam int unsigned ScaledBits = Bits + (Fine ? Scale.significand_width : 0);
  localparam int unsigned Wide = ScaledBits + ((MULTIPLIER_WIDTH > 0) ? MULTIPLIER_WIDTH + 1 : 0);
  localparam int Place = DATA_IN_0.lowest_step - MULTIPLIER_SHIFT;
  localparam int unsigned ScaledStages = Fine ? 2 : 1;
  localparam int unsigned Stages = ScaledStages + 1 + ((MULTIPLIER_WIDTH > 0) ? 1 : 0);

  if (InBlock && DATA_IN_0.block_size % LANES != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  logic [ROWS*LANES-1:0][Wide-1:0] mantissa;
  exponent_t [ROWS*LANES-1:0] exponent;

  for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
    localparam int unsigned Row = InBlock ? i / LANES : 0;
    logic signed [Bits-1:0] significand;
    logic [DATA_IN_0.exponent_width-1:0] shift;

    mase_scalar_decode #(
        .CODE(DATA_IN_0)
    ) u_decode (
        .code(data_in_0[i]),
        .significand,
        .shift
    );
    logic signed [Bits-1:0] significand_q;
    logic [DATA_IN_0.exponent_width-1:0] shift_q;
    logic [DATA_IN_0.scale_width-1:0] scale_q;
    always_ff @(posedge clk) begin
      significand_q <= significand;
      shift_q <= shift;
      scale_q <= data_in_0_exponent[Row];
    end

    // Significands less the zero point, with their exponents.
    logic signed [ScaledBits-1:0] centred_q;
    exponent_t exponent_q[Stages-ScaledStages];
    if (Fine) begin : gen_fine
      logic signed [Scale.significand_width-1:0] factor;
      logic [Scale.exponent_width-1:0] above;
      logic signed [Bits-1:0] late_q;
      logic signed [Scale.significand_width-1:0] factor_q;
      logic [Scale.exponent_width-1:0] above_q;
      logic [DATA_IN_0.exponent_width-1:0] late_shift_q;
      mase_scalar_decode #(
          .CODE(Scale)
      ) u_scale (
          .code(scale_q),
          .significand(factor),
          .shift(above)
      );
      always_ff @(posedge clk) begin
        late_q <= significand_q;
        late_shift_q <= shift_q;
        factor_q <= factor;
        above_q <= above;
        centred_q <= ScaledBits'(late_q) * ScaledBits'(factor_q)
            - ScaledBits'(DATA_IN_0.zero_point);
        exponent_q[0] <= exponent_t'(int'({1'b0, above_q}) + int'({1'b0, late_shift_q}) + Place);
      end
    end else begin : gen_power
      always_ff @(posedge clk) begin
        centred_q <= significand_q - ScaledBits'(DATA_IN_0.zero_point);
        exponent_q[0] <= exponent_t'(int'({1'b0, scale_q}) + int'({1'b0, shift_q}) + Place);
      end
    end

    if (MULTIPLIER_WIDTH > 0) begin : gen_multiplier
      logic [Wide-1:0] product_q;
      always_ff @(posedge clk) begin
        product_q <= Wide'(centred_q) * Wide'(MULTIPLIER);
        exponent_q[1] <= exponent_q[0];
      end
      assign mantissa[i] = product_q;
      assign exponent[i] = exponent_q[1];
    end else begin : gen_as_it_is
      logic unused_multiplier;
      assign unused_multiplier = MULTIPLIER == 0;
      assign mantissa[i] = centred_q;
      assign exponent[i] = exponent_q[0];
    end
  end

  mase_encode #(
      .IN_WIDTH(Wide),
      .DATA_OUT(DATA_OUT_0),
      .STAGES(Stages),
      .ROWS(ROWS),
      .LANES(LANES),
      .SIZE(SIZE)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

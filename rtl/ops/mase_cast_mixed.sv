// SPDX-License-Identifier: Apache-2.0
// data_out_0 = data_in_0 in another format, from any to any: codes are decoded to exact values, see
// mase_scalar_decode, and encoded again, see mase_encode, which sets the latency. Between integers
// with a real scale and other formats, values are multiplied by MULTIPLIER * 2**-MULTIPLIER_SHIFT.
// Throughput 1 beat per cycle.
module mase_cast_mixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row of the tensor.
    parameter int unsigned SIZE = 8,
    parameter int unsigned MULTIPLIER_WIDTH = 0,
    parameter int unsigned MULTIPLIER = 1,
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

  localparam int unsigned Bits = DATA_IN_0.significand_width;
  localparam bit Fine = DATA_IN_0.scale_is_float;
  localparam format_t Scale = floating(8, 4, 7, 126);
  localparam int unsigned ScaledBits = Bits + (Fine ? Scale.significand_width : 0);
  localparam int unsigned Wide = ScaledBits + ((MULTIPLIER_WIDTH > 0) ? MULTIPLIER_WIDTH + 1 : 0);
  localparam int Place = DATA_IN_0.lowest_step - MULTIPLIER_SHIFT;

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
    logic signed [ScaledBits-1:0] scaled;
    logic signed [DATA_IN_0.scale_width:0] shared;
    if (Fine) begin : gen_fine
      logic signed [Scale.significand_width-1:0] factor;
      logic [Scale.exponent_width-1:0] above;
      mase_scalar_decode #(
          .CODE(Scale)
      ) u_scale (
          .code(data_in_0_exponent[Row]),
          .significand(factor),
          .shift(above)
      );
      assign scaled = ScaledBits'(significand) * ScaledBits'(factor);
      assign shared = (DATA_IN_0.scale_width + 1)'(above);
    end else begin : gen_power
      assign scaled = significand;
      assign shared = {1'b0, data_in_0_exponent[Row]};
    end
    logic signed [ScaledBits-1:0] centred;
    assign centred = scaled - ScaledBits'(DATA_IN_0.zero_point);
    assign mantissa[i] = Wide'(centred) * Wide'(MULTIPLIER);
    assign exponent[i] = exponent_t'(int'(shared) + int'({1'b0, shift}) + Place);
  end

  mase_encode #(
      .IN_WIDTH(Wide),
      .DATA_OUT(DATA_OUT_0),
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

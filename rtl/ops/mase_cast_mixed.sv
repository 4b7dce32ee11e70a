// SPDX-License-Identifier: Apache-2.0
// data_out_0 = data_in_0 in another format, from any to any: codes are decoded to exact values, see
// mase_scalar_decode, and encoded again, see mase_encode, which sets the latency. Between integers
// with a real scale and other formats, values are multiplied by MULTIPLIER * 2**-MULTIPLIER_SHIFT.
// Throughput 1 beat per cycle.
module mase_cast_mixed #(
    parameter bit DATA_IN_0_BLOCK = 0,
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int DATA_IN_0_ZERO_POINT = 0,
    parameter int unsigned DATA_IN_0_SCALE_KIND = 0,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned MULTIPLIER_WIDTH = 0,
    parameter int unsigned MULTIPLIER = 1,
    parameter int MULTIPLIER_SHIFT = 0,

    parameter bit DATA_OUT_0_BLOCK = 0,
    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter int DATA_OUT_0_ZERO_POINT = 0,
    parameter int unsigned DATA_OUT_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_OUT_0_SCALE_KIND = 0,
    parameter int DATA_OUT_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_OUT_0_SCALE_CODES = 255,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = DATA_OUT_0_PARALLELISM_DIM_1,
    localparam int unsigned Columns = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned Lanes = Rows * Columns,
    localparam int unsigned InScales = DATA_IN_0_BLOCK ? Rows : 1,
    localparam int unsigned InScaleWidth = DATA_IN_0_BLOCK ? unsigned'(DATA_IN_0_PRECISION_1) : 1,
    localparam int unsigned OutScales = DATA_OUT_0_BLOCK ? Rows : 1,
    localparam int unsigned OutScaleWidth = DATA_OUT_0_BLOCK ? unsigned'(DATA_OUT_0_PRECISION_1) : 1
) (
    input logic clk,
    input logic rst,

    input logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input logic [InScales-1:0][InScaleWidth-1:0] data_in_0_exponent,
    input logic data_in_0_valid,
    output logic data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [OutScales-1:0][OutScaleWidth-1:0] data_out_0_exponent,
    output logic data_out_0_valid,
    input logic data_out_0_ready
);

  localparam int unsigned Bits = (DATA_IN_0_KIND == 1)
      ? DATA_IN_0_PRECISION_0 - DATA_IN_0_EXPONENT_WIDTH + 1 : DATA_IN_0_PRECISION_0 + 2;
  // A scale in E4M3 has a significand of four bits.
  localparam bit Fine = DATA_IN_0_SCALE_KIND == 1;
  localparam int unsigned ScaledBits = Bits + (Fine ? 5 : 0);
  localparam int unsigned Wide = ScaledBits + ((MULTIPLIER_WIDTH > 0) ? MULTIPLIER_WIDTH + 1 : 0);
  localparam int unsigned PlaceWidth = 12;
  // Exponent of the lowest step, of a block for the code 0 of the scale.
  localparam int FloatPlace = 2 + int'(DATA_IN_0_EXPONENT_WIDTH) - int'(DATA_IN_0_PRECISION_0)
      - DATA_IN_0_EXPONENT_BIAS;
  localparam int IntegerPlace =
      DATA_IN_0_BLOCK ? 2 - int'(DATA_IN_0_PRECISION_0) : -DATA_IN_0_PRECISION_1;
  localparam int Place = ((DATA_IN_0_KIND == 1) ? FloatPlace : IntegerPlace)
      - (DATA_IN_0_BLOCK ? DATA_IN_0_SCALE_BIAS : 0) - MULTIPLIER_SHIFT;

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_size_check
    $error("data_in_0 and data_out_0 must have one size and one parallelism");
  end
  if (DATA_IN_0_BLOCK && DATA_IN_0_BLOCK_SIZE % Columns != 0) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  logic [Lanes-1:0][Wide-1:0] mantissa;
  logic [Lanes-1:0][PlaceWidth-1:0] exponent;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    localparam int unsigned Scale = DATA_IN_0_BLOCK ? i / Columns : 0;
    logic signed [Bits-1:0] significand;
    logic [DATA_IN_0_EXPONENT_WIDTH-1:0] shift;

    mase_scalar_decode #(
        .KIND(DATA_IN_0_KIND),
        .WIDTH(DATA_IN_0_PRECISION_0),
        .SIGNED(DATA_IN_0_SIGNED),
        .EXPONENT_WIDTH(DATA_IN_0_EXPONENT_WIDTH),
        .SIGNIFICAND_WIDTH(Bits)
    ) u_decode (
        .code(data_in_0[i]),
        .significand,
        .shift
    );
    logic signed [ScaledBits-1:0] scaled;
    logic signed [InScaleWidth:0] shared;
    if (Fine) begin : gen_fine
      logic signed [4:0] factor;
      logic [3:0] above;
      mase_scalar_decode #(
          .KIND(1),
          .WIDTH(8),
          .EXPONENT_WIDTH(4),
          .SIGNIFICAND_WIDTH(5)
      ) u_scale (
          .code(data_in_0_exponent[Scale]),
          .significand(factor),
          .shift(above)
      );
      assign scaled = ScaledBits'(significand) * ScaledBits'(factor);
      assign shared = (InScaleWidth + 1)'(above);
    end else begin : gen_power
      assign scaled = significand;
      assign shared = {1'b0, data_in_0_exponent[Scale]};
    end
    logic signed [ScaledBits-1:0] centred;
    assign centred = scaled - ScaledBits'(DATA_IN_0_ZERO_POINT);
    assign mantissa[i] = Wide'(centred) * Wide'(MULTIPLIER);
    assign exponent[i] = PlaceWidth'(int'(shared) + int'({1'b0, shift}) + Place);
  end

  mase_encode #(
      .ROWS(Rows),
      .LANES(Columns),
      .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
      .IN_WIDTH(Wide),
      .PLACE_WIDTH(PlaceWidth),
      .BLOCK(DATA_OUT_0_BLOCK),
      .KIND(DATA_OUT_0_KIND),
      .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
      .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
      .OUT_SIGNED(DATA_OUT_0_SIGNED),
      .ROUNDING(DATA_OUT_0_ROUNDING),
      .OVERFLOW(DATA_OUT_0_OVERFLOW),
      .EXPONENT_WIDTH(DATA_OUT_0_EXPONENT_WIDTH),
      .EXPONENT_BIAS(DATA_OUT_0_EXPONENT_BIAS),
      .MAXIMUM_CODE(DATA_OUT_0_MAXIMUM_CODE),
      .SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0),
      .ZERO_POINT(DATA_OUT_0_ZERO_POINT),
      .BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
      .SCALE_KIND(DATA_OUT_0_SCALE_KIND),
      .SCALE_BIAS(DATA_OUT_0_SCALE_BIAS),
      .SCALE_CODES(DATA_OUT_0_SCALE_CODES)
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

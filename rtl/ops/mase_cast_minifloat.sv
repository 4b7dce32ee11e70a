// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0), lane by lane, between any two scalar formats; see mase_scalar_decode
// and mase_scalar_cast. SUM_WIDTH holds every value of the operand in units of 2**-SUM_FRACTION.
// Latency 1 cycle, throughput 1 beat per cycle.
module mase_cast_minifloat #(
    parameter int unsigned DATA_IN_0_KIND = 0,
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_EXPONENT_WIDTH = 4,
    parameter int DATA_IN_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned SUM_WIDTH = 20,
    parameter int SUM_FRACTION = 8,

    parameter int unsigned DATA_OUT_0_KIND = 0,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_EXPONENT_WIDTH = 4,
    parameter int DATA_OUT_0_EXPONENT_BIAS = 7,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_MAXIMUM_CODE = 127,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Lanes = DATA_OUT_0_PARALLELISM_DIM_0 * DATA_OUT_0_PARALLELISM_DIM_1
) (
    input logic clk,
    input logic rst,

    input  logic [Lanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                        data_in_0_valid,
    output logic                                        data_in_0_ready,

    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  localparam int unsigned Bits = (DATA_IN_0_KIND == 1)
      ? DATA_IN_0_PRECISION_0 - DATA_IN_0_EXPONENT_WIDTH + 1 : DATA_IN_0_PRECISION_0 + 2;

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_size_check
    $error("data_in_0 and data_out_0 must have one size and one parallelism");
  end

  // SUM_FRACTION says the place of the operand's lowest step.
  localparam int UnusedPlaces = DATA_IN_0_PRECISION_1 + DATA_IN_0_EXPONENT_BIAS;
  logic unused_places;
  assign unused_places = UnusedPlaces == 0;

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
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

    mase_scalar_cast #(
        .IN_WIDTH(SUM_WIDTH),
        .IN_FRACTION(SUM_FRACTION),
        .KIND(DATA_OUT_0_KIND),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW),
        .EXPONENT_WIDTH(DATA_OUT_0_EXPONENT_WIDTH),
        .EXPONENT_BIAS(DATA_OUT_0_EXPONENT_BIAS),
        .MAXIMUM_CODE(DATA_OUT_0_MAXIMUM_CODE)
    ) u_cast (
        .data_in (SUM_WIDTH'(significand) <<< shift),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

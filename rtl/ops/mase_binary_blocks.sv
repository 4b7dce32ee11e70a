// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference or product as OPERATION says, lane by
// lane, on blocks of integers or floats with shared scales: exact, see mase_scaled_arithmetic, and encoded in
// blocks once. Blocks of operands and result may differ in size. Exact results follow their operands
// by 1 + arithmetic_stages() cycles; see mase_encode for the rest. Throughput 1 beat per cycle.
module mase_binary_blocks
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_IN_1 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter format_t DATA_OUT_0 = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row of the tensor.
    parameter int unsigned SIZE = 8,
    parameter operation_e OPERATION = Add,
    parameter int unsigned GUARD_BITS = 10
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][      DATA_IN_0.width-1:0] data_in_0,
    input  logic [      ROWS-1:0][DATA_IN_0.scale_width-1:0] data_in_0_exponent,
    input  logic                                             data_in_0_valid,
    output logic                                             data_in_0_ready,

    input  logic [ROWS*LANES-1:0][      DATA_IN_1.width-1:0] data_in_1,
    input  logic [      ROWS-1:0][DATA_IN_1.scale_width-1:0] data_in_1_exponent,
    input  logic                                             data_in_1_valid,
    output logic                                             data_in_1_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT_0.width-1:0] data_out_0,
    output logic [      ROWS-1:0][DATA_OUT_0.scale_width-1:0] data_out_0_exponent,
    output logic                                              data_out_0_valid,
    input  logic                                              data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned LeftWidth = DATA_IN_0.significand_width;
  localparam int unsigned RightWidth = DATA_IN_1.significand_width;
  localparam int unsigned ExactWidth = exact_bits(OPERATION, LeftWidth, RightWidth, GUARD_BITS);

  if (DATA_IN_0.block_size % LANES != 0 || DATA_IN_1.block_size % LANES != 0) begin : gen_blocks
    $error("the tiles of a row must divide the blocks");
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({data_in_1_valid, data_in_0_valid}),
      .data_in_ready ({data_in_1_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  logic [ROWS*LANES-1:0][ExactWidth-1:0] mantissa;
  exponent_t [ROWS*LANES-1:0] exponent;

  for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [RightWidth-1:0] right;
    logic [DATA_IN_0.exponent_width-1:0] left_shift;
    logic [DATA_IN_1.exponent_width-1:0] right_shift;
    logic signed [LeftWidth-1:0] left_q;
    logic signed [RightWidth-1:0] right_q;
    exponent_t left_exponent_q;
    exponent_t right_exponent_q;

    mase_scalar_decode #(
        .CODE(DATA_IN_0)
    ) u_left (
        .code(data_in_0[i]),
        .significand(left),
        .shift(left_shift)
    );
    mase_scalar_decode #(
        .CODE(DATA_IN_1)
    ) u_right (
        .code(data_in_1[i]),
        .significand(right),
        .shift(right_shift)
    );

    always_ff @(posedge clk) begin
      left_q <= left;
      right_q <= right;
      left_exponent_q <= exponent_t'(int'({1'b0, data_in_0_exponent[i/LANES]})
          + int'({1'b0, left_shift}) + DATA_IN_0.lowest_step);
      right_exponent_q <= exponent_t'(int'({1'b0, data_in_1_exponent[i/LANES]})
          + int'({1'b0, right_shift}) + DATA_IN_1.lowest_step);
    end

    mase_scaled_arithmetic #(
        .OPERATION  (OPERATION),
        .LEFT_WIDTH (LeftWidth),
        .RIGHT_WIDTH(RightWidth),
        .GUARD_BITS (GUARD_BITS)
    ) u_arithmetic (
        .clk,
        .left(left_q),
        .left_exponent(left_exponent_q),
        .right(right_q),
        .right_exponent(right_exponent_q),
        .result(mantissa[i]),
        .exponent(exponent[i])
    );
  end

  mase_encode #(
      .IN_WIDTH(ExactWidth),
      .DATA_OUT(DATA_OUT_0),
      .STAGES(1 + arithmetic_stages(OPERATION)),
      .ROWS(ROWS),
      .LANES(LANES),
      .SIZE(SIZE)
  ) u_encode (
      .clk,
      .rst,
      .mantissa,
      .exponent,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .data_out(data_out_0),
      .scale(data_out_0_exponent),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

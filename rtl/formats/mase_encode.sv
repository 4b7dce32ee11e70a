// SPDX-License-Identifier: Apache-2.0
// Codes of any format out of exact values mantissa * 2**exponent, ROWS x LANES a beat.
//
// BLOCK 1 gives blocks with a shared scale of OUT_FRACTION bits, see mase_block_encode for the
// latency. BLOCK 0 gives scalars, see mase_scalar_cast, in 1 cycle; the scale is zero.
// Throughput 1 beat per cycle.
module mase_encode #(
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    parameter int unsigned SIZE = 8,
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12,
    parameter bit BLOCK = 0,
    parameter int unsigned KIND = 0,
    parameter int unsigned OUT_WIDTH = 8,
    parameter int OUT_FRACTION = 4,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned OVERFLOW = 0,
    parameter int unsigned EXPONENT_WIDTH = 4,
    parameter int EXPONENT_BIAS = 7,
    parameter int unsigned MAXIMUM_CODE = 127,
    parameter bit SYMMETRIC = 1,
    parameter int ZERO_POINT = 0,
    parameter int unsigned BLOCK_SIZE = 4,
    parameter int unsigned SCALE_KIND = 0,
    parameter int SCALE_BIAS = 127,
    parameter int unsigned SCALE_CODES = 255,

    localparam int unsigned ScaleWidth = BLOCK ? unsigned'(OUT_FRACTION) : 1,
    localparam int unsigned Scales = BLOCK ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][   IN_WIDTH-1:0] mantissa,
    input  logic [ROWS*LANES-1:0][PLACE_WIDTH-1:0] exponent,
    input  logic                                   data_in_valid,
    output logic                                   data_in_ready,

    output logic [ROWS*LANES-1:0][ OUT_WIDTH-1:0] data_out,
    output logic [    Scales-1:0][ScaleWidth-1:0] scale,
    output logic                                  data_out_valid,
    input  logic                                  data_out_ready
);

  if (BLOCK) begin : gen_block
    mase_block_encode #(
        .ROWS(ROWS),
        .LANES(LANES),
        .SIZE(SIZE),
        .BLOCK_SIZE(BLOCK_SIZE),
        .IN_WIDTH(IN_WIDTH),
        .PLACE_WIDTH(PLACE_WIDTH),
        .KIND(KIND),
        .OUT_WIDTH(OUT_WIDTH),
        .EXPONENT_WIDTH(EXPONENT_WIDTH),
        .EXPONENT_BIAS(EXPONENT_BIAS),
        .MAXIMUM_CODE(MAXIMUM_CODE),
        .SCALE_KIND(SCALE_KIND),
        .SCALE_WIDTH(ScaleWidth),
        .SCALE_BIAS(SCALE_BIAS),
        .SCALE_CODES(SCALE_CODES),
        .SYMMETRIC(SYMMETRIC)
    ) u_encode (
        .clk,
        .rst,
        .mantissa,
        .exponent,
        .data_in_valid,
        .data_in_ready,
        .data_out,
        .scale,
        .data_out_valid,
        .data_out_ready
    );
  end else begin : gen_scalar
    logic [ROWS*LANES-1:0][OUT_WIDTH-1:0] result;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      mase_scalar_cast #(
          .IN_WIDTH(IN_WIDTH),
          .PLACE_WIDTH(PLACE_WIDTH),
          .KIND(KIND),
          .OUT_WIDTH(OUT_WIDTH),
          .OUT_FRACTION(OUT_FRACTION),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING(ROUNDING),
          .OVERFLOW(OVERFLOW),
          .EXPONENT_WIDTH(EXPONENT_WIDTH),
          .EXPONENT_BIAS(EXPONENT_BIAS),
          .MAXIMUM_CODE(MAXIMUM_CODE),
          .SYMMETRIC(SYMMETRIC),
          .ZERO_POINT(ZERO_POINT)
      ) u_cast (
          .data_in (mantissa[i]),
          .exponent(exponent[i]),
          .data_out(result[i])
      );
    end

    mase_stream_register #(
        .WIDTH(ROWS * LANES * OUT_WIDTH)
    ) u_register (
        .clk,
        .rst,
        .data_in(result),
        .data_in_valid,
        .data_in_ready,
        .data_out,
        .data_out_valid,
        .data_out_ready
    );
    assign scale = '0;
  end

endmodule

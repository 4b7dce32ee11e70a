// SPDX-License-Identifier: Apache-2.0
// Codes of any format out of exact values mantissa * 2**exponent, ROWS x LANES a beat, which come
// STAGES cycles after their beat moved.
//
// Blocks with shared scales take as long as mase_normalize and mase_block_encode say. Scalars, see
// mase_scalar_cast, take cast_stages() + 2 cycles; their scale is zero. Throughput 1 beat per cycle;
// nothing stops inside.
module mase_encode
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t DATA_OUT = fixed(8, 4),
    parameter int unsigned STAGES = 0,
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row.
    parameter int unsigned SIZE = 8,

    localparam int unsigned Scales = (DATA_OUT.block_size > 0) ? ROWS : 1
) (
    input logic clk,
    input logic rst,

    input  logic      [ROWS*LANES-1:0][IN_WIDTH-1:0] mantissa,
    input  exponent_t [ROWS*LANES-1:0]               exponent,
    input  logic                                     data_in_valid,
    output logic                                     data_in_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT.width-1:0] data_out,
    output logic [    Scales-1:0][DATA_OUT.scale_width-1:0] scale,
    output logic                                            data_out_valid,
    input  logic                                            data_out_ready
);

  if (DATA_OUT.block_size > 0) begin : gen_block
    localparam int unsigned Kept = kept_bits(DATA_OUT);
    localparam int unsigned PlaceWidth = $bits(exponent_t) + 2;
    logic [ROWS*LANES-1:0] negative;
    logic [ROWS*LANES-1:0][PlaceWidth-1:0] place;
    logic [ROWS*LANES-1:0][Kept-1:0] significand;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      mase_normalize #(
          .IN_WIDTH (IN_WIDTH),
          .OUT_WIDTH(Kept)
      ) u_normalize (
          .clk,
          .data_in(mantissa[i]),
          .exponent(exponent[i]),
          .negative(negative[i]),
          .place(place[i]),
          .significand(significand[i])
      );
    end

    mase_block_encode #(
        .DATA_OUT(DATA_OUT),
        .PLACE_WIDTH(PlaceWidth),
        .STAGES(STAGES + NormalizeStages),
        .ROWS(ROWS),
        .LANES(LANES),
        .SIZE(SIZE)
    ) u_encode (
        .clk,
        .rst,
        .negative,
        .place,
        .significand,
        .data_in_valid,
        .data_in_ready,
        .data_out,
        .scale,
        .data_out_valid,
        .data_out_ready
    );
  end else begin : gen_scalar
    logic [ROWS*LANES-1:0][DATA_OUT.width-1:0] result;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      mase_scalar_cast #(
          .IN_WIDTH(IN_WIDTH),
          .DATA_OUT(DATA_OUT)
      ) u_cast (
          .clk,
          .data_in (mantissa[i]),
          .exponent(exponent[i]),
          .data_out(result[i])
      );
    end

    mase_stream_pipeline #(
        .WIDTH (ROWS * LANES * DATA_OUT.width),
        .STAGES(STAGES + cast_stages(DATA_OUT.encoding, DATA_OUT.width))
    ) u_pipeline (
        .clk,
        .rst,
        .data_in_valid,
        .data_in_ready,
        .result,
        .data_out,
        .data_out_valid,
        .data_out_ready
    );
    assign scale = '0;
  end

endmodule

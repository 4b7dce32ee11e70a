// SPDX-License-Identifier: Apache-2.0
// Codes of any format out of exact values mantissa * 2**exponent, ROWS x LANES a beat.
//
// Blocks with shared scales take as long as mase_block_encode says. Scalars, see mase_scalar_cast,
// take 1 cycle; their scale is zero. Throughput 1 beat per cycle.
module mase_encode
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t DATA_OUT = fixed(8, 4),
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
    mase_block_encode #(
        .IN_WIDTH(IN_WIDTH),
        .DATA_OUT(DATA_OUT),
        .ROWS(ROWS),
        .LANES(LANES),
        .SIZE(SIZE)
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
    logic [ROWS*LANES-1:0][DATA_OUT.width-1:0] result;

    for (genvar i = 0; i < ROWS * LANES; i++) begin : gen_lane
      mase_scalar_cast #(
          .IN_WIDTH(IN_WIDTH),
          .DATA_OUT(DATA_OUT)
      ) u_cast (
          .data_in (mantissa[i]),
          .exponent(exponent[i]),
          .data_out(result[i])
      );
    end

    mase_stream_register #(
        .WIDTH(ROWS * LANES * DATA_OUT.width)
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

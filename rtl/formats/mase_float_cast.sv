// SPDX-License-Identifier: Apache-2.0
// The float nearest to in * 2**exponent, on one element: sign, exponent, mantissa, with denormals,
// ties to even. Magnitudes beyond the largest number become OVERFLOW_CODE, which is the largest
// number unless given. Two's complement input. Latency cast_stages(), throughput one per cycle; it
// never stops.
module mase_float_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned PLACE_WIDTH = 12,
    parameter format_t DATA_OUT = floating(8, 4, 7, 127),
    parameter int unsigned OVERFLOW_CODE = DATA_OUT.maximum_code
) (
    input  logic                             clk,
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [   PLACE_WIDTH-1:0] exponent,
    output logic        [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Kept = kept_bits(DATA_OUT);

  logic negative;
  logic signed [PLACE_WIDTH+1:0] place;
  logic [Kept-1:0] significand;

  mase_normalize #(
      .IN_WIDTH(IN_WIDTH),
      .EXPONENT_WIDTH(PLACE_WIDTH),
      .OUT_WIDTH(Kept)
  ) u_normalize (
      .clk,
      .data_in,
      .exponent,
      .negative,
      .place,
      .significand
  );

  mase_float_round #(
      .PLACE_WIDTH(PLACE_WIDTH + 2),
      .DATA_OUT(DATA_OUT),
      .OVERFLOW_CODE(OVERFLOW_CODE)
  ) u_round (
      .clk,
      .negative,
      .place,
      .significand,
      .data_out
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// The code nearest to mantissa * 2**exponent, on one element, as mase_scalar_cast, where a zero is
// negative if negative_zero and the format is a float. Where not_a_number the code is NAN_CODE.
// Latency cast_stages(), throughput one per cycle; it never stops.
module mase_float_encode
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t DATA_OUT = floating(8, 4, 7, 126),
    parameter int unsigned OVERFLOW_CODE = 126,
    parameter int unsigned NAN_CODE = 127
) (
    input  logic                           clk,
    input  logic      [      IN_WIDTH-1:0] mantissa,
    input  exponent_t                      exponent,
    input  logic                           negative_zero,
    input  logic                           not_a_number,
    output logic      [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned Stages = cast_stages(DATA_OUT.encoding, DATA_OUT.width);

  logic [DATA_OUT.width-1:0] number;
  logic [Stages-1:0] zero_q;
  logic [Stages-1:0] nan_q;

  always_ff @(posedge clk) begin
    zero_q <= Stages'({zero_q, negative_zero && mantissa == '0});
    nan_q  <= Stages'({nan_q, not_a_number});
  end

  mase_scalar_cast #(
      .IN_WIDTH(IN_WIDTH),
      .DATA_OUT(DATA_OUT),
      .OVERFLOW_CODE(OVERFLOW_CODE)
  ) u_cast (
      .clk,
      .data_in (mantissa),
      .exponent,
      .data_out(number)
  );

  always_comb begin
    data_out = number;
    if (DATA_OUT.encoding == Float && zero_q[Stages-1]) data_out[DATA_OUT.width-1] = 1'b1;
    if (nan_q[Stages-1]) data_out = DATA_OUT.width'(NAN_CODE);
  end

endmodule

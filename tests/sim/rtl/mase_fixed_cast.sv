// SPDX-License-Identifier: Apache-2.0
// data_out = the code of data_in * 2**-IN_FRACTION in DATA_OUT, fixed point: rounded, then bounded.
// The input is two's complement; an unsigned value comes with a zero on top. Combinational.
module mase_fixed_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input  logic [    IN_WIDTH-1:0] data_in,
    output logic [DATA_OUT.width-1:0] data_out
);

  localparam int unsigned RoundedWidth = rounded_width(IN_WIDTH, IN_FRACTION, DATA_OUT);

  logic [RoundedWidth-1:0] rounded;

  mase_fixed_round #(
      .IN_WIDTH(IN_WIDTH),
      .IN_FRACTION(IN_FRACTION),
      .DATA_OUT(DATA_OUT)
  ) u_round (
      .data_in,
      .data_out(rounded)
  );

  mase_fixed_bound #(
      .IN_WIDTH(RoundedWidth),
      .DATA_OUT(DATA_OUT)
  ) u_bound (
      .data_in(rounded),
      .data_out
  );

endmodule

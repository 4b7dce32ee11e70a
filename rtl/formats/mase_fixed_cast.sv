// SPDX-License-Identifier: Apache-2.0
// data_out = the code of data_in * 2**-IN_FRACTION in RESULT, fixed point: rounded, then bounded.
// The input is two's complement; an unsigned value comes with a zero on top. Combinational.
module mase_fixed_cast
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int IN_FRACTION = 8,
    parameter format_t RESULT = fixed(8, 4)
) (
    input  logic [    IN_WIDTH-1:0] data_in,
    output logic [RESULT.width-1:0] data_out
);

  localparam int unsigned RoundedWidth = rounded_width(IN_WIDTH, IN_FRACTION, RESULT);

  logic [RoundedWidth-1:0] rounded;

  mase_fixed_round #(
      .IN_WIDTH(IN_WIDTH),
      .IN_FRACTION(IN_FRACTION),
      .RESULT(RESULT)
  ) u_round (
      .data_in,
      .data_out(rounded)
  );

  mase_fixed_bound #(
      .IN_WIDTH(RoundedWidth),
      .RESULT  (RESULT)
  ) u_bound (
      .data_in(rounded),
      .data_out
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// Brings a rounded number into the range of a result in fixed point, the second half of a cast: it
// is saturated or wraps. Combinational.
module mase_fixed_bound
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t RESULT = fixed(8, 4)
) (
    input  logic [    IN_WIDTH-1:0] data_in,
    output logic [RESULT.width-1:0] data_out
);

  if (IN_WIDTH <= RESULT.width) begin : gen_width_check
    $error("IN_WIDTH must be more than the width of the result");
  end

  if (RESULT.overflow == Saturate) begin : gen_saturate
    if (RESULT.is_signed) begin : gen_signed
      // In range when every bit above the result's sign repeats it.
      logic overflow;
      assign overflow = data_in[IN_WIDTH-1:RESULT.width-1]
          != {(IN_WIDTH - RESULT.width + 1) {data_in[IN_WIDTH-1]}};
      assign data_out = overflow
          ? {data_in[IN_WIDTH-1], {(RESULT.width - 1) {~data_in[IN_WIDTH-1]}}}
          : data_in[RESULT.width-1:0];
    end else begin : gen_unsigned
      logic overflow;
      assign overflow = |data_in[IN_WIDTH-1:RESULT.width];
      assign data_out = overflow ? {RESULT.width{~data_in[IN_WIDTH-1]}} : data_in[RESULT.width-1:0];
    end
  end else begin : gen_wrap
    assign data_out = data_in[RESULT.width-1:0];
    logic unused_high;
    assign unused_high = |data_in[IN_WIDTH-1:RESULT.width];
  end

endmodule

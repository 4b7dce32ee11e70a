// SPDX-License-Identifier: Apache-2.0
// Brings a rounded number into the range of a result in fixed point, the second half of a cast: it
// is saturated or wraps. Combinational.
module mase_fixed_bound
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t DATA_OUT = fixed(8, 4)
) (
    input  logic [    IN_WIDTH-1:0] data_in,
    output logic [DATA_OUT.width-1:0] data_out
);

  if (IN_WIDTH <= DATA_OUT.width) begin : gen_width_check
    $error("IN_WIDTH must be more than the width of the result");
  end

  if (DATA_OUT.overflow == Saturate) begin : gen_saturate
    if (DATA_OUT.is_signed) begin : gen_signed
      // In range when every bit above the result's sign repeats it.
      logic overflow;
      assign overflow = data_in[IN_WIDTH-1:DATA_OUT.width-1]
          != {(IN_WIDTH - DATA_OUT.width + 1) {data_in[IN_WIDTH-1]}};
      assign data_out = overflow
          ? {data_in[IN_WIDTH-1], {(DATA_OUT.width - 1) {~data_in[IN_WIDTH-1]}}}
          : data_in[DATA_OUT.width-1:0];
    end else begin : gen_unsigned
      logic overflow;
      assign overflow = |data_in[IN_WIDTH-1:DATA_OUT.width];
      assign data_out = overflow
          ? {DATA_OUT.width{~data_in[IN_WIDTH-1]}} : data_in[DATA_OUT.width-1:0];
    end
  end else begin : gen_wrap
    assign data_out = data_in[DATA_OUT.width-1:0];
    logic unused_high;
    assign unused_high = |data_in[IN_WIDTH-1:DATA_OUT.width];
  end

endmodule

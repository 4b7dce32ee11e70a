// SPDX-License-Identifier: Apache-2.0
// data_out_0 = data_in_0 - zero point, LANES integers of a bit more. Combinational.
module mase_centre
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = offset(8, 3, 1'b1, 1'b0),
    parameter int unsigned LANES = 4
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    output logic [LANES-1:0][DATA_IN_0.width:0] data_out_0,
    output logic                                data_out_0_valid,
    input  logic                                data_out_0_ready
);

  localparam int unsigned Width = DATA_IN_0.width + 1;

  logic unused_clocking;
  assign unused_clocking = clk | rst;

  assign data_out_0_valid = data_in_0_valid;
  assign data_in_0_ready = data_out_0_ready;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic sign;
    assign sign = DATA_IN_0.is_signed && data_in_0[i][DATA_IN_0.width-1];
    assign data_out_0[i] = {sign, data_in_0[i]} - Width'(DATA_IN_0.zero_point);
  end

endmodule

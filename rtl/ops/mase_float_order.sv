// SPDX-License-Identifier: Apache-2.0
// The place of a float in the order of all floats of its format, element by element, a whole number:
// exponent and mantissa side by side, negative where the float is. From whole numbers, the floats at
// those places. Latency 2 cycles, throughput 1 beat per cycle.
module mase_float_order
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = floating(8, 4, 7, 126),
    parameter format_t DATA_OUT_0 = fixed(8, 0),
    parameter int unsigned LANES = 4
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int unsigned Width = DATA_IN_0.width;
  localparam bit ToPlaces = DATA_IN_0.encoding == Float;

  if (DATA_OUT_0.width != Width || (DATA_OUT_0.encoding == Float) == ToPlaces) begin : gen_check
    $error("a float and a whole number must have the same bits");
  end

  logic [LANES-1:0][Width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic [Width-2:0] magnitude;
    logic negative;
    assign negative = data_in_0[i][Width-1];
    assign magnitude = negative ? -data_in_0[i][Width-2:0] : data_in_0[i][Width-2:0];
    // The negative zero has the place of zero.
    assign result[i] = {negative && (!ToPlaces || magnitude != '0), magnitude};
  end

  mase_stream_register #(
      .WIDTH(LANES * Width)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// out[i] = cast(in[i] * weight[i]): one multiplier per lane, the weights from a memory image.
// A second image chooses the rounding: 0 nearest even, 1 floor.
module scale #(
    parameter int unsigned LANES = 4,
    parameter int unsigned BEATS = 2,
    parameter string INIT_FILE = "",
    parameter string ROUNDING_FILE = ""
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [LANES-1:0][7:0] data_in,
    input  logic                  data_in_valid,
    output logic                  data_in_ready,
    output logic [LANES-1:0][7:0] data_out,
    output logic                  data_out_valid,
    input  logic                  data_out_ready
);

  logic [LANES-1:0][7:0] weight;
  logic [LANES-1:0][7:0] scaled;
  logic weight_valid, weight_ready, both_valid, both_ready;

  mase_rom_source #(
      .WIDTH(8 * LANES),
      .DEPTH(BEATS),
      .INIT_FILE(INIT_FILE)
  ) u_weight (
      .clk(clk),
      .rst(rst),
      .data_out(weight),
      .data_out_valid(weight_valid),
      .data_out_ready(weight_ready)
  );

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid({weight_valid, data_in_valid}),
      .data_in_ready({weight_ready, data_in_ready}),
      .data_out_valid(both_valid),
      .data_out_ready(both_ready)
  );

  logic [3:0] rounding[1];
  initial $readmemh(ROUNDING_FILE, rounding);

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [15:0] product;
    assign product = 16'(signed'(data_in[i])) * 16'(signed'(weight[i]));
    logic [7:0] nearest;
    logic [7:0] floor;
    mase_fixed_cast #(
        .IN_WIDTH(16),
        .IN_FRACTION(8),
        .DATA_OUT(mase_pkg::fixed(8, 4))
    ) u_nearest (
        .data_in (product),
        .data_out(nearest)
    );
    mase_fixed_cast #(
        .IN_WIDTH(16),
        .IN_FRACTION(8),
        .DATA_OUT(mase_pkg::fixed(8, 4, .rounding(mase_pkg::Floor)))
    ) u_floor (
        .data_in (product),
        .data_out(floor)
    );
    assign scaled[i] = (rounding[0] == 4'd1) ? floor : nearest;
  end

  plain_register #(
      .WIDTH(8 * LANES)
  ) u_register (
      .clk(clk),
      .rst(rst),
      .data_in(scaled),
      .data_in_valid(both_valid),
      .data_in_ready(both_ready),
      .data_out(data_out),
      .data_out_valid(data_out_valid),
      .data_out_ready(data_out_ready)
  );

endmodule

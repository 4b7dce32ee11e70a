// SPDX-License-Identifier: Apache-2.0
// out = cast(in < 0 ? weight * in : in), element by element; every beat comes with its slopes.
// Products are exact, rounding and saturation as the result says. Latency 6 cycles, throughput 1
// beat per cycle.
module mase_prelu_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t WEIGHT = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][WEIGHT.width-1:0] weight,
    input  logic                               weight_valid,
    output logic                               weight_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  // Two's complement for both: an unsigned value gets a zero on top.
  localparam int unsigned InWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned SlopeWidth = WEIGHT.width + (WEIGHT.is_signed ? 0 : 1);
  localparam int unsigned ProductWidth = InWidth + SlopeWidth;

  localparam int unsigned ScaledWidth =
      rounded_width(ProductWidth, DATA_IN_0.fraction + WEIGHT.fraction, DATA_OUT_0);
  localparam int unsigned KeptWidth = rounded_width(InWidth, DATA_IN_0.fraction, DATA_OUT_0);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [InWidth-1:0] operand_q;
    logic signed [InWidth-1:0] beside_q;
    logic signed [SlopeWidth-1:0] slope_q;
    logic signed [ProductWidth-1:0] product_q;
    logic [ScaledWidth-1:0] scaled;
    logic [ScaledWidth-1:0] scaled_q;
    logic [KeptWidth-1:0] kept;
    logic [KeptWidth-1:0] kept_q;
    logic negative_q;
    logic [DATA_OUT_0.width-1:0] scaled_bounded;
    logic [DATA_OUT_0.width-1:0] kept_bounded;

    always_ff @(posedge clk) begin
      operand_q <= DATA_IN_0.is_signed ? InWidth'(signed'(data_in_0[i])) : InWidth'(data_in_0[i]);
      slope_q <= WEIGHT.is_signed ? SlopeWidth'(signed'(weight[i])) : SlopeWidth'(weight[i]);
      beside_q <= operand_q;
      product_q <= operand_q * slope_q;
      negative_q <= beside_q[InWidth-1];
      kept_q <= kept;
      scaled_q <= scaled;
    end

    mase_fixed_round #(
        .IN_WIDTH(ProductWidth),
        .IN_FRACTION(DATA_IN_0.fraction + WEIGHT.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_scaled (
        .data_in (product_q),
        .data_out(scaled)
    );

    mase_fixed_bound #(
        .IN_WIDTH(ScaledWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_scaled_bound (
        .data_in (scaled_q),
        .data_out(scaled_bounded)
    );

    mase_fixed_round #(
        .IN_WIDTH(InWidth),
        .IN_FRACTION(DATA_IN_0.fraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_kept (
        .data_in (beside_q),
        .data_out(kept)
    );

    mase_fixed_bound #(
        .IN_WIDTH(KeptWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_kept_bound (
        .data_in (kept_q),
        .data_out(kept_bounded)
    );

    always_ff @(posedge clk) result[i] <= negative_q ? scaled_bounded : kept_bounded;
  end

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, data_in_0_valid}),
      .data_in_ready ({weight_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(4)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

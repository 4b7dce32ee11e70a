// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * multiplier * 2**-shift), ROWS rows of LANES exact integers, each lane
// with a multiplier of its own: a word of MULTIPLIER holds the shift above MULTIPLIER_WIDTH bits. With
// none of them, scales are powers of two and nothing is multiplied.
// Rounded once to integers, the scale is in the multiplier, see mase_scalar_cast. Latency 4 cycles
// and cast_stages(), throughput 1 beat per cycle.
module mase_requantize
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(20, 0),
    parameter format_t MULTIPLIER = fixed(24, 0, 1'b0),
    parameter format_t DATA_OUT_0 = offset(8, 0, 1'b1, 1'b1),
    // Cycles of a cast, which whoever predicts them must say alike.
    parameter int unsigned CAST_STAGES = cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    parameter int unsigned MULTIPLIER_WIDTH = 18
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                       data_in_0_valid,
    output logic                                       data_in_0_ready,

    input  logic [LANES-1:0][MULTIPLIER.width-1:0] multiplier,
    input  logic                                   multiplier_valid,
    output logic                                   multiplier_ready,

    output logic [ROWS*LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                        data_out_0_valid,
    input  logic                                        data_out_0_ready
);

  if (CAST_STAGES != cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width)) begin : gen_latency_check
    $error("CAST_STAGES is %0d; a cast takes %0d cycles", CAST_STAGES,
           cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width));
  end

  localparam int unsigned ProductWidth = DATA_IN_0.width
      + ((MULTIPLIER_WIDTH > 0) ? MULTIPLIER_WIDTH + 1 : 0);
  localparam int unsigned ShiftWidth = MULTIPLIER.width - MULTIPLIER_WIDTH;
  localparam int unsigned PlaceWidth = ShiftWidth + 1;

  logic met;
  logic met_ready;
  logic [LANES-1:0][ShiftWidth-1:0] shift_q;
  logic [LANES-1:0][ShiftWidth-1:0] product_shift_q;
  logic [ROWS*LANES-1:0][DATA_OUT_0.width-1:0] result;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({multiplier_valid, data_in_0_valid}),
      .data_in_ready ({multiplier_ready, data_in_0_ready}),
      .data_out_valid(met),
      .data_out_ready(met_ready)
  );

  always_ff @(posedge clk) begin
    product_shift_q <= shift_q;
  end

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    always_ff @(posedge clk) shift_q[i] <= multiplier[i][MULTIPLIER.width-1:MULTIPLIER_WIDTH];

    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      logic signed [DATA_IN_0.width-1:0] operand_q;
      logic [ProductWidth-1:0] product_q;
      always_ff @(posedge clk) operand_q <= data_in_0[r*LANES+i];

      if (MULTIPLIER_WIDTH == 0) begin : gen_shifted
        always_ff @(posedge clk) product_q <= operand_q;
      end else begin : gen_multiplied
        logic [MULTIPLIER_WIDTH-1:0] factor_q;
        always_ff @(posedge clk) begin
          factor_q  <= multiplier[i][MULTIPLIER_WIDTH-1:0];
          product_q <= ProductWidth'(operand_q) * ProductWidth'(factor_q);
        end
      end

      mase_scalar_cast #(
          .IN_WIDTH(ProductWidth),
          .PLACE_WIDTH(PlaceWidth),
          .DATA_OUT(integers(DATA_OUT_0))
      ) u_cast (
          .clk,
          .data_in (product_q),
          .exponent(-PlaceWidth'({1'b0, product_shift_q[i]})),
          .data_out(result[r*LANES+i])
      );
    end
  end

  mase_stream_pipeline #(
      .WIDTH (ROWS * LANES * DATA_OUT_0.width),
      .STAGES(2 + cast_stages(DATA_OUT_0.encoding, DATA_OUT_0.width))
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(met),
      .data_in_ready(met_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// result = cast(data * multiplier * 2**-shift), ROWS rows of LANES exact integers, each lane with a
// multiplier of its own: a word holds the shift above MULTIPLIER_WIDTH bits. Rounded once, see
// mase_scalar_cast. Latency 2 cycles, throughput 1 beat per cycle.
module mase_requantize #(
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    parameter int unsigned IN_WIDTH = 20,
    parameter int unsigned MULTIPLIER_WIDTH = 18,
    parameter int unsigned WORD_WIDTH = 24,
    parameter int unsigned KIND = 4,
    parameter int unsigned OUT_WIDTH = 8,
    parameter bit OUT_SIGNED = 1,
    parameter int unsigned ROUNDING = 0,
    parameter int unsigned OVERFLOW = 0,
    parameter bit SYMMETRIC = 1,
    parameter int ZERO_POINT = 0
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0][IN_WIDTH-1:0] data,
    input  logic                                data_valid,
    output logic                                data_ready,

    input  logic [LANES-1:0][WORD_WIDTH-1:0] multiplier,
    input  logic                             multiplier_valid,
    output logic                             multiplier_ready,

    output logic [ROWS*LANES-1:0][OUT_WIDTH-1:0] result,
    output logic                                 result_valid,
    input  logic                                 result_ready
);

  localparam int unsigned ProductWidth = IN_WIDTH + MULTIPLIER_WIDTH + 1;
  localparam int unsigned ShiftWidth = WORD_WIDTH - MULTIPLIER_WIDTH;
  localparam int unsigned PlaceWidth = ShiftWidth + 1;

  logic met;
  logic met_ready;
  logic [ROWS*LANES-1:0][ProductWidth-1:0] product;
  logic [LANES-1:0][ShiftWidth-1:0] shift;
  logic [ROWS*LANES-1:0][ProductWidth-1:0] product_q;
  logic [LANES-1:0][ShiftWidth-1:0] shift_q;
  logic product_valid;
  logic product_ready;
  logic [ROWS*LANES-1:0][OUT_WIDTH-1:0] rounded;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({multiplier_valid, data_valid}),
      .data_in_ready ({multiplier_ready, data_ready}),
      .data_out_valid(met),
      .data_out_ready(met_ready)
  );

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    assign shift[i] = multiplier[i][WORD_WIDTH-1:MULTIPLIER_WIDTH];
    for (genvar r = 0; r < ROWS; r++) begin : gen_row
      assign product[r*LANES+i] = ProductWidth'(signed'(data[r*LANES+i]))
          * ProductWidth'(multiplier[i][MULTIPLIER_WIDTH-1:0]);

      mase_scalar_cast #(
          .IN_WIDTH(ProductWidth),
          .PLACE_WIDTH(PlaceWidth),
          .KIND(KIND),
          .OUT_WIDTH(OUT_WIDTH),
          .OUT_FRACTION(0),
          .OUT_SIGNED(OUT_SIGNED),
          .ROUNDING(ROUNDING),
          .OVERFLOW(OVERFLOW),
          .SYMMETRIC(SYMMETRIC),
          .ZERO_POINT(ZERO_POINT)
      ) u_cast (
          .data_in (product_q[r*LANES+i]),
          .exponent(-PlaceWidth'({1'b0, shift_q[i]})),
          .data_out(rounded[r*LANES+i])
      );
    end
  end

  mase_stream_register #(
      .WIDTH(ROWS * LANES * ProductWidth + LANES * ShiftWidth)
  ) u_product (
      .clk,
      .rst,
      .data_in({shift, product}),
      .data_in_valid(met),
      .data_in_ready(met_ready),
      .data_out({shift_q, product_q}),
      .data_out_valid(product_valid),
      .data_out_ready(product_ready)
  );

  mase_stream_register #(
      .WIDTH(ROWS * LANES * OUT_WIDTH)
  ) u_result (
      .clk,
      .rst,
      .data_in(rounded),
      .data_in_valid(product_valid),
      .data_in_ready(product_ready),
      .data_out(result),
      .data_out_valid(result_valid),
      .data_out_ready(result_ready)
  );

endmodule

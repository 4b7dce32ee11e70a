// SPDX-License-Identifier: Apache-2.0
// The phase of an angle, element by element, for a sine of it: p = (in * RATE) mod 2**PHASE_WIDTH in
// parts of a turn, with RATE = {RATE_HIGH, RATE_LOW}, its upper bits, and QUARTERS quarter turns.
// A phase in the second or third quarter is mirrored onto the first or fourth by inverting all bits,
// as if it lay half a step higher, so that the result is a signed part of a turn within a quarter.
// Latency 4 cycles, throughput 1 beat per cycle.
module mase_phase
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(16, 8),
    parameter format_t DATA_OUT_0 = fixed(18, 19),
    parameter int unsigned LANES = 4,
    parameter int unsigned PHASE_WIDTH = 40,
    parameter int RATE_LOW = 683565276,
    parameter int RATE_HIGH = 0,
    parameter int unsigned QUARTERS = 0
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

  localparam int unsigned PlaceWidth = DATA_OUT_0.width + 1;
  localparam logic [PHASE_WIDTH-1:0] Rate = PHASE_WIDTH'({RATE_HIGH, RATE_LOW});

  if (PHASE_WIDTH < PlaceWidth || PHASE_WIDTH > 64) begin : gen_width_error
    $error("mase_phase: a phase of %0d bits; allowed: %0d to 64", PHASE_WIDTH, PlaceWidth);
  end

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [DATA_IN_0.width:0] code;
    logic [PHASE_WIDTH-1:0] turned;
    logic [PlaceWidth-1:0] place_q;
    logic [PlaceWidth-1:0] place;

    assign code = {DATA_IN_0.is_signed && data_in_0[i][DATA_IN_0.width-1], data_in_0[i]};
    assign turned = PHASE_WIDTH'(code) * Rate;
    assign place = place_q + (PlaceWidth'(QUARTERS) << (PlaceWidth - 2));

    always_ff @(posedge clk) begin
      place_q <= turned[PHASE_WIDTH-1-:PlaceWidth];
      result[i] <= place[PlaceWidth-2:0] ^ {DATA_OUT_0.width{^place[PlaceWidth-1-:2]}};
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(2)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

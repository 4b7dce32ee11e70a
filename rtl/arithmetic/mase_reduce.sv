// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(factor * r / (DIVISOR * 2**SHIFT)), exact and rounded once, where r is the sum
// of TERMS rounds of INNER beats, lane by lane, or their maximum when MAXIMUM is set. With ROW the
// lanes of a row of so many elements are reduced too: TERMS then counts the beats of all rows.
// With FACTOR_WIDTH 0 there is no factor; else a whole number without sign comes for every result.
// Throughput 1 beat per cycle. A result is offered 5 cycles after its last beat, 2 more with ROW, 2
// more with a factor, 3 more where DIVISOR is not 1.
module mase_reduce
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 1,
    parameter bit MAXIMUM = 0,
    // 0 where lanes stay apart.
    parameter int unsigned ROW = 0,
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,
    parameter int unsigned SUM_WIDTH = 12,
    parameter int unsigned DIVISOR = 9,
    parameter int unsigned SHIFT = 0,
    parameter int unsigned FACTOR_WIDTH = 0,

    localparam int unsigned OutLanes = (ROW > 0) ? 1 : LANES,
    localparam int unsigned FactorWidth = (FACTOR_WIDTH > 0) ? FACTOR_WIDTH : 1
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [0:0][FactorWidth-1:0] factor,
    input  logic                        factor_valid,
    output logic                        factor_ready,

    output logic [OutLanes-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                      data_out_0_valid,
    input  logic                                      data_out_0_ready
);

  localparam int unsigned TermWidth = (ROW > 0) ? SUM_WIDTH : DATA_IN_0.width;
  localparam int unsigned ProductWidth = SUM_WIDTH + FACTOR_WIDTH;

  logic [OutLanes-1:0][TermWidth-1:0] row;
  logic row_valid;
  logic row_ready;

  if (ROW > 0) begin : gen_row
    mase_reduce_lanes #(
        .MAXIMUM(MAXIMUM),
        .SIZE(ROW),
        .LANES(LANES),
        .IN_WIDTH(DATA_IN_0.width),
        .SIGNED(DATA_IN_0.is_signed),
        .OUT_WIDTH(SUM_WIDTH)
    ) u_lanes (
        .clk,
        .rst,
        .data_in(data_in_0),
        .data_in_valid(data_in_0_valid),
        .data_in_ready(data_in_0_ready),
        .data_out(row),
        .data_out_valid(row_valid),
        .data_out_ready(row_ready)
    );
  end else begin : gen_lanes
    assign row = data_in_0;
    assign row_valid = data_in_0_valid;
    assign data_in_0_ready = row_ready;
  end

  logic [OutLanes-1:0][SUM_WIDTH-1:0] sum;
  logic sum_valid;
  logic sum_ready;

  mase_reduce_beats #(
      .MAXIMUM(MAXIMUM),
      .TERMS(TERMS),
      .INNER(INNER),
      .LANES(OutLanes),
      .IN_WIDTH(TermWidth),
      .SIGNED(ROW > 0 || DATA_IN_0.is_signed),
      .OUT_WIDTH(SUM_WIDTH)
  ) u_beats (
      .clk,
      .rst,
      .data_in(row),
      .data_in_valid(row_valid),
      .data_in_ready(row_ready),
      .data_out(sum),
      .data_out_valid(sum_valid),
      .data_out_ready(sum_ready)
  );

  // Behind the sums everything moves in one pipeline.
  localparam int unsigned Stages = ((FACTOR_WIDTH > 0) ? 2 : 0) + ((DIVISOR > 1) ? 4 : 1);

  logic [OutLanes-1:0][ProductWidth-1:0] product;
  logic [OutLanes-1:0][DATA_OUT_0.width-1:0] quotient;
  logic [OutLanes-1:0][DATA_OUT_0.width-1:0] result;
  logic met;
  logic met_ready;

  if (FACTOR_WIDTH > 0) begin : gen_factor
    mase_stream_join #(
        .COUNT(2)
    ) u_join (
        .data_in_valid ({factor_valid, sum_valid}),
        .data_in_ready ({factor_ready, sum_ready}),
        .data_out_valid(met),
        .data_out_ready(met_ready)
    );

    logic [FactorWidth-1:0] factor_q;
    always_ff @(posedge clk) factor_q <= factor[0];

    for (genvar i = 0; i < OutLanes; i++) begin : gen_lane
      logic signed [SUM_WIDTH-1:0] sum_q;
      always_ff @(posedge clk) begin
        sum_q <= sum[i];
        product[i] <= ProductWidth'(sum_q) * ProductWidth'(factor_q);
      end
    end
  end else begin : gen_no_factor
    assign product = sum;
    assign met = sum_valid;
    assign sum_ready = met_ready;
    assign factor_ready = 1'b0;
    logic unused_factor;
    assign unused_factor = (|factor) | factor_valid;
  end

  mase_fixed_divide #(
      .LANES(OutLanes),
      .IN_WIDTH(ProductWidth),
      .IN_FRACTION(DATA_IN_0.fraction + int'(SHIFT)),
      .DIVISOR(DIVISOR),
      .DATA_OUT(DATA_OUT_0)
  ) u_divide (
      .clk,
      .data_in (product),
      .data_out(quotient)
  );

  always_ff @(posedge clk) result <= quotient;

  mase_stream_pipeline #(
      .WIDTH (OutLanes * DATA_OUT_0.width),
      .STAGES(Stages)
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

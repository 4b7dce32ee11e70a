// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(factor * r / (DIVISOR * 2**SHIFT)), exact and rounded once, where r is the sum
// of TERMS rounds of INNER beats, lane by lane, or their maximum when MAXIMUM is set. With ROW the
// lanes of a row of so many elements are reduced too: TERMS then counts the beats of all rows.
// With FACTOR_WIDTH 0 there is no factor; else a whole number without sign comes for every result.
// Throughput 1 beat per cycle. A result is offered 7 cycles after its last beat, ceil(log2(LANES))
// more with ROW, 4 more with a factor, 2 more where DIVISOR is not 1.
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

  localparam int unsigned ProductWidth = SUM_WIDTH + FACTOR_WIDTH;
  localparam int unsigned PartStages = 2 + ((ROW > 0) ? $clog2(LANES) : 0);
  // From sums, or their products, to results.
  localparam int unsigned Stages = (DIVISOR > 1) ? 4 : 2;

  logic [OutLanes-1:0][SUM_WIDTH-1:0] part;
  logic [OutLanes-1:0][SUM_WIDTH-1:0] sum;
  logic unused_last_term;
  logic part_valid;
  logic part_first;
  logic part_comes;

  if (ROW > 0) begin : gen_row
    localparam int unsigned Tiles = ceil_div(ROW, LANES);
    localparam int unsigned TileWidth = index_width(Tiles);
    logic [TileWidth-1:0] unused_tile;
    logic last;

    mase_counter #(
        .COUNT(Tiles),
        .WIDTH(TileWidth)
    ) u_tile (
        .clk,
        .rst,
        .enable(data_in_0_valid && data_in_0_ready),
        .count(unused_tile),
        .last
    );

    mase_reduce_lanes #(
        .MAXIMUM(MAXIMUM),
        .LANES(LANES),
        .TAIL(ROW - (Tiles - 1) * LANES),
        .IN_WIDTH(DATA_IN_0.width),
        .SIGNED(DATA_IN_0.is_signed),
        .OUT_WIDTH(SUM_WIDTH)
    ) u_lanes (
        .clk,
        .data(data_in_0),
        .last,
        .reduced(part[0])
    );
  end else begin : gen_lanes
    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic [DATA_IN_0.width-1:0] data_q;
      always_ff @(posedge clk) data_q <= data_in_0[i];
      if (DATA_IN_0.is_signed) begin : gen_signed
        always_ff @(posedge clk) part[i] <= SUM_WIDTH'(signed'(data_q));
      end else begin : gen_unsigned
        always_ff @(posedge clk) part[i] <= SUM_WIDTH'(data_q);
      end
    end
  end

  mase_reduce_beats #(
      .MAXIMUM(MAXIMUM),
      .INNER(INNER),
      .LANES(OutLanes),
      .WIDTH(SUM_WIDTH)
  ) u_beats (
      .clk,
      .rst,
      .comes(part_comes),
      .valid(part_valid),
      .first(part_first),
      .part,
      .reduced(sum)
  );

  logic [OutLanes-1:0][ProductWidth-1:0] product;
  logic [OutLanes-1:0][DATA_OUT_0.width-1:0] quotient;
  logic [OutLanes-1:0][DATA_OUT_0.width-1:0] result;

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

  if (FACTOR_WIDTH == 0) begin : gen_no_factor
    assign product = sum;
    assign factor_ready = 1'b0;
    logic unused_factor;
    assign unused_factor = (|factor) | factor_valid;

    mase_round_pipeline #(
        .TERMS(TERMS),
        .INNER(INNER),
        .PART_STAGES(PartStages),
        .RESULT_STAGES(1 + Stages),
        .WIDTH(OutLanes * DATA_OUT_0.width)
    ) u_rounds (
        .clk,
        .rst,
        .data_in_valid(data_in_0_valid),
        .data_in_ready(data_in_0_ready),
        .last_term(unused_last_term),
        .part_valid,
        .part_first,
        .part_comes,
        .result,
        .data_out(data_out_0),
        .data_out_valid(data_out_0_valid),
        .data_out_ready(data_out_0_ready)
    );
  end else begin : gen_factor
    logic [OutLanes-1:0][SUM_WIDTH-1:0] whole;
    logic whole_valid;
    logic whole_ready;
    logic met;
    logic met_ready;
    logic [FactorWidth-1:0] factor_q;

    mase_round_pipeline #(
        .TERMS(TERMS),
        .INNER(INNER),
        .PART_STAGES(PartStages),
        .RESULT_STAGES(1),
        .WIDTH(OutLanes * SUM_WIDTH)
    ) u_rounds (
        .clk,
        .rst,
        .data_in_valid(data_in_0_valid),
        .data_in_ready(data_in_0_ready),
        .last_term(unused_last_term),
        .part_valid,
        .part_first,
        .part_comes,
        .result(sum),
        .data_out(whole),
        .data_out_valid(whole_valid),
        .data_out_ready(whole_ready)
    );

    mase_stream_join #(
        .COUNT(2)
    ) u_join (
        .data_in_valid ({factor_valid, whole_valid}),
        .data_in_ready ({factor_ready, whole_ready}),
        .data_out_valid(met),
        .data_out_ready(met_ready)
    );

    always_ff @(posedge clk) factor_q <= factor[0];

    for (genvar i = 0; i < OutLanes; i++) begin : gen_lane
      logic signed [SUM_WIDTH-1:0] whole_q;
      always_ff @(posedge clk) begin
        whole_q <= whole[i];
        product[i] <= ProductWidth'(whole_q) * ProductWidth'(factor_q);
      end
    end

    mase_stream_pipeline #(
        .WIDTH (OutLanes * DATA_OUT_0.width),
        .STAGES(2 + Stages)
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
  end

endmodule

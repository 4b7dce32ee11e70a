// SPDX-License-Identifier: Apache-2.0
// out = cast(c0 + ((c1 + ((c2 * t) >> T)) * t >> T)), element by element: any function of one
// operand, as quadratics on segments. Rounding and saturation as the result says.
// The codes are cut at the knots into regions; u is the distance from the end of the region that is
// nearer to zero. 2**INDEX_BITS segments divide [0, 2**BASE_EXPONENT) and every octave above; t is
// the offset in the segment, left-aligned to T bits. The file holds {c2, c1, c0} for every segment,
// in units of 2**-GUARD_BITS of the result's step, region after region. With ODD the segments of
// negative codes are those of the others, and their results are negated before they are rounded.
// Knots are codes in two's complement; those of an unsigned operand have their top bit inverted.
// Latency 11 cycles, throughput 1 beat per cycle.
module mase_unary_piecewise
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(16, 11),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter int unsigned REGIONS = 2,
    parameter int unsigned DOWNWARD_REGIONS = 1,
    parameter int KNOT_0 = 0,
    parameter int KNOT_1 = 0,
    parameter int KNOT_2 = 0,
    parameter int unsigned BASE_0 = 0,
    parameter int unsigned BASE_1 = 0,
    parameter int unsigned BASE_2 = 0,
    parameter int unsigned BASE_3 = 0,
    parameter int unsigned DISTANCE_WIDTH = 15,
    parameter int unsigned BASE_EXPONENT = 10,
    parameter int unsigned INDEX_BITS = 4,
    parameter int unsigned SEGMENTS = 192,
    parameter int unsigned C0_WIDTH = 24,
    parameter int unsigned C1_WIDTH = 20,
    parameter int unsigned C2_WIDTH = 16,
    parameter int unsigned SLOPE_WIDTH = 21,
    parameter int unsigned SUM_WIDTH = 25,
    parameter int unsigned GUARD_BITS = 5,
    parameter string TABLE_FILE = "",
    parameter bit ODD = 0
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

  if (REGIONS < 1 || REGIONS > 4) begin : gen_regions_error
    $error("mase_unary_piecewise: %0d regions; allowed: 1 to 4", REGIONS);
  end

  localparam int unsigned TBits = DISTANCE_WIDTH - 1 - INDEX_BITS;
  localparam int unsigned Octaves = DISTANCE_WIDTH - BASE_EXPONENT;
  localparam int unsigned AddressWidth = $clog2(SEGMENTS);
  localparam int unsigned WordWidth = C0_WIDTH + C1_WIDTH + C2_WIDTH;

  localparam int unsigned RoundedWidth =
      rounded_width(SUM_WIDTH, DATA_OUT_0.fraction + int'(GUARD_BITS), DATA_OUT_0);

  logic [WordWidth-1:0] memory[SEGMENTS];
  initial $readmemh(TABLE_FILE, memory);

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    // The segment; its word, through two registers; the product with the curvature; the slope; the
    // product with the slope; the sum; rounding. The offset within the segment runs beside them.
    localparam int unsigned OffsetStages = 5;
    localparam int unsigned StartStages = 3;

    logic [AddressWidth-1:0] address;
    logic [AddressWidth-1:0] address_q;
    logic [TBits-1:0] place;
    logic [OffsetStages-1:0][TBits-1:0] offset_q;
    logic [WordWidth-1:0] memory_q;
    logic [WordWidth-1:0] word_q;
    logic signed [C2_WIDTH-1:0] curvature;
    logic signed [C1_WIDTH-1:0] first;
    logic [C0_WIDTH-1:0] start;
    logic [StartStages-1:0][C0_WIDTH-1:0] start_q;
    logic signed [C1_WIDTH-1:0] first_q;
    logic signed [C2_WIDTH+TBits:0] bend_q;
    logic signed [SLOPE_WIDTH-1:0] slope_q;
    logic signed [SLOPE_WIDTH+TBits:0] rise_q;
    logic [SUM_WIDTH-1:0] sum;
    logic [SUM_WIDTH-1:0] sum_q;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;

    mase_unary_segment #(
        .WIDTH(DATA_IN_0.width),
        .SIGNED(DATA_IN_0.is_signed),
        .REGIONS(REGIONS),
        .DOWNWARD_REGIONS(DOWNWARD_REGIONS),
        .KNOT_0(KNOT_0),
        .KNOT_1(KNOT_1),
        .KNOT_2(KNOT_2),
        .BASE_0(BASE_0),
        .BASE_1(BASE_1),
        .BASE_2(BASE_2),
        .BASE_3(BASE_3),
        .DISTANCE_WIDTH(DISTANCE_WIDTH),
        .OCTAVES(Octaves),
        .INDEX_BITS(INDEX_BITS),
        .ADDRESS_WIDTH(AddressWidth)
    ) u_segment (
        .data_in(data_in_0[i]),
        .address(address),
        .offset (place)
    );

    assign {curvature, first, start} = word_q;
    assign sum = SUM_WIDTH'(signed'(start_q[2])) + SUM_WIDTH'(rise_q >>> TBits);

    always_ff @(posedge clk) begin
      address_q <= address;
      memory_q <= memory[address_q];
      word_q <= memory_q;
      offset_q <= (OffsetStages * TBits)'({offset_q, place});
      start_q <= (StartStages * C0_WIDTH)'({start_q, start});
      first_q <= first;
      bend_q <= curvature * signed'({1'b0, offset_q[2]});
      slope_q <= SLOPE_WIDTH'(first_q) + SLOPE_WIDTH'(bend_q >>> TBits);
      rise_q <= slope_q * signed'({1'b0, offset_q[4]});
      rounded_q <= rounded;
    end

    if (ODD) begin : gen_odd
      logic [5:0] negative_q;
      always_ff @(posedge clk) begin
        negative_q <= {negative_q[4:0], data_in_0[i][DATA_IN_0.width-1]};
        sum_q <= negative_q[5] ? -sum : sum;
      end
    end else begin : gen_any
      always_ff @(posedge clk) sum_q <= sum;
    end

    mase_fixed_round #(
        .IN_WIDTH(SUM_WIDTH),
        .IN_FRACTION(DATA_OUT_0.fraction + int'(GUARD_BITS)),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (sum_q),
        .data_out(rounded)
    );

    mase_fixed_bound #(
        .IN_WIDTH(RoundedWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_bound (
        .data_in (rounded_q),
        .data_out(bounded)
    );

    always_ff @(posedge clk) result[i] <= bounded;
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(9)
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

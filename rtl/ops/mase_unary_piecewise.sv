// SPDX-License-Identifier: Apache-2.0
// out = cast(c0 + ((c1 + ((c2 * t) >> T)) * t >> T)), element by element: any function of one
// operand, as quadratics on segments. Rounding and saturation as the result says.
// The codes are cut at the knots into regions; u is the distance from the end of the region that is
// nearer to zero. 2**INDEX_BITS segments divide [0, 2**BASE_EXPONENT) and every octave above; t is
// the offset in the segment, left-aligned to T bits. The file holds {c2, c1, c0} for every segment,
// in units of 2**-GUARD_BITS of the result's step, region after region.
// Knots are codes in two's complement; those of an unsigned operand have their top bit inverted.
// Latency 4 cycles, throughput 1 beat per cycle.
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
    parameter string TABLE_FILE = ""
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
  localparam int unsigned OffsetWidth = LANES * TBits;

  logic [LANES-1:0][AddressWidth-1:0] address;
  logic [LANES-1:0][AddressWidth-1:0] address_q;
  logic [LANES-1:0][TBits-1:0] located_offset;
  logic [LANES-1:0][TBits-1:0] located_offset_q;
  logic located_valid;
  logic located_ready;

  for (genvar i = 0; i < LANES; i++) begin : gen_locate
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
        .address(address[i]),
        .offset (located_offset[i])
    );
  end

  mase_stream_register #(
      .WIDTH(LANES * AddressWidth + OffsetWidth)
  ) u_located (
      .clk(clk),
      .rst(rst),
      .data_in({address, located_offset}),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out({address_q, located_offset_q}),
      .data_out_valid(located_valid),
      .data_out_ready(located_ready)
  );

  logic [WordWidth-1:0] memory[SEGMENTS];
  initial $readmemh(TABLE_FILE, memory);

  logic [LANES-1:0][WordWidth-1:0] word_q;
  logic [LANES-1:0][TBits-1:0] read_offset_q;
  logic read_valid;
  logic read_ready;

  mase_stream_register #(
      .WIDTH(OffsetWidth)
  ) u_read (
      .clk(clk),
      .rst(rst),
      .data_in(located_offset_q),
      .data_in_valid(located_valid),
      .data_in_ready(located_ready),
      .data_out(read_offset_q),
      .data_out_valid(read_valid),
      .data_out_ready(read_ready)
  );

  for (genvar i = 0; i < LANES; i++) begin : gen_read
    always_ff @(posedge clk) begin
      if (located_ready && located_valid) word_q[i] <= memory[address_q[i]];
    end
  end

  logic [LANES-1:0][SLOPE_WIDTH-1:0] slope;
  logic [LANES-1:0][SLOPE_WIDTH-1:0] slope_q;
  logic [LANES-1:0][C0_WIDTH-1:0] start;
  logic [LANES-1:0][C0_WIDTH-1:0] start_q;
  logic [LANES-1:0][TBits-1:0] slope_offset_q;
  logic slope_valid;
  logic slope_ready;

  for (genvar i = 0; i < LANES; i++) begin : gen_slope
    logic signed [C2_WIDTH-1:0] curvature;
    logic signed [C1_WIDTH-1:0] first;
    logic signed [C2_WIDTH+TBits:0] product;

    assign {curvature, first, start[i]} = word_q[i];
    assign product = curvature * signed'({1'b0, read_offset_q[i]});
    assign slope[i] = SLOPE_WIDTH'(first) + SLOPE_WIDTH'(product >>> TBits);
  end

  mase_stream_register #(
      .WIDTH(LANES * (SLOPE_WIDTH + C0_WIDTH) + OffsetWidth)
  ) u_slope (
      .clk(clk),
      .rst(rst),
      .data_in({slope, start, read_offset_q}),
      .data_in_valid(read_valid),
      .data_in_ready(read_ready),
      .data_out({slope_q, start_q, slope_offset_q}),
      .data_out_valid(slope_valid),
      .data_out_ready(slope_ready)
  );

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_sum
    logic signed [SLOPE_WIDTH+TBits:0] product;
    logic signed [SUM_WIDTH-1:0] sum;

    assign product = signed'(slope_q[i]) * signed'({1'b0, slope_offset_q[i]});
    assign sum = SUM_WIDTH'(signed'(start_q[i])) + SUM_WIDTH'(product >>> TBits);

    mase_fixed_cast #(
        .IN_WIDTH(SUM_WIDTH),
        .IN_FRACTION(DATA_OUT_0.fraction + int'(GUARD_BITS)),
        .DATA_OUT(DATA_OUT_0)
    ) u_cast (
        .data_in (sum),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(LANES * DATA_OUT_0.width)
  ) u_register (
      .clk(clk),
      .rst(rst),
      .data_in(result),
      .data_in_valid(slope_valid),
      .data_in_ready(slope_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

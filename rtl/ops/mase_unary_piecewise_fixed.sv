// SPDX-License-Identifier: Apache-2.0
// out = cast(c0 + ((c1 + ((c2 * t) >> T)) * t >> T)), element by element: any function of one
// operand, as quadratics on segments. Rounding and saturation as the result says.
// The codes are cut at the knots into regions; u is the distance from the end of the region that is
// nearer to zero. 2**INDEX_BITS segments divide [0, 2**BASE_EXPONENT) and every octave above; t is
// the offset in the segment, left-aligned to T bits. The file holds {c2, c1, c0} for every segment,
// in units of 2**-GUARD_BITS of the result's step, region after region.
// Knots are codes in two's complement; those of an unsigned operand have their top bit inverted.
// Latency 4 cycles, throughput 1 beat per cycle.
module mase_unary_piecewise_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
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
    localparam int unsigned Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);

  if (DATA_IN_0_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_IN_0_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_1
      || DATA_IN_0_PARALLELISM_DIM_0 != DATA_OUT_0_PARALLELISM_DIM_0
      || DATA_IN_0_PARALLELISM_DIM_1 != DATA_OUT_0_PARALLELISM_DIM_1) begin : gen_shape_error
    $error("mase_unary_piecewise_fixed: operand and result differ in size or parallelism");
  end
  if (REGIONS < 1 || REGIONS > 4) begin : gen_regions_error
    $error("mase_unary_piecewise_fixed: %0d regions; allowed: 1 to 4", REGIONS);
  end
  // The operand's scale is in the file; it must be one that exists.
  if (DATA_IN_0_PRECISION_1 < -64 || DATA_IN_0_PRECISION_1 > 64) begin : gen_format_error
    $error("mase_unary_piecewise_fixed: the operand has %0d fraction bits", DATA_IN_0_PRECISION_1);
  end

  localparam int unsigned InWidth = DATA_IN_0_PRECISION_0;
  localparam int unsigned TBits = DISTANCE_WIDTH - 1 - INDEX_BITS;
  localparam int unsigned Octaves = DISTANCE_WIDTH - BASE_EXPONENT;
  localparam int unsigned AddressWidth = $clog2(SEGMENTS);
  localparam int unsigned WordWidth = C0_WIDTH + C1_WIDTH + C2_WIDTH;
  localparam int unsigned OffsetWidth = Lanes * TBits;

  logic [Lanes-1:0][AddressWidth-1:0] address;
  logic [Lanes-1:0][AddressWidth-1:0] address_q;
  logic [Lanes-1:0][TBits-1:0] offset;
  logic [Lanes-1:0][TBits-1:0] located_offset_q;
  logic located_valid;
  logic located_ready;

  for (genvar i = 0; i < Lanes; i++) begin : gen_locate
    mase_unary_segment #(
        .WIDTH(InWidth),
        .SIGNED(DATA_IN_0_SIGNED),
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
        .offset (offset[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * AddressWidth + OffsetWidth)
  ) u_located (
      .clk(clk),
      .rst(rst),
      .data_in({address, offset}),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out({address_q, located_offset_q}),
      .data_out_valid(located_valid),
      .data_out_ready(located_ready)
  );

  logic [WordWidth-1:0] memory[SEGMENTS];
  initial $readmemh(TABLE_FILE, memory);

  logic [Lanes-1:0][WordWidth-1:0] word_q;
  logic [Lanes-1:0][TBits-1:0] read_offset_q;
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

  for (genvar i = 0; i < Lanes; i++) begin : gen_read
    always_ff @(posedge clk) begin
      if (located_ready && located_valid) word_q[i] <= memory[address_q[i]];
    end
  end

  logic [Lanes-1:0][SLOPE_WIDTH-1:0] slope;
  logic [Lanes-1:0][SLOPE_WIDTH-1:0] slope_q;
  logic [Lanes-1:0][C0_WIDTH-1:0] start;
  logic [Lanes-1:0][C0_WIDTH-1:0] start_q;
  logic [Lanes-1:0][TBits-1:0] slope_offset_q;
  logic slope_valid;
  logic slope_ready;

  for (genvar i = 0; i < Lanes; i++) begin : gen_slope
    logic signed [C2_WIDTH-1:0] curvature;
    logic signed [C1_WIDTH-1:0] first;
    logic signed [C2_WIDTH+TBits:0] product;

    assign {curvature, first, start[i]} = word_q[i];
    assign product = curvature * signed'({1'b0, read_offset_q[i]});
    assign slope[i] = SLOPE_WIDTH'(first) + SLOPE_WIDTH'(product >>> TBits);
  end

  mase_stream_register #(
      .WIDTH(Lanes * (SLOPE_WIDTH + C0_WIDTH) + OffsetWidth)
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

  logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

  for (genvar i = 0; i < Lanes; i++) begin : gen_sum
    logic signed [SLOPE_WIDTH+TBits:0] product;
    logic signed [SUM_WIDTH-1:0] sum;

    assign product = signed'(slope_q[i]) * signed'({1'b0, slope_offset_q[i]});
    assign sum = SUM_WIDTH'(signed'(start_q[i])) + SUM_WIDTH'(product >>> TBits);

    mase_fixed_cast #(
        .IN_WIDTH(SUM_WIDTH),
        .IN_FRACTION(DATA_OUT_0_PRECISION_1 + int'(GUARD_BITS)),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
        .OUT_SIGNED(DATA_OUT_0_SIGNED),
        .ROUNDING(DATA_OUT_0_ROUNDING),
        .OVERFLOW(DATA_OUT_0_OVERFLOW)
    ) u_cast (
        .data_in (sum),
        .data_out(result[i])
    );
  end

  mase_stream_register #(
      .WIDTH(Lanes * DATA_OUT_0_PRECISION_0)
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

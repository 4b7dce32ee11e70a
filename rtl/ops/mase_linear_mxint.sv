// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * weight^T + bias) of blocks of integers with shared scales.
//
// The products of a block are summed exactly. Blocks, in order, are then added in floating point:
// of the sum so far and the next block, both with GUARD_BITS further bits, the one of the smaller
// exponent is shifted right, rounding down. The sum begins with the bias.
// DATA_OUT_0_BLOCK 1 gives blocks (see mase_block_encode for the latency), 0 gives fixed point after
// one more cycle, and the exponent is zero. Sums are complete 3 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after
// their last operands met, see mase_linear_control.
module mase_linear_mxint #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 8,
    parameter int DATA_IN_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_IN_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 8,
    parameter int WEIGHT_SCALE_BIAS = 127,
    parameter int unsigned WEIGHT_BLOCK_SIZE = 4,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 8,
    parameter int BIAS_SCALE_BIAS = 127,
    parameter int unsigned BIAS_BLOCK_SIZE = 4,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned GUARD_BITS = 8,
    parameter int unsigned SUM_WIDTH = 32,

    parameter bit DATA_OUT_0_BLOCK = 1,
    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 8,
    parameter int DATA_OUT_0_SCALE_BIAS = 127,
    parameter int unsigned DATA_OUT_0_SCALE_CODES = 255,
    parameter int unsigned DATA_OUT_0_BLOCK_SIZE = 4,
    parameter int unsigned DATA_OUT_0_SYMMETRIC = 1,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    localparam int unsigned Rows = DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0,
    localparam int unsigned ScaleWidth = unsigned'(DATA_IN_0_PRECISION_1),
    localparam int unsigned WeightScaleWidth = unsigned'(WEIGHT_PRECISION_1),
    localparam int unsigned OutScaleWidth =
        DATA_OUT_0_BLOCK ? unsigned'(DATA_OUT_0_PRECISION_1) : 1,
    localparam int unsigned OutScales = DATA_OUT_0_BLOCK ? Rows : 1,
    localparam int unsigned BiasScaleWidth = unsigned'(BIAS_PRECISION_1)
) (
    input logic clk,
    input logic rst,

    input  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic [        Rows-1:0][           ScaleWidth-1:0] data_in_0_exponent,
    input  logic                                               data_in_0_valid,
    output logic                                               data_in_0_ready,

    input  logic [OutLanes*InLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic [        OutLanes-1:0][  WeightScaleWidth-1:0] weight_exponent,
    input  logic                                                weight_valid,
    output logic                                                weight_ready,

    input  logic [OutLanes-1:0][  BIAS_PRECISION_0-1:0] bias,
    input  logic [BiasScaleWidth-1:0]                   bias_exponent,
    input  logic                                        bias_valid,
    output logic                                        bias_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic [    OutScales-1:0][         OutScaleWidth-1:0] data_out_0_exponent,
    output logic                                                 data_out_0_valid,
    input  logic                                                 data_out_0_ready
);

  localparam int unsigned InTiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;
  localparam int unsigned TileWidth = (InTiles > 1) ? $clog2(InTiles) : 1;
  localparam int unsigned BlockTiles = DATA_IN_0_BLOCK_SIZE / InLanes;
  localparam int unsigned Levels = $clog2(InLanes);
  localparam int unsigned DotLatency = 1 + Levels;
  localparam int unsigned Latency = DotLatency + 1;
  localparam int unsigned DotWidth = DATA_IN_0_PRECISION_0 + WEIGHT_PRECISION_0 + Levels;
  localparam int unsigned BlockWidth = DotWidth + ((BlockTiles > 1) ? $clog2(BlockTiles) : 0);
  localparam int unsigned DataWidth = Rows * (InLanes * DATA_IN_0_PRECISION_0 + ScaleWidth);
  // Exponents of the lowest bit of a sum of products and of an aligned bias, when all codes are 0.
  localparam int unsigned ExponentWidth = 12;
  localparam int InFraction = int'(DATA_IN_0_PRECISION_0) - 2;
  localparam int WeightFraction = int'(WEIGHT_PRECISION_0) - 2;
  localparam int BiasFraction = int'(BIAS_PRECISION_0) - 2;
  localparam int DotExponent =
      -DATA_IN_0_SCALE_BIAS - WEIGHT_SCALE_BIAS - InFraction - WeightFraction - int'(GUARD_BITS);
  localparam int BiasExponent = -BIAS_SCALE_BIAS - BiasFraction - InFraction - int'(GUARD_BITS);

  if (WEIGHT_TENSOR_SIZE_DIM_0 != DATA_IN_0_TENSOR_SIZE_DIM_0
      || WEIGHT_TENSOR_SIZE_DIM_1 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || DATA_OUT_0_TENSOR_SIZE_DIM_1 != DATA_IN_0_TENSOR_SIZE_DIM_1) begin : gen_size_check
    $error("sizes of data_in_0, weight and data_out_0 disagree");
  end
  if (WEIGHT_PARALLELISM_DIM_0 != InLanes || WEIGHT_PARALLELISM_DIM_1 != OutLanes
      || DATA_OUT_0_PARALLELISM_DIM_1 != Rows) begin : gen_parallelism_check
    $error("parallelisms of data_in_0, weight and data_out_0 disagree");
  end
  if (HAS_BIAS && (BIAS_TENSOR_SIZE_DIM_0 != DATA_OUT_0_TENSOR_SIZE_DIM_0
      || BIAS_TENSOR_SIZE_DIM_1 != 1 || BIAS_PARALLELISM_DIM_0 != OutLanes
      || BIAS_PARALLELISM_DIM_1 != 1 || BIAS_BLOCK_SIZE % OutLanes != 0)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat, in one block");
  end
  if (DATA_IN_0_BLOCK_SIZE % InLanes != 0
      || WEIGHT_BLOCK_SIZE != DATA_IN_0_BLOCK_SIZE) begin : gen_block_check
    $error("operands must have one block size, which DATA_IN_0_PARALLELISM_DIM_0 divides");
  end

  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic [Rows-1:0][ScaleWidth-1:0] data_scale;
  logic data_valid;
  logic [TileWidth-1:0] data_tile;
  logic advance;
  logic part_valid;
  logic part_first;
  logic sum_valid;
  logic sum_ready;

  mase_linear_control #(
      .DATA_WIDTH(DataWidth),
      .IN_TILES(InTiles),
      .OUT_TILES(OutTiles),
      .LATENCY(Latency)
  ) u_control (
      .clk,
      .rst,
      .data_in({data_in_0_exponent, data_in_0}),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .weight_valid,
      .weight_ready,
      .bias_valid,
      .bias_ready,
      .data({data_scale, data}),
      .data_valid,
      .data_tile,
      .advance,
      .part_valid,
      .part_first,
      .sum_valid,
      .sum_ready
  );

  // Beside the dot products: whether a beat begins or ends a block, and the scales.
  logic starts;
  logic ends;
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] starts_q;
  logic [Latency-1:0] ends_q;
  logic [Latency-1:0][Rows-1:0][ScaleWidth-1:0] data_scale_q;
  logic [Latency-1:0][OutLanes-1:0][WeightScaleWidth-1:0] weight_scale_q;

  if (BlockTiles == 1) begin : gen_single
    assign starts = 1'b1;
    assign ends   = 1'b1;
    logic unused_tile;
    assign unused_tile = |data_tile;
  end else begin : gen_several
    assign starts = (32'(data_tile) % BlockTiles) == 0;
    assign ends = (32'(data_tile) % BlockTiles) == BlockTiles - 1
        || data_tile == TileWidth'(InTiles - 1);
  end

  always_ff @(posedge clk) begin
    if (rst) valid_q <= '0;
    else if (advance) valid_q <= DotLatency'({valid_q, data_valid});
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      starts_q <= DotLatency'({starts_q, starts});
      ends_q <= Latency'({ends_q, ends});
      data_scale_q <= (Latency * Rows * ScaleWidth)'({data_scale_q, data_scale});
      weight_scale_q <= (Latency * OutLanes * WeightScaleWidth)'({weight_scale_q, weight_exponent});
    end
  end

  logic [Rows*OutLanes-1:0][SUM_WIDTH-1:0] mantissa;
  logic [Rows*OutLanes-1:0][ExponentWidth-1:0] exponent;

  for (genvar o = 0; o < OutLanes; o++) begin : gen_out
    logic signed [SUM_WIDTH-1:0] start;
    logic signed [ExponentWidth-1:0] start_exponent;
    if (HAS_BIAS) begin : gen_bias
      assign start = SUM_WIDTH'(signed'(bias[o])) <<< (InFraction + int'(GUARD_BITS));
      assign start_exponent = ExponentWidth'(int'({1'b0, bias_exponent}) + BiasExponent);
    end else begin : gen_no_bias
      assign start = '0;
      assign start_exponent = {1'b1, {(ExponentWidth - 1) {1'b0}}};
      logic unused_bias;
      assign unused_bias = |{bias[o], bias_exponent};
    end

    for (genvar r = 0; r < Rows; r++) begin : gen_row
      logic signed [DotWidth-1:0] dot;
      logic signed [BlockWidth-1:0] block_q;
      logic signed [SUM_WIDTH-1:0] base;
      logic signed [SUM_WIDTH-1:0] term;
      logic signed [SUM_WIDTH-1:0] sum_q;
      logic signed [ExponentWidth-1:0] base_exponent;
      logic signed [ExponentWidth-1:0] term_exponent;
      logic signed [ExponentWidth-1:0] exponent_q;
      logic term_larger;
      logic [ExponentWidth-1:0] distance;

      mase_dot_product #(
          .LANES(InLanes),
          .DATA_WIDTH(DATA_IN_0_PRECISION_0),
          .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
          .SUM_WIDTH(DotWidth)
      ) u_dot (
          .clk,
          .enable(advance),
          .data(data[r*InLanes+:InLanes]),
          .weight(weight[o*InLanes+:InLanes]),
          .sum(dot)
      );

      always_ff @(posedge clk) begin
        if (advance && valid_q[DotLatency-1]) begin
          block_q <= (starts_q[DotLatency-1] ? '0 : block_q) + BlockWidth'(dot);
        end
      end

      assign base = part_first ? start : sum_q;
      assign base_exponent = part_first ? start_exponent : exponent_q;
      assign term = SUM_WIDTH'(block_q) <<< GUARD_BITS;
      assign term_exponent = ExponentWidth'(int'({1'b0, data_scale_q[Latency-1][r]})
          + int'({1'b0, weight_scale_q[Latency-1][o]}) + DotExponent);
      assign term_larger = term_exponent > base_exponent;
      assign distance = term_larger
          ? term_exponent - base_exponent : base_exponent - term_exponent;

      always_ff @(posedge clk) begin
        if (advance && part_valid) begin
          if (!ends_q[Latency-1]) begin
            sum_q <= base;
            exponent_q <= base_exponent;
          end else begin
            sum_q <= term_larger ? (base >>> distance) + term : base + (term >>> distance);
            exponent_q <= term_larger ? term_exponent : base_exponent;
          end
        end
      end

      assign mantissa[r*OutLanes+o] = sum_q;
      assign exponent[r*OutLanes+o] = exponent_q;
    end
  end

  if (DATA_OUT_0_BLOCK) begin : gen_block
    mase_block_encode #(
        .ROWS(Rows),
        .LANES(OutLanes),
        .SIZE(DATA_OUT_0_TENSOR_SIZE_DIM_0),
        .BLOCK_SIZE(DATA_OUT_0_BLOCK_SIZE),
        .IN_WIDTH(SUM_WIDTH),
        .EXPONENT_WIDTH(ExponentWidth),
        .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
        .SCALE_WIDTH(OutScaleWidth),
        .SCALE_BIAS(DATA_OUT_0_SCALE_BIAS),
        .SCALE_CODES(DATA_OUT_0_SCALE_CODES),
        .SYMMETRIC(DATA_OUT_0_SYMMETRIC != 0)
    ) u_encode (
        .clk,
        .rst,
        .mantissa,
        .exponent,
        .data_in_valid(sum_valid),
        .data_in_ready(sum_ready),
        .data_out(data_out_0),
        .scale(data_out_0_exponent),
        .data_out_valid(data_out_0_valid),
        .data_out_ready(data_out_0_ready)
    );
  end else begin : gen_fixed
    logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] result;

    for (genvar i = 0; i < Rows * OutLanes; i++) begin : gen_lane
      mase_scaled_cast #(
          .IN_WIDTH(SUM_WIDTH),
          .EXPONENT_WIDTH(ExponentWidth),
          .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
          .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING(DATA_OUT_0_ROUNDING),
          .OVERFLOW(DATA_OUT_0_OVERFLOW)
      ) u_cast (
          .data_in (mantissa[i]),
          .exponent(exponent[i]),
          .data_out(result[i])
      );
    end

    mase_stream_register #(
        .WIDTH(Rows * OutLanes * DATA_OUT_0_PRECISION_0)
    ) u_register (
        .clk,
        .rst,
        .data_in(result),
        .data_in_valid(sum_valid),
        .data_in_ready(sum_ready),
        .data_out(data_out_0),
        .data_out_valid(data_out_0_valid),
        .data_out_ready(data_out_0_ready)
    );
    assign data_out_0_exponent = '0;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 * weight^T + bias), every product and sum exact, rounded once.
//
// Rows of DATA_IN_0_TENSOR_SIZE_DIM_0 elements enter in tiles; each row is replayed once for every
// tile of results, beside weight tiles [results, elements] in row-major order and one bias tile per
// tile of results. Work per row tile: input tiles x output tiles cycles, without gaps.
// A result is offered 3 + ceil(log2(DATA_IN_0_PARALLELISM_DIM_0)) cycles after its last operands
// met, and operands meet 2 cycles after they were offered (at once when there is one result tile).
module mase_linear_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned WEIGHT_PRECISION_0 = 8,
    parameter int WEIGHT_PRECISION_1 = 4,
    parameter bit WEIGHT_SIGNED = 1,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned WEIGHT_TENSOR_SIZE_DIM_1 = 8,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_0 = 4,
    parameter int unsigned WEIGHT_PARALLELISM_DIM_1 = 4,

    parameter bit HAS_BIAS = 1,
    parameter int unsigned BIAS_PRECISION_0 = 8,
    parameter int BIAS_PRECISION_1 = 4,
    parameter bit BIAS_SIGNED = 1,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned BIAS_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned BIAS_PARALLELISM_DIM_0 = 4,
    parameter int unsigned BIAS_PARALLELISM_DIM_1 = 1,

    parameter int unsigned ACCUMULATOR_WIDTH = 20,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 4,
    parameter bit DATA_OUT_0_SIGNED = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 8,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 4,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_ROUNDING = 0,
    parameter int unsigned DATA_OUT_0_OVERFLOW = 0,

    localparam int unsigned Rows = DATA_IN_0_PARALLELISM_DIM_1,
    localparam int unsigned InLanes = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                               data_in_0_valid,
    output logic                                               data_in_0_ready,

    input  logic [OutLanes*InLanes-1:0][WEIGHT_PRECISION_0-1:0] weight,
    input  logic                                                weight_valid,
    output logic                                                weight_ready,

    input  logic [OutLanes-1:0][BIAS_PRECISION_0-1:0] bias,
    input  logic                                      bias_valid,
    output logic                                      bias_ready,

    output logic [Rows*OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                                 data_out_0_valid,
    input  logic                                                 data_out_0_ready
);

  localparam int unsigned InTiles = (DATA_IN_0_TENSOR_SIZE_DIM_0 + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;
  localparam int unsigned TileWidth = (InTiles > 1) ? $clog2(InTiles) : 1;
  localparam int unsigned Levels = $clog2(InLanes);
  localparam int unsigned DotLatency = 1 + Levels;
  localparam int unsigned DotWidth = DATA_IN_0_PRECISION_0 + (DATA_IN_0_SIGNED ? 0 : 1)
      + WEIGHT_PRECISION_0 + (WEIGHT_SIGNED ? 0 : 1) + Levels;
  localparam int ProductFraction = DATA_IN_0_PRECISION_1 + WEIGHT_PRECISION_1;
  localparam int AccFraction = (HAS_BIAS && BIAS_PRECISION_1 > ProductFraction)
      ? BIAS_PRECISION_1 : ProductFraction;
  localparam int unsigned DotShift = unsigned'(AccFraction - ProductFraction);
  localparam int unsigned BiasShift = HAS_BIAS ? unsigned'(AccFraction - BIAS_PRECISION_1) : 0;

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
      || BIAS_PARALLELISM_DIM_1 != 1)) begin : gen_bias_check
    $error("bias must be one row of results, a tile of results per beat");
  end

  logic [Rows*InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data;
  logic data_valid;
  logic data_ready;
  logic operands_valid;
  logic advance;

  mase_stream_replay #(
      .WIDTH(Rows * InLanes * DATA_IN_0_PRECISION_0),
      .BLOCK(InTiles),
      .REPEATS(OutTiles)
  ) u_replay (
      .clk,
      .rst,
      .data_in(data_in_0),
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .data_out(data),
      .data_out_valid(data_valid),
      .data_out_ready(data_ready)
  );

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, data_valid}),
      .data_in_ready ({weight_ready, data_ready}),
      .data_out_valid(operands_valid),
      .data_out_ready(advance)
  );

  // Which tile of the row the operands are, carried beside the dot products.
  logic [TileWidth-1:0] tile_q;
  logic [DotLatency-1:0] valid_q;
  logic [DotLatency-1:0] first_q;
  logic [DotLatency-1:0] last_q;
  logic last;

  assign last = tile_q == TileWidth'(InTiles - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q  <= '0;
      valid_q <= '0;
    end else if (advance) begin
      if (operands_valid) tile_q <= last ? '0 : tile_q + 1'b1;
      valid_q <= DotLatency'({valid_q, operands_valid});
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      first_q <= DotLatency'({first_q, tile_q == '0});
      last_q  <= DotLatency'({last_q, last});
    end
  end

  logic dot_valid;
  logic dot_first;
  logic sum_valid_q;
  logic sum_moves;

  assign dot_valid = valid_q[DotLatency-1];
  assign dot_first = first_q[DotLatency-1];
  assign sum_moves = sum_valid_q && (!data_out_0_valid || data_out_0_ready);
  assign advance = !(sum_valid_q && !sum_moves) && !(dot_valid && dot_first && !bias_valid);
  assign bias_ready = dot_valid && dot_first && !(sum_valid_q && !sum_moves);

  always_ff @(posedge clk) begin
    if (rst) sum_valid_q <= 1'b0;
    else if (advance) sum_valid_q <= dot_valid && last_q[DotLatency-1];
    else if (sum_moves) sum_valid_q <= 1'b0;
  end

  always_ff @(posedge clk) begin
    if (rst) data_out_0_valid <= 1'b0;
    else if (!data_out_0_valid || data_out_0_ready) data_out_0_valid <= sum_valid_q;
  end

  for (genvar o = 0; o < OutLanes; o++) begin : gen_out
    logic signed [ACCUMULATOR_WIDTH-1:0] start;
    if (!HAS_BIAS) begin : gen_no_bias
      assign start = '0;
      logic unused_bias;
      assign unused_bias = |bias[o];
    end else if (BIAS_SIGNED) begin : gen_bias_signed
      assign start = ACCUMULATOR_WIDTH'(signed'(bias[o])) <<< BiasShift;
    end else begin : gen_bias_unsigned
      assign start = ACCUMULATOR_WIDTH'(bias[o]) << BiasShift;
    end

    for (genvar r = 0; r < Rows; r++) begin : gen_row
      logic [DotWidth-1:0] dot;
      logic signed [ACCUMULATOR_WIDTH-1:0] addend;
      logic signed [ACCUMULATOR_WIDTH-1:0] sum_q;
      logic [DATA_OUT_0_PRECISION_0-1:0] result;

      mase_dot_product #(
          .LANES(InLanes),
          .DATA_WIDTH(DATA_IN_0_PRECISION_0),
          .DATA_SIGNED(DATA_IN_0_SIGNED),
          .WEIGHT_WIDTH(WEIGHT_PRECISION_0),
          .WEIGHT_SIGNED(WEIGHT_SIGNED),
          .SUM_WIDTH(DotWidth)
      ) u_dot (
          .clk,
          .enable(advance),
          .data(data[r*InLanes+:InLanes]),
          .weight(weight[o*InLanes+:InLanes]),
          .sum(dot)
      );

      assign addend = ACCUMULATOR_WIDTH'(signed'(dot)) <<< DotShift;

      always_ff @(posedge clk) begin
        if (advance && dot_valid) sum_q <= (dot_first ? start : sum_q) + addend;
      end

      mase_fixed_cast #(
          .IN_WIDTH(ACCUMULATOR_WIDTH),
          .IN_FRACTION(AccFraction),
          .OUT_WIDTH(DATA_OUT_0_PRECISION_0),
          .OUT_FRACTION(DATA_OUT_0_PRECISION_1),
          .OUT_SIGNED(DATA_OUT_0_SIGNED),
          .ROUNDING(DATA_OUT_0_ROUNDING),
          .OVERFLOW(DATA_OUT_0_OVERFLOW)
      ) u_cast (
          .data_in (sum_q),
          .data_out(result)
      );

      always_ff @(posedge clk) begin
        if (sum_moves) data_out_0[r*OutLanes+o] <= result;
      end
    end
  end

endmodule

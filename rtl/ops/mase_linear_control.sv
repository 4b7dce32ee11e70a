// SPDX-License-Identifier: Apache-2.0
// The handshakes of a matrix product: rows are replayed against tiles of weights, dot products of
// LATENCY enabled cycles run beside their flags, and sums leave when their last part is in.
//
// Work per row tile: IN_TILES x OUT_TILES cycles, without gaps. Operands meet 2 cycles after they
// were offered (at once when OUT_TILES is 1).
module mase_linear_control #(
    parameter int unsigned DATA_WIDTH = 8,
    parameter int unsigned IN_TILES = 4,
    parameter int unsigned OUT_TILES = 2,
    parameter int unsigned LATENCY = 2
) (
    input logic clk,
    input logic rst,

    input  logic [DATA_WIDTH-1:0] data_in,
    input  logic                  data_in_valid,
    output logic                  data_in_ready,
    input  logic                  weight_valid,
    output logic                  weight_ready,
    input  logic                  bias_valid,
    output logic                  bias_ready,

    // The operands that meet, if any, and their position in the row.
    output logic [DATA_WIDTH-1:0] data,
    output logic                  data_valid,
    output logic [((IN_TILES > 1) ? $clog2(IN_TILES) : 1)-1:0] data_tile,
    // Whether everything up to the sums moves on.
    output logic                  advance,
    // The part that reaches the sums, LATENCY enabled cycles after its operands met.
    output logic                  part_valid,
    output logic                  part_first,
    output logic                  sum_valid,
    input  logic                  sum_ready
);

  localparam int unsigned TileWidth = (IN_TILES > 1) ? $clog2(IN_TILES) : 1;

  logic replayed_valid;
  logic replayed_ready;

  mase_stream_replay #(
      .WIDTH(DATA_WIDTH),
      .BLOCK(IN_TILES),
      .REPEATS(OUT_TILES)
  ) u_replay (
      .clk,
      .rst,
      .data_in(data_in),
      .data_in_valid(data_in_valid),
      .data_in_ready(data_in_ready),
      .data_out(data),
      .data_out_valid(replayed_valid),
      .data_out_ready(replayed_ready)
  );

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({weight_valid, replayed_valid}),
      .data_in_ready ({weight_ready, replayed_ready}),
      .data_out_valid(data_valid),
      .data_out_ready(advance)
  );

  logic [TileWidth-1:0] tile_q;
  logic [LATENCY-1:0] valid_q;
  logic [LATENCY-1:0] first_q;
  logic [LATENCY-1:0] last_q;
  logic last;

  assign data_tile = tile_q;
  assign last = tile_q == TileWidth'(IN_TILES - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_q  <= '0;
      valid_q <= '0;
    end else if (advance) begin
      if (data_valid) tile_q <= last ? '0 : tile_q + 1'b1;
      valid_q <= LATENCY'({valid_q, data_valid});
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      first_q <= LATENCY'({first_q, tile_q == '0});
      last_q  <= LATENCY'({last_q, last});
    end
  end

  logic sum_moves;

  assign part_valid = valid_q[LATENCY-1];
  assign part_first = first_q[LATENCY-1];
  assign sum_moves = sum_valid && sum_ready;
  assign advance = !(sum_valid && !sum_moves) && !(part_valid && part_first && !bias_valid);
  assign bias_ready = part_valid && part_first && !(sum_valid && !sum_moves);

  always_ff @(posedge clk) begin
    if (rst) sum_valid <= 1'b0;
    else if (advance) sum_valid <= part_valid && last_q[LATENCY-1];
    else if (sum_moves) sum_valid <= 1'b0;
  end

endmodule

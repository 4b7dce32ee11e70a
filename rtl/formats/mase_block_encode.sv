// SPDX-License-Identifier: Apache-2.0
// Blocks with a shared scale out of normalized numbers, see mase_normalize.
//
// Elements are integers or floats, rounded to nearest even. The scale of a block of neighbours in a
// row is the exponent of its largest magnitude, less that of the largest element, bounded to what its
// code holds. The exponent is rounded down, to nearest where floats have no mantissa. Where scales
// are floats they are E4M3 and elements E2M1, see mase_nvfp4_scale and mase_nvfp4_element.
//
// Numbers come STAGES cycles after their beat moved. A block is held back until its last tile is in:
// the first tile of a block is offered 13 + ceil(log2(LANES)) cycles after its last one came, 2 more
// where scales are floats. Throughput 1 beat per cycle without gaps, where beats come INTERVAL cycles
// apart or more; nothing stops inside.
module mase_block_encode
  import mase_pkg::*;
#(
    parameter format_t DATA_OUT = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter int unsigned PLACE_WIDTH = $bits(exponent_t) + 2,
    parameter int unsigned STAGES = 0,
    parameter int unsigned INTERVAL = 1,
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row, of which a row's last tile may hold fewer than LANES.
    parameter int unsigned SIZE = 8,

    localparam int unsigned Kept = kept_bits(DATA_OUT)
) (
    input logic clk,
    input logic rst,

    input  logic [ROWS*LANES-1:0]                  negative,
    input  logic [ROWS*LANES-1:0][PLACE_WIDTH-1:0] place,
    input  logic [ROWS*LANES-1:0][       Kept-1:0] significand,
    input  logic                                   data_in_valid,
    output logic                                   data_in_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT.width-1:0] data_out,
    output logic [      ROWS-1:0][DATA_OUT.scale_width-1:0] scale,
    output logic                                            data_out_valid,
    input  logic                                            data_out_ready
);

  localparam int unsigned Tiles = ceil_div(SIZE, LANES);
  localparam int unsigned Wanted = DATA_OUT.block_size / LANES;
  localparam int unsigned BlockTiles = (Wanted < Tiles) ? Wanted : Tiles;
  localparam int unsigned Tail = SIZE - (Tiles - 1) * LANES;
  localparam int unsigned TileWidth = index_width(Tiles);
  localparam int unsigned PartWidth = index_width(BlockTiles);
  localparam bit Floats = DATA_OUT.encoding == Float;
  localparam int unsigned Mantissa = Floats ? DATA_OUT.width - 1 - DATA_OUT.exponent_width : 0;
  localparam bit Nearest = Floats && Mantissa == 0;
  // Exponent of the largest element.
  localparam int Largest =
      Floats ? int'(DATA_OUT.maximum_code >> Mantissa) - DATA_OUT.exponent_bias : 0;
  localparam bit Fine = DATA_OUT.scale_is_float;
  // The bits of a magnitude that its scale depends on, below the place of the leading one.
  localparam int unsigned BelowWidth = Fine ? Kept : 0;
  localparam int unsigned KeyWidth = PLACE_WIDTH + BelowWidth;
  // Largest magnitudes below this place have the smallest scale.
  localparam int LowPlace = Fine ? -8 : Largest - DATA_OUT.scale_bias;
  localparam int HighPlace = LowPlace + int'(DATA_OUT.scale_codes) - 1;
  localparam logic signed [KeyWidth-1:0] LowKey = KeyWidth'(LowPlace) <<< BelowWidth;
  localparam int unsigned CodeWidth = DATA_OUT.scale_width;

  // Keys, their tree, the scale, the largest so far; the block counts; its elements and scale are
  // read; elements relative to it, rounded; the queue of results.
  localparam int unsigned TreeLevels = $clog2(LANES);
  localparam int unsigned KeyStages = 1 + TreeLevels;
  localparam int unsigned ScaleStages = KeyStages + 1 + (Fine ? 3 : 1);
  localparam int unsigned ReadStages = ScaleStages + 1;
  localparam int unsigned ResultStages = 1 + RoundStages;
  localparam int unsigned Latency = STAGES + ReadStages + 1 + ResultStages + 2;
  // So many tiles are on their way or wait, where they are apart one more; these are stored.
  localparam int unsigned Waiting = (INTERVAL > 1) ? 1 : 0;
  localparam int unsigned Depth = BlockTiles - 1 + ceil_div(Latency + 1, INTERVAL) + Waiting;
  localparam int unsigned Stored = (BlockTiles + ReadStages + 1 < Depth)
      ? BlockTiles + ReadStages + 1 : Depth;
  localparam int unsigned AddressWidth = index_width(Stored);
  localparam int unsigned BlockWidth = index_width(BlockTiles + 1);
  localparam int unsigned ElementWidth = 1 + PLACE_WIDTH + Kept;
  localparam int unsigned ResultWidth = ROWS * (LANES * DATA_OUT.width + CodeWidth);

  if (DATA_OUT.block_size % LANES != 0 && Tiles > 1) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end
  if (!Floats && DATA_OUT.encoding != Integer) begin : gen_encoding_check
    $error("elements must be integers or floats");
  end

  // When numbers are here, and when what is made of them is.
  logic take;
  logic here;
  (* mase_register = "stages" *)
  logic [ReadStages-1:0] valid_q;
  (* mase_register = "stages" *)
  logic [ReadStages-1:0] last_q;
  logic [TileWidth-1:0] tile_in_q;
  logic [PartWidth-1:0] part_in_q;
  logic [ReadStages-1:0] starts_q;
  logic row_in;
  logic last_in;
  logic unused_single;

  assign take = data_in_valid && data_in_ready;
  assign row_in = tile_in_q == TileWidth'(Tiles - 1);
  assign last_in = row_in || part_in_q == PartWidth'(BlockTiles - 1);

  if (STAGES == 0) begin : gen_here
    assign here = take;
  end else begin : gen_later
    logic [STAGES-1:0] here_q;
    assign here = here_q[STAGES-1];
    always_ff @(posedge clk) begin
      if (rst) here_q <= '0;
      else here_q <= STAGES'({here_q, take});
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      tile_in_q <= '0;
      part_in_q <= '0;
      valid_q   <= '0;
    end else begin
      valid_q <= ReadStages'({valid_q, here});
      if (here) begin
        tile_in_q <= row_in ? '0 : tile_in_q + 1'b1;
        part_in_q <= last_in ? '0 : part_in_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    last_q   <= ReadStages'({last_q, last_in});
    starts_q <= ReadStages'({starts_q, part_in_q == '0});
  end

  // Complete blocks wait for nobody: a tile of them is read in every cycle.
  logic complete;
  logic [AddressWidth-1:0] write_q;
  logic [AddressWidth-1:0] read_q;
  logic [BlockWidth-1:0] block_in_q;
  logic [BlockWidth-1:0] block_out_q;
  logic [BlockWidth:0] waiting_q;
  logic [BlockWidth:0] waiting;
  logic read;
  logic [TileWidth-1:0] tile_out_q;
  logic [PartWidth-1:0] part_out_q;
  logic row_out;
  logic last_out;

  assign complete = valid_q[ScaleStages-1] && last_q[ScaleStages-1];
  assign row_out = tile_out_q == TileWidth'(Tiles - 1);
  assign last_out = row_out || part_out_q == PartWidth'(BlockTiles - 1);
  assign waiting = waiting_q + (BlockWidth + 1)'(complete)
      - (BlockWidth + 1)'(read && last_out);

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      read_q <= '0;
      block_in_q <= '0;
      block_out_q <= '0;
      waiting_q <= '0;
      read <= 1'b0;
      tile_out_q <= '0;
      part_out_q <= '0;
    end else begin
      if (here) write_q <= write_q + 1'b1;
      if (complete) block_in_q <= block_in_q + 1'b1;
      waiting_q <= waiting;
      read <= waiting != '0;
      if (read) begin
        read_q <= read_q + 1'b1;
        tile_out_q <= row_out ? '0 : tile_out_q + 1'b1;
        part_out_q <= last_out ? '0 : part_out_q + 1'b1;
        if (last_out) block_out_q <= block_out_q + 1'b1;
      end
    end
  end

  logic [ROWS*LANES-1:0][ElementWidth-1:0] memory[1<<AddressWidth];
  logic [ROWS*LANES-1:0][ElementWidth-1:0] elements;
  logic [ROWS*LANES-1:0][ElementWidth-1:0] elements_q;

  always_ff @(posedge clk) begin
    if (here) memory[write_q] <= elements;
    elements_q <= memory[read_q];
  end

  logic [ROWS-1:0][ResultStages-1:0][CodeWidth-1:0] code_q;
  logic [ROWS*LANES-1:0][DATA_OUT.width-1:0] result;
  logic [ROWS-1:0][CodeWidth-1:0] result_scale;

  for (genvar r = 0; r < ROWS; r++) begin : gen_row
    // Largest magnitude of a beat: the place of its leading one, and the bits below it where they
    // count. A larger one never has a smaller scale, so that the largest scale is the block's.
    logic signed [KeyWidth-1:0] largest;
    logic [CodeWidth-1:0] code;
    logic [CodeWidth-1:0] running_q;
    logic [CodeWidth-1:0] codes[1<<BlockWidth];
    logic [CodeWidth-1:0] shared_q;

    for (genvar l = 0; l <= TreeLevels; l++) begin : gen_level
      localparam int unsigned Keys = (LANES + (1 << l) - 1) >> l;
      logic signed [KeyWidth-1:0] key_q[Keys];
      for (genvar i = 0; i < Keys; i++) begin : gen_key
        if (l == 0) begin : gen_place
          logic counts;
          logic above;
          logic signed [PLACE_WIDTH-1:0] rounded;
          assign counts = significand[r*LANES+i][Kept-1] && (i < Tail || !row_in);
          assign above = Nearest && significand[r*LANES+i][Kept-2];
          assign rounded = signed'(place[r*LANES+i]) + PLACE_WIDTH'({1'b0, above});
          if (Fine) begin : gen_below
            always_ff @(posedge clk) begin
              key_q[i] <= counts ? {rounded, significand[r*LANES+i]} : LowKey;
            end
          end else begin : gen_place
            always_ff @(posedge clk) key_q[i] <= counts ? rounded : LowKey;
          end
        end else if (2 * i + 1 < (LANES + (1 << (l - 1)) - 1) >> (l - 1)) begin : gen_pair
          always_ff @(posedge clk) begin
            key_q[i] <= (gen_level[l-1].key_q[2*i] > gen_level[l-1].key_q[2*i+1])
                ? gen_level[l-1].key_q[2*i] : gen_level[l-1].key_q[2*i+1];
          end
        end else begin : gen_single
          always_ff @(posedge clk) key_q[i] <= gen_level[l-1].key_q[2*i];
        end
      end
    end

    assign largest = gen_level[TreeLevels].key_q[0];

    if (Fine) begin : gen_fine_scale
      mase_nvfp4_scale #(
          .IN_WIDTH(Kept),
          .PLACE_WIDTH(PLACE_WIDTH)
      ) u_scale (
          .clk,
          .place(largest[KeyWidth-1:BelowWidth]),
          .significand(largest[BelowWidth-1:0]),
          .code
      );
    end else begin : gen_power_scale
      always_ff @(posedge clk) begin
        if (largest > KeyWidth'(HighPlace)) code <= CodeWidth'(DATA_OUT.scale_codes - 1);
        else if (largest < LowKey) code <= '0;
        else code <= CodeWidth'(largest - LowKey);
      end
    end

    always_ff @(posedge clk) begin
      if (valid_q[ScaleStages-2] && (starts_q[ScaleStages-2] || code > running_q)) begin
        running_q <= code;
      end
      if (complete) codes[block_in_q] <= running_q;
      shared_q <= codes[block_out_q];
      code_q[r] <= (ResultStages * CodeWidth)'({code_q[r], shared_q});
    end
    assign result_scale[r] = code_q[r][ResultStages-1];

    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic element_negative;
      logic [PLACE_WIDTH-1:0] element_place;
      logic [Kept-1:0] element_significand;
      logic negative_q;
      logic signed [PLACE_WIDTH-1:0] relative_q;
      logic [Kept-1:0] significand_q;

      assign elements[r*LANES+i] =
          {negative[r*LANES+i], place[r*LANES+i], significand[r*LANES+i]};
      assign {element_negative, element_place, element_significand} = elements_q[r*LANES+i];

      always_ff @(posedge clk) begin
        negative_q <= element_negative;
        significand_q <= element_significand;
      end

      if (Fine) begin : gen_fine
        // The scale is a normal number without sign.
        always_ff @(posedge clk) begin
          relative_q <= signed'(element_place) - PLACE_WIDTH'({1'b0, shared_q[CodeWidth-1:3]});
        end
        mase_nvfp4_element #(
            .PLACE_WIDTH(PLACE_WIDTH),
            .KEPT(Kept)
        ) u_round (
            .clk,
            .negative(negative_q),
            .place(relative_q),
            .significand(significand_q),
            .mantissa(code_q[r][0][2:0]),
            .data_out(result[r*LANES+i])
        );
      end else begin : gen_power
        // The place in the block of the smallest scale.
        always_ff @(posedge clk) begin
          relative_q <= signed'(element_place) - PLACE_WIDTH'({1'b0, shared_q});
        end
        if (Floats) begin : gen_float
          mase_float_round #(
              .PLACE_WIDTH(PLACE_WIDTH),
              .DATA_OUT(DATA_OUT),
              .LOWEST(1 - DATA_OUT.exponent_bias - Largest + LowPlace)
          ) u_round (
              .clk,
              .negative(negative_q),
              .place(relative_q),
              .significand(significand_q),
              .data_out(result[r*LANES+i])
          );
        end else begin : gen_integer
          mase_integer_round #(
              .PLACE_WIDTH(PLACE_WIDTH),
              .DATA_OUT(DATA_OUT),
              .HIGHEST(int'(DATA_OUT.width) - 2 - DATA_OUT.fraction + LowPlace)
          ) u_round (
              .clk,
              .negative(negative_q),
              .place(relative_q),
              .significand(significand_q),
              .data_out(result[r*LANES+i])
          );
        end
      end
    end
  end

  (* mase_register = "stages" *)
  logic [ResultStages:0] result_valid_q;

  always_ff @(posedge clk) begin
    if (rst) result_valid_q <= '0;
    else result_valid_q <= (ResultStages + 1)'({result_valid_q, read});
  end

  mase_credits #(
      .DEPTH(Depth)
  ) u_credits (
      .clk,
      .rst,
      .take,
      .give(data_out_valid && data_out_ready),
      .room(data_in_ready),
      .single(unused_single)
  );

  mase_result_queue #(
      .WIDTH(ResultWidth),
      .DEPTH(Depth)
  ) u_queue (
      .clk,
      .rst,
      .data_in({result_scale, result}),
      .data_in_valid(result_valid_q[ResultStages]),
      .data_out({scale, data_out}),
      .data_out_valid,
      .data_out_ready
  );

`ifdef MASE_CHECKS
  // The tile of a row that is the next of a complete block, how many rows more have come so far than
  // were read, and of the tiles between both, which wait to be read.
  localparam int unsigned RowBlocks = ceil_div(Tiles, BlockTiles);
  localparam int unsigned CheckWidth = $clog2(8 * (Depth + Tiles + BlockTiles));
  typedef logic [CheckWidth-1:0] check_t;
  (* mase_register = "place" *)
  logic [TileWidth-1:0] whole_beat_q;
  logic [2:0] rows_q;
  // The tile of a row that may be taken now.
  (* mase_register = "place" *)
  logic [TileWidth-1:0] next_beat_q;
  check_t whole;
  check_t whole_begin;
  check_t out_begin;
  check_t held;
  check_t walk;
  logic in_order;
  localparam int unsigned ComingWidth = (STAGES > 0) ? STAGES : 1;
  logic [ComingWidth-1:0] coming;

  function automatic logic is_last(check_t tile);
    return tile == check_t'(Tiles - 1) || tile % check_t'(BlockTiles) == check_t'(BlockTiles - 1);
  endfunction

  always_ff @(posedge clk) begin
    if (rst) begin
      whole_beat_q <= '0;
      rows_q <= '0;
      next_beat_q <= '0;
    end else begin
      if (take) begin
        next_beat_q <= (next_beat_q == TileWidth'(Tiles - 1)) ? '0 : next_beat_q + 1'b1;
      end
      if (valid_q[ScaleStages-1]) begin
        whole_beat_q <= (whole_beat_q == TileWidth'(Tiles - 1)) ? '0 : whole_beat_q + 1'b1;
      end
      rows_q <= rows_q - 3'(read && row_out)
          + 3'(valid_q[ScaleStages-1] && whole_beat_q == TileWidth'(Tiles - 1));
    end
  end

  if (STAGES == 0) begin : gen_none_before
    assign coming = '0;
  end else begin : gen_before
    assign coming = ComingWidth'(gen_later.here_q);
  end

  // Tiles follow each other from the scale's last stage back to the one that comes.
  always_comb begin
    check_t under_way;
    whole = check_t'(whole_beat_q) - check_t'(tile_out_q) + check_t'(Tiles) * check_t'(rows_q);
    whole_begin = check_t'(whole_beat_q) - check_t'(whole_beat_q) % check_t'(BlockTiles);
    out_begin = check_t'(tile_out_q) - check_t'(part_out_q);
    walk = check_t'(whole_beat_q);
    in_order = check_t'(part_in_q) == check_t'(tile_in_q) % check_t'(BlockTiles)
        && check_t'(part_out_q) == check_t'(tile_out_q) % check_t'(BlockTiles)
        && check_t'(tile_in_q) < check_t'(Tiles) && check_t'(tile_out_q) < check_t'(Tiles)
        && check_t'(whole_beat_q) < check_t'(Tiles);
    under_way = '0;
    for (int i = ScaleStages - 1; i >= 0; i--) begin
      if (valid_q[i]) begin
        in_order &= last_q[i] == is_last(walk);
        walk = (walk == check_t'(Tiles - 1)) ? '0 : walk + 1'b1;
        under_way += 1'b1;
      end
    end
    in_order &= check_t'(tile_in_q) == walk;
    for (int i = 0; i < int'(ComingWidth); i++) begin
      if (coming[i]) begin
        walk = (walk == check_t'(Tiles - 1)) ? '0 : walk + 1'b1;
        under_way += 1'b1;
      end
    end
    in_order &= check_t'(next_beat_q) == walk;
    held = check_t'(u_queue.u_level.level_q) + check_t'(data_out_valid);
    for (int i = 0; i <= ResultStages; i++) under_way += check_t'(result_valid_q[i]);
    if (!rst) begin
      tiles_in_order : assert (in_order);
      blocks_match :
      assert (read == (waiting_q != '0) && (read || part_out_q == '0)
          && whole <= check_t'(BlockTiles)
          && check_t'(waiting_q) * check_t'(BlockTiles)
          == whole_begin - out_begin + check_t'(RowBlocks * BlockTiles) * check_t'(rows_q));
      credits_match :
      assert (check_t'(u_credits.u_left.level_q) + held + under_way + whole == check_t'(Depth));
    end
  end
`endif  // MASE_CHECKS

endmodule

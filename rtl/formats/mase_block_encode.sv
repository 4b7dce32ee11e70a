// SPDX-License-Identifier: Apache-2.0
// Blocks with a shared scale out of exact values mantissa * 2**exponent.
//
// Elements are integers or floats, see mase_scalar_cast, rounded to nearest even. The scale of a
// block of neighbours in a row is the exponent of its largest magnitude, less that of the largest
// element, bounded to what its code holds. The exponent is rounded down, to nearest where floats
// have no mantissa. Where scales are floats they are E4M3 and elements E2M1, see mase_nvfp4_scale
// and mase_nvfp4_element. A block is held back until its last tile is in: the first tile of a block
// is offered 2 cycles after its last one entered. Throughput 1 beat per cycle without gaps: two
// blocks are stored.
module mase_block_encode
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter format_t DATA_OUT = blocks(fixed(8, 0), 1'b1, 4, 8, 127, 255),
    parameter int unsigned ROWS = 1,
    parameter int unsigned LANES = 4,
    // Elements of a row, of which a row's last tile may hold fewer than LANES.
    parameter int unsigned SIZE = 8
) (
    input logic clk,
    input logic rst,

    input  logic      [ROWS*LANES-1:0][IN_WIDTH-1:0] mantissa,
    input  exponent_t [ROWS*LANES-1:0]               exponent,
    input  logic                                     data_in_valid,
    output logic                                     data_in_ready,

    output logic [ROWS*LANES-1:0][      DATA_OUT.width-1:0] data_out,
    output logic [      ROWS-1:0][DATA_OUT.scale_width-1:0] scale,
    output logic                                            data_out_valid,
    input  logic                                            data_out_ready
);

  localparam int unsigned Tiles = ceil_div(SIZE, LANES);
  localparam int unsigned Wanted = DATA_OUT.block_size / LANES;
  localparam int unsigned BlockTiles = (Wanted < Tiles) ? Wanted : Tiles;
  localparam int unsigned Tail = SIZE - (Tiles - 1) * LANES;
  localparam int unsigned Depth = 2 * BlockTiles;
  localparam int unsigned TileWidth = index_width(Tiles);
  localparam int unsigned BlockWidth = index_width(BlockTiles);
  localparam int unsigned AddressWidth = $clog2(Depth);
  localparam int unsigned LevelWidth = $clog2(Depth + 1);
  localparam int unsigned Payload = ROWS * LANES * (IN_WIDTH + $bits(exponent_t));
  // One more bit than an exponent, and the place of the leading one.
  localparam int unsigned PlaceWidth = $bits(exponent_t) + 2;
  localparam bit Floats = DATA_OUT.encoding == Float;
  localparam int unsigned Mantissa = Floats ? DATA_OUT.width - 1 - DATA_OUT.exponent_width : 0;
  localparam bit Nearest = Floats && Mantissa == 0;
  // Exponent of the largest element.
  localparam int Largest =
      Floats ? int'(DATA_OUT.maximum_code >> Mantissa) - DATA_OUT.exponent_bias : 0;
  localparam bit Fine = DATA_OUT.scale_is_float;
  // The bits of a magnitude that its scale depends on, below the place of the leading one.
  localparam int unsigned BelowWidth = Fine ? IN_WIDTH : 0;
  localparam int unsigned BelowBits = Fine ? IN_WIDTH : 1;
  localparam int unsigned KeyWidth = PlaceWidth + BelowWidth;
  // Largest magnitudes below this place have the smallest scale.
  localparam int LowPlace = Fine ? -8 : Largest - DATA_OUT.scale_bias;
  localparam int HighPlace = LowPlace + int'(DATA_OUT.scale_codes) - 1;

  if (DATA_OUT.block_size % LANES != 0 && Tiles > 1) begin : gen_block_check
    $error("the tiles of a row must divide the blocks");
  end

  function automatic logic [AddressWidth-1:0] following(input logic [AddressWidth-1:0] address);
    return (address == AddressWidth'(Depth - 1)) ? '0 : address + 1'b1;
  endfunction

  logic [Payload-1:0] memory[Depth];
  logic [AddressWidth-1:0] write_q;
  logic [AddressWidth-1:0] read_q;
  logic [LevelWidth-1:0] level_q;
  // A row's last block may be a single tile, so that many blocks are stored.
  logic [LevelWidth-1:0] blocks_q;
  logic [TileWidth-1:0] tile_in_q;
  logic [TileWidth-1:0] tile_out_q;
  logic [BlockWidth-1:0] part_in_q;
  logic [BlockWidth-1:0] part_out_q;
  logic [AddressWidth-1:0] block_in_q;
  logic [AddressWidth-1:0] block_out_q;
  logic write;
  logic read;
  logic last_in;
  logic last_out;
  logic row_in;
  logic row_out;

  assign data_in_ready = level_q != LevelWidth'(Depth);
  assign write = data_in_valid && data_in_ready;
  assign read = (blocks_q != '0) && (!data_out_valid || data_out_ready);
  assign row_in = tile_in_q == TileWidth'(Tiles - 1);
  assign row_out = tile_out_q == TileWidth'(Tiles - 1);
  assign last_in = row_in || part_in_q == BlockWidth'(BlockTiles - 1);
  assign last_out = row_out || part_out_q == BlockWidth'(BlockTiles - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      read_q <= '0;
      level_q <= '0;
      blocks_q <= '0;
      tile_in_q <= '0;
      tile_out_q <= '0;
      part_in_q <= '0;
      part_out_q <= '0;
      block_in_q <= '0;
      block_out_q <= '0;
      data_out_valid <= 1'b0;
    end else begin
      if (!data_out_valid || data_out_ready) data_out_valid <= read;
      level_q  <= level_q + LevelWidth'(write) - LevelWidth'(read);
      blocks_q <= blocks_q + LevelWidth'(write && last_in) - LevelWidth'(read && last_out);
      if (write) begin
        write_q   <= following(write_q);
        tile_in_q <= row_in ? '0 : tile_in_q + 1'b1;
        part_in_q <= last_in ? '0 : part_in_q + 1'b1;
        if (last_in) block_in_q <= following(block_in_q);
      end
      if (read) begin
        read_q <= following(read_q);
        tile_out_q <= row_out ? '0 : tile_out_q + 1'b1;
        part_out_q <= last_out ? '0 : part_out_q + 1'b1;
        if (last_out) block_out_q <= following(block_out_q);
      end
    end
  end

  always_ff @(posedge clk) begin
    if (write) memory[write_q] <= {exponent, mantissa};
  end

  logic [ROWS*LANES-1:0][IN_WIDTH-1:0] stored_mantissa;
  exponent_t [ROWS*LANES-1:0] stored_exponent;
  assign {stored_exponent, stored_mantissa} = memory[read_q];

  for (genvar r = 0; r < ROWS; r++) begin : gen_row
    // Largest magnitude of the block so far: the place of its leading one, and the bits below it
    // where they count. Of complete blocks, what the scale is, one a slot.
    logic signed [KeyWidth-1:0] beat_key;
    logic signed [KeyWidth-1:0] running_q;
    logic signed [KeyWidth-1:0] running;
    logic signed [PlaceWidth-1:0] complete;
    logic signed [PlaceWidth-1:0] complete_q[Depth];
    logic signed [PlaceWidth-1:0] shared;

    always_comb begin
      beat_key = KeyWidth'(LowPlace) <<< BelowWidth;
      for (int unsigned i = 0; i < LANES; i++) begin
        logic signed [PlaceWidth-1:0] place;
        logic signed [KeyWidth-1:0] key;
        logic [BelowBits-1:0] below;
        logic [IN_WIDTH-1:0] magnitude;
        magnitude = mantissa[r*LANES+i];
        if (magnitude[IN_WIDTH-1]) magnitude = -magnitude;
        place = PlaceWidth'(LowPlace);
        below = '0;
        for (int unsigned b = 0; b < IN_WIDTH; b++) begin
          if (magnitude[b]) begin
            place = PlaceWidth'(exponent[r*LANES+i]) + PlaceWidth'(b);
            if (Nearest && b > 0 && magnitude[(b>0)?b-1 : 0]) place = place + 1'b1;
            if (Fine) below = BelowBits'(magnitude << (IN_WIDTH - 1 - b));
          end
        end
        key = (KeyWidth'(place) <<< BelowWidth) | KeyWidth'(below);
        if (key > beat_key && (!row_in || i < Tail)) beat_key = key;
      end
    end

    assign running = (part_in_q != '0 && running_q > beat_key) ? running_q : beat_key;

    if (Fine) begin : gen_fine_scale
      logic [7:0] code;
      mase_nvfp4_scale #(
          .IN_WIDTH(IN_WIDTH),
          .PLACE_WIDTH(PlaceWidth)
      ) u_scale (
          .place(running[KeyWidth-1:BelowWidth]),
          .significand(running[BelowWidth-1:0]),
          .code
      );
      assign complete = PlaceWidth'(code);
    end else begin : gen_power
      assign complete = (running > KeyWidth'(HighPlace)) ? PlaceWidth'(HighPlace) : running;
    end

    always_ff @(posedge clk) begin
      if (write) running_q <= running;
      if (write && last_in) complete_q[block_in_q] <= complete;
    end

    assign shared = complete_q[block_out_q];

    always_ff @(posedge clk) begin
      if (read) scale[r] <= DATA_OUT.scale_width'(int'(shared) - (Fine ? 0 : LowPlace));
    end

    for (genvar i = 0; i < LANES; i++) begin : gen_lane
      logic [DATA_OUT.width-1:0] element;

      if (Fine) begin : gen_fine
        mase_nvfp4_element #(
            .IN_WIDTH(IN_WIDTH)
        ) u_cast (
            .data_in (stored_mantissa[r*LANES+i]),
            .exponent(stored_exponent[r*LANES+i]),
            .scale(shared[7:0]),
            .data_out(element)
        );
      end else begin : gen_power
        logic signed [PlaceWidth-1:0] relative;
        assign relative = PlaceWidth'(stored_exponent[r*LANES+i]) - shared + PlaceWidth'(Largest);

        mase_scalar_cast #(
            .IN_WIDTH(IN_WIDTH),
            .PLACE_WIDTH(PlaceWidth),
            .DATA_OUT(DATA_OUT)
        ) u_cast (
            .data_in (stored_mantissa[r*LANES+i]),
            .exponent(relative),
            .data_out(element)
        );
      end

      always_ff @(posedge clk) begin
        if (read) data_out[r*LANES+i] <= element;
      end
    end
  end

endmodule

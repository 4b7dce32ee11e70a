// SPDX-License-Identifier: Apache-2.0
// Slides a window over an image that streams with its channels last, through a circular buffer of
// DEPTH beats: a few rows, never the image.
//
// A pixel enters as TILES beats, an image as INPUTS beats. For every output position, and every of
// its blocks, leave the window's KERNEL_ROWS x KERNEL_COLUMNS pixels, BLOCK_TILES beats of each, as
// elements `(row of the window, column of the window, tile)` in row-major order, ELEMENTS of them
// at a time, the first in the low lanes; what the last beat of a block has left over is made of
// PAD_CODE. BLOCK_REPEATS blocks show the same tiles, then the next BLOCK_TILES, until all TILES had
// their turn.
//
// ROW_FILE says, for each row of positions, where each row of the window lies: whether inside the
// image, at which beat, and that beat modulo DEPTH; then the first beat that this row of positions
// reads, and the first one that later rows read. COLUMN_FILE says the same of columns, without the
// last. Pixels outside the image are made of PAD_CODE. What lies before the first beat that is still
// needed may be overwritten.
//
// Throughput one beat per cycle on both sides, without gaps between positions, rows and images as
// far as the input keeps up. A beat is offered 2 cycles after its last element entered. The buffer
// has a read port for each of the ELEMENTS, and a copy for every 8 of them: a synthesizer that maps
// it to blocks with one port or two takes time and memory that grow exponentially with ports.
module mase_sliding_window #(
    parameter int unsigned LANES = 1,
    parameter int unsigned LANE_WIDTH = 8,
    parameter int unsigned TILES = 1,
    parameter int unsigned INPUTS = 16,
    parameter int unsigned ROWS = 2,
    parameter int unsigned COLUMNS = 2,
    parameter int unsigned KERNEL_ROWS = 3,
    parameter int unsigned KERNEL_COLUMNS = 3,
    parameter int unsigned BLOCK_TILES = 1,
    parameter int unsigned BLOCK_REPEATS = 1,
    parameter int unsigned ELEMENTS = 1,
    parameter int unsigned DEPTH = 16,
    parameter int PAD_CODE = 0,
    // Whether a bit above each lane says that it shows the image.
    parameter bit MARK = 0,
    parameter string ROW_FILE = "",
    parameter string COLUMN_FILE = "",

    localparam int unsigned OutWidth = LANE_WIDTH + (MARK ? 1 : 0)
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][LANE_WIDTH-1:0] data_in,
    input  logic                             data_in_valid,
    output logic                             data_in_ready,

    output logic [ELEMENTS*LANES-1:0][  OutWidth-1:0] data_out,
    output logic                                      data_out_valid,
    input  logic                                      data_out_ready
);

  localparam int unsigned OffsetBits = $clog2(INPUTS + 1);
  localparam int unsigned AddressBits = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  // Beats stored ahead of the first beat of the image that is read; negative while the tail of the
  // image before, which nothing reads, is still to come.
  localparam int unsigned AheadBits = $clog2(2 * INPUTS + DEPTH + 1) + 1;
  localparam int unsigned RowBits = (ROWS > 1) ? $clog2(ROWS) : 1;
  localparam int unsigned ColumnBits = (COLUMNS > 1) ? $clog2(COLUMNS) : 1;
  localparam int unsigned KernelRowBits = (KERNEL_ROWS > 1) ? $clog2(KERNEL_ROWS) : 1;
  localparam int unsigned KernelColumnBits = (KERNEL_COLUMNS > 1) ? $clog2(KERNEL_COLUMNS) : 1;
  localparam int unsigned BlockElements = KERNEL_ROWS * KERNEL_COLUMNS * BLOCK_TILES;
  localparam int unsigned BlockBeats = (BlockElements + ELEMENTS - 1) / ELEMENTS;
  localparam int unsigned BeatBits = (BlockBeats > 1) ? $clog2(BlockBeats) : 1;
  localparam int unsigned TileBits = (TILES > 1) ? $clog2(TILES) : 1;
  localparam int unsigned RepeatBits = (BLOCK_REPEATS > 1) ? $clog2(BLOCK_REPEATS) : 1;
  localparam int unsigned InputsModDepth = INPUTS % DEPTH;
  localparam int unsigned ReadPorts = 8;

  if (TILES % BLOCK_TILES != 0) begin : gen_tiles_check
    $error("BLOCK_TILES must divide TILES");
  end
  if (ELEMENTS < 1 || ELEMENTS > BlockElements) begin : gen_elements_check
    $error("ELEMENTS must be 1 to the elements of a block");
  end
  if (DEPTH < TILES) begin : gen_depth_check
    $error("DEPTH must hold a pixel");
  end

  typedef struct packed {
    logic [AddressBits-1:0] wrapped;
    logic [OffsetBits-1:0] offset;
    logic in_image;
  } place_t;
  typedef struct packed {
    logic [OffsetBits-1:0] later;
    logic [OffsetBits-1:0] current;
    place_t [KERNEL_ROWS-1:0] place;
  } row_t;
  typedef struct packed {
    logic [OffsetBits-1:0] current;
    place_t [KERNEL_COLUMNS-1:0] place;
  } column_t;

  row_t rows[ROWS];
  column_t columns[COLUMNS];
  initial $readmemh(ROW_FILE, rows);
  initial $readmemh(COLUMN_FILE, columns);

  // The beat after the one in `beat_*_q`.
  logic [RowBits-1:0] row_q;
  logic [ColumnBits-1:0] column_q;
  logic [TileBits-1:0] start_q;
  logic [RepeatBits-1:0] repeat_q;
  logic [BeatBits-1:0] block_beat_q;
  logic [AddressBits-1:0] base_q;

  logic last_beat;
  logic last_repeat;
  logic last_start;
  logic last_column;
  logic last_row;

  assign last_beat = block_beat_q == BeatBits'(BlockBeats - 1);
  assign last_repeat = last_beat && repeat_q == RepeatBits'(BLOCK_REPEATS - 1);
  assign last_start = last_repeat && start_q == TileBits'(TILES - BLOCK_TILES);
  assign last_column = last_start && column_q == ColumnBits'(COLUMNS - 1);
  assign last_row = last_column && row_q == RowBits'(ROWS - 1);

  logic beat_valid_q;
  logic [ELEMENTS-1:0] beat_stored;
  logic beat_ends_position_q;
  logic beat_ends_image_q;

  logic signed [AheadBits-1:0] ahead_q;
  logic [OffsetBits-1:0] free_q;
  logic [AddressBits-1:0] write_q;
  logic write;
  logic advance;
  logic take;
  logic load;

  assign data_in_ready = ahead_q - signed'(AheadBits'(free_q)) < signed'(AheadBits'(DEPTH));
  assign write = data_in_valid && data_in_ready;
  assign advance = !data_out_valid || data_out_ready;
  assign take = advance && beat_valid_q && (&beat_stored);
  assign load = take || !beat_valid_q;

  row_t row;
  column_t column;
  logic [OffsetBits:0] first_current;

  assign row = rows[row_q];
  assign column = columns[column_q];
  assign first_current = (OffsetBits + 1)'(row.current) + (OffsetBits + 1)'(column.current);

  logic [AddressBits-1:0] next_base;

  mase_modulo_sum #(
      .MODULUS(DEPTH)
  ) u_next_base (
      .left (base_q),
      .right(AddressBits'(InputsModDepth)),
      .sum  (next_base)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      row_q <= '0;
      column_q <= '0;
      start_q <= '0;
      repeat_q <= '0;
      block_beat_q <= '0;
      base_q <= '0;
    end else if (load) begin
      block_beat_q <= last_beat ? '0 : block_beat_q + 1'b1;
      if (last_beat) repeat_q <= last_repeat ? '0 : repeat_q + 1'b1;
      if (last_repeat) start_q <= last_start ? '0 : start_q + TileBits'(BLOCK_TILES);
      if (last_start) column_q <= last_column ? '0 : column_q + 1'b1;
      if (last_column) row_q <= last_row ? '0 : row_q + 1'b1;
      if (last_row) base_q <= next_base;
    end
  end

  always_ff @(posedge clk) begin
    if (load) begin
      beat_ends_position_q <= last_start;
      beat_ends_image_q <= last_row;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      beat_valid_q <= 1'b0;
      ahead_q <= '0;
      write_q <= '0;
      data_out_valid <= 1'b0;
    end else begin
      beat_valid_q <= 1'b1;
      if (write) write_q <= (write_q == AddressBits'(DEPTH - 1)) ? '0 : write_q + 1'b1;
      ahead_q <= ahead_q + AheadBits'(write)
          - ((take && beat_ends_image_q) ? AheadBits'(INPUTS) : AheadBits'(0));
      if (advance) data_out_valid <= take;
    end
  end

  always_ff @(posedge clk) begin
    if (rst) free_q <= '0;
    else if (!beat_valid_q || (take && beat_ends_position_q)) begin
      free_q <= (first_current < (OffsetBits + 1)'(row.later))
          ? OffsetBits'(first_current) : row.later;
    end
  end

  logic [ELEMENTS-1:0][AddressBits-1:0] address_q;
  logic [ELEMENTS-1:0][LANES-1:0][LANE_WIDTH-1:0] word_q;

  for (genvar first = 0; first < ELEMENTS; first += ReadPorts) begin : gen_copy
    logic [LANES-1:0][LANE_WIDTH-1:0] memory[DEPTH];

    always_ff @(posedge clk) begin
      if (write) memory[write_q] <= data_in;
    end

    for (genvar i = first; i < first + ReadPorts && i < ELEMENTS; i++) begin : gen_port
      always_ff @(posedge clk) begin
        if (take) word_q[i] <= memory[address_q[i]];
      end
    end
  end

  for (genvar i = 0; i < ELEMENTS; i++) begin : gen_element
    logic [KernelRowBits-1:0] kernel_row;
    logic [KernelColumnBits-1:0] kernel_column;
    logic [TileBits-1:0] tile;
    logic in_window;

    mase_window_element #(
        .ROWS(KERNEL_ROWS),
        .COLUMNS(KERNEL_COLUMNS),
        .TILES(BLOCK_TILES),
        .FIRST(i),
        .STEP(ELEMENTS),
        .TILE_WIDTH(TileBits)
    ) u_place (
        .clk,
        .rst(rst || (load && last_beat)),
        .enable(load),
        .row(kernel_row),
        .column(kernel_column),
        .tile,
        .in_window
    );

    place_t row_place;
    place_t column_place;
    logic in_image;
    logic in_image_q;
    logic [OffsetBits-1:0] offset_q;

    logic [AddressBits-1:0] row_address;
    logic [AddressBits-1:0] column_address;
    logic [AddressBits-1:0] address;

    assign row_place = row.place[kernel_row];
    assign column_place = column.place[kernel_column];
    assign in_image = in_window && row_place.in_image && column_place.in_image;
    assign beat_stored[i] = signed'(AheadBits'(offset_q)) < ahead_q;

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_row_address (
        .left (base_q),
        .right(row_place.wrapped),
        .sum  (row_address)
    );

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_column_address (
        .left (column_place.wrapped),
        .right(AddressBits'(start_q + tile)),
        .sum  (column_address)
    );

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_address (
        .left (row_address),
        .right(column_address),
        .sum  (address)
    );

    always_ff @(posedge clk) begin
      if (load) begin
        in_image_q <= in_image;
        // A beat of padding leaves once its image has begun.
        offset_q <= in_image ? row_place.offset + column_place.offset
            + OffsetBits'(start_q) + OffsetBits'(tile) : '0;
        address_q[i] <= address;
      end
    end

    logic word_in_image_q;

    always_ff @(posedge clk) begin
      if (take) word_in_image_q <= in_image_q;
    end

    for (genvar l = 0; l < LANES; l++) begin : gen_lane
      logic [LANE_WIDTH-1:0] shown;
      assign shown = word_in_image_q ? word_q[i][l] : LANE_WIDTH'(PAD_CODE);
      if (MARK) begin : gen_mark
        assign data_out[i*LANES+l] = {word_in_image_q, shown};
      end else begin : gen_plain
        assign data_out[i*LANES+l] = shown;
      end
    end
  end

endmodule

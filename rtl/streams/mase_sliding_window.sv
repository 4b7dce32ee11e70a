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
// FIRST_NEED is the last beat that the first beat out needs, FIRST_FREE the first one that is read.
//
// Throughput one beat per cycle on both sides, without gaps between positions, rows and images as
// far as the input keeps up. A beat is offered 6 cycles after its last element entered, the first
// ones once the walk knows them (mase_window_walk). The buffer has a read port for each of the
// ELEMENTS, and a copy for every 8 of them: a synthesizer that maps it to blocks with one port or
// two takes time and memory that grow exponentially with ports.
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
    parameter int unsigned WALK_STAGES = ($clog2(ELEMENTS) > 2) ? 5 + $clog2(ELEMENTS) : 7,
    parameter int unsigned FIRST_NEED = 0,
    parameter int unsigned FIRST_FREE = 0,
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
  localparam int unsigned StepBits = OffsetBits + 2;
  localparam int unsigned AddressBits = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  // Beats of two images and of the buffer, with a sign.
  localparam int unsigned CountBits = $clog2(2 * INPUTS + DEPTH + 1) + 1;
  localparam int unsigned BlockElements = KERNEL_ROWS * KERNEL_COLUMNS * BLOCK_TILES;
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

  logic [ELEMENTS-1:0][AddressBits-1:0] address;
  logic [ELEMENTS-1:0] in_image;
  logic [StepBits-1:0] need_step;
  logic [StepBits-1:0] free_step;
  logic beat_valid;

  // How many beats more are stored than the next beat out needs, less one; it may leave where this
  // is not negative. How many are stored and not free, less DEPTH; one may enter where it is.
  logic signed [CountBits-1:0] beyond_q;
  logic signed [CountBits-1:0] beyond;
  logic signed [CountBits-1:0] held_q;
  logic signed [CountBits-1:0] held;
  logic there;
  logic room;
  logic write;
  logic take;

  assign data_in_ready = held_q[CountBits-1];
  assign there = !beyond_q[CountBits-1];
  assign write = data_in_valid && data_in_ready;
  assign take = beat_valid && there && room;

  mase_window_walk #(
      .TILES(TILES),
      .INPUTS(INPUTS),
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .KERNEL_ROWS(KERNEL_ROWS),
      .KERNEL_COLUMNS(KERNEL_COLUMNS),
      .BLOCK_TILES(BLOCK_TILES),
      .BLOCK_REPEATS(BLOCK_REPEATS),
      .ELEMENTS(ELEMENTS),
      .DEPTH(DEPTH),
      .STAGES(WALK_STAGES),
      .ROW_FILE(ROW_FILE),
      .COLUMN_FILE(COLUMN_FILE)
  ) u_walk (
      .clk,
      .rst,
      .address,
      .in_image,
      .need_step,
      .free_step,
      .valid(beat_valid),
      .ready(take)
  );

  // A bit below both summands carries the beat that enters: one chain of carries.
  logic unused_below_beyond;
  logic unused_below_held;
  assign {beyond, unused_below_beyond} = {beyond_q, write}
      + {take ? CountBits'(signed'(need_step)) : '0, write};
  assign {held, unused_below_held} = {held_q, write}
      + {take ? CountBits'(signed'(free_step)) : '0, write};

  // A beat is stored the cycle after it entered, and read the cycle after it may leave.
  logic [AddressBits-1:0] place_q;
  logic [AddressBits-1:0] store_place_q;
  logic store_q;
  logic [LANES-1:0][LANE_WIDTH-1:0] store_data_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      beyond_q <= -CountBits'(FIRST_NEED + 1);
      held_q <= -CountBits'(FIRST_FREE + DEPTH);
      place_q <= '0;
      store_q <= 1'b0;
    end else begin
      beyond_q <= beyond;
      held_q <= held;
      if (write) place_q <= (place_q == AddressBits'(DEPTH - 1)) ? '0 : place_q + 1'b1;
      store_q <= write;
    end
  end

  always_ff @(posedge clk) begin
    store_place_q <= place_q;
    store_data_q  <= data_in;
  end

  logic [ELEMENTS-1:0][LANES-1:0][LANE_WIDTH-1:0] word;

  for (genvar first = 0; first < ELEMENTS; first += ReadPorts) begin : gen_copy
    // No place is read in the cycle in which it is written, but for words that nobody looks at.
    (* no_rw_check *)
    logic [LANES-1:0][LANE_WIDTH-1:0] memory[DEPTH];

    always_ff @(posedge clk) begin
      if (store_q) memory[store_place_q] <= store_data_q;
    end

    for (genvar i = first; i < first + ReadPorts && i < ELEMENTS; i++) begin : gen_port
      logic [AddressBits-1:0] address_q;
      logic [LANES-1:0][LANE_WIDTH-1:0] word_q;
      always_ff @(posedge clk) begin
        address_q <= address[i];
        word_q <= memory[address_q];
        word[i] <= word_q;
      end
    end
  end

  logic [1:0][ELEMENTS-1:0] in_image_q;
  logic [ELEMENTS-1:0] word_in_image_q;
  logic [ELEMENTS*LANES-1:0][OutWidth-1:0] result;

  always_ff @(posedge clk) begin
    in_image_q <= {in_image_q[0], in_image};
    word_in_image_q <= in_image_q[1];
  end

  for (genvar i = 0; i < ELEMENTS; i++) begin : gen_element
    for (genvar l = 0; l < LANES; l++) begin : gen_lane
      logic [LANE_WIDTH-1:0] shown;
      assign shown = word_in_image_q[i] ? word[i][l] : LANE_WIDTH'(PAD_CODE);
      if (MARK) begin : gen_mark
        assign result[i*LANES+l] = {word_in_image_q[i], shown};
      end else begin : gen_plain
        assign result[i*LANES+l] = shown;
      end
    end
  end

  mase_stream_pipeline #(
      .WIDTH (ELEMENTS * LANES * OutWidth),
      .STAGES(3)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(beat_valid && there),
      .data_in_ready(room),
      .result,
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

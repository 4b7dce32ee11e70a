// SPDX-License-Identifier: Apache-2.0
// Walks a window over images for ever, ahead of the beats that it shows: for each beat, where its
// ELEMENTS lie in the buffer and which of them lie in the image; and how many beats more, in two's
// complement, the beat after it needs than this one, and are free for others once this one was read,
// both negated. See mase_sliding_window for the order, the tables and the parameters.
// The first beat is offered 11 cycles after reset, later where a beat has more than 4 elements
// (MaxStages); throughput one per cycle.
module mase_window_walk #(
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
    // Until an address and a need are known, which whoever predicts the first beat must say alike.
    parameter int unsigned STAGES = ($clog2(ELEMENTS) > 2) ? 5 + $clog2(ELEMENTS) : 7,
    parameter string ROW_FILE = "",
    parameter string COLUMN_FILE = "",

    localparam int unsigned OffsetBits = $clog2(INPUTS + 1),
    localparam int unsigned StepBits = OffsetBits + 2,
    localparam int unsigned AddressBits = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
    input logic clk,
    input logic rst,

    output logic [ELEMENTS-1:0][AddressBits-1:0] address,
    output logic [ELEMENTS-1:0]                  in_image,
    output logic [StepBits-1:0]                  need_step,
    output logic [StepBits-1:0]                  free_step,
    output logic                                 valid,
    input  logic                                 ready
);

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
  localparam int unsigned Levels = $clog2(ELEMENTS);
  // An address takes 7 stages, a need 5 and its tree.
  localparam int unsigned MaxStages = (Levels > 2) ? 5 + Levels : 7;
  localparam int unsigned AddressDelay = MaxStages - 7;
  localparam int unsigned NeedDelay = MaxStages - 5 - Levels;
  // A place is free 5 cycles after its beat is known, and one beat waits for the one after it.
  localparam int unsigned Depth = MaxStages + 5;

  if (STAGES != MaxStages) begin : gen_latency_check
    $error("STAGES is %0d; a beat's place takes %0d cycles", STAGES, MaxStages);
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

  // Stage 0: where the next beat lies.
  logic go;
  logic unused_single;
  logic [BeatBits-1:0] unused_beat;
  logic [RepeatBits-1:0] unused_repeat;
  logic [TileBits-1:0] start;
  logic [ColumnBits-1:0] column;
  logic [RowBits-1:0] row;
  logic last_beat;
  logic last_repeat;
  logic last_start;
  logic last_column;
  logic last_row;
  logic next_block;
  logic next_start;
  logic next_column;
  logic next_row;
  logic next_image;

  assign next_block  = go && last_beat;
  assign next_start  = next_block && last_repeat;
  assign next_column = next_start && last_start;
  assign next_row    = next_column && last_column;
  assign next_image  = next_row && last_row;

  mase_counter #(
      .COUNT(BlockBeats),
      .WIDTH(BeatBits)
  ) u_beat (
      .clk,
      .rst,
      .enable(go),
      .count(unused_beat),
      .last(last_beat)
  );

  mase_counter #(
      .COUNT(BLOCK_REPEATS),
      .WIDTH(RepeatBits)
  ) u_repeat (
      .clk,
      .rst,
      .enable(next_block),
      .count(unused_repeat),
      .last(last_repeat)
  );

  mase_counter #(
      .COUNT(TILES / BLOCK_TILES),
      .STEP (BLOCK_TILES),
      .WIDTH(TileBits)
  ) u_start (
      .clk,
      .rst,
      .enable(next_start),
      .count(start),
      .last(last_start)
  );

  mase_counter #(
      .COUNT(COLUMNS),
      .WIDTH(ColumnBits)
  ) u_column (
      .clk,
      .rst,
      .enable(next_column),
      .count(column),
      .last(last_column)
  );

  mase_counter #(
      .COUNT(ROWS),
      .WIDTH(RowBits)
  ) u_row (
      .clk,
      .rst,
      .enable(next_row),
      .count(row),
      .last(last_row)
  );

  // The first beat of the image, modulo DEPTH.
  logic [AddressBits-1:0] base_q;
  logic [  AddressBits:0] base_beyond;

  assign base_beyond = (AddressBits + 1)'(base_q) - (AddressBits + 1)'(DEPTH - InputsModDepth);

  always_ff @(posedge clk) begin
    if (rst) base_q <= '0;
    else if (next_image) begin
      base_q <= base_beyond[AddressBits] ? base_q + AddressBits'(InputsModDepth)
          : AddressBits'(base_beyond);
    end
  end

  // Stages 1 and 2: both tables.
  row_t row_1_q;
  row_t row_2_q;
  column_t column_1_q;
  column_t column_2_q;
  logic [TileBits-1:0] start_1_q;
  logic [TileBits-1:0] start_2_q;

  always_ff @(posedge clk) begin
    row_1_q <= rows[row];
    row_2_q <= row_1_q;
    column_1_q <= columns[column];
    column_2_q <= column_1_q;
    start_1_q <= start;
    start_2_q <= start_1_q;
  end

  logic [2:0][AddressBits-1:0] base_delay_q;
  (* mase_register = "stages" *)
  logic [MaxStages-1:0] valid_q;
  logic [MaxStages-1:0] ends_image_q;

  always_ff @(posedge clk) begin
    if (rst) valid_q <= '0;
    else valid_q <= MaxStages'({valid_q, go});
  end

  always_ff @(posedge clk) begin
    base_delay_q <= {base_delay_q[1:0], base_q};
    ends_image_q <= MaxStages'({ends_image_q, next_image});
  end

  // Stages 3 and 4: the first beat that this position or a later one reads.
  logic [OffsetBits:0] current_q;
  logic [OffsetBits-1:0] later_q;
  logic [MaxStages-4:0][OffsetBits-1:0] free_q;

  always_ff @(posedge clk) begin
    current_q <= (OffsetBits + 1)'(row_2_q.current) + (OffsetBits + 1)'(column_2_q.current);
    later_q <= row_2_q.later;
    free_q[0] <= (current_q < (OffsetBits + 1)'(later_q)) ? OffsetBits'(current_q) : later_q;
    for (int i = 1; i <= MaxStages - 4; i++) free_q[i] <= free_q[i-1];
  end

  logic [ELEMENTS-1:0][AddressBits-1:0] found_address;
  logic [ELEMENTS-1:0] found_in_image;
  logic [ELEMENTS-1:0][OffsetBits-1:0] offset;

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
        .rst(rst || next_block),
        .enable(go),
        .row(kernel_row),
        .column(kernel_column),
        .tile,
        .in_window
    );

    logic [1:0][KernelRowBits-1:0] kernel_row_q;
    logic [1:0][KernelColumnBits-1:0] kernel_column_q;
    logic [1:0][TileBits-1:0] element_tile_q;
    logic [1:0] in_window_q;
    place_t row_place;
    place_t column_place;
    // Stage 3.
    logic [AddressBits-1:0] row_wrapped_q;
    logic [AddressBits-1:0] column_wrapped_q;
    logic [OffsetBits-1:0] row_offset_q;
    logic [OffsetBits-1:0] column_offset_q;
    logic [TileBits-1:0] tile_q;
    logic [MaxStages-3:0] in_image_q;
    // Stages 4 and 5.
    logic [OffsetBits-1:0] pixel_q;
    logic [TileBits-1:0] pixel_tile_q;
    logic [OffsetBits-1:0] offset_q;
    // Stages 5 and 7.
    logic [AddressBits-1:0] row_address;
    logic [AddressBits-1:0] column_address;
    logic [AddressBits-1:0] sum;

    assign row_place = row_2_q.place[kernel_row_q[1]];
    assign column_place = column_2_q.place[kernel_column_q[1]];

    always_ff @(posedge clk) begin
      kernel_row_q <= {kernel_row_q[0], kernel_row};
      kernel_column_q <= {kernel_column_q[0], kernel_column};
      element_tile_q <= {element_tile_q[0], tile};
      in_window_q <= {in_window_q[0], in_window};
      row_wrapped_q <= row_place.wrapped;
      column_wrapped_q <= column_place.wrapped;
      row_offset_q <= row_place.offset;
      column_offset_q <= column_place.offset;
      tile_q <= start_2_q + element_tile_q[1];
      in_image_q <= (MaxStages - 2)'({
          in_image_q, in_window_q[1] && row_place.in_image && column_place.in_image
      });
      pixel_q <= row_offset_q + column_offset_q;
      pixel_tile_q <= tile_q;
      // A beat of padding leaves once its image has begun.
      offset_q <= in_image_q[1] ? pixel_q + OffsetBits'(pixel_tile_q) : '0;
    end

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_row_address (
        .clk,
        .left (base_delay_q[2]),
        .right(row_wrapped_q),
        .sum  (row_address)
    );

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_column_address (
        .clk,
        .left (column_wrapped_q),
        .right(AddressBits'(tile_q)),
        .sum  (column_address)
    );

    mase_modulo_sum #(
        .MODULUS(DEPTH)
    ) u_address (
        .clk,
        .left (row_address),
        .right(column_address),
        .sum
    );

    if (AddressDelay == 0) begin : gen_address
      assign found_address[i] = sum;
    end else begin : gen_address_delay
      logic [AddressDelay-1:0][AddressBits-1:0] sum_q;
      always_ff @(posedge clk) begin
        sum_q <= (AddressDelay * AddressBits)'({sum_q, sum});
      end
      assign found_address[i] = sum_q[AddressDelay-1];
    end

    assign found_in_image[i] = in_image_q[MaxStages-3];
    assign offset[i] = offset_q;
  end

  // The last of a beat's elements, by a tree.
  logic [OffsetBits-1:0] most;
  logic [OffsetBits-1:0] need;

  for (genvar l = 0; l < Levels; l++) begin : gen_level
    localparam int unsigned Inputs = (ELEMENTS + (1 << l) - 1) >> l;
    localparam int unsigned Outputs = (Inputs + 1) / 2;
    logic [Inputs-1:0][OffsetBits-1:0] given;
    logic [Outputs-1:0][OffsetBits-1:0] most_q;
    if (l == 0) begin : gen_offsets
      assign given = offset;
    end else begin : gen_found
      assign given = gen_level[l-1].most_q;
    end
    for (genvar i = 0; i < Outputs; i++) begin : gen_most
      if (2 * i + 1 < Inputs) begin : gen_pair
        always_ff @(posedge clk) begin
          most_q[i] <= (given[2*i+1] > given[2*i]) ? given[2*i+1] : given[2*i];
        end
      end else begin : gen_single
        always_ff @(posedge clk) most_q[i] <= given[2*i];
      end
    end
  end

  if (Levels == 0) begin : gen_single_element
    assign most = offset[0];
  end else begin : gen_tree
    assign most = gen_level[Levels-1].most_q[0];
  end

  if (NeedDelay == 0) begin : gen_need
    assign need = most;
  end else begin : gen_need_delay
    logic [NeedDelay-1:0][OffsetBits-1:0] most_q;
    always_ff @(posedge clk) most_q <= (NeedDelay * OffsetBits)'({most_q, most});
    assign need = most_q[NeedDelay-1];
  end

  // A beat waits until what the one after it needs is known. At the end of an image, numbers count
  // from the next one.
  logic come;
  logic waiting_q;
  logic [ELEMENTS-1:0][AddressBits-1:0] address_q;
  logic [ELEMENTS-1:0] in_image_q;
  logic signed [StepBits-1:0] need_q;
  logic signed [StepBits-1:0] freed_q;
  logic signed [StepBits-1:0] image;

  typedef struct packed {
    logic [ELEMENTS-1:0][AddressBits-1:0] address;
    logic [ELEMENTS-1:0] in_image;
    logic [StepBits-1:0] need_step;
    logic [StepBits-1:0] free_step;
  } beat_t;

  beat_t known_q;
  beat_t offered;
  logic  known_valid_q;

  assign come  = valid_q[MaxStages-1];
  assign image = ends_image_q[MaxStages-1] ? StepBits'(INPUTS) : '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      waiting_q <= 1'b0;
      known_valid_q <= 1'b0;
    end else begin
      waiting_q <= waiting_q || come;
      known_valid_q <= waiting_q && come;
    end
  end

  always_ff @(posedge clk) begin
    if (come) begin
      address_q <= found_address;
      in_image_q <= found_in_image;
      need_q <= signed'(StepBits'(need)) - image;
      freed_q <= signed'(StepBits'(free_q[MaxStages-4])) - image;
    end
    known_q.address   <= address_q;
    known_q.in_image  <= in_image_q;
    known_q.need_step <= need_q - signed'(StepBits'(need));
    known_q.free_step <= freed_q - signed'(StepBits'(free_q[MaxStages-4]));
  end

  mase_credits #(
      .DEPTH(Depth)
  ) u_credits (
      .clk,
      .rst,
      .take(go),
      .give(valid && ready),
      .room(go),
      .single(unused_single)
  );

  mase_result_queue #(
      .WIDTH($bits(beat_t)),
      .DEPTH(Depth)
  ) u_queue (
      .clk,
      .rst,
      .data_in(known_q),
      .data_in_valid(known_valid_q),
      .data_out(offered),
      .data_out_valid(valid),
      .data_out_ready(ready)
  );

  assign address   = offered.address;
  assign in_image  = offered.in_image;
  assign need_step = offered.need_step;
  assign free_step = offered.free_step;

`ifdef MASE_CHECKS
  // Whatever has a credit is on its way, waits for the beat after it, is in the queue, or is offered.
  localparam int unsigned HeldWidth = $clog2(8 * Depth);
  logic [HeldWidth-1:0] held;
  always_comb begin
    held = HeldWidth'(u_queue.u_level.level_q) + HeldWidth'(valid) + HeldWidth'(known_valid_q)
        + HeldWidth'(waiting_q);
    for (int i = 0; i < int'(MaxStages); i++) held += HeldWidth'(valid_q[i]);
    if (!rst) begin
      credits_match : assert (HeldWidth'(u_credits.u_left.level_q) + held == HeldWidth'(Depth));
    end
  end
`endif  // MASE_CHECKS

endmodule

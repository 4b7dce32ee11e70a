// SPDX-License-Identifier: Apache-2.0
// Sends a memory of GROUPS x PLACES x BLOCK beats in order, again and again. At the place that
// `position` asks for, or the last one where there is no such place, it sends `data_in` instead and
// keeps that. A place that nothing was written to since reset is zero. Both inputs come for every
// beat: each block of an entry PLACES times, the position of an entry for every beat of the memory.
// LAYERS such memories take turns: each is sent once, and after the last the first again.
// Latency 5 cycles, throughput 1 beat per cycle.
module mase_cache
  import mase_pkg::*;
#(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned BLOCK = 2,
    parameter int unsigned PLACES = 5,
    parameter int unsigned GROUPS = 3,
    parameter int unsigned POSITION = 3,
    parameter int unsigned LAYERS = 1
) (
    input logic clk,
    input logic rst,

    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,

    input  logic [POSITION-1:0] position,
    input  logic                position_valid,
    output logic                position_ready,

    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  localparam int unsigned LayerDepth = GROUPS * PLACES * BLOCK;
  localparam int unsigned Depth = LAYERS * LayerDepth;
  localparam int unsigned AddressWidth = index_width(Depth);
  localparam int unsigned LayerWidth = index_width(LAYERS);
  localparam int unsigned BeatWidth = index_width(BLOCK);
  localparam int unsigned PlaceWidth = index_width(PLACES);

  logic joined_valid;
  logic joined_ready;
  logic take;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({position_valid, data_in_valid}),
      .data_in_ready ({position_ready, data_in_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  assign take = joined_valid && joined_ready;

  logic [AddressWidth-1:0] address;
  logic unused_last_address;
  logic [BeatWidth-1:0] unused_beat;
  logic last_beat;
  logic [PlaceWidth-1:0] place;
  logic unused_last_place;

  mase_counter #(
      .COUNT(Depth),
      .WIDTH(AddressWidth)
  ) u_address (
      .clk,
      .rst,
      .enable(take),
      .count(address),
      .last(unused_last_address)
  );

  mase_counter #(
      .COUNT(BLOCK),
      .WIDTH(BeatWidth)
  ) u_beat (
      .clk,
      .rst,
      .enable(take),
      .count(unused_beat),
      .last(last_beat)
  );

  mase_counter #(
      .COUNT(PLACES),
      .WIDTH(PlaceWidth)
  ) u_place (
      .clk,
      .rst,
      .enable(take && last_beat),
      .count(place),
      .last(unused_last_place)
  );

  logic [LayerWidth-1:0] layer;

  if (LAYERS > 1) begin : gen_layers
    localparam int unsigned BeatsWidth = index_width(LayerDepth);
    logic [BeatsWidth-1:0] unused_layer_beat;
    logic last_layer_beat;
    logic unused_last_layer;

    mase_counter #(
        .COUNT(LayerDepth),
        .WIDTH(BeatsWidth)
    ) u_layer_beat (
        .clk,
        .rst,
        .enable(take),
        .count(unused_layer_beat),
        .last(last_layer_beat)
    );

    mase_counter #(
        .COUNT(LAYERS),
        .WIDTH(LayerWidth)
    ) u_layer (
        .clk,
        .rst,
        .enable(take && last_layer_beat),
        .count(layer),
        .last(unused_last_layer)
    );
  end else begin : gen_layer
    assign layer = '0;
  end

  logic [PlaceWidth-1:0] wanted;
  logic here;

  if (PLACES < 1 << POSITION) begin : gen_bound
    assign wanted = (position > POSITION'(PLACES - 1)) ? PlaceWidth'(PLACES - 1)
        : PlaceWidth'(position);
  end else begin : gen_any
    assign wanted = PlaceWidth'(position);
  end
  assign here = place == wanted;

  // Which places of each layer hold an entry.
  logic [LAYERS-1:0][PLACES-1:0] written_q;
  logic [1:0] write_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      written_q <= '0;
      write_q <= '0;
    end else begin
      if (take && here) written_q[layer][place] <= 1'b1;
      write_q <= {write_q[0], take && here};
    end
  end

  // A word is written the cycle after it was read, and read again when all others have been.
  (* no_rw_check *)
  logic [WIDTH-1:0] memory[Depth];
  logic [AddressWidth-1:0] address_q;
  logic [AddressWidth-1:0] passed_address_q;
  logic [WIDTH-1:0] entry_q;
  logic here_q;
  logic there_q;
  logic [WIDTH-1:0] word_q;
  logic [WIDTH-1:0] passed_q;
  logic passes_q;
  logic empty_q;
  logic [WIDTH-1:0] result;

  always_ff @(posedge clk) begin
    address_q <= address;
    entry_q <= data_in;
    here_q <= here;
    there_q <= written_q[layer][place];

    word_q <= memory[address_q];
    passed_address_q <= address_q;
    passed_q <= entry_q;
    passes_q <= here_q;
    empty_q <= !there_q;

    if (write_q[1]) memory[passed_address_q] <= passed_q;
    if (passes_q) result <= passed_q;
    else if (empty_q) result <= '0;
    else result <= word_q;
  end

  mase_stream_pipeline #(
      .WIDTH (WIDTH),
      .STAGES(3)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule

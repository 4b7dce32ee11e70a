// SPDX-License-Identifier: Apache-2.0
// data_out_0 = the index of the largest of TERMS beats, lane by lane, in rounds of INNER beats; with
// ACROSS of the largest element of a row, over its lanes and its TERMS beats. The first of equals
// wins. Indices are whole numbers without sign.
// Throughput 1 beat per cycle; a result is offered 1 cycle after its last beat.
module mase_argmax_fixed #(
    parameter int unsigned DATA_IN_0_PRECISION_0 = 8,
    parameter int DATA_IN_0_PRECISION_1 = 4,
    parameter bit DATA_IN_0_SIGNED = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_TENSOR_SIZE_DIM_1 = 4,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_IN_0_PARALLELISM_DIM_1 = 1,

    parameter int unsigned DATA_OUT_0_PRECISION_0 = 8,
    parameter int DATA_OUT_0_PRECISION_1 = 0,
    parameter bit DATA_OUT_0_SIGNED = 0,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int unsigned DATA_OUT_0_PARALLELISM_DIM_1 = 1,

    parameter bit ACROSS = 1,
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,

    localparam int unsigned InLanes  = DATA_IN_0_PARALLELISM_DIM_0,
    localparam int unsigned OutLanes = DATA_OUT_0_PARALLELISM_DIM_0
) (
    input logic clk,
    input logic rst,

    input  logic [InLanes-1:0][DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,

    output logic [OutLanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                          data_out_0_valid,
    input  logic                                          data_out_0_ready
);

  localparam int unsigned Width = DATA_IN_0_PRECISION_0;
  localparam int unsigned IndexWidth = DATA_OUT_0_PRECISION_0;
  localparam int unsigned Step = ACROSS ? InLanes : 1;
  localparam int unsigned Size = DATA_IN_0_TENSOR_SIZE_DIM_0;
  localparam int unsigned Tiles = (Size + InLanes - 1) / InLanes;
  localparam int unsigned OutTiles = (DATA_OUT_0_TENSOR_SIZE_DIM_0 + OutLanes - 1) / OutLanes;
  localparam int unsigned InnerBits = (INNER > 1) ? $clog2(INNER) : 1;
  // With the sign inverted, two's complement codes are in unsigned order.
  localparam logic [Width-1:0] SignMask = Width'(DATA_IN_0_SIGNED) << (Width - 1);

  if (DATA_IN_0_PRECISION_1 > 64 || DATA_IN_0_PRECISION_1 < -64) begin : gen_fraction_check
    $error("the fraction of data_in_0 is out of range");
  end
  if (DATA_OUT_0_PRECISION_1 != 0 || DATA_OUT_0_SIGNED) begin : gen_format_check
    $error("the result must be a whole number without sign");
  end
  if (DATA_IN_0_PARALLELISM_DIM_1 != 1 || DATA_OUT_0_PARALLELISM_DIM_1 != 1
      || OutLanes != (ACROSS ? 1 : InLanes)) begin : gen_parallelism_check
    $error("data_in_0 and data_out_0 must have lanes of one row, a single one out with ACROSS");
  end
  if (DATA_OUT_0_TENSOR_SIZE_DIM_1 * OutTiles * TERMS != DATA_IN_0_TENSOR_SIZE_DIM_1 * Tiles
      || (DATA_IN_0_TENSOR_SIZE_DIM_1 * Tiles) % (TERMS * INNER) != 0
      || (ACROSS && (INNER != 1 || TERMS % Tiles != 0))) begin : gen_size_check
    $error("TERMS and INNER disagree with the size of data_in_0");
  end

  typedef struct packed {
    logic [IndexWidth-1:0] index;
    logic [Width-1:0] value;
  } best_t;

  // The index of the beat's first element, and the beat within a round.
  logic [IndexWidth-1:0] index_q;
  logic [InnerBits-1:0] inner_q;
  logic first_term;
  logic last_term;
  logic last_inner;

  assign first_term = index_q == '0;
  assign last_term = index_q == IndexWidth'((TERMS - 1) * Step);
  assign last_inner = inner_q == InnerBits'(INNER - 1);
  assign data_in_0_ready = !data_out_0_valid || data_out_0_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      index_q <= '0;
      inner_q <= '0;
      data_out_0_valid <= 1'b0;
    end else if (data_in_0_ready) begin
      data_out_0_valid <= data_in_0_valid && last_term;
      if (data_in_0_valid) inner_q <= last_inner ? '0 : inner_q + 1'b1;
      if (data_in_0_valid && last_inner) index_q <= last_term ? '0 : index_q + IndexWidth'(Step);
    end
  end

  best_t [OutLanes-1:0] kept[INNER];
  best_t [OutLanes-1:0] earlier;
  best_t [OutLanes-1:0] best;

  assign earlier = kept[inner_q];

  for (genvar i = 0; i < OutLanes; i++) begin : gen_lane
    localparam int unsigned Elements = ACROSS ? InLanes : 1;
    always_comb begin
      best[i] = earlier[i];
      for (int unsigned e = 0; e < Elements; e++) begin
        logic [Width-1:0] value;
        logic within_row;
        value = data_in_0[ACROSS ? e : i] ^ SignMask;
        within_row = !ACROSS || 32'(index_q) + e < Size;
        if (within_row && ((first_term && e == 0) || value > best[i].value)) begin
          best[i] = '{index: index_q + IndexWidth'(e), value: value};
        end
      end
    end
    always_ff @(posedge clk) begin
      if (data_in_0_valid && data_in_0_ready) data_out_0[i] <= best[i].index;
    end
  end

  always_ff @(posedge clk) begin
    if (data_in_0_valid && data_in_0_ready) kept[inner_q] <= best;
  end

endmodule

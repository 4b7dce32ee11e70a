// SPDX-License-Identifier: Apache-2.0
// data_out_0 = the index of the largest of TERMS beats, lane by lane, in rounds of INNER beats; with
// ROW of the largest element of a row of so many, over its lanes and its TERMS beats. The first of
// equals wins. Indices are whole numbers without sign.
// Throughput 1 beat per cycle; a result is offered 5 cycles after its last beat, ceil(log2(LANES))
// more with ROW: the lanes of a beat are compared by a tree with a register a level.
module mase_argmax
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter int unsigned LANES = 1,
    parameter int unsigned INDEX_WIDTH = 8,
    // 0 where lanes stay apart.
    parameter int unsigned ROW = 0,
    parameter int unsigned TERMS = 4,
    parameter int unsigned INNER = 1,

    localparam int unsigned Width = DATA_IN_0.width,
    localparam int unsigned OutLanes = (ROW > 0) ? 1 : LANES
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][Width-1:0] data_in_0,
    input  logic                        data_in_0_valid,
    output logic                        data_in_0_ready,

    output logic [OutLanes-1:0][INDEX_WIDTH-1:0] data_out_0,
    output logic                                 data_out_0_valid,
    input  logic                                 data_out_0_ready
);

  localparam int unsigned Elements = (ROW > 0) ? LANES : 1;
  localparam int unsigned TreeLevels = $clog2(Elements);
  localparam int unsigned Tail = (ROW > 0) ? ROW - (TERMS - 1) * LANES : 1;
  localparam int unsigned InnerBits = index_width(INNER);
  // With the sign inverted, two's complement codes are in unsigned order.
  localparam logic [Width-1:0] SignMask = Width'(DATA_IN_0.is_signed) << (Width - 1);

  if (ROW > 0 && (INNER != 1 || TERMS != ceil_div(ROW, LANES))) begin : gen_row_check
    $error("TERMS and INNER disagree with ROW");
  end

  typedef struct packed {
    logic [INDEX_WIDTH-1:0] index;
    logic [Width-1:0] value;
  } best_t;

  // Whether the beat that enters is the last of a row.
  logic last_term;
  logic last_term_q;
  logic part_valid;
  logic part_first;
  logic part_comes;
  logic [OutLanes-1:0][INDEX_WIDTH-1:0] result;

  mase_round_pipeline #(
      .TERMS(TERMS),
      .INNER(INNER),
      .PART_STAGES(2 + TreeLevels),
      .RESULT_STAGES(1),
      .WIDTH(OutLanes * INDEX_WIDTH)
  ) u_rounds (
      .clk,
      .rst,
      .data_in_valid(data_in_0_valid),
      .data_in_ready(data_in_0_ready),
      .last_term,
      .part_valid,
      .part_first,
      .part_comes,
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

  always_ff @(posedge clk) last_term_q <= last_term;

  if (Tail == Elements) begin : gen_whole
    logic unused_last;
    assign unused_last = last_term_q;
  end

  // The index of the first element of the part that is here.
  logic [InnerBits-1:0] unused_inner;
  logic last_inner;
  logic [INDEX_WIDTH-1:0] first_index;
  logic unused_last_part;

  mase_counter #(
      .COUNT(INNER),
      .WIDTH(InnerBits)
  ) u_inner (
      .clk,
      .rst,
      .enable(part_valid),
      .count(unused_inner),
      .last(last_inner)
  );

  mase_counter #(
      .COUNT(TERMS),
      .STEP (Elements),
      .WIDTH(INDEX_WIDTH)
  ) u_index (
      .clk,
      .rst,
      .enable(part_valid && last_inner),
      .count(first_index),
      .last(unused_last_part)
  );

  best_t [OutLanes-1:0] kept;
  best_t [OutLanes-1:0] best;
  best_t [OutLanes-1:0] best_q;

  for (genvar i = 0; i < OutLanes; i++) begin : gen_lane
    logic [Elements-1:0][Width-1:0] data_q;
    best_t [Elements-1:0] value_q;
    best_t part;

    always_ff @(posedge clk) data_q <= data_in_0[i*Elements+:Elements];

    // What lies beyond the row is the least there is, and the first of equals wins.
    for (genvar e = 0; e < Elements; e++) begin : gen_value
      logic is_inside;
      assign is_inside = (e < Tail) ? 1'b1 : !last_term_q;
      always_ff @(posedge clk) begin
        value_q[e] <= '{index: INDEX_WIDTH'(e), value: is_inside ? data_q[e] ^ SignMask : '0};
      end
    end

    for (genvar l = 0; l < TreeLevels; l++) begin : gen_level
      localparam int unsigned Inputs = (Elements + (1 << l) - 1) >> l;
      localparam int unsigned Outputs = (Inputs + 1) / 2;
      best_t [Inputs-1:0] given;
      best_t [Outputs-1:0] winner_q;
      if (l == 0) begin : gen_values
        assign given = value_q;
      end else begin : gen_winners
        assign given = gen_level[l-1].winner_q;
      end
      for (genvar w = 0; w < Outputs; w++) begin : gen_winner
        if (2 * w + 1 == Inputs) begin : gen_single
          always_ff @(posedge clk) winner_q[w] <= given[2*w];
        end else begin : gen_pair
          best_t left;
          best_t right;
          assign left  = given[2*w];
          assign right = given[2*w+1];
          always_ff @(posedge clk) winner_q[w] <= (right.value > left.value) ? right : left;
        end
      end
    end

    if (TreeLevels == 0) begin : gen_single_element
      assign part = value_q[0];
    end else begin : gen_tree
      assign part = gen_level[TreeLevels-1].winner_q[0];
    end

    assign best[i] = (part_first || part.value > kept[i].value)
        ? '{index: first_index + part.index, value: part.value} : kept[i];
    assign result[i] = best_q[i].index;
  end

  mase_round_store #(
      .INNER(INNER),
      .WIDTH(OutLanes * $bits(best_t))
  ) u_store (
      .clk,
      .rst,
      .comes(part_comes),
      .valid(part_valid),
      .reduced(best),
      .kept,
      .reduced_q(best_q)
  );

endmodule

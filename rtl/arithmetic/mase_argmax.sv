// SPDX-License-Identifier: Apache-2.0
// data_out_0 = the index of the largest of TERMS beats, lane by lane, in rounds of INNER beats; with
// ROW of the largest element of a row of so many, over its lanes and its TERMS beats. The first of
// equals wins. Indices are whole numbers without sign.
// Throughput 1 beat per cycle; a result is offered 1 cycle after its last beat.
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

  // The index of the beat's first element, and the beat within a round.
  logic [INDEX_WIDTH-1:0] index_q;
  logic [InnerBits-1:0] inner_q;
  logic first_term;
  logic last_term;
  logic last_inner;
  logic result_ready;

  assign first_term = index_q == '0;
  assign last_term = index_q == INDEX_WIDTH'((TERMS - 1) * Elements);
  assign last_inner = inner_q == InnerBits'(INNER - 1);
  assign data_in_0_ready = !last_term || result_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      index_q <= '0;
      inner_q <= '0;
    end else if (data_in_0_ready) begin
      if (data_in_0_valid) inner_q <= last_inner ? '0 : inner_q + 1'b1;
      if (data_in_0_valid && last_inner) begin
        index_q <= last_term ? '0 : index_q + INDEX_WIDTH'(Elements);
      end
    end
  end

  best_t [OutLanes-1:0] kept[INNER];
  best_t [OutLanes-1:0] earlier;
  best_t [OutLanes-1:0] best;
  logic [OutLanes-1:0][INDEX_WIDTH-1:0] result;

  assign earlier = kept[inner_q];

  for (genvar i = 0; i < OutLanes; i++) begin : gen_lane
    always_comb begin
      best[i] = earlier[i];
      for (int unsigned e = 0; e < Elements; e++) begin
        logic [Width-1:0] value;
        logic within_row;
        value = data_in_0[(ROW > 0) ? e : i] ^ SignMask;
        within_row = ROW == 0 || 32'(index_q) + e < ROW;
        if (within_row && ((first_term && e == 0) || value > best[i].value)) begin
          best[i] = '{index: index_q + INDEX_WIDTH'(e), value: value};
        end
      end
    end
    assign result[i] = best[i].index;
  end

  always_ff @(posedge clk) begin
    if (data_in_0_valid && data_in_0_ready) kept[inner_q] <= best;
  end

  mase_stream_register #(
      .WIDTH(OutLanes * INDEX_WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(data_in_0_valid && last_term),
      .data_in_ready(result_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

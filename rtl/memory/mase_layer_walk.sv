// SPDX-License-Identifier: Apache-2.0
// Addresses of a memory with DEPTH words for each of LAYERS layers: those of a layer WALKS times over,
// then those of the next one, and after the last the first again. `address` is in a register, and
// goes on in a cycle in which `step` is high.
module mase_layer_walk
  import mase_pkg::*;
#(
    parameter int unsigned DEPTH = 4,
    parameter int unsigned LAYERS = 2,
    parameter int unsigned WALKS = 1,
    parameter int unsigned ADDRESS_WIDTH = 3
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     step,
    output logic [ADDRESS_WIDTH-1:0] address
);

  localparam int unsigned Words = LAYERS * DEPTH;
  localparam int unsigned PlaceWidth = index_width(DEPTH);
  localparam int unsigned WalkWidth = index_width(WALKS);

  // Where the layer begins.
  logic [ADDRESS_WIDTH-1:0] begin_q;
  logic [ADDRESS_WIDTH-1:0] following;
  logic [PlaceWidth-1:0] unused_place;
  logic [WalkWidth-1:0] unused_walk;
  logic last_place;
  logic last_walk;

  assign following = (address == ADDRESS_WIDTH'(Words - 1)) ? '0 : address + 1'b1;

  mase_counter #(
      .COUNT(DEPTH),
      .WIDTH(PlaceWidth)
  ) u_place (
      .clk,
      .rst,
      .enable(step),
      .count(unused_place),
      .last(last_place)
  );

  mase_counter #(
      .COUNT(WALKS),
      .WIDTH(WalkWidth)
  ) u_walk (
      .clk,
      .rst,
      .enable(step && last_place),
      .count(unused_walk),
      .last(last_walk)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      address <= '0;
      begin_q <= '0;
    end else if (step) begin
      address <= (last_place && !last_walk) ? begin_q : following;
      if (last_place && last_walk) begin_q <= following;
    end
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst) begin
      in_layer :
      assert (32'(address) == 32'(begin_q) + 32'(unused_place)
          && {1'b0, begin_q} % (ADDRESS_WIDTH + 1)'(DEPTH) == '0 && 32'(begin_q) < Words);
    end
  end
`endif  // MASE_CHECKS

endmodule

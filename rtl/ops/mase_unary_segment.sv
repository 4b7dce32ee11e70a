// SPDX-License-Identifier: Apache-2.0
// Finds the segment of an operand's code and the offset in it, as mase_unary_piecewise says.
// Combinational.
module mase_unary_segment #(
    parameter int unsigned WIDTH = 16,
    parameter bit SIGNED = 1,
    parameter int unsigned REGIONS = 2,
    parameter int unsigned DOWNWARD_REGIONS = 1,
    parameter int KNOT_0 = 0,
    parameter int KNOT_1 = 0,
    parameter int KNOT_2 = 0,
    parameter int unsigned BASE_0 = 0,
    parameter int unsigned BASE_1 = 96,
    parameter int unsigned BASE_2 = 0,
    parameter int unsigned BASE_3 = 0,
    parameter int unsigned DISTANCE_WIDTH = 15,
    parameter int unsigned OCTAVES = 5,
    parameter int unsigned INDEX_BITS = 4,
    parameter int unsigned ADDRESS_WIDTH = 8,
    localparam int unsigned OffsetWidth = DISTANCE_WIDTH - 1 - INDEX_BITS
) (
    input  logic [        WIDTH-1:0] data_in,
    output logic [ADDRESS_WIDTH-1:0] address,
    output logic [  OffsetWidth-1:0] offset
);

  // Signed codes, one bit wider so that differences and the ends of the range fit.
  typedef logic signed [WIDTH:0] code_t;
  localparam code_t Lowest = code_t'(1) <<< (WIDTH - 1);
  localparam logic [3:0][WIDTH:0] Lows = {
    code_t'(KNOT_2), code_t'(KNOT_1), code_t'(KNOT_0), -Lowest
  };
  localparam logic [3:0][WIDTH:0] NextLows = {
    Lowest, code_t'(KNOT_2), code_t'(KNOT_1), code_t'(KNOT_0)
  };
  localparam logic [3:0][ADDRESS_WIDTH-1:0] Bases = {
    ADDRESS_WIDTH'(BASE_3), ADDRESS_WIDTH'(BASE_2), ADDRESS_WIDTH'(BASE_1), ADDRESS_WIDTH'(BASE_0)
  };

  localparam logic [3:0] Downward = ~(4'hf << DOWNWARD_REGIONS);

  code_t code;
  code_t distance;
  logic [ADDRESS_WIDTH-1:0] base;

  assign code = code_t'(signed'({data_in[WIDTH-1] ^ !SIGNED, data_in[WIDTH-2:0]}));

  always_comb begin
    base = Bases[0];
    distance = '0;
    for (int unsigned r = 0; r < REGIONS; r++) begin
      if (r == 0 || code >= code_t'(Lows[r])) begin
        base = Bases[r];
        if (Downward[r]) begin
          distance = code_t'(r + 1 == REGIONS ? Lowest : NextLows[r]) - 1'b1 - code;
        end else begin
          distance = code - code_t'(Lows[r]);
        end
      end
    end
  end

  // Aligns the leading one, or the place of 2**BASE_EXPONENT, to the top.
  logic [DISTANCE_WIDTH-1:0] shifted;
  logic [ADDRESS_WIDTH-1:0] octave;

  always_comb begin
    shifted = DISTANCE_WIDTH'(distance) << (OCTAVES - 1);
    octave  = '0;
    for (int unsigned o = 1; o < OCTAVES; o++) begin
      if (distance[DISTANCE_WIDTH-OCTAVES+o]) begin
        shifted = DISTANCE_WIDTH'(distance) << (OCTAVES - 1 - o);
        octave  = ADDRESS_WIDTH'(o);
      end
    end
  end

  logic [ADDRESS_WIDTH-1:0] group;
  logic [INDEX_BITS-1:0] index;
  logic leading;

  assign {leading, index, offset} = shifted;
  assign group = octave + ADDRESS_WIDTH'(leading);
  assign address = base + (group << INDEX_BITS) + ADDRESS_WIDTH'(index);

endmodule

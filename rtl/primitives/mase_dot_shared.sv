// SPDX-License-Identifier: Apache-2.0
// Two or four dot products with the elements `shared` by all: sum[j] is the sum of
// shared[i] * own[j][i] over the lanes i, exact.
// Latency 2 + ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
//
// Synthesis for Xcup (UltraScale+) makes all products of a lane in one DSP48E2. Its pre-adder packs
// the operands, own[j][i] * 2**(Offset * j) for all j, and its multiplier multiplies them by shared[i].
// Of two, its adder adds what comes from the block before, so that the low Offset bits and those above
// them are two sums. The first block also adds a half of the low field, which keeps that field from
// becoming negative and borrowing from the other.
// Of four, every field has a bit less than a product: its largest value, that of both most negative
// operands, leaves one bit free. The block adds to each field a half less one, so that it is not
// negative and does not overflow; what is missing is added for all lanes at once. Operands,
// packed operands and products, and the sums of two, lie in registers of the block, in the same
// cycles as here without a DEVICE.
module mase_dot_shared
  import mase_pkg::*;
#(
    parameter int unsigned LANES = 4,
    parameter int unsigned RESULTS = 2,
    parameter int unsigned SHARED_WIDTH = 8,
    parameter bit SHARED_SIGNED = 1,
    parameter int unsigned OWN_WIDTH = 8,
    parameter bit OWN_SIGNED = 1,
    parameter int unsigned SUM_WIDTH = 18,
    parameter device_e DEVICE = Generic
) (
    input  logic                                          clk,
    input  logic             [LANES-1:0][SHARED_WIDTH-1:0] shared,
    input  logic [RESULTS-1:0][LANES-1:0][  OWN_WIDTH-1:0] own,
    output logic [RESULTS-1:0]           [  SUM_WIDTH-1:0] sum
);

  // How many lanes one chain of blocks adds up; 0 where the operands are too wide.
  localparam int unsigned Chain = (RESULTS == 2)
      ? pair_chain(SHARED_WIDTH, SHARED_SIGNED, OWN_WIDTH, OWN_SIGNED)
      : quad_fits(SHARED_WIDTH, SHARED_SIGNED, OWN_WIDTH, OWN_SIGNED) ? 1 : 0;

  if (RESULTS != 2 && RESULTS != 4) begin : gen_results_check
    $error("RESULTS must be 2 or 4");
  end
  if (DEVICE != Generic && Chain == 0) begin : gen_width_check
    $error("no %0d products of these widths fit into one block", RESULTS);
  end

`ifdef SYNTHESIS
  localparam bit Primitive = DEVICE == Xcup;
`else
  localparam bit Primitive = 1'b0;
`endif  // SYNTHESIS

  if (!Primitive) begin : gen_generic
    logic [LANES-1:0][SHARED_WIDTH-1:0] shared_q;
    logic [RESULTS-1:0][LANES-1:0][OWN_WIDTH-1:0] own_q;

    always_ff @(posedge clk) begin
      shared_q <= shared;
      own_q <= own;
    end

    for (genvar j = 0; j < RESULTS; j++) begin : gen_sum
      mase_dot_product #(
          .LANES(LANES),
          .DATA_WIDTH(SHARED_WIDTH),
          .DATA_SIGNED(SHARED_SIGNED),
          .WEIGHT_WIDTH(OWN_WIDTH),
          .WEIGHT_SIGNED(OWN_SIGNED),
          .SUM_WIDTH(SUM_WIDTH)
      ) u_dot (
          .clk,
          .data(shared_q),
          .weight(own_q[j]),
          .sum(sum[j])
      );
    end
  end

`ifdef SYNTHESIS
  if (Primitive) begin : gen_xcup
    localparam int unsigned Group = (LANES < Chain) ? LANES : Chain;
    localparam int unsigned Groups = ceil_div(LANES, Group);
    localparam int unsigned Levels = $clog2(Group);
    localparam int unsigned ProductWidth = SHARED_WIDTH + (SHARED_SIGNED ? 0 : 1)
        + OWN_WIDTH + (OWN_SIGNED ? 0 : 1);
    localparam int unsigned Offset = (RESULTS == 2)
        ? pair_offset(OWN_WIDTH, OWN_SIGNED) : ProductWidth - 1;
    localparam int unsigned GroupWidth = ProductWidth + Levels;
    // A half of each field that others lie above, or of each field a half less one.
    localparam bit [47:0] Fields = 48'(1) | 48'(1) << Offset | 48'(1) << 2 * Offset
        | 48'(1) << 3 * Offset;
    localparam bit [47:0] Added = (RESULTS == 2)
        ? 48'(1) << (Offset - 1) : ((48'(1) << (Offset - 1)) - 48'(1)) * Fields;

    logic [RESULTS-1:0][Groups-1:0][GroupWidth-1:0] part;

    for (genvar g = 0; g < Groups; g++) begin : gen_group
      localparam int unsigned Lanes = (g + 1 < Groups) ? Group : LANES - g * Group;
      logic [Lanes:0][47:0] cascade;
      logic [Lanes-1:0][47:0] product;
      assign cascade[0] = '0;

      for (genvar i = 0; i < Lanes; i++) begin : gen_lane
        localparam int unsigned Lane = g * Group + i;
        // The last two add in the second cycle, those before them in the first one.
        localparam int unsigned Late = (Levels == 2 && i + 2 >= Lanes) ? 1 : 0;
        localparam bit Ends = i + 1 == Lanes || (Levels == 2 && i + 3 == Lanes);
        logic [26:0] low;
        logic [26:0] high;
        logic [17:0] factor;
        if (RESULTS == 4) begin : gen_four
          // The operands plus a half of their range, side by side, less that half.
          localparam bit [OWN_WIDTH-1:0] Half = OWN_WIDTH'(OWN_SIGNED) << (OWN_WIDTH - 1);
          for (genvar j = 0; j < 4; j++) begin : gen_field
            localparam int unsigned Next = (j < 3) ? (j + 1) * Offset : 27;
            assign low[Next-1:j*Offset] = (Next - j * Offset)'(own[j][Lane] ^ Half);
          end
          assign high = -27'(27'(Fields) * 27'(Half));
        end else if (OWN_SIGNED) begin : gen_own_signed
          assign low  = 27'(signed'(own[0][Lane]));
          assign high = 27'(signed'(own[1][Lane])) << Offset;
        end else begin : gen_own_unsigned
          assign low  = 27'(own[0][Lane]);
          assign high = 27'(own[1][Lane]) << Offset;
        end
        if (SHARED_SIGNED) begin : gen_shared_signed
          assign factor = 18'(signed'(shared[Lane]));
        end else begin : gen_shared_unsigned
          assign factor = 18'(shared[Lane]);
        end

        DSP48E2 #(
            .AMULTSEL("AD"),
            .AREG(Late),
            .ACASCREG(Late),
            .DREG(Late),
            .ADREG(1),
            .BREG(1 + Late),
            .BCASCREG(1 + Late),
            .MREG(1),
            .PREG((Ends && Levels > 0) ? 1 : 0),
            .ALUMODEREG(0),
            .CARRYINREG(0),
            .CARRYINSELREG(0),
            .CREG(1),
            .INMODEREG(0),
            .OPMODEREG(0),
            .RND(Added)
        ) u_block (
            .CLK(clk),
            .A({3'b000, low}),
            .D(high),
            .B(factor),
            .C('1),
            .PCIN(cascade[i]),
            .PCOUT(cascade[i+1]),
            .P(product[i]),
            // The product, and the constant or what comes from the block before.
            .OPMODE((i == 0) ? 9'b10_000_01_01 : 9'b00_001_01_01),
            // The sum of D and A is multiplied.
            .INMODE(5'b00100),
            .ALUMODE(4'b0000),
            .CARRYIN(1'b0),
            .CARRYINSEL(3'b000),
            .CEA1(1'b1),
            .CEA2(1'b1),
            .CEAD(1'b1),
            .CEB1(1'b1),
            .CEB2(1'b1),
            .CED(1'b1),
            .CEM(1'b1),
            .CEP(1'b1),
            .CEC(1'b0),
            .CEALUMODE(1'b1),
            .CECARRYIN(1'b1),
            .CECTRL(1'b1),
            .CEINMODE(1'b1),
            .RSTA(1'b0),
            .RSTB(1'b0),
            .RSTC(1'b0),
            .RSTD(1'b0),
            .RSTM(1'b0),
            .RSTP(1'b0),
            .RSTALLCARRYIN(1'b0),
            .RSTALUMODE(1'b0),
            .RSTCTRL(1'b0),
            .RSTINMODE(1'b0),
            .ACIN('0),
            .BCIN('0),
            .CARRYCASCIN(1'b0),
            .MULTSIGNIN(1'b0),
            .ACOUT(),
            .BCOUT(),
            .CARRYCASCOUT(),
            .CARRYOUT(),
            .MULTSIGNOUT(),
            .OVERFLOW(),
            .PATTERNBDETECT(),
            .PATTERNDETECT(),
            .UNDERFLOW(),
            .XOROUT()
        );
      end

      // Less the half that was added to a field that others lie above.
      if (RESULTS == 2) begin : gen_parts
        logic signed [Offset-1:0] low_sum;
        logic signed [47-Offset:0] high_sum;
        assign low_sum = {~product[Lanes-1][Offset-1], product[Lanes-1][Offset-2:0]};
        assign high_sum = product[Lanes-1][47:Offset];
        assign part[0][g] = GroupWidth'(low_sum);
        assign part[1][g] = GroupWidth'(high_sum);
      end else begin : gen_four_parts
        // A field is one too small: the first lane of some adds what they lack.
        localparam int unsigned Some = 1 << (ProductWidth - 2);
        localparam int unsigned Lacking = (g % Some != 0) ? 0
            : (LANES - g < Some) ? LANES - g : Some;
        for (genvar j = 0; j < 4; j++) begin : gen_part
          logic signed [Offset-1:0] field;
          assign field = {~product[0][(j+1)*Offset-1], product[0][j*Offset+:Offset-1]};
          assign part[j][g] = GroupWidth'(field) + GroupWidth'(Lacking);
        end
      end
    end

    for (genvar j = 0; j < RESULTS; j++) begin : gen_sum
      mase_adder_tree #(
          .LANES(Groups),
          .WIDTH(GroupWidth)
      ) u_tree (
          .clk,
          .addend(part[j]),
          .sum(sum[j])
      );
    end
  end
`endif  // SYNTHESIS

endmodule

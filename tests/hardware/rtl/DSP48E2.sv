// SPDX-License-Identifier: Apache-2.0
// The DSP block of UltraScale+ as UG579 describes it, of which what our primitives use is modelled:
// the pre-adder D + A, the multiplier, the adder of product, constant and cascade, and the registers
// between them. Anything else that is asked for stops the simulation.
module DSP48E2 #(
    parameter AMULTSEL = "A",
    parameter BMULTSEL = "B",
    parameter PREADDINSEL = "A",
    parameter USE_MULT = "MULTIPLY",
    parameter integer AREG = 1,
    parameter integer ACASCREG = 1,
    parameter integer DREG = 1,
    parameter integer ADREG = 1,
    parameter integer BREG = 1,
    parameter integer BCASCREG = 1,
    parameter integer MREG = 1,
    parameter integer PREG = 1,
    parameter integer CREG = 1,
    parameter integer ALUMODEREG = 1,
    parameter integer CARRYINREG = 1,
    parameter integer CARRYINSELREG = 1,
    parameter integer INMODEREG = 1,
    parameter integer OPMODEREG = 1,
    parameter [47:0] RND = 48'd0
) (
    input CLK,
    input [29:0] A,
    input [26:0] D,
    input [17:0] B,
    input [47:0] C,
    input [47:0] PCIN,
    output [47:0] PCOUT,
    output [47:0] P,
    input [8:0] OPMODE,
    input [4:0] INMODE,
    input [3:0] ALUMODE,
    input CARRYIN,
    input [2:0] CARRYINSEL,
    input CEA1,
    input CEA2,
    input CEAD,
    input CEB1,
    input CEB2,
    input CED,
    input CEM,
    input CEP,
    input CEC,
    input CEALUMODE,
    input CECARRYIN,
    input CECTRL,
    input CEINMODE,
    input RSTA,
    input RSTB,
    input RSTC,
    input RSTD,
    input RSTM,
    input RSTP,
    input RSTALLCARRYIN,
    input RSTALUMODE,
    input RSTCTRL,
    input RSTINMODE,
    input [29:0] ACIN,
    input [17:0] BCIN,
    input CARRYCASCIN,
    input MULTSIGNIN,
    output [29:0] ACOUT,
    output [17:0] BCOUT,
    output CARRYCASCOUT,
    output [3:0] CARRYOUT,
    output MULTSIGNOUT,
    output OVERFLOW,
    output PATTERNBDETECT,
    output PATTERNDETECT,
    output UNDERFLOW,
    output [7:0] XOROUT
);

  logic signed [26:0] a[3];
  logic signed [26:0] d[2];
  logic signed [26:0] ad[2];
  logic signed [17:0] b[3];
  logic signed [44:0] m[2];
  logic [47:0] p[2];
  logic [47:0] w;
  logic [47:0] z;

  assign a[0] = A[26:0];
  assign d[0] = D;
  assign b[0] = B;
  // The sum of the pre-adder has no bit more than its operands.
  assign ad[0] = d[DREG] + a[AREG];
  assign m[0] = 45'(ad[ADREG]) * 45'(b[BREG]);
  assign w = (OPMODE[8:7] == 2'b10) ? RND : '0;
  assign z = (OPMODE[6:4] == 3'b001) ? PCIN : '0;
  assign p[0] = 48'(signed'(m[MREG])) + w + z;
  assign P = p[PREG];
  assign PCOUT = p[PREG];

  always_ff @(posedge CLK) begin
    a[1] <= a[0];
    a[2] <= a[1];
    d[1] <= d[0];
    ad[1] <= ad[0];
    b[1] <= b[0];
    b[2] <= b[1];
    m[1] <= m[0];
    p[1] <= p[0];
  end

  initial begin
    if (AMULTSEL != "AD" || BMULTSEL != "B" || PREADDINSEL != "A" || USE_MULT != "MULTIPLY") begin
      $fatal(1, "not modelled: what is multiplied");
    end
    if (ALUMODEREG + CARRYINREG + CARRYINSELREG + INMODEREG + OPMODEREG != 0) begin
      $fatal(1, "not modelled: registers of modes");
    end
    // UG579: the cascade of an operand has its registers, or one less of two.
    if (ACASCREG != AREG && !(AREG == 2 && ACASCREG == 1)) $fatal(1, "ACASCREG %0d", ACASCREG);
    if (BCASCREG != BREG && !(BREG == 2 && BCASCREG == 1)) $fatal(1, "BCASCREG %0d", BCASCREG);
  end

  always_comb begin
    enables: assert (&{CEA1, CEA2, CEAD, CEB1, CEB2, CED, CEM, CEP});
    resets: assert ({RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTALLCARRYIN, RSTALUMODE, RSTCTRL} == 0);
    modes: assert (INMODE == 5'b00100 && ALUMODE == 0 && !CARRYIN && CARRYINSEL == 0);
    product: assert (OPMODE[3:0] == 4'b0101 && OPMODE[8:7] inside {2'b00, 2'b10});
    sum: assert (OPMODE[6:4] inside {3'b000, 3'b001});
    nothing: assert (!OPMODE[6] && !RSTINMODE && ACIN == 0 && BCIN == 0 && !CARRYCASCIN);
  end

endmodule

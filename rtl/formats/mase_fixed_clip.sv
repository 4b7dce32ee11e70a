// SPDX-License-Identifier: Apache-2.0
// out = min(max(in, LOW), HIGH), on one code. LOW and HIGH are bit patterns of the code, LOW <= HIGH.
// A bound at the end of the code's range costs nothing. Combinational, or with STAGED a cycle later:
// a register lies between the comparisons and what they choose.
module mase_fixed_clip #(
    parameter int unsigned WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int LOW = 0,
    parameter int HIGH = 127,
    parameter bit STAGED = 0
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] data_in,
    output logic [WIDTH-1:0] data_out
);

  // With the sign inverted, two's complement codes are in unsigned order.
  localparam logic [WIDTH-1:0] SignMask = WIDTH'(SIGNED) << (WIDTH - 1);
  localparam logic [WIDTH-1:0] Low = WIDTH'(unsigned'(LOW));
  localparam logic [WIDTH-1:0] High = WIDTH'(unsigned'(HIGH));

  logic below;
  logic above;

  if ((Low ^ SignMask) == '0) begin : gen_no_low
    assign below = 1'b0;
  end else if (SIGNED && Low == '0) begin : gen_zero
    assign below = data_in[WIDTH-1];
  end else begin : gen_low
    assign below = (data_in ^ SignMask) < (Low ^ SignMask);
  end

  if ((High ^ SignMask) == '1) begin : gen_no_high
    assign above = 1'b0;
  end else begin : gen_high
    assign above = (data_in ^ SignMask) > (High ^ SignMask);
  end

  if (STAGED) begin : gen_staged
    logic below_q;
    logic above_q;
    logic [WIDTH-1:0] data_q;
    always_ff @(posedge clk) begin
      below_q <= below;
      above_q <= above;
      data_q  <= data_in;
    end
    assign data_out = below_q ? Low : above_q ? High : data_q;
  end else begin : gen_combinational
    logic unused_clk;
    assign unused_clk = clk;
    assign data_out   = below ? Low : above ? High : data_in;
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// in * 2**exponent as a sign and significand * 2**(place + 1 - OUT_WIDTH), with the leading one at the
// top and at `place`. What lies below the significand is rounded to odd: its last bit is one where
// anything is lost. The significand of zero is zero, at any place. Two's complement input.
// Latency 6 cycles, NormalizeStages, throughput one per cycle; it never stops.
module mase_normalize
  import mase_pkg::*;
#(
    parameter int unsigned IN_WIDTH = 16,
    parameter int unsigned EXPONENT_WIDTH = $bits(exponent_t),
    parameter int unsigned OUT_WIDTH = 8,

    localparam int unsigned PlaceWidth = EXPONENT_WIDTH + 2
) (
    input  logic                             clk,
    input  logic        [      IN_WIDTH-1:0] data_in,
    input  logic signed [EXPONENT_WIDTH-1:0] exponent,
    output logic                             negative,
    output logic signed [    PlaceWidth-1:0] place,
    output logic        [     OUT_WIDTH-1:0] significand
);

  // Three shifts to the left, each by a digit of the number of zeros on top.
  localparam int unsigned Digits = 3;
  localparam int unsigned Radix =
      (IN_WIDTH <= 8) ? 2 : (IN_WIDTH <= 27) ? 3 : (IN_WIDTH <= 64) ? 4 : 5;
  localparam int unsigned DigitWidth = $clog2(Radix);
  localparam int unsigned ShiftWidth = $clog2(Radix * Radix * Radix);
  localparam int unsigned Rest = (IN_WIDTH > OUT_WIDTH - 1) ? IN_WIDTH + 1 - OUT_WIDTH : 1;

  if (Radix * Radix * Radix < IN_WIDTH) begin : gen_width_check
    $error("IN_WIDTH must be %0d or less", Radix * Radix * Radix);
  end

  function automatic logic [DigitWidth-1:0] zeros(input logic [IN_WIDTH-1:0] value,
                                                  input int unsigned group);
    logic some;
    some  = 1'b0;
    zeros = '0;
    for (int unsigned d = 1; d < Radix; d++) begin
      for (int unsigned b = (d - 1) * group; b < d * group && b < IN_WIDTH; b++) begin
        some |= value[IN_WIDTH-1-b];
      end
      if (!some) zeros = DigitWidth'(d);
    end
  endfunction

  logic [IN_WIDTH-1:0] magnitude_q;
  logic [IN_WIDTH-1:0] value_q[Digits+1];
  logic [DigitWidth-1:0] digit_q[Digits];
  logic [ShiftWidth-1:0] shift_q[Digits+1];
  logic [NormalizeStages-1:0] negative_q;
  logic signed [PlaceWidth-1:0] exponent_q[NormalizeStages-1];

  always_ff @(posedge clk) begin
    magnitude_q <= data_in[IN_WIDTH-1] ? -data_in : data_in;
    negative_q <= NormalizeStages'({negative_q, data_in[IN_WIDTH-1]});
    exponent_q[0] <= PlaceWidth'(exponent);
    exponent_q[1] <= exponent_q[0] + PlaceWidth'(IN_WIDTH - 1);
    for (int s = 2; s < int'(NormalizeStages) - 1; s++) exponent_q[s] <= exponent_q[s-1];
    value_q[0] <= magnitude_q;
    digit_q[0] <= zeros(magnitude_q, Radix * Radix);
  end
  assign shift_q[0] = '0;

  for (genvar d = 0; d < Digits; d++) begin : gen_digit
    localparam int unsigned Group = (d == 0) ? Radix * Radix : (d == 1) ? Radix : 1;
    logic [IN_WIDTH-1:0] shifted;
    always_comb begin
      shifted = value_q[d];
      for (int unsigned k = 1; k < Radix; k++) begin
        if (digit_q[d] == DigitWidth'(k)) shifted = value_q[d] << (k * Group);
      end
    end
    always_ff @(posedge clk) begin
      value_q[d+1] <= shifted;
      shift_q[d+1] <= shift_q[d] + ShiftWidth'(32'(digit_q[d]) * Group);
    end
    if (d + 1 < Digits) begin : gen_next
      always_ff @(posedge clk) digit_q[d+1] <= zeros(shifted, Group / Radix);
    end
  end

  assign negative = negative_q[NormalizeStages-1];

  always_ff @(posedge clk) begin
    place <= exponent_q[NormalizeStages-2] - PlaceWidth'({1'b0, shift_q[Digits]});
  end

  if (IN_WIDTH > OUT_WIDTH - 1) begin : gen_rest
    always_ff @(posedge clk) begin
      significand <= {value_q[Digits][IN_WIDTH-1:Rest], |value_q[Digits][Rest-1:0]};
    end
  end else begin : gen_all
    always_ff @(posedge clk) begin
      significand <= OUT_WIDTH'(value_q[Digits]) << (OUT_WIDTH - IN_WIDTH);
    end
  end

endmodule

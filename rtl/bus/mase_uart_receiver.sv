// SPDX-License-Identifier: Apache-2.0
// A receiver of bytes on a serial line: one start bit, eight data bits, the low one first, one stop
// bit, each CLOCKS_PER_BIT cycles long. `data_valid` is high for a cycle with each byte, and
// `broken` for a cycle where the stop bit is missing; the line must be idle before the next byte
// then.
module mase_uart_receiver #(
    parameter int unsigned CLOCKS_PER_BIT = 16
) (
    input  logic       clk,
    input  logic       rst,
    input  logic       rx,
    output logic [7:0] data,
    output logic       data_valid,
    output logic       broken,
    output logic       line
);

  localparam int unsigned CountWidth = $clog2(CLOCKS_PER_BIT);
  localparam logic [CountWidth-1:0] Whole = CountWidth'(CLOCKS_PER_BIT - 1);
  localparam logic [CountWidth-1:0] Half = CountWidth'(CLOCKS_PER_BIT / 2 - 1);

  if (CLOCKS_PER_BIT < 4) begin : gen_clocks_check
    $error("CLOCKS_PER_BIT must be 4 or more");
  end

  (* async_reg = "true" *) logic [2:0] line_q;
  logic [CountWidth-1:0] count_q;
  // Bits that are still to come; of the byte and its two neighbours.
  logic [3:0] left_q;
  logic wait_q;
  logic sample;

  assign line   = line_q[2];
  assign sample = count_q == '0;

  always_ff @(posedge clk) begin
    if (rst) line_q <= '1;
    else line_q <= {line_q[1:0], rx};
  end

  always_ff @(posedge clk) begin
    data_valid <= 1'b0;
    broken <= 1'b0;
    if (rst) begin
      left_q  <= '0;
      wait_q  <= 1'b1;
      count_q <= '0;
    end else if (wait_q) begin
      if (line) wait_q <= 1'b0;
    end else if (left_q == '0) begin
      count_q <= Half;
      if (!line) left_q <= 4'd10;
    end else begin
      count_q <= sample ? Whole : count_q - 1'b1;
      if (sample) begin
        left_q <= left_q - 1'b1;
        data   <= {line, data[7:1]};
        // A start bit that was none.
        if (left_q == 4'd10 && line) left_q <= '0;
        if (left_q == 4'd1) begin
          data <= data;
          data_valid <= line;
          broken <= !line;
          wait_q <= !line;
        end
      end
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// A sender of bytes on a serial line, the counterpart of mase_uart_receiver. A byte takes ten bits,
// and the next one follows without a pause.
module mase_uart_sender #(
    parameter int unsigned CLOCKS_PER_BIT = 16
) (
    input  logic       clk,
    input  logic       rst,
    input  logic [7:0] data,
    input  logic       data_valid,
    output logic       data_ready,
    output logic       tx
);

  localparam int unsigned CountWidth = $clog2(CLOCKS_PER_BIT);

  logic [CountWidth-1:0] count_q;
  logic [3:0] left_q;
  logic [8:0] bits_q;
  logic last;

  assign tx = bits_q[0];
  assign last = count_q == CountWidth'(CLOCKS_PER_BIT - 1);
  assign data_ready = left_q == '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      count_q <= '0;
      left_q  <= '0;
      bits_q  <= '1;
    end else if (data_ready) begin
      count_q <= '0;
      if (data_valid) begin
        left_q <= 4'd10;
        bits_q <= {data, 1'b0};
      end
    end else begin
      count_q <= last ? '0 : count_q + 1'b1;
      if (last) begin
        left_q <= left_q - 1'b1;
        bits_q <= {1'b1, bits_q[8:1]};
      end
    end
  end

endmodule

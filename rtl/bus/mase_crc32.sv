// SPDX-License-Identifier: Apache-2.0
// The checksum of a row of bytes: CRC-32 of IEEE 802.3, reflected, as zlib computes it. A byte
// takes eight cycles, in which `busy` is high. `crc` is that of the bytes since `clear`.
module mase_crc32 (
    input  logic        clk,
    input  logic        clear,
    input  logic [ 7:0] data,
    input  logic        data_valid,
    output logic        busy,
    output logic [31:0] crc
);

  localparam logic [31:0] Polynomial = 32'hedb88320;

  logic [31:0] crc_q;
  logic [7:0] data_q;
  logic [7:0] left_q;

  assign busy = left_q[0];
  assign crc  = ~crc_q;

  always_ff @(posedge clk) begin
    if (clear) begin
      crc_q  <= '1;
      left_q <= '0;
    end else if (data_valid) begin
      data_q <= data;
      left_q <= '1;
    end else if (busy) begin
      left_q <= left_q >> 1;
      data_q <= data_q >> 1;
      crc_q  <= (crc_q >> 1) ^ ((crc_q[0] ^ data_q[0]) ? Polynomial : '0);
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// Keeps an AXI4 read port right while what asks is reset: an address on offer stays so, and what
// answers the bursts from before is dropped. `cancel` is high while the design is in reset; `idle`
// says that all bursts were answered. An address is offered the cycle after it came.
module mase_axi_read_guard #(
    parameter int unsigned WIDTH = 40,
    parameter int unsigned OUTSTANDING = 4
) (
    input  logic clk,
    input  logic rst,
    input  logic cancel,
    output logic idle,

    input  logic [WIDTH-1:0] data_in,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready,

    input  logic m_axi_rvalid,
    input  logic m_axi_rready,
    input  logic m_axi_rlast,
    output logic rvalid
);

  logic ready;
  logic some;
  logic unused_single;

  assign data_in_ready = ready && !cancel;
  assign rvalid = m_axi_rvalid && !cancel;
  assign idle = !some;

  mase_stream_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(2)
  ) u_addresses (
      .clk,
      .rst,
      .data_in,
      .data_in_valid(data_in_valid && !cancel),
      .data_in_ready(ready),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

  mase_level #(
      .MOST(OUTSTANDING)
  ) u_out (
      .clk,
      .rst,
      .more(data_in_valid && data_in_ready),
      .less(m_axi_rvalid && m_axi_rready && m_axi_rlast),
      .some,
      .single(unused_single)
  );

endmodule

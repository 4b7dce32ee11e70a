// SPDX-License-Identifier: Apache-2.0
// One AXI4 read port that SOURCES requesters share in turn: each request becomes one INCR burst of
// whole beats, whose ID is the requester's number. At most OUTSTANDING bursts are on their way.
//
// A request is on the address channel the cycle after it was made, one request per cycle. Beats are
// handed on in the cycle in which they come and always have a place (see mase_axi_source).
// `m_axi_error` stays high after an error response, or a beat while no burst is due. What answers is
// reset with `rst`, or `rst` waits until all bursts are answered: beats of bursts from before a reset
// would be taken for those that are asked for behind it.
module mase_axi_read_port #(
    parameter int unsigned SOURCES = 2,
    parameter int unsigned ADDRESS_WIDTH = 32,
    parameter int unsigned DATA_WIDTH = 64,
    parameter int unsigned ID_WIDTH = 1,
    parameter int unsigned OUTSTANDING = 4,
    parameter logic [ADDRESS_WIDTH-1:0] BASE_ADDRESS = '0
) (
    input logic clk,
    input logic rst,

    input  logic [SOURCES-1:0][ADDRESS_WIDTH-1:0] request_offset,
    input  logic [SOURCES-1:0][              7:0] request_length,
    input  logic [SOURCES-1:0]                    request_valid,
    output logic [SOURCES-1:0]                    request_ready,

    output logic [DATA_WIDTH-1:0] beat,
    output logic [   SOURCES-1:0] beat_valid,

    output logic [ADDRESS_WIDTH-1:0] m_axi_araddr,
    output logic [     ID_WIDTH-1:0] m_axi_arid,
    output logic [              7:0] m_axi_arlen,
    output logic [              2:0] m_axi_arsize,
    output logic [              1:0] m_axi_arburst,
    output logic [              3:0] m_axi_arcache,
    output logic [              2:0] m_axi_arprot,
    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,

    input  logic [DATA_WIDTH-1:0] m_axi_rdata,
    input  logic [  ID_WIDTH-1:0] m_axi_rid,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready,

    output logic m_axi_error
);

  localparam int unsigned CountWidth = $clog2(OUTSTANDING + 1);

  if (BASE_ADDRESS % ADDRESS_WIDTH'(4096) != 0) begin : gen_base_check
    $error("BASE_ADDRESS must be a multiple of 4096");
  end
  if (SOURCES > 2 ** ID_WIDTH) begin : gen_id_check
    $error("ID_WIDTH must number the sources");
  end

  // INCR bursts of the bus's width; normal, not cacheable, bufferable; data, secure, unprivileged.
  assign m_axi_arsize = 3'($clog2(DATA_WIDTH / 8));
  assign m_axi_arburst = 2'b01;
  assign m_axi_arcache = 4'b0011;
  assign m_axi_arprot = 3'b000;
  assign m_axi_rready = 1'b1;

  // Requesters whose turn comes before all others'.
  logic [SOURCES-1:0] next_q;
  logic [SOURCES-1:0] granted;
  logic [CountWidth-1:0] outstanding_q;
  // Whether that is OUTSTANDING: requests have far to go, and do not wait for a comparison.
  logic full_q;
  logic accept;
  logic ask;
  logic done;

  assign accept = (!m_axi_arvalid || m_axi_arready) && !full_q;

  for (genvar i = 0; i < SOURCES; i++) begin : gen_request
    // Whether the turn is this one's does not depend on whether it asks.
    logic [SOURCES-1:0] asking;
    logic [SOURCES-1:0] first;
    always_comb begin
      asking = request_valid;
      asking[i] = 1'b1;
    end
    assign first = |(asking & next_q) ? asking & next_q : asking;
    assign request_ready[i] = accept && first == (first & ~((SOURCES'(1) << i) - SOURCES'(1)))
        && first[i];
    assign beat_valid[i] = m_axi_rvalid && m_axi_rid == ID_WIDTH'(i);
  end

  assign granted = request_valid & request_ready;
  assign ask = |granted;
  assign done = m_axi_rvalid && m_axi_rlast;
  assign beat = m_axi_rdata;

  logic [ADDRESS_WIDTH-1:0] offset;
  logic [7:0] length;
  logic [ID_WIDTH-1:0] number;
  logic [SOURCES-1:0] after;

  always_comb begin
    offset = '0;
    length = '0;
    number = '0;
    after  = '0;
    for (int unsigned i = 0; i < SOURCES; i++) begin
      if (granted[i]) begin
        offset = request_offset[i];
        length = request_length[i];
        number = ID_WIDTH'(i);
        after  = ~((SOURCES'(2) << i) - SOURCES'(1));
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      m_axi_arvalid <= 1'b0;
      m_axi_error <= 1'b0;
      outstanding_q <= '0;
      full_q <= 1'b0;
      next_q <= '0;
    end else begin
      if (!m_axi_arvalid || m_axi_arready) m_axi_arvalid <= ask;
      if (ask) next_q <= after;
      outstanding_q <= outstanding_q + CountWidth'(ask) - CountWidth'(done);
      if (ask != done) full_q <= ask && outstanding_q == CountWidth'(OUTSTANDING - 1);
      if (m_axi_rvalid && (m_axi_rresp != 2'b00 || outstanding_q == '0)) m_axi_error <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (ask) begin
      m_axi_araddr <= BASE_ADDRESS + offset;
      m_axi_arlen  <= length;
      m_axi_arid   <= number;
    end
  end

`ifdef MASE_CHECKS
  always_comb begin
    if (!rst && !m_axi_error) begin
      full_matches : assert (full_q == (outstanding_q == CountWidth'(OUTSTANDING)));
    end
  end
`endif  // MASE_CHECKS

endmodule

// SPDX-License-Identifier: Apache-2.0
// A wire with a fault that is chosen by a memory image when the simulation starts, so that one
// build serves every fault:
//   0 none                 3 lane 0 changes while the consumer is not ready
//   1 swallows beat 10     4 valid falls after a cycle in which the consumer was not ready
//   2 sends beat 10 twice  5 nothing moves after beat 9    6 swaps lanes 0 and 1
//   7 offers a beat only to a consumer that is ready       8 lane 0 is one too high
module fault #(
    parameter int unsigned LANES = 4,
    parameter string INIT_FILE = ""
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [LANES-1:0][7:0] data_in,
    input  logic                  data_in_valid,
    output logic                  data_in_ready,
    output logic [LANES-1:0][7:0] data_out,
    output logic                  data_out_valid,
    input  logic                  data_out_ready
);

  logic [3:0] kind[1];
  initial $readmemh(INIT_FILE, kind);

  logic [7:0] count_q;
  logic stalled_q;
  logic tenth;
  logic moved;
  assign tenth = count_q == 8'd10;
  assign moved = (data_out_valid && data_out_ready) || (data_in_valid && data_in_ready);

  always_comb begin
    data_out = data_in;
    data_out_valid = data_in_valid;
    data_in_ready = data_out_ready;
    case (kind[0])
      4'd1: begin
        data_out_valid = data_in_valid && !tenth;
        data_in_ready = data_out_ready || tenth;
      end
      4'd2: data_in_ready = data_out_ready && !tenth;
      4'd3: data_out[0] = data_in[0] ^ 8'(stalled_q && !data_out_ready);
      4'd4: begin
        data_out_valid = data_in_valid && !stalled_q;
        data_in_ready = data_out_ready && !stalled_q;
      end
      4'd5: begin
        data_out_valid = data_in_valid && !tenth;
        data_in_ready = data_out_ready && !tenth;
      end
      4'd6: begin
        data_out[0] = data_in[1];
        data_out[1] = data_in[0];
      end
      4'd7: data_out_valid = data_in_valid && data_out_ready;
      4'd8: data_out[0] = data_in[0] + 8'd1;
      default: data_out_valid = data_in_valid;
    endcase
  end

  always_ff @(posedge clk) begin
    stalled_q <= !rst && data_out_valid && !data_out_ready;
    if (rst) count_q <= '0;
    else if (moved && !(&count_q)) count_q <= count_q + 1'b1;
  end

endmodule

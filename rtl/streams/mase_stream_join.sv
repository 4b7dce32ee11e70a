// SPDX-License-Identifier: Apache-2.0
// Joins the handshakes of COUNT streams: a beat moves when every input has one.
// Combinational: the ready of an input depends on the valid of the others, never on its own.
module mase_stream_join #(
    parameter int unsigned COUNT = 2
) (
    input  logic [COUNT-1:0] data_in_valid,
    output logic [COUNT-1:0] data_in_ready,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  assign data_out_valid = &data_in_valid;

  for (genvar i = 0; i < COUNT; i++) begin : gen_input
    logic [COUNT-1:0] others;
    always_comb begin
      others = data_in_valid;
      others[i] = 1'b1;
    end
    assign data_in_ready[i] = (&others) & data_out_ready;
  end

endmodule

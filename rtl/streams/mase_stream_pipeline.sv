// SPDX-License-Identifier: Apache-2.0
// The handshakes of a pipeline that never stops: `result` comes STAGES cycles after its beat moved,
// whatever the consumer does, and waits here. A beat moves only while there is room for its result,
// so that no path leads from data_out_ready to data_in_ready.
// Latency STAGES + 2 cycles, throughput 1 beat per cycle.
module mase_stream_pipeline #(
    parameter int unsigned WIDTH = 8,
    parameter int unsigned STAGES = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             data_in_valid,
    output logic             data_in_ready,
    input  logic [WIDTH-1:0] result,
    output logic [WIDTH-1:0] data_out,
    output logic             data_out_valid,
    input  logic             data_out_ready
);

  // A credit is back a cycle after its result could leave.
  localparam int unsigned Depth = STAGES + 3;

  logic result_valid;
  logic take;
  logic unused_single;

  assign take = data_in_valid && data_in_ready;

  if (STAGES == 0) begin : gen_wire
    assign result_valid = take;
  end else begin : gen_stages
    (* mase_register = "stages" *)
    logic [STAGES-1:0] valid_q;
    assign result_valid = valid_q[STAGES-1];
    always_ff @(posedge clk) begin
      if (rst) valid_q <= '0;
      else valid_q <= STAGES'({valid_q, take});
    end
  end

  mase_credits #(
      .DEPTH(Depth)
  ) u_credits (
      .clk,
      .rst,
      .take,
      .give(data_out_valid && data_out_ready),
      .room(data_in_ready),
      .single(unused_single)
  );

  mase_result_queue #(
      .WIDTH(WIDTH),
      .DEPTH(Depth)
  ) u_queue (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(result_valid),
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

`ifdef MASE_CHECKS
  // Whatever has a credit is on its way, waits, or is offered.
  localparam int unsigned HeldWidth = $clog2(8 * Depth);
  logic [HeldWidth-1:0] held;
  if (STAGES == 0) begin : gen_held
    assign held = HeldWidth'(u_queue.u_level.level_q) + HeldWidth'(data_out_valid);
  end else begin : gen_held_stages
    always_comb begin
      held = HeldWidth'(u_queue.u_level.level_q) + HeldWidth'(data_out_valid);
      for (int i = 0; i < STAGES; i++) held += HeldWidth'(gen_stages.valid_q[i]);
    end
  end
  always_comb begin
    if (!rst) begin
      credits_match : assert (HeldWidth'(u_credits.u_left.level_q) + held == HeldWidth'(Depth));
    end
  end
`endif  // MASE_CHECKS

endmodule

// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference or product as OPERATION says, lane by
// lane, exact and rounded once.
// Latency 1 cycle, of a product 2 cycles; throughput 1 beat per cycle.
module mase_binary_fixed
  import mase_pkg::*;
#(
    parameter format_t DATA_IN_0 = fixed(8, 4),
    parameter format_t DATA_IN_1 = fixed(8, 4),
    parameter format_t DATA_OUT_0 = fixed(8, 4),
    parameter int unsigned LANES = 4,
    parameter operation_e OPERATION = Add
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][DATA_IN_0.width-1:0] data_in_0,
    input  logic                                  data_in_0_valid,
    output logic                                  data_in_0_ready,

    input  logic [LANES-1:0][DATA_IN_1.width-1:0] data_in_1,
    input  logic                                  data_in_1_valid,
    output logic                                  data_in_1_ready,

    output logic [LANES-1:0][DATA_OUT_0.width-1:0] data_out_0,
    output logic                                   data_out_0_valid,
    input  logic                                   data_out_0_ready
);

  localparam int unsigned LeftWidth = DATA_IN_0.significand_width;
  localparam int unsigned RightWidth = DATA_IN_1.significand_width;
  // Operands of a sum are brought to the larger fraction.
  localparam int Distance = DATA_IN_0.fraction - DATA_IN_1.fraction;
  localparam int unsigned LeftShift = (Distance < 0) ? unsigned'(-Distance) : 0;
  localparam int unsigned RightShift = (Distance > 0) ? unsigned'(Distance) : 0;
  localparam int unsigned SumWidth = 1 + ((LeftWidth + LeftShift > RightWidth + RightShift)
      ? LeftWidth + LeftShift : RightWidth + RightShift);
  localparam int unsigned ExactWidth =
      (OPERATION == Multiply) ? LeftWidth + RightWidth : SumWidth;
  localparam int ExactFraction = DATA_IN_0.fraction
      + ((OPERATION == Multiply) ? DATA_IN_1.fraction : int'(LeftShift));

  logic joined_valid;
  logic joined_ready;

  mase_stream_join #(
      .COUNT(2)
  ) u_join (
      .data_in_valid ({data_in_1_valid, data_in_0_valid}),
      .data_in_ready ({data_in_1_ready, data_in_0_ready}),
      .data_out_valid(joined_valid),
      .data_out_ready(joined_ready)
  );

  logic [LANES-1:0][ExactWidth-1:0] computed;
  logic [LANES-1:0][ExactWidth-1:0] exact;
  logic exact_valid;
  logic exact_ready;
  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [RightWidth-1:0] right;
    assign left = DATA_IN_0.is_signed
        ? LeftWidth'(signed'(data_in_0[i])) : LeftWidth'(data_in_0[i]);
    assign right = DATA_IN_1.is_signed
        ? RightWidth'(signed'(data_in_1[i])) : RightWidth'(data_in_1[i]);
    if (OPERATION == Multiply) begin : gen_product
      assign computed[i] = ExactWidth'(left) * ExactWidth'(right);
    end else begin : gen_sum
      logic signed [ExactWidth-1:0] first;
      logic signed [ExactWidth-1:0] second;
      assign first = ExactWidth'(left) <<< LeftShift;
      assign second = ExactWidth'(right) <<< RightShift;
      assign computed[i] = (OPERATION == Subtract) ? first - second : first + second;
    end

    mase_fixed_cast #(
        .IN_WIDTH(ExactWidth),
        .IN_FRACTION(ExactFraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_cast (
        .data_in (exact[i]),
        .data_out(result[i])
    );
  end

  if (OPERATION == Multiply) begin : gen_exact_register
    mase_stream_register #(
        .WIDTH(LANES * ExactWidth)
    ) u_exact (
        .clk,
        .rst,
        .data_in(computed),
        .data_in_valid(joined_valid),
        .data_in_ready(joined_ready),
        .data_out(exact),
        .data_out_valid(exact_valid),
        .data_out_ready(exact_ready)
    );
  end else begin : gen_exact_wire
    assign exact = computed;
    assign exact_valid = joined_valid;
    assign joined_ready = exact_ready;
  end

  mase_stream_register #(
      .WIDTH(LANES * DATA_OUT_0.width)
  ) u_register (
      .clk,
      .rst,
      .data_in(result),
      .data_in_valid(exact_valid),
      .data_in_ready(exact_ready),
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

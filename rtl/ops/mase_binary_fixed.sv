// SPDX-License-Identifier: Apache-2.0
// data_out_0 = cast(data_in_0 + data_in_1), their difference, product, minimum or maximum, or 1 where
// a relation holds and else 0, as OPERATION says, lane by lane, exact and rounded once.
// Latency 4 cycles, of what is rounded 5 cycles, of a product 6 cycles; throughput 1 beat per cycle.
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

  localparam int unsigned LeftWidth = DATA_IN_0.width + (DATA_IN_0.is_signed ? 0 : 1);
  localparam int unsigned RightWidth = DATA_IN_1.width + (DATA_IN_1.is_signed ? 0 : 1);
  // Operands of a sum are brought to the larger fraction.
  localparam int Distance = DATA_IN_0.fraction - DATA_IN_1.fraction;
  localparam int unsigned LeftShift = (Distance < 0) ? unsigned'(-Distance) : 0;
  localparam int unsigned RightShift = (Distance > 0) ? unsigned'(Distance) : 0;
  localparam int unsigned SumWidth = 1 + ((LeftWidth + LeftShift > RightWidth + RightShift)
      ? LeftWidth + LeftShift : RightWidth + RightShift);
  localparam int unsigned ExactWidth =
      (OPERATION == Multiply) ? LeftWidth + RightWidth : SumWidth;
  localparam int ExactFraction = is_comparison(OPERATION) ? 0 : DATA_IN_0.fraction
      + ((OPERATION == Multiply) ? DATA_IN_1.fraction : int'(LeftShift));
  localparam int unsigned RoundedWidth = rounded_width(ExactWidth, ExactFraction, DATA_OUT_0);

  // What is combined, and the carry of its rounding, are two stages.
  localparam bit IsRounded =
      OPERATION != Multiply && ExactFraction > DATA_OUT_0.fraction && DATA_OUT_0.rounding != Floor;
  localparam int unsigned Stages = (OPERATION == Multiply) ? 4 : IsRounded ? 3 : 2;

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

  logic [LANES-1:0][DATA_OUT_0.width-1:0] result;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [LeftWidth-1:0] left;
    logic signed [RightWidth-1:0] right;
    logic [RoundedWidth-1:0] rounded;
    logic [RoundedWidth-1:0] rounded_q;
    logic [DATA_OUT_0.width-1:0] bounded;
    logic [ExactWidth-1:0] exact;

    assign left = DATA_IN_0.is_signed
        ? LeftWidth'(signed'(data_in_0[i])) : LeftWidth'(data_in_0[i]);
    assign right = DATA_IN_1.is_signed
        ? RightWidth'(signed'(data_in_1[i])) : RightWidth'(data_in_1[i]);

    if (OPERATION == Multiply) begin : gen_product
      logic signed [LeftWidth-1:0] left_q;
      logic signed [RightWidth-1:0] right_q;
      logic signed [ExactWidth-1:0] product_q;
      always_ff @(posedge clk) begin
        left_q <= left;
        right_q <= right;
        product_q <= left_q * right_q;
      end
      assign exact = product_q;
    end else begin : gen_aligned
      logic signed [ExactWidth-1:0] first;
      logic signed [ExactWidth-1:0] second;
      assign first = ExactWidth'(left) <<< LeftShift;
      assign second = ExactWidth'(right) <<< RightShift;
      logic [ExactWidth-1:0] combined;
      if (is_comparison(OPERATION)) begin : gen_relation
        logic holds;
        always_comb begin
          case (OPERATION)
            Less: holds = first < second;
            LessEqual: holds = first <= second;
            Greater: holds = first > second;
            GreaterEqual: holds = first >= second;
            Equal: holds = first == second;
            default: holds = first != second;
          endcase
        end
        assign combined = ExactWidth'(holds);
      end else if (OPERATION inside {Minimum, Maximum}) begin : gen_choice
        assign combined = ((first < second) == (OPERATION == Minimum)) ? first : second;
      end else begin : gen_sum
        assign combined = (OPERATION == Subtract) ? first - second : first + second;
      end
      if (IsRounded) begin : gen_rounded
        always_ff @(posedge clk) exact <= combined;
      end else begin : gen_exact
        assign exact = combined;
      end
    end

    mase_fixed_round #(
        .IN_WIDTH(ExactWidth),
        .IN_FRACTION(ExactFraction),
        .DATA_OUT(DATA_OUT_0)
    ) u_round (
        .data_in (exact),
        .data_out(rounded)
    );

    mase_fixed_bound #(
        .IN_WIDTH(RoundedWidth),
        .DATA_OUT(DATA_OUT_0)
    ) u_bound (
        .data_in (rounded_q),
        .data_out(bounded)
    );

    always_ff @(posedge clk) begin
      rounded_q <= rounded;
      result[i] <= bounded;
    end
  end

  mase_stream_pipeline #(
      .WIDTH (LANES * DATA_OUT_0.width),
      .STAGES(Stages)
  ) u_pipeline (
      .clk,
      .rst,
      .data_in_valid(joined_valid),
      .data_in_ready(joined_ready),
      .result,
      .data_out(data_out_0),
      .data_out_valid(data_out_0_valid),
      .data_out_ready(data_out_0_ready)
  );

endmodule

// SPDX-License-Identifier: Apache-2.0
// Answers frames on a serial line. A request is
//   M H | command | sequence | hash, 8 bytes | length, 4 bytes | payload | CRC-32, 4 bytes
// with numbers low byte first, the checksum over all before it. Commands: 1 identify (any hash),
// 2 run (payload of IN_BYTES), 3 reset. The answer is m h | status | sequence | HASH | length |
// payload | CRC-32; only that of a run that went well has a payload, of OUT_BYTES.
//
// Status: 0 well, 1 no frame begins so, 2 unknown command, 3 another design's hash, 4 wrong length,
// 5 wrong checksum, 6 the line fell silent in a frame, 7 a byte without a stop bit, 8 bytes came
// before the answer was over, 9 the design gave no result.
//
// Nothing of a frame reaches the design before all of it is right. After an error the rest of the
// line is ignored until it is silent for TIMEOUT_BITS bits, and then answered: there is an answer
// to everything, one at a time, and no state that the line cannot leave. A design that gives no
// result for WAIT_CYCLES cycles is reset.
module mase_frame_server
  import mase_pkg::*;
#(
    parameter int unsigned CLOCKS_PER_BIT = 16,
    parameter int unsigned TIMEOUT_BITS = 4096,
    parameter int unsigned WAIT_CYCLES = 1 << 24,
    parameter int unsigned IN_BYTES = 64,
    parameter int unsigned OUT_BYTES = 10,
    parameter logic [63:0] HASH = '0
) (
    input  logic clk,
    input  logic rst,
    input  logic rx,
    output logic tx,

    output logic       clear,
    output logic [7:0] payload,
    output logic       payload_valid,
    output logic       run,
    output logic       design_rst,

    input  logic [7:0] result,
    input  logic       result_valid,
    output logic       result_ready
);

  typedef enum logic [2:0] {
    Header,
    Payload,
    Checksum,
    Judge,
    Quiet,
    Wait,
    Answer,
    Sum
  } state_e;

  localparam logic [7:0] Identify = 8'd1;
  localparam logic [7:0] Run = 8'd2;
  localparam logic [7:0] Reset = 8'd3;

  typedef enum logic [3:0] {
    Well,
    BadStart,
    BadCommand,
    WrongHash,
    WrongLength,
    BadChecksum,
    Silence,
    BadByte,
    Overrun,
    NoResult
  } status_e;

  localparam int unsigned HeaderBytes = 16;
  localparam int unsigned SilentCycles = CLOCKS_PER_BIT * TIMEOUT_BITS;
  localparam int unsigned TimerWidth = index_width(
      (SilentCycles > WAIT_CYCLES) ? SilentCycles : WAIT_CYCLES
  );
  localparam int unsigned PayloadBytes = (IN_BYTES > OUT_BYTES) ? IN_BYTES : OUT_BYTES;
  localparam int unsigned IndexWidth = index_width(
      (PayloadBytes > HeaderBytes) ? PayloadBytes : HeaderBytes
  );
  // Of a frame and its checksum.
  localparam logic [31:0] Residue = 32'h2144df1c;

  state_e state_q;
  status_e status_q;
  logic [IndexWidth-1:0] index_q;
  logic [TimerWidth-1:0] timer_q;
  logic [1:0] command_q;
  logic [7:0] sequence_q;
  logic overrun_q;
  logic has_result_q;
  logic [7:0] reset_q;

  logic [7:0] byte_in;
  logic byte_valid;
  logic byte_broken;
  logic line;
  logic [7:0] byte_out;
  logic byte_out_valid;
  logic byte_out_ready;
  logic sender_ready;
  logic sends;
  logic sum_busy;
  logic sum_clear;
  logic [31:0] sum;

  logic listens;
  logic silent;
  logic late;
  logic run_command;
  logic [31:0] length_in;
  logic [31:0] length_out;
  logic [7:0] header_byte;
  logic [3:0] place;

  mase_uart_receiver #(
      .CLOCKS_PER_BIT(CLOCKS_PER_BIT)
  ) u_receiver (
      .clk,
      .rst,
      .rx,
      .data(byte_in),
      .data_valid(byte_valid),
      .broken(byte_broken),
      .line
  );

  mase_uart_sender #(
      .CLOCKS_PER_BIT(CLOCKS_PER_BIT)
  ) u_sender (
      .clk,
      .rst,
      .data(byte_out),
      .data_valid(byte_out_valid),
      .data_ready(sender_ready),
      .tx
  );

  mase_crc32 u_crc (
      .clk,
      .clear(sum_clear),
      .data((state_q == Answer) ? byte_out : byte_in),
      .data_valid((state_q == Answer) ? sends : (byte_valid && listens)),
      .busy(sum_busy),
      .crc(sum)
  );

  assign place = index_q[3:0];
  assign run_command = command_q == Run[1:0];
  assign listens = state_q == Header || state_q == Payload || state_q == Checksum;
  assign length_in = run_command ? IN_BYTES : '0;
  assign length_out = has_result_q ? OUT_BYTES : '0;
  assign silent = timer_q == TimerWidth'(SilentCycles - 1);
  assign late = timer_q == TimerWidth'(WAIT_CYCLES - 1);
  assign sum_clear = rst || (state_q == Header && index_q == '0 && !byte_valid && !sum_busy)
      || (state_q != Answer && state_q != Sum && !listens && state_q != Judge);

  assign clear = state_q == Header && index_q == '0;
  assign payload = byte_in;
  assign payload_valid = byte_valid && state_q == Payload;
  assign design_rst = reset_q != '0;

  // The answer.
  always_comb begin
    unique case (place)
      4'd0: header_byte = "m";
      4'd1: header_byte = "h";
      4'd2: header_byte = 8'(status_q);
      4'd3: header_byte = sequence_q;
      4'd4: header_byte = HASH[7:0];
      4'd5: header_byte = HASH[15:8];
      4'd6: header_byte = HASH[23:16];
      4'd7: header_byte = HASH[31:24];
      4'd8: header_byte = HASH[39:32];
      4'd9: header_byte = HASH[47:40];
      4'd10: header_byte = HASH[55:48];
      4'd11: header_byte = HASH[63:56];
      4'd12: header_byte = length_out[7:0];
      4'd13: header_byte = length_out[15:8];
      4'd14: header_byte = length_out[23:16];
      default: header_byte = length_out[31:24];
    endcase
  end

  logic in_header_q;
  assign byte_out_ready = sender_ready && !sum_busy;
  assign result_ready = state_q == Answer && !in_header_q && byte_out_ready;
  always_comb begin
    byte_out = in_header_q ? header_byte : result;
    if (state_q == Sum) byte_out = sum[8*index_q[1:0]+:8];
    byte_out_valid = !sum_busy
        && (state_q == Sum || (state_q == Answer && (in_header_q || result_valid)));
  end
  assign sends = byte_out_valid && byte_out_ready;

  // The header of a request, byte by byte.
  status_e wrong;
  logic [7:0] expected;
  always_comb begin
    expected = header_byte;
    wrong = WrongHash;
    if (place == 4'd0) begin
      expected = "M";
      wrong = BadStart;
    end else if (place == 4'd1) begin
      expected = "H";
      wrong = BadStart;
    end else if (place == 4'd2) begin
      expected = (byte_in == Identify || byte_in == Run || byte_in == Reset) ? byte_in : Run;
      wrong = BadCommand;
    end else if (place == 4'd3 || (place < 4'd12 && command_q == Identify[1:0])) begin
      expected = byte_in;
    end else if (place >= 4'd12) begin
      expected = length_in[8*place[1:0]+:8];
      wrong = WrongLength;
    end
  end

  always_ff @(posedge clk) begin
    run <= 1'b0;
    if (reset_q != '0) reset_q <= reset_q - 1'b1;
    timer_q <= timer_q + 1'b1;
    if (rst) begin
      state_q <= Header;
      index_q <= '0;
      overrun_q <= 1'b0;
      in_header_q <= 1'b0;
      has_result_q <= 1'b0;
      timer_q <= '0;
      reset_q <= '1;
    end else begin
      unique case (state_q)
        Header: begin
          has_result_q <= 1'b0;
          if (byte_valid) begin
            index_q <= index_q + 1'b1;
            if (place == 4'd0) sequence_q <= '0;
            if (place == 4'd2) command_q <= byte_in[1:0];
            if (place == 4'd3) sequence_q <= byte_in;
            if (byte_in != expected) begin
              status_q <= wrong;
              state_q  <= Quiet;
            end else if (place == 4'd15) begin
              index_q <= '0;
              state_q <= run_command ? Payload : Checksum;
            end
          end
        end
        Payload: begin
          if (byte_valid) begin
            index_q <= index_q + 1'b1;
            if (index_q == IndexWidth'(IN_BYTES - 1)) begin
              index_q <= '0;
              state_q <= Checksum;
            end
          end
        end
        Checksum: begin
          if (byte_valid) begin
            index_q <= index_q + 1'b1;
            if (index_q[1:0] == 2'd3) state_q <= Judge;
          end
        end
        Judge: begin
          status_q <= BadChecksum;
          timer_q  <= '0;
          if (!sum_busy) begin
            state_q <= Quiet;
            if (sum == Residue) begin
              status_q <= Well;
              run <= run_command;
              if (command_q == Reset[1:0]) reset_q <= '1;
              state_q <= Wait;
            end
          end
        end
        Quiet: begin
          if (silent) state_q <= Wait;
        end
        // For the result of a run; all else is answered at once.
        Wait: begin
          index_q <= '0;
          in_header_q <= 1'b1;
          if (status_q != Well || !run_command) state_q <= Answer;
          else if (result_valid) begin
            has_result_q <= 1'b1;
            state_q <= Answer;
          end else if (late) begin
            status_q <= NoResult;
            reset_q  <= '1;
            state_q  <= Answer;
          end
        end
        Answer: begin
          if (sends) begin
            index_q <= index_q + 1'b1;
            if (in_header_q && place == 4'd15) begin
              index_q <= '0;
              in_header_q <= 1'b0;
              if (!has_result_q) state_q <= Sum;
            end
            if (!in_header_q && index_q == IndexWidth'(OUT_BYTES - 1)) begin
              index_q <= '0;
              state_q <= Sum;
            end
          end
          if (sends || !sender_ready || sum_busy) timer_q <= '0;
          else if (late) begin
            reset_q <= '1;
            index_q <= '0;
            state_q <= Header;
          end
        end
        default: begin
          if (sends) begin
            index_q <= index_q + 1'b1;
            if (index_q[1:0] == 2'd3) begin
              index_q <= '0;
              status_q <= Overrun;
              has_result_q <= 1'b0;
              overrun_q <= 1'b0;
              timer_q <= '0;
              state_q <= overrun_q ? Quiet : Header;
            end
          end
        end
      endcase
      if (listens && (index_q != '0 || state_q != Header) && silent) begin
        status_q <= Silence;
        state_q  <= Wait;
      end
      if (listens && byte_broken) begin
        status_q <= BadByte;
        state_q  <= Quiet;
      end
      if (!listens && state_q != Quiet && (byte_valid || byte_broken)) overrun_q <= 1'b1;
      if ((listens || state_q == Quiet) && (!line || byte_valid)) timer_q <= '0;
    end
  end

endmodule

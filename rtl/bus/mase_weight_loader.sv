// SPDX-License-Identifier: Apache-2.0
// Loads the weights of a design between inferences. `load` asks for it: no packet begins any more
// (`hold`), and when all inferences are out (`idle`) the design is put into reset and `loading`
// rises. Then words of an image are taken, four bytes each: hash of the design (two words), number
// of bytes, these bytes with zeros up to a whole word, and their CRC-32.
//
// Nothing is written before hash and length are right. `bad` is high for a cycle where an image, or
// a word that nobody asked for, is refused; after a wrong checksum the weights are not whole, and
// the design stays held until an image was loaded well. A word takes 33 cycles.
module mase_weight_loader #(
    parameter int unsigned BYTES = 16,
    parameter logic [63:0] HASH = '0
) (
    input logic clk,
    input logic rst,

    input  logic load,
    input  logic idle,
    output logic hold,
    output logic loading,
    output logic whole,
    output logic bad,

    input  logic [31:0] word,
    input  logic        word_valid,
    output logic        word_done,

    output logic       load_clear,
    output logic [7:0] load_byte,
    output logic       load_valid
);

  typedef enum logic [2:0] {
    Off,
    Waiting,
    HashLow,
    HashHigh,
    Length,
    Data,
    Sum
  } state_e;

  state_e state_q;
  // What memories hold outlasts a reset, and so does this.
  logic whole_q;
  initial whole_q = 1'b1;
  logic [31:0] left_q;
  logic [31:0] word_q;
  logic [2:0] bytes_q;
  logic busy_q;
  logic sum_busy;
  logic [31:0] sum;
  logic right;

  assign hold = state_q != Off || !whole_q;
  assign whole = whole_q;
  assign loading = state_q != Off && state_q != Waiting;
  assign load_clear = state_q == HashLow;
  assign load_byte = word_q[7:0];
  assign load_valid = busy_q && !sum_busy && bytes_q != '0 && left_q != '0;
  assign right = (state_q == HashLow && word == HASH[31:0])
      || (state_q == HashHigh && word == HASH[63:32]) || (state_q == Length && word == BYTES);

  mase_crc32 u_crc (
      .clk,
      .clear(load_clear),
      .data(load_byte),
      .data_valid(load_valid),
      .busy(sum_busy),
      .crc(sum)
  );

  always_ff @(posedge clk) begin
    bad <= 1'b0;
    word_done <= 1'b0;
    if (rst) begin
      state_q <= Off;
      busy_q  <= 1'b0;
    end else begin
      if (busy_q && !sum_busy) begin
        bytes_q <= bytes_q - 1'b1;
        word_q  <= word_q >> 8;
        if (left_q != '0 && bytes_q != '0) left_q <= left_q - 1'b1;
        if (bytes_q == '0) begin
          busy_q <= 1'b0;
          word_done <= 1'b1;
          if (left_q == '0) state_q <= Sum;
        end
      end
      if (word_valid && !busy_q) begin
        word_done <= state_q != Data;
        unique case (state_q)
          Data: begin
            word_q  <= word;
            bytes_q <= 3'd4;
            busy_q  <= 1'b1;
            whole_q <= 1'b0;
          end
          Sum: begin
            state_q <= Off;
            bad <= word != sum;
            whole_q <= word == sum;
          end
          Off, Waiting: bad <= 1'b1;
          default: begin
            left_q  <= BYTES;
            state_q <= right ? state_e'(state_q + 1'b1) : Off;
            bad <= !right;
          end
        endcase
      end
      if (load && !busy_q) state_q <= Waiting;
      else if (state_q == Waiting && idle) state_q <= HashLow;
    end
  end

endmodule

// SPDX-License-Identifier: Apache-2.0
// DP16KD of ECP5 (FPGA-TN-02204): 2048 bytes of nine bits behind two sides. A side of 18 bits has
// enables of its bytes in the lowest bits of its address, one of 36 bits too: side A writes it, side B
// reads it, the low half at A's port. A side that writes does not read. A register behind the words of
// a side moves with `oce`. No reset.
module mase_ecp5_memory #(
    parameter int unsigned WIDTH_A = 18,
    parameter int unsigned WIDTH_B = 18,
    parameter bit REGISTER_A = 0,
    parameter bit REGISTER_B = 0,
    parameter logic [18431:0] WORDS = '0
) (
    input logic clk,

    input  logic        cea,
    input  logic        ocea,
    input  logic        wea,
    input  logic [13:0] ada,
    input  logic [17:0] dia,
    output logic [17:0] doa,

    input  logic        ceb,
    input  logic        oceb,
    input  logic        web,
    input  logic [13:0] adb,
    input  logic [17:0] dib,
    output logic [17:0] dob
);

  logic [8:0] memory[2048];
  logic [35:0] word_a;
  logic [35:0] word_b;
  logic [17:0] half_a;
  logic [17:0] half_b;

  initial for (int i = 0; i < 2048; i++) memory[i] = WORDS[9*i+:9];

  function automatic logic [35:0] word(input int unsigned width, input logic [13:0] address);
    logic [10:0] place;
    place = address[13:3];
    unique case (width)
      36: return {memory[{place[10:2], 2'd3}], memory[{place[10:2], 2'd2}],
                  memory[{place[10:2], 2'd1}], memory[{place[10:2], 2'd0}]};
      18: return 36'({memory[{place[10:1], 1'b1}], memory[{place[10:1], 1'b0}]});
      9: return 36'(memory[place]);
      4: return 36'(memory[place][{address[2], 2'd0}+:4]);
      2: return 36'(memory[place][{address[2:1], 1'd0}+:2]);
      default: return 36'(memory[place][address[2:0]]);
    endcase
  endfunction

  function automatic void write(input int unsigned width, input logic [13:0] address,
                                input logic [35:0] data);
    logic [10:0] place;
    place = address[13:3];
    unique case (width)
      36: for (int i = 0; i < 4; i++) if (address[i]) memory[{place[10:2], 2'(i)}] = data[9*i+:9];
      18: for (int i = 0; i < 2; i++) if (address[i]) memory[{place[10:1], 1'(i)}] = data[9*i+:9];
      9: memory[place] = data[8:0];
      4: memory[place][{address[2], 2'd0}+:4] = data[3:0];
      2: memory[place][{address[2:1], 1'd0}+:2] = data[1:0];
      default: memory[place][address[2:0]] = data[0];
    endcase
  endfunction

  always @(posedge clk) begin
    // Both sides read what was there before.
    if (cea && !wea) word_a <= word(WIDTH_A, ada);
    if (ceb && !web) word_b <= word(WIDTH_B, adb);
    if (cea && wea) write(WIDTH_A, ada, {dib, dia});
    if (ceb && web) write(WIDTH_B, adb, 36'(dib));
  end

  assign half_a = (WIDTH_B == 36) ? word_b[17:0] : word_a[17:0];
  assign half_b = (WIDTH_B == 36) ? word_b[35:18] : word_b[17:0];

  if (REGISTER_A) begin : gen_register_a
    always_ff @(posedge clk) if (ocea) doa <= half_a;
  end else begin : gen_no_register_a
    assign doa = half_a;
  end

  if (REGISTER_B) begin : gen_register_b
    always_ff @(posedge clk) if (oceb) dob <= half_b;
  end else begin : gen_no_register_b
    assign dob = half_b;
  end

endmodule

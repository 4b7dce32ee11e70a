// SPDX-License-Identifier: Apache-2.0
// The pins of a design with a serial line, as a program: what it reads on standard input is driven on
// `rx` bit by bit, and bytes that come on `tx` are written to standard output.
//
// Records on standard input: `B` byte; `R` low high, ten bits as they stand, the low one first; `L` level;
// `I` n, idle for n bits (32 bits, little-endian); `C` n, cycles a bit from here on (16 bits).
// `W` n: go on until the line was silent for n bits on both sides (32 bits), and say so. Records on
// standard output: `B` byte; `!` byte, which came without a start or stop bit; `.`, silence.
#include <cstdint>
#include <cstdio>
#include <deque>

#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

// What the design was built with.
constexpr unsigned kClocks = CLOCKS_PER_BIT;

struct Level {
  bool value;
  unsigned cycles;
};

class Pins {
 public:
  Pins() {
    top_.rst = 1;
    top_.rx = 1;
    for (int i = 0; i < 8; ++i) cycle();
    top_.rst = 0;
  }

  void drive(unsigned bits, unsigned count) {
    for (unsigned i = 0; i < count; ++i) levels_.push_back({bool(bits >> i & 1), clocks_});
  }
  void idle(std::uint32_t bits) {
    for (std::uint32_t i = 0; i < bits; ++i) levels_.push_back({true, clocks_});
  }
  void clocks(unsigned count) { clocks_ = count; }

  // Runs until the line is silent on both sides for so many bits.
  void settle(std::uint32_t bits) {
    std::uint64_t limit = std::uint64_t{bits} * kClocks;
    for (quiet_ = 0; quiet_ < limit || !levels_.empty(); ++quiet_) {
      if (!levels_.empty()) {
        top_.rx = levels_.front().value;
        if (--levels_.front().cycles == 0) levels_.pop_front();
        quiet_ = 0;
      } else {
        top_.rx = 1;
      }
      cycle();
      listen();
    }
    std::putchar('.');
    std::fflush(stdout);
  }

 private:
  void cycle() {
    top_.clk = 0;
    top_.eval();
    top_.clk = 1;
    top_.eval();
  }

  void listen() {
    if (left_ == 0) {
      if (top_.tx) return;
      left_ = 10;
      count_ = kClocks / 2;
    }
    quiet_ = 0;
    if (--count_ != 0) return;
    count_ = kClocks;
    bits_ = bits_ >> 1 | unsigned(top_.tx) << 9;
    if (--left_ == 0) {
      std::putchar(bits_ >> 9 & 1 && !(bits_ & 1) ? 'B' : '!');
      std::putchar(int(bits_ >> 1 & 255));
    }
  }

  Vtop top_;
  std::deque<Level> levels_;
  unsigned clocks_ = kClocks;
  std::uint64_t quiet_ = 0;
  unsigned left_ = 0, count_ = 0, bits_ = 0;
};

std::uint32_t number(int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= std::uint32_t(std::getchar() & 255) << (8 * i);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  Verilated::commandArgs(argc, argv);
  Pins pins;
  for (int kind = std::getchar(); kind != EOF; kind = std::getchar()) {
    if (kind == 'B') pins.drive((number(1) << 1) | 512, 10);
    if (kind == 'R') pins.drive(number(2), 10);
    if (kind == 'L') pins.drive(number(1), 1);
    if (kind == 'I') pins.idle(number(4));
    if (kind == 'C') pins.clocks(number(2));
    if (kind == 'W') pins.settle(number(4));
  }
  return 0;
}

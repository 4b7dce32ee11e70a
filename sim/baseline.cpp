// The plain loop a person would write around this Verilator model of one input and one output:
// offer beats without pause, be always ready, keep what comes. The native engine is measured
// against it. Usage: baseline JOB INPUT_BEATS OUTPUT_BEATS, a folder with `in.bin`; writes
// `out.bin`, and prints the cycles and the seconds they took.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = argv[1];
  const std::size_t inputs = std::strtoul(argv[2], nullptr, 10);
  const std::size_t outputs = std::strtoul(argv[3], nullptr, 10);
  std::ifstream file(folder + "/in.bin", std::ios::binary);
  const std::vector<char> data(std::istreambuf_iterator<char>(file), {});

  VerilatedContext context;
  Vtop top(&context);
  const std::size_t in_bytes = sizeof(top.data_in_0);
  const std::size_t out_bytes = sizeof(top.data_out_0);
  if (data.size() != inputs * in_bytes) return 2;
  std::vector<char> result(outputs * out_bytes);

  top.rst = 1;
  top.data_in_0_valid = 0;
  top.data_out_0_ready = 1;
  for (int i = 0; i < 4; ++i) {
    top.clk = 0;
    top.eval();
    top.clk = 1;
    top.eval();
  }
  top.rst = 0;

  std::size_t sent = 0;
  std::size_t received = 0;
  unsigned long cycles = 0;
  const auto start = std::chrono::steady_clock::now();
  while (received < outputs) {
    top.data_in_0_valid = sent < inputs;
    if (sent < inputs) {
      std::memcpy(static_cast<void*>(&top.data_in_0), &data[sent * in_bytes], in_bytes);
    }
    top.clk = 0;
    top.eval();
    if (top.data_in_0_valid && top.data_in_0_ready) ++sent;
    if (top.data_out_0_valid) {
      std::memcpy(&result[received * out_bytes], static_cast<const void*>(&top.data_out_0),
                  out_bytes);
      ++received;
    }
    top.clk = 1;
    top.eval();
    ++cycles;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::ofstream out(folder + "/out.bin", std::ios::binary);
  out.write(result.data(), static_cast<std::streamsize>(result.size()));
  std::printf("%lu %.9f\n", cycles, elapsed.count());
  return 0;
}

// Runs every thread of every CTA of the CUDA dequantization on the host, phase by phase.

#include <algorithm>
#include <vector>

#include "dequantize.cuh"

namespace {

using namespace mase::mxint8;

template <class OutBits, bool kVector>
void run(const Problem& problem) {
  using Tile = DequantizeTile<OutBits, kVector>;
  alignas(16) std::int8_t shared_memory[Tile::kRows * Tile::kColumns];
  for (std::int64_t row = 0; row < ceil_div(problem.rows, Tile::kRows); ++row) {
    for (std::int64_t column = 0; column < ceil_div(problem.columns, Tile::kColumns); ++column) {
      std::fill(std::begin(shared_memory), std::end(shared_memory), std::int8_t{85});
      const Tile body{problem, row, column};
      for (int thread = 0; thread < Tile::kThreads; ++thread) body.load(shared_memory, thread);
      for (int thread = 0; thread < Tile::kThreads; ++thread) body.store(shared_memory, thread);
    }
  }
}

template <class OutBits>
int dispatch(Problem problem) {
  problem = widen(problem, DequantizeTile<OutBits, true>::kColumns);
  const bool vector = vectorizable(problem);
  vector ? run<OutBits, true>(problem) : run<OutBits, false>(problem);
  return vector;
}

}  // namespace

extern "C" {

// Returns 1 when the 16-byte path ran.
int emulate_dequantize(const void* codes, const void* exponents, void* out, std::int64_t rows,
                       std::int64_t columns, std::int64_t block, int out_bytes) {
  const Problem problem{static_cast<const std::int8_t*>(codes),
                        static_cast<const std::uint8_t*>(exponents),
                        out,
                        rows,
                        columns,
                        block,
                        ceil_div(columns, block)};
  return out_bytes == 2 ? dispatch<std::uint16_t>(problem) : dispatch<std::uint32_t>(problem);
}

void emulate_encode(const float* values, const std::uint8_t* exponents, std::int8_t* codes,
                    std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) {
    codes[index] = exponents[index] == kExponentNan ? std::int8_t{0}
                                                    : encode(values[index], exponents[index]);
  }
}

}  // extern "C"

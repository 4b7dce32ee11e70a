// Runs every thread of every CTA of the CUDA kernels on the host, phase by phase.

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <cute/atom/mma_atom.hpp>

#include "dequantize.cuh"
#include "linear.cuh"
#include "linear_mma.cuh"

namespace {

using namespace mase::mxint8;

// Shared memory of a CTA, on the heap where a sanitizer sees its ends, full of rubbish.
template <class Element>
std::unique_ptr<Element[]> shared(int count) {
  std::unique_ptr<Element[]> memory(new Element[static_cast<std::size_t>(count)]);
  std::fill_n(reinterpret_cast<std::uint8_t*>(memory.get()), count * sizeof(Element), 0xFF);
  return memory;
}

template <class OutBits, bool kVector>
void run_dequantize(const Problem& problem) {
  using Tile = DequantizeTile<OutBits, kVector>;
  for (std::int64_t row = 0; row < ceil_div(problem.rows, Tile::kRows); ++row) {
    for (std::int64_t column = 0; column < ceil_div(problem.columns, Tile::kColumns); ++column) {
      const auto memory = shared<std::int8_t>(Tile::kRows * Tile::kColumns);
      const Tile body{problem, row, column};
      for (int thread = 0; thread < Tile::kThreads; ++thread) body.load(memory.get(), thread);
      for (int thread = 0; thread < Tile::kThreads; ++thread) body.store(memory.get(), thread);
    }
  }
}

template <class Tile>
void run_flat(const Problem& problem) {
  const std::int64_t tiles = ceil_div(problem.rows * problem.columns, Tile::kCodes);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const auto memory = shared<std::int8_t>(Tile::kCodes);
    const Tile body{problem, tile, bits_of(problem.block)};
    std::vector<typename Tile::Exponents> exponents;
    for (int thread = 0; thread < Tile::kThreads; ++thread) {
      exponents.push_back(body.load(memory.get(), thread));
    }
    for (int thread = 0; thread < Tile::kThreads; ++thread) {
      body.store(memory.get(), thread, exponents[thread]);
    }
  }
}

template <class OutBits>
int dequantize(Problem problem) {
  if (is_flat(problem)) {
    run_flat<FlatTile<OutBits>>(problem);
    return 2;
  }
  problem = widen(problem, DequantizeTile<OutBits, true>::kColumns);
  const bool vector = vectorizable(problem);
  vector ? run_dequantize<OutBits, true>(problem) : run_dequantize<OutBits, false>(problem);
  return vector;
}

// What __shfl_xor_sync does for the sums of all warps.
template <class Tile>
void add_across_warps(std::vector<typename Tile::Sums>& sums) {
  for (int distance = Tile::kWarp / 2; distance > 0; distance /= 2) {
    const auto before = sums;
    for (int thread = 0; thread < Tile::kThreads; ++thread) {
      for (int row = 0; row < Tile::kRowsPerWarp; ++row) {
        for (int batch = 0; batch < Tile::kBatch; ++batch) {
          sums[thread].of[row][batch] += before[thread ^ distance].of[row][batch];
        }
      }
    }
  }
}

// What mma.m16n8k16 does for the operands of a warp: which thread holds which element is CuTe's.
template <class Left, class Right>
void multiply_in_warp(float* (&sums)[32], const Left (&left)[32], const Right (&right)[32]) {
  using Traits = cute::MMA_Traits<cute::SM80_16x8x16_F32BF16BF16F32_TN>;
  const auto element = [](const std::uint32_t* pairs, int index) {
    return as_float(pairs[index / 2] >> 16 * (index % 2) << 16);
  };
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int index = 0; index < 8; ++index) {
      const int at = typename Traits::ALayout{}(lane, index);
      a[at % 16][at / 16] = element(left[lane].of, index);
    }
    for (int index = 0; index < 4; ++index) {
      const int at = typename Traits::BLayout{}(lane, index);
      b[at / 8][at % 8] = element(right[lane].of, index);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int index = 0; index < 4; ++index) {
      const int at = typename Traits::CLayout{}(lane, index);
      for (int inner = 0; inner < 16; ++inner) {
        sums[lane][index] = std::fma(a[at % 16][inner], b[inner][at / 16], sums[lane][index]);
      }
    }
  }
}

template <class Tile>
void run_mma(const LinearProblem<std::uint16_t>& problem) {
  for (std::int64_t row = 0; row < ceil_div(problem.weight.rows, Tile::kRows); ++row) {
    const Tile body{problem, row, bits_of(problem.weight.block)};
    const auto memory = shared<float>(Tile::kPartials);
    for (int warp = 0; warp < Tile::kWarps; ++warp) {
      std::array<typename Tile::Weights, 32> weights;
      std::array<typename Tile::Values, 32> values;
      std::array<typename Tile::Sums, 32> sums{};
      for (int at = 0; at < body.start(warp * 32).slices * Tile::kSteps; ++at) {
        const int slice = at / Tile::kSteps, step = at % Tile::kSteps;
        // The products of every thread in turn, then those of all threads together.
        std::vector<typename Tile::Left> left[32];
        std::vector<typename Tile::Right> right[32];
        std::vector<float*> targets[32];
        for (int lane = 0; lane < 32; ++lane) {
          const auto start = body.start(warp * 32 + lane);
          typename Tile::Exponents exponents;
          body.load_exponents(start, slice, exponents);
          body.load_weights(start, slice, step, weights[lane]);
          body.load_values(start, slice, step, values[lane]);
          const auto collect = [&](float(&to)[4], const auto& a, const auto& b) {
            targets[lane].push_back(to);
            left[lane].push_back(a);
            right[lane].push_back(b);
          };
          body.accumulate(warp * 32 + lane, step, exponents, weights[lane], values[lane], sums[lane],
                          collect);
        }
        for (std::size_t product = 0; product < left[0].size(); ++product) {
          typename Tile::Left a[32];
          typename Tile::Right b[32];
          float* to[32];
          for (int lane = 0; lane < 32; ++lane) {
            a[lane] = left[lane][product];
            b[lane] = right[lane][product];
            to[lane] = targets[lane][product];
          }
          multiply_in_warp(to, a, b);
        }
      }
      for (int lane = 0; lane < 32; ++lane) body.share(memory.get(), warp * 32 + lane, sums[lane]);
    }
    for (int thread = 0; thread < Tile::kThreads; ++thread) body.store(memory.get(), thread);
  }
}

template <class Value>
int linear(const LinearProblem<Value>& problem, int multiprocessors) {
  if constexpr (sizeof(Value) == 2) {
    if (fits_mma(problem)) {
      return with_mma_tile(problem, multiprocessors, [&](auto type) {
        using Tile = typename decltype(type)::type;
        run_mma<Tile>(problem);
        return Tile::kBatch;
      });
    }
  }
  return with_linear_tile(problem, [&](auto type) {
    using Tile = typename decltype(type)::type;
    for (std::int64_t row = 0; row < ceil_div(problem.weight.rows, Tile::kRows); ++row) {
      const Tile body{problem, row};
      std::vector<typename Tile::Sums> sums(Tile::kThreads);
      for (std::int64_t chunk = 0; chunk < body.chunks(); ++chunk) {
        const auto memory = shared<Value>(Tile::kBatch * Tile::kColumns);
        for (int thread = 0; thread < Tile::kThreads; ++thread) {
          body.load(memory.get(), thread, chunk);
        }
        for (int thread = 0; thread < Tile::kThreads; ++thread) {
          body.accumulate(memory.get(), thread, chunk, sums[thread]);
        }
      }
      add_across_warps<Tile>(sums);
      for (int thread = 0; thread < Tile::kThreads; ++thread) body.store(sums[thread], thread);
    }
    return Tile::kVector ? Tile::kBatch : 0;
  });
}

template <class Value>
int linear(const void* values, const Matrix& weight, const void* bias, void* out,
           std::int64_t batch) {
  const LinearProblem<Value> problem{weight, static_cast<const Value*>(values),
                                     static_cast<const Value*>(bias), static_cast<Value*>(out),
                                     batch};
  return linear(problem, weight.rows % 2);  // tiles for many CTAs, or for few
}

}  // namespace

extern "C" {

// Returns 2 when the path of dense blocks ran, 1 for that of 16-byte packs, 0 for single elements.
int emulate_dequantize(const void* codes, const void* exponents, void* out, std::int64_t rows,
                       std::int64_t columns, std::int64_t block, int out_bytes) {
  const Problem problem{make_matrix(codes, exponents, rows, columns, block), out};
  return out_bytes == 2 ? dequantize<std::uint16_t>(problem) : dequantize<std::uint32_t>(problem);
}

// Returns the rows of values that the tile had room for, 0 for the path of single elements.
int emulate_linear(const void* values, const void* codes, const void* exponents, const void* bias,
                   void* out, std::int64_t batch, std::int64_t outputs, std::int64_t columns,
                   std::int64_t block, int value_bytes) {
  const Matrix weight = make_matrix(codes, exponents, outputs, columns, block);
  return value_bytes == 2 ? linear<std::uint16_t>(values, weight, bias, out, batch)
                          : linear<float>(values, weight, bias, out, batch);
}

void emulate_encode(const float* values, const std::uint8_t* exponents, std::int8_t* codes,
                    std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) {
    codes[index] = exponents[index] == kExponentNan ? std::int8_t{0}
                                                    : encode(values[index], exponents[index]);
  }
}

}  // extern "C"

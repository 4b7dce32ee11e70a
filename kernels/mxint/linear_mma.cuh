// SPDX-License-Identifier: Apache-2.0
//
// The weight-only linear layer for a few rows of bfloat16 values on the matrix units: one CTA makes
// kRows outputs of every row, its warps share out the columns. The weight crosses device memory
// once, as one byte an element, and is decoded in registers. A phase is a function of the thread's
// index alone, but for the product of a warp, so that tests run every thread on the host.

#pragma once

#include <cute/tensor.hpp>

#include "linear.cuh"

namespace mase::mxint8 {

struct alignas(16) Words {
  std::uint32_t word[4];
};

// kRowTiles: outputs / 16. kBatchTiles: rows of values / 8. kPacks: 16-byte loads of codes that a
// thread makes of a row at a time.
template <int kRowTiles_, int kBatchTiles_, int kPacks_>
struct MmaTile {
  using Value = std::uint16_t;
  static constexpr int kRowTiles = kRowTiles_;
  static constexpr int kBatchTiles = kBatchTiles_;
  static constexpr int kPacks = kPacks_;
  static constexpr int kWarp = 32;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarp * kWarps;
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kBatch = 8 * kBatchTiles;
  static constexpr int kPack = 16;              // codes of one load; four threads make 64 columns
  static constexpr int kProducts = kPack / 4;   // matrix products of a pack: each takes four codes
  static constexpr int kSlice = 4 * kPack * kPacks;  // columns of a warp in one step
  static constexpr int kStep = kWarps * kSlice;

  // [warp][row of values][output], the sums of all warps of a CTA.
  using Partial = cute::Layout<
      cute::Shape<cute::Int<kWarps>, cute::Int<kBatch>, cute::Int<kRows>>,
      cute::Stride<cute::Int<kBatch * kRows>, cute::Int<kRows>, cute::_1>>;
  static constexpr int kPartials = kWarps * kBatch * kRows;

  struct Weights {
    Words codes[kRowTiles][2][kPacks];
    std::uint8_t exponents[kRowTiles][2][kPacks];
  };
  struct Values {
    Words halves[kBatchTiles][kPacks][2];
  };
  struct Sums {
    float of[kRowTiles][kBatchTiles][4] = {};
  };
  // The operands of one product, in the order that the instruction wants.
  struct Left {
    std::uint32_t of[4];
  };
  struct Right {
    std::uint32_t of[2];
  };

  LinearProblem<Value> problem;
  std::int64_t tile_row;

  MASE_HOST_DEVICE std::int64_t steps() const { return ceil_div(problem.weight.columns, kStep); }

  MASE_HOST_DEVICE std::int64_t column(int thread, std::int64_t step, int pack) const {
    return step * kStep + thread / kWarp * kSlice + pack * 4 * kPack + thread % 4 * kPack;
  }

  // A thread has rows thread % 32 / 4 and eight more of each 16, and a quarter of their columns.
  MASE_HOST_DEVICE void load_weights(int thread, std::int64_t step, Weights& weights) const {
    const Matrix& weight = problem.weight;
    CUTE_UNROLL
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t first = column(thread, step, pack);
      const bool within = first < weight.columns;
      const std::int64_t block = within ? weight.block_of(first) : 0;
      CUTE_UNROLL
      for (int tile = 0; tile < kRowTiles; ++tile) {
        CUTE_UNROLL
        for (int half = 0; half < 2; ++half) {
          // Rows that do not exist repeat the last one, and are not stored.
          std::int64_t row = tile_row * kRows + tile * 16 + half * 8 + thread % kWarp / 4;
          row = row < weight.rows ? row : weight.rows - 1;
          weights.codes[tile][half][pack] =
              within ? load_once(weight.codes + row * weight.columns + first) : Words{};
          weights.exponents[tile][half][pack] =
              within ? weight.exponents[row * weight.blocks + block] : std::uint8_t{0};
        }
      }
    }
  }

  // A thread has the row thread % 32 / 4 of each eight, and the columns of its codes.
  MASE_HOST_DEVICE void load_values(int thread, std::int64_t step, Values& values) const {
    CUTE_UNROLL
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t first = column(thread, step, pack);
      CUTE_UNROLL
      for (int tile = 0; tile < kBatchTiles; ++tile) {
        const int row = tile * 8 + thread % kWarp / 4;
        const bool inside = first < problem.weight.columns && row < problem.batch;
        const Value* source = problem.values + row * problem.weight.columns + first;
        CUTE_UNROLL
        for (int half = 0; half < 2; ++half) {
          values.halves[tile][pack][half] =
              inside ? reinterpret_cast<const Words*>(source)[half] : Words{};
        }
      }
    }
  }

  MASE_HOST_DEVICE static Left left(const Weights& weights, int tile, int pack, int product) {
    Left result;
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t scale = scale_pair(weights.exponents[tile][half][pack]);
      const std::uint32_t codes = weights.codes[tile][half][pack].word[product];
      result.of[half] = decode_pair(spread_bytes<false>(codes), scale);
      result.of[half + 2] = decode_pair(spread_bytes<true>(codes), scale);
    }
    return result;
  }

  MASE_HOST_DEVICE static Right right(const Values& values, int tile, int pack, int product) {
    const Words& half = values.halves[tile][pack][product / 2];
    return {half.word[product % 2 * 2], half.word[product % 2 * 2 + 1]};
  }

  // Calls multiply(sums, left, right) for every product of a step.
  template <class Multiply>
  MASE_HOST_DEVICE static void accumulate(const Weights& weights, const Values& values, Sums& sums,
                                          const Multiply& multiply) {
    CUTE_UNROLL
    for (int pack = 0; pack < kPacks; ++pack) {
      CUTE_UNROLL
      for (int product = 0; product < kProducts; ++product) {
        CUTE_UNROLL
        for (int tile = 0; tile < kRowTiles; ++tile) {
          const Left operand = left(weights, tile, pack, product);
          CUTE_UNROLL
          for (int batch = 0; batch < kBatchTiles; ++batch) {
            multiply(sums.of[tile][batch], operand, right(values, batch, pack, product));
          }
        }
      }
    }
  }

  MASE_HOST_DEVICE void share(float* shared_memory, int thread, const Sums& sums) const {
    CUTE_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      CUTE_UNROLL
      for (int batch = 0; batch < kBatchTiles; ++batch) {
        CUTE_UNROLL
        for (int at = 0; at < 4; ++at) {
          const int row = tile * 16 + at / 2 * 8 + thread % kWarp / 4;
          const int value = batch * 8 + thread % 4 * 2 + at % 2;
          shared_memory[Partial{}(thread / kWarp, value, row)] = sums.of[tile][batch][at];
        }
      }
    }
  }

  // Adds the sums of the warps, in ascending order, and writes the outputs.
  MASE_HOST_DEVICE void store(const float* shared_memory, int thread) const {
    for (int index = thread; index < kBatch * kRows; index += kThreads) {
      const int value = index / kRows;
      const std::int64_t output = tile_row * kRows + index % kRows;
      if (value >= problem.batch || output >= problem.weight.rows) continue;
      float total = 0;
      CUTE_UNROLL
      for (int warp = 0; warp < kWarps; ++warp) {
        total += shared_memory[Partial{}(warp, value, index % kRows)];
      }
      if (problem.bias) total += widen(problem.bias[output]);
      problem.out[value * problem.weight.rows + output] = narrow<Value>(total);
    }
  }

  // 16 bytes that no other thread needs.
  MASE_HOST_DEVICE static Words load_once(const std::int8_t* source) {
#if defined(__CUDA_ARCH__)
    Words result;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result.word[0]), "=r"(result.word[1]), "=r"(result.word[2]),
                   "=r"(result.word[3])
                 : "l"(source));
    return result;
#else
    return *reinterpret_cast<const Words*>(source);
#endif
  }
};

// Calls run(TileType) with the tile that fits the problem; batch is at most kMaxLinearBatch.
template <class Run>
auto with_mma_tile(const LinearProblem<std::uint16_t>& problem, const Run& run) {
  if (problem.batch <= 8) return run(TileType<MmaTile<1, 1, 2>>{});
  return run(TileType<MmaTile<2, 2, 1>>{});
}

}  // namespace mase::mxint8

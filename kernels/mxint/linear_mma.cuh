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

// kRowTiles: outputs / 16. kBatchTiles: rows of values / 8. kSteps: products of 64 columns that make
// a slice, all of them on their way at a time. kWhole: blocks are of 32, and slices and the
// exponents of a slice lie whole and aligned.
template <int kRowTiles_, int kBatchTiles_, int kSteps_, bool kWhole_, int kWarps_ = 8>
struct MmaTile {
  using Value = std::uint16_t;
  static constexpr int kRowTiles = kRowTiles_;
  static constexpr int kBatchTiles = kBatchTiles_;
  static constexpr int kSteps = kSteps_;
  static constexpr bool kWhole = kWhole_;
  static constexpr int kWarp = 32;
  static constexpr int kWarps = kWarps_;
  static constexpr int kThreads = kWarp * kWarps;
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kBatch = 8 * kBatchTiles;
  static constexpr int kPack = 16;             // codes of one load
  static constexpr int kProducts = kPack / 4;  // matrix products of a step: each takes four codes
  static constexpr int kStep = 4 * kPack;      // columns
  static constexpr int kSlice = kSteps * kStep;

  // [warp][row of values][output], the sums of all warps of a CTA.
  using Partial = cute::Layout<
      cute::Shape<cute::Int<kWarps>, cute::Int<kBatch>, cute::Int<kRows>>,
      cute::Stride<cute::Int<kBatch * kRows>, cute::Int<kRows>, cute::_1>>;
  static constexpr int kPartials = kWarps * kBatch * kRows;

  // A thread has rows thread % 32 / 4 and eight more of each 16, and a quarter of a step.
  struct Weights {
    Words codes[kRowTiles][2];
  };
  // Of a slice: those of all its blocks, or those of the thread's packs.
  struct Exponents {
    cute::uint_bit_t<16 * kSteps> of[kRowTiles][2];
  };
  // A thread has the row thread % 32 / 4 of each eight, and the columns of its codes.
  struct Values {
    Words halves[kBatchTiles][2];
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
  int block_bits;  // a block is of 2**block_bits

  // Where a thread's rows and columns begin.
  struct Start {
    const std::int8_t* codes[kRowTiles][2];
    const std::uint8_t* exponents[kRowTiles][2];
    const Value* values[kBatchTiles];
    int column;
    int slices;  // that its warp makes
  };

  MASE_HOST_DEVICE Start start(int thread) const {
    const Matrix& weight = problem.weight;
    Start start;
    const int first = thread / kWarp * kSlice;
    const int rest = static_cast<int>(weight.columns) - first;
    start.slices = rest > 0 ? (rest + kWarps * kSlice - 1) / (kWarps * kSlice) : 0;
    start.column = first + thread % 4 * kPack;
    const int lane = thread % kWarp / 4;
    // Rows that do not exist repeat the last one, and are not stored.
    CUTE_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        std::int64_t row = tile_row * kRows + tile * 16 + half * 8 + lane;
        row = row < weight.rows ? row : weight.rows - 1;
        start.codes[tile][half] = weight.codes + row * weight.columns;
        start.exponents[tile][half] = weight.exponents + row * weight.blocks;
      }
    }
    CUTE_UNROLL
    for (int tile = 0; tile < kBatchTiles; ++tile) {
      std::int64_t row = tile * 8 + lane;
      row = row < problem.batch ? row : problem.batch - 1;
      start.values[tile] = problem.values + row * weight.columns;
    }
    return start;
  }

  MASE_HOST_DEVICE bool within(int column) const {
    return kWhole || column < problem.weight.columns;
  }

  MASE_HOST_DEVICE void load_exponents(const Start& start, int slice, Exponents& exponents) const {
    const int first = start.column + slice * kWarps * kSlice;
    CUTE_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        auto& target = exponents.of[tile][half];
        const std::uint8_t* row = start.exponents[tile][half];
        if constexpr (kWhole) {
          using Whole = cute::remove_cvref_t<decltype(target)>;
          target = *reinterpret_cast<const Whole*>(row + first / kSlice * (kSlice / 32));
        } else {
          target = 0;
          CUTE_UNROLL
          for (int step = 0; step < kSteps; ++step) {
            const int column = first + step * kStep;
            const unsigned its = within(column) ? row[column >> block_bits] : 0;
            target |= static_cast<cute::remove_cvref_t<decltype(target)>>(its) << (16 * step);
          }
        }
      }
    }
  }

  MASE_HOST_DEVICE void load_weights(const Start& start, int slice, int step,
                                     Weights& weights) const {
    const int column = start.column + slice * kWarps * kSlice + step * kStep;
    CUTE_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        weights.codes[tile][half] =
            within(column) ? load_once(start.codes[tile][half] + column) : Words{};
      }
    }
  }

  MASE_HOST_DEVICE void load_values(const Start& start, int slice, int step,
                                    Values& values) const {
    const int column = start.column + slice * kWarps * kSlice + step * kStep;
    CUTE_UNROLL
    for (int tile = 0; tile < kBatchTiles; ++tile) {
      const auto* source = reinterpret_cast<const Words*>(start.values[tile] + column);
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        values.halves[tile][half] = within(column) ? source[half] : Words{};
      }
    }
  }

  MASE_HOST_DEVICE static Left left(int thread, int step, const Exponents& exponents,
                                    const Weights& weights, int tile, int product) {
    // Of the two blocks of a step, the quarters of a whole slice share one each.
    const int shift = 16 * step + (kWhole ? thread % 4 / 2 * 8 : 0);
    Left result;
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto exponent = static_cast<std::uint32_t>(exponents.of[tile][half] >> shift) & 0xFFu;
      const std::uint32_t scale = scale_pair(exponent);
      const std::uint32_t codes = weights.codes[tile][half].word[product];
      result.of[half] = decode_pair(spread_bytes<false>(codes), scale);
      result.of[half + 2] = decode_pair(spread_bytes<true>(codes), scale);
    }
    return result;
  }

  MASE_HOST_DEVICE static Right right(const Values& values, int tile, int product) {
    const Words& half = values.halves[tile][product / 2];
    return {half.word[product % 2 * 2], half.word[product % 2 * 2 + 1]};
  }

  // Calls multiply(sums, left, right) for every product of a step.
  template <class Multiply>
  MASE_HOST_DEVICE static void accumulate(int thread, int step, const Exponents& exponents,
                                          const Weights& weights, const Values& values, Sums& sums,
                                          const Multiply& multiply) {
    CUTE_UNROLL
    for (int product = 0; product < kProducts; ++product) {
      CUTE_UNROLL
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const Left operand = left(thread, step, exponents, weights, tile, product);
        CUTE_UNROLL
        for (int batch = 0; batch < kBatchTiles; ++batch) {
          multiply(sums.of[tile][batch], operand, right(values, batch, product));
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
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result.word[0]), "=r"(result.word[1]), "=r"(result.word[2]),
                   "=r"(result.word[3])
                 : "l"(source));
    return result;
#else
    return *reinterpret_cast<const Words*>(source);
#endif
  }
};

// Whether the matrix units' tiles take the problem: packs, and blocks of a power of two.
inline bool fits_mma(const LinearProblem<std::uint16_t>& problem) {
  const std::int64_t block = problem.weight.block;
  return vectorizable(problem) && (block & (block - 1)) == 0 &&
         problem.weight.columns < (std::int64_t{1} << 30);
}

// Calls run(TileType) with the tile that fits the problem; batch is at most kMaxLinearBatch. Many
// outputs fill the chip with CTAs of four warps, or with more outputs each where rows are short or
// of many values; few outputs need more warps.
template <class Run>
auto with_mma_tile(const LinearProblem<std::uint16_t>& problem, int multiprocessors,
                   const Run& run) {
  const Matrix& weight = problem.weight;
  const bool whole = weight.block == 32 && weight.columns % 256 == 0 &&
                     joint_address(weight.exponents) % 8 == 0;
  if (!whole) return run(TileType<MmaTile<1, 2, 2, false>>{});
  const auto at_least = [&](std::int64_t rows) { return weight.rows >= rows * multiprocessors; };
  if (problem.batch <= 8) {
    if (!at_least(48)) return run(TileType<MmaTile<1, 1, 2, true, 16>>{});
    return weight.columns < 8192 ? run(TileType<MmaTile<2, 1, 2, true, 4>>{})
                                 : run(TileType<MmaTile<1, 1, 4, true, 4>>{});
  }
  if (at_least(96)) return run(TileType<MmaTile<4, 2, 2, true, 4>>{});
  return at_least(48) ? run(TileType<MmaTile<2, 2, 2, true>>{})
                      : run(TileType<MmaTile<1, 2, 2, true>>{});
}

}  // namespace mase::mxint8

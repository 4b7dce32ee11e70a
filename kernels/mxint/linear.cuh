// SPDX-License-Identifier: Apache-2.0
//
// The weight-only linear layer for a few rows of values: one CTA makes kRows outputs of every row.
// The weight crosses device memory once, as one byte an element. As in dequantize.cuh, a phase is a
// function of the thread's index alone, so that tests run every thread of every CTA on the host.

#pragma once

#include <cmath>

#include <cute/tensor.hpp>

#include "matrix.cuh"

namespace mase::mxint8 {

constexpr int kMaxLinearBatch = 16;

template <class Value>
struct LinearProblem {
  Matrix weight;        // [outputs, columns]
  const Value* values;  // [batch, columns], float or the bits of bfloat16
  const Value* bias;    // [outputs] or null
  Value* out;           // [batch, outputs]
  std::int64_t batch;
};

// kVector: 16-byte accesses, for rows that keep that alignment and blocks of whole packs; otherwise
// one element each. kBatch: rows of values that the sums of a thread have room for.
template <class Value_, int kBatch_, bool kVector_>
struct LinearTile {
  using Value = Value_;
  static constexpr int kBatch = kBatch_;
  static constexpr bool kVector = kVector_;
  static constexpr int kWarp = 32;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarp * kWarps;
  static constexpr int kRowsPerWarp = 4;  // values read from shared memory serve as many products
  static constexpr int kRows = kWarps * kRowsPerWarp;
  static constexpr int kSharedBytes = 32 << 10;
  static constexpr int kFitting = kSharedBytes / (kBatch * int{sizeof(Value)});
  static constexpr int kColumns = kFitting < 4096 ? kFitting : 4096;  // of values held at a time

  static constexpr int kPack = kVector ? 16 : 1;                         // codes of one load
  static constexpr int kPart = kVector ? 16 / int{sizeof(Value)} : 1;  // values of one load
  static constexpr int kParts = kPack / kPart;
  static constexpr int kPacks = kColumns / kPack;
  using CodePack = cute::uint_bit_t<8 * kPack>;
  using ValuePack = cute::uint_bit_t<8 * kPart * int{sizeof(Value)}>;

  using Tiler = cute::Shape<cute::Int<kRows>, cute::Int<kColumns>>;
  // A warp crosses a row, its lanes on neighbouring packs; its further rows follow kWarps apart.
  using Threads = cute::Layout<cute::Shape<cute::Int<kWarps>, cute::Int<kWarp>>,
                               cute::Stride<cute::Int<kWarp>, cute::_1>>;
  // (row, column) with column = (value, part, pack): a part of each pack beside that of the next,
  // so that the lanes of a warp, a pack apart, read neighbouring 16 bytes.
  using Shared =
      cute::Layout<cute::Shape<cute::Int<kBatch>,
                               cute::Shape<cute::Int<kPart>, cute::Int<kParts>, cute::Int<kPacks>>>,
                   cute::Stride<cute::Int<kColumns>,
                                cute::Stride<cute::_1, cute::Int<kPart * kPacks>, cute::Int<kPart>>>>;

  struct Sums {
    float of[kRowsPerWarp][kBatch] = {};
  };

  LinearProblem<Value> problem;
  std::int64_t tile_row;

  MASE_HOST_DEVICE std::int64_t chunks() const {
    return ceil_div(problem.weight.columns, kColumns);
  }

  // Copies columns of every row of values to shared memory; rows that do not exist are zero.
  MASE_HOST_DEVICE void load(Value* shared_memory, int thread, std::int64_t chunk) const {
    constexpr int across = kColumns / kPart;
    for (int index = thread; index < kBatch * across; index += kThreads) {
      const int row = index / across;
      const int column = index % across * kPart;
      const std::int64_t first = chunk * kColumns + column;
      if (first >= problem.weight.columns) continue;  // never read
      const Value* source = problem.values + row * problem.weight.columns + first;
      *reinterpret_cast<ValuePack*>(shared_memory + Shared{}(row, column)) =
          row < problem.batch ? *reinterpret_cast<const ValuePack*>(source) : ValuePack{};
    }
  }

  // Adds the products of this thread's packs of the chunk, columns in ascending order.
  MASE_HOST_DEVICE void accumulate(const Value* shared_memory, int thread, std::int64_t chunk,
                                   Sums& sums) const {
    const Matrix& weight = problem.weight;
    auto whole = cute::make_tensor(cute::make_gmem_ptr(weight.codes),
                                   cute::make_shape(weight.rows, weight.columns),
                                   cute::make_stride(weight.columns, cute::_1{}));
    auto tile = cute::local_tile(whole, Tiler{}, cute::make_coord(tile_row, chunk));
    auto packs = cute::local_partition(cute::recast<const CodePack>(tile), Threads{}, thread);
    const int lane = thread % kWarp;
    for (int step = 0; step < kPacks / kWarp; ++step) {
      const int pack = step * kWarp + lane;
      const std::int64_t first = chunk * kColumns + pack * kPack;
      if (first >= weight.columns) return;
      alignas(16) std::int8_t codes[kRowsPerWarp][kPack];
      float scales[kRowsPerWarp];
      CUTE_UNROLL
      for (int row = 0; row < kRowsPerWarp; ++row) {
        const bool inside = output(thread, row) < weight.rows;
        *reinterpret_cast<CodePack*>(codes[row]) = inside ? packs(row, step) : CodePack{};
        scales[row] = inside ? scale_of(weight.exponents[output(thread, row) * weight.blocks +
                                                         weight.block_of(first)])
                             : 0.0f;
      }
      CUTE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        float weights[kRowsPerWarp][kPart];
        CUTE_UNROLL
        for (int row = 0; row < kRowsPerWarp; ++row) {
          CUTE_UNROLL
          for (int at = 0; at < kPart; ++at) {
            weights[row][at] = small_float(codes[row][part * kPart + at]) * scales[row];
          }
        }
        CUTE_UNROLL
        for (int batch = 0; batch < kBatch; ++batch) {
          alignas(16) Value values[kPart];
          const Value* source = shared_memory + Shared{}(batch, cute::make_coord(0, part, pack));
          *reinterpret_cast<ValuePack*>(values) = *reinterpret_cast<const ValuePack*>(source);
          CUTE_UNROLL
          for (int at = 0; at < kPart; ++at) {
            CUTE_UNROLL
            for (int row = 0; row < kRowsPerWarp; ++row) {
              float& sum = sums.of[row][batch];
              sum = fmaf(widen(values[at]), weights[row][at], sum);
            }
          }
        }
      }
    }
  }

  // Writes totals that every lane of a warp holds, each of them by one lane.
  MASE_HOST_DEVICE void store(const Sums& totals, int thread) const {
    const int lane = thread % kWarp;
    CUTE_UNROLL
    for (int row = 0; row < kRowsPerWarp; ++row) {
      const std::int64_t column = output(thread, row);
      if (column >= problem.weight.rows) return;
      const float offset = problem.bias ? widen(problem.bias[column]) : 0.0f;
      CUTE_UNROLL
      for (int batch = 0; batch < kBatch; ++batch) {
        if ((row * kBatch + batch) % kWarp == lane && batch < problem.batch) {
          const float total = totals.of[row][batch];
          problem.out[batch * problem.weight.rows + column] =
              narrow<Value>(problem.bias ? total + offset : total);
        }
      }
    }
  }

  // The output that one of a thread's rows of the weight makes.
  MASE_HOST_DEVICE std::int64_t output(int thread, int row) const {
    return tile_row * kRows + row * kWarps + thread / kWarp;
  }
};

template <class Tile>
struct TileType {
  using type = Tile;
};

// Whether rows keep the alignment of 16-byte accesses, and blocks are whole packs.
template <class Value>
bool vectorizable(const LinearProblem<Value>& problem) {
  const Matrix& weight = problem.weight;
  return joint_address(weight.codes, problem.values) % 16 == 0 && weight.columns % 16 == 0 &&
         weight.block % 16 == 0;
}

// Calls run(TileType) with the tile that fits the problem; batch is at most kMaxLinearBatch.
template <class Value, class Run>
auto with_linear_tile(const LinearProblem<Value>& problem, const Run& run) {
  if constexpr (sizeof(Value) == sizeof(float)) {  // bfloat16 in packs: see linear_mma.cuh
    if (vectorizable(problem)) {
      if (problem.batch <= 1) return run(TileType<LinearTile<Value, 1, true>>{});
      if (problem.batch <= 4) return run(TileType<LinearTile<Value, 4, true>>{});
      if (problem.batch <= 8) return run(TileType<LinearTile<Value, 8, true>>{});
      return run(TileType<LinearTile<Value, kMaxLinearBatch, true>>{});
    }
  }
  return run(TileType<LinearTile<Value, kMaxLinearBatch, false>>{});
}

}  // namespace mase::mxint8

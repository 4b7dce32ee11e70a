// SPDX-License-Identifier: Apache-2.0
//
// The dequantization of one CTA tile, a function of the thread's index alone, so that tests run
// every thread of every CTA on the host.

#pragma once

#include <cute/tensor.hpp>

#include "matrix.cuh"

namespace mase::mxint8 {

using cute::_1;
using cute::Int;

struct Problem : Matrix {
  void* out;  // [rows, columns], 2 or 4 bytes each
};

// kVector: 16-byte stores, for data whose rows keep that alignment; otherwise one element each.
template <class OutBits, bool kVector>
struct DequantizeTile {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 32;
  static constexpr int kColumns = 256;
  static constexpr int kPack = kVector ? 16 / int{sizeof(OutBits)} : 1;
  static constexpr int kAcross = kColumns / kPack < kThreads ? kColumns / kPack : kThreads;

  using Tiler = cute::Shape<Int<kRows>, Int<kColumns>>;
  // Neighbouring threads touch neighbouring packs of a row; threads left over take further rows.
  using Threads = cute::Layout<cute::Shape<Int<kThreads / kAcross>, Int<kAcross>>,
                               cute::Stride<Int<kAcross>, _1>>;
  static constexpr int kPacks = kRows * kColumns / kPack / kThreads;  // of a thread
  static constexpr int kTogether = kPacks < 8 ? kPacks : 8;  // loads in flight before a store
  using CodePack = cute::uint_bit_t<8 * kPack>;
  using OutPack = cute::uint_bit_t<8 * kPack * int{sizeof(OutBits)}>;

  Problem problem;
  std::int64_t tile_row;
  std::int64_t tile_column;

  template <class Pack, class Element>
  MASE_HOST_DEVICE auto packs(Element* pointer, int thread) const {
    auto whole = cute::make_tensor(cute::make_gmem_ptr(pointer),
                                   cute::make_shape(problem.rows, problem.columns),
                                   cute::make_stride(problem.columns, _1{}));
    auto tile = cute::local_tile(whole, Tiler{}, cute::make_coord(tile_row, tile_column));
    return cute::local_partition(cute::recast<Pack>(tile), Threads{}, thread);
  }

  // Packs never straddle the tensor's edge: its columns are a multiple of them.
  MASE_HOST_DEVICE void run(int thread) const {
    auto source = packs<const CodePack>(problem.codes, thread);
    auto target = packs<OutPack>(static_cast<OutBits*>(problem.out), thread);
    auto where = cute::local_partition(
        cute::make_identity_tensor(cute::make_shape(Int<kRows>{}, Int<kColumns / kPack>{})),
        Threads{}, thread);
    CUTE_UNROLL
    for (int start = 0; start < kPacks; start += kTogether) {
      CodePack codes[kTogether];
      std::uint8_t exponents[kTogether];
      CUTE_UNROLL
      for (int at = 0; at < kTogether; ++at) {
        const std::int64_t row = tile_row * kRows + cute::get<0>(where(start + at));
        const std::int64_t column = tile_column * kColumns + cute::get<1>(where(start + at)) * kPack;
        if (row >= problem.rows || column >= problem.columns) continue;
        codes[at] = source(start + at);
        exponents[at] = problem.exponents[row * problem.blocks + problem.block_of(column)];
      }
      CUTE_UNROLL
      for (int at = 0; at < kTogether; ++at) {
        const std::int64_t row = tile_row * kRows + cute::get<0>(where(start + at));
        const std::int64_t column = tile_column * kColumns + cute::get<1>(where(start + at)) * kPack;
        if (row >= problem.rows || column >= problem.columns) continue;
        target(start + at) = decode_pack(codes[at], exponents[at], row, column);
      }
    }
  }

  MASE_HOST_DEVICE OutPack decode_pack(CodePack pack, std::uint8_t shared_exponent,
                                       std::int64_t row, std::int64_t column) const {
    alignas(16) OutBits values[kPack];
    const bool one_block = problem.block % kPack == 0;
    if constexpr (kVector && sizeof(OutBits) == 2) {
      if (one_block) {
        const std::uint32_t scale = scale_pair(shared_exponent);
        const bool nan = shared_exponent == kExponentNan;
        alignas(16) std::uint32_t pairs[kPack / 2];
        CUTE_UNROLL
        for (int word = 0; word < kPack / 4; ++word) {
          const auto four = static_cast<std::uint32_t>(pack >> (32 * word));
          pairs[2 * word] = nan ? 0x7FC07FC0u : decode_pair(spread_bytes<false>(four), scale);
          pairs[2 * word + 1] = nan ? 0x7FC07FC0u : decode_pair(spread_bytes<true>(four), scale);
        }
        return *reinterpret_cast<const OutPack*>(pairs);
      }
    }
    const std::uint8_t* exponents = problem.exponents + row * problem.blocks;
    CUTE_UNROLL
    for (int lane = 0; lane < kPack; ++lane) {
      const std::uint8_t exponent =
          one_block ? shared_exponent : exponents[problem.block_of(column + lane)];
      const auto code = static_cast<std::int8_t>(pack >> (8 * lane));
      const std::uint32_t bits = decode(code, exponent);
      values[lane] = static_cast<OutBits>(sizeof(OutBits) == 2 ? bits >> 16 : bits);
    }
    return *reinterpret_cast<const OutPack*>(values);
  }
};

// Rows shorter than a tile leave its threads idle: dense data in whole blocks is cut anew.
inline Problem widen(Problem problem, int columns) {
  const bool whole = problem.columns % problem.block == 0 && columns % problem.block == 0;
  if (whole && problem.rows * problem.columns % columns == 0) {
    problem.rows = problem.rows * problem.columns / columns;
    problem.columns = columns;
    problem.blocks = columns / problem.block;
  }
  return problem;
}

inline bool vectorizable(const Problem& problem) {
  return joint_address(problem.codes, static_cast<const char*>(problem.out)) % 16 == 0 &&
         problem.columns % 16 == 0;
}

}  // namespace mase::mxint8

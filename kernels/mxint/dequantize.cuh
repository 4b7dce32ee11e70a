// SPDX-License-Identifier: Apache-2.0
//
// The dequantization of one CTA tile, a function of the thread's index alone, so that tests run
// every thread of every CTA on the host.

#pragma once

#include <type_traits>

#include <cute/tensor.hpp>

#include "matrix.cuh"

namespace mase::mxint8 {

using cute::_1;
using cute::Int;

struct Problem : Matrix {
  void* out;  // [rows, columns], 2 or 4 bytes each
};

template <int kBytes>
struct alignas(kBytes < 16 ? kBytes : 16) Pack {
  std::uint32_t word[kBytes / 4];
};

// kVector: 16-byte loads and stores, for data whose rows keep that alignment; otherwise one element
// each.
template <class OutBits, bool kVector, int kRows_ = 32, int kThreads_ = 256>
struct DequantizeTile {
  static constexpr int kThreads = kThreads_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = 256;
  static constexpr int kCodes = kVector ? 16 : 1;  // of a pack
  static constexpr int kAcross = kColumns / kCodes;
  static constexpr int kDown = kThreads / kAcross > 0 ? kThreads / kAcross : 1;
  static constexpr int kPacks = kRows / kDown;  // of a thread
  static constexpr int kTogether = kPacks < 8 ? kPacks : 8;  // loads on their way before a store

  using Tiler = cute::Shape<Int<kRows>, Int<kColumns>>;
  // Neighbouring threads touch neighbouring packs of a row; threads left over take further rows.
  using Threads = cute::Layout<cute::Shape<Int<kDown>, Int<kAcross>>,
                               cute::Stride<Int<kAcross>, _1>>;
  using CodePack = std::conditional_t<kVector, Pack<16>, std::uint8_t>;
  using OutPack = std::conditional_t<kVector, Pack<16 * int{sizeof(OutBits)}>, OutBits>;

  Problem problem;
  std::int64_t tile_row;
  std::int64_t tile_column;

  template <class Element>
  MASE_HOST_DEVICE auto packs(void* pointer, int thread) const {
    auto whole = cute::make_tensor(
        cute::make_gmem_ptr(static_cast<Element*>(pointer)),
        cute::make_shape(problem.rows, problem.columns / kCodes),
        cute::make_stride(problem.columns / kCodes, _1{}));
    auto tile = cute::local_tile(whole, cute::Shape<Int<kRows>, Int<kAcross>>{},
                                 cute::make_coord(tile_row, tile_column));
    return cute::local_partition(tile, Threads{}, thread);
  }

  // Packs never straddle the tensor's edge: its columns are a multiple of them.
  MASE_HOST_DEVICE void run(int thread) const {
    auto source = packs<CodePack>(const_cast<std::int8_t*>(problem.codes), thread);
    auto target = packs<OutPack>(problem.out, thread);
    const std::int64_t column = tile_column * kColumns + thread % kAcross * kCodes;
    const std::int64_t first_row = tile_row * kRows + thread / kAcross;
    if (column >= problem.columns) return;
    const std::int64_t block = problem.block_of(column);
    CUTE_UNROLL
    for (int start = 0; start < kPacks; start += kTogether) {
      CodePack codes[kTogether];
      std::uint8_t exponents[kTogether];
      CUTE_UNROLL
      for (int at = 0; at < kTogether; ++at) {
        const std::int64_t row = first_row + (start + at) * kDown;
        if (row >= problem.rows) continue;
        codes[at] = source(start + at);
        exponents[at] = problem.exponents[row * problem.blocks + block];
      }
      CUTE_UNROLL
      for (int at = 0; at < kTogether; ++at) {
        const std::int64_t row = first_row + (start + at) * kDown;
        if (row >= problem.rows) continue;
        target(start + at) = decode_pack(codes[at], exponents[at], row, column);
      }
    }
  }

  MASE_HOST_DEVICE OutPack decode_pack(const CodePack& codes, std::uint8_t exponent,
                                       std::int64_t row, std::int64_t column) const {
    if constexpr (!kVector) {
      return narrowed(decode(static_cast<std::int8_t>(codes), exponent));
    } else {
      OutPack result;
      const bool one_block = problem.block % kCodes == 0;
      if (sizeof(OutBits) == 2 && one_block) {
        const std::uint32_t scale = scale_pair(exponent);
        const bool nan = exponent == kExponentNan;
        CUTE_UNROLL
        for (int word = 0; word < kCodes / 4; ++word) {
          const std::uint32_t four = codes.word[word];
          result.word[2 * word] = nan ? 0x7FC07FC0u : decode_pair(spread_bytes<false>(four), scale);
          result.word[2 * word + 1] =
              nan ? 0x7FC07FC0u : decode_pair(spread_bytes<true>(four), scale);
        }
        return result;
      }
      const std::uint8_t* exponents = problem.exponents + row * problem.blocks;
      CUTE_UNROLL
      for (int word = 0; word < kCodes * int{sizeof(OutBits)} / 4; ++word) {
        constexpr int kEach = 4 / int{sizeof(OutBits)};
        std::uint32_t bits = 0;
        CUTE_UNROLL
        for (int part = 0; part < kEach; ++part) {
          const int at = word * kEach + part;
          const auto code = static_cast<std::int8_t>(codes.word[at / 4] >> (at % 4 * 8));
          const std::uint8_t its =
              one_block ? exponent : exponents[problem.block_of(column + at)];
          bits |= static_cast<std::uint32_t>(narrowed(decode(code, its))) << (part * 16);
        }
        result.word[word] = bits;
      }
      return result;
    }
  }

  MASE_HOST_DEVICE static OutBits narrowed(std::uint32_t bits) {
    return static_cast<OutBits>(sizeof(OutBits) == 2 ? bits >> 16 : bits);
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

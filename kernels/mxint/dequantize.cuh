// SPDX-License-Identifier: Apache-2.0
//
// The dequantization of one CTA tile, in two phases with a barrier between them. A phase is a
// function of the thread's index alone, so that tests run every thread of every CTA on the host.

#pragma once

#include <cute/tensor.hpp>

#include "matrix.cuh"

namespace mase::mxint8 {

using cute::_1;
using cute::Int;

struct Problem : Matrix {
  void* out;  // [rows, columns], 2 or 4 bytes each
};

// kVector: 16-byte accesses, for data whose rows keep that alignment; otherwise one element each.
template <class OutBits, bool kVector, int kRows_ = 16>
struct DequantizeTile {
  static constexpr int kThreads = 16 * kRows_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = 256;
  static constexpr int kLoad = kVector ? 16 : 1;
  static constexpr int kStore = kVector ? 16 / int{sizeof(OutBits)} : 1;

  using Tiler = cute::Shape<Int<kRows>, Int<kColumns>>;
  using SharedLayout = cute::Layout<Tiler, cute::Stride<Int<kColumns>, _1>>;
  using LoadPack = cute::uint_bit_t<8 * kLoad>;
  using StorePack = cute::uint_bit_t<8 * kStore * int{sizeof(OutBits)}>;

  // Neighbouring threads touch neighbouring packs of a row; threads left over take further rows.
  template <int kPerThread>
  static constexpr auto thread_layout() {
    constexpr int across = kColumns / kPerThread < kThreads ? kColumns / kPerThread : kThreads;
    return cute::make_layout(cute::make_shape(Int<kThreads / across>{}, Int<across>{}),
                             cute::LayoutRight{});
  }

  static constexpr int kStores = kRows * kColumns / kStore / kThreads;  // of a thread
  // Of the packs that a thread stores; read with the codes, before the barrier.
  struct Exponents {
    std::uint8_t of[kStores];
  };

  Problem problem;
  std::int64_t tile_row;
  std::int64_t tile_column;

  template <class Element>
  MASE_HOST_DEVICE auto global_tile(Element* pointer) const {
    auto whole = cute::make_tensor(cute::make_gmem_ptr(pointer),
                                   cute::make_shape(problem.rows, problem.columns),
                                   cute::make_stride(problem.columns, _1{}));
    return cute::local_tile(whole, Tiler{}, cute::make_coord(tile_row, tile_column));
  }

  // Calls body(row within the tile, pack within that row, number) for this thread's packs that lie
  // inside the tensor. Packs never straddle its edge: columns are a multiple of them.
  template <int kPack, class Body>
  MASE_HOST_DEVICE void for_packs(int thread, const Body& body) const {
    auto coordinates = cute::make_identity_tensor(
        cute::make_shape(Int<kRows>{}, Int<kColumns / kPack>{}));
    auto mine = cute::local_partition(coordinates, thread_layout<kPack>(), thread);
    CUTE_UNROLL
    for (int index = 0; index < cute::size(mine); ++index) {
      const int row = cute::get<0>(mine(index));
      const int pack = cute::get<1>(mine(index));
      if (tile_row * kRows + row < problem.rows &&
          tile_column * kColumns + pack * kPack < problem.columns) {
        body(row, pack, index);
      }
    }
  }

  MASE_HOST_DEVICE Exponents load(std::int8_t* shared_memory, int thread) const {
    auto source = cute::recast<const LoadPack>(global_tile(problem.codes));
    auto shared = cute::make_tensor(shared_memory, SharedLayout{});
    auto target = cute::recast<LoadPack>(shared);
    for_packs<kLoad>(thread, [&](int row, int pack, int) { target(row, pack) = source(row, pack); });
    Exponents result{};
    for_packs<kStore>(thread, [&](int row, int pack, int number) {
      result.of[number] = exponents_of(row)[problem.block_of(first_of(pack))];
    });
    return result;
  }

  MASE_HOST_DEVICE void store(const std::int8_t* shared_memory, int thread,
                              const Exponents& exponents) const {
    auto codes = cute::make_tensor(shared_memory, SharedLayout{});
    auto target = cute::recast<StorePack>(global_tile(static_cast<OutBits*>(problem.out)));
    const bool one_block = problem.block % kStore == 0;
    for_packs<kStore>(thread, [&](int row, int pack, int number) {
      const std::uint8_t exponent = exponents.of[number];
      if constexpr (kVector && sizeof(OutBits) == 2) {
        if (one_block) {
          const auto* words = reinterpret_cast<const std::uint32_t*>(&codes(row, pack * kStore));
          target(row, pack) = decode_words(words, exponent);
          return;
        }
      }
      alignas(16) OutBits values[kStore];
      CUTE_UNROLL
      for (int lane = 0; lane < kStore; ++lane) {
        const std::uint8_t its =
            one_block ? exponent : exponents_of(row)[problem.block_of(first_of(pack) + lane)];
        const std::uint32_t bits = decode(codes(row, pack * kStore + lane), its);
        values[lane] = static_cast<OutBits>(sizeof(OutBits) == 2 ? bits >> 16 : bits);
      }
      target(row, pack) = *reinterpret_cast<const StorePack*>(values);
    });
  }

  // Eight codes under one exponent as bfloat16.
  MASE_HOST_DEVICE static StorePack decode_words(const std::uint32_t* words,
                                                 std::uint8_t exponent) {
    const std::uint32_t scale = scale_pair(exponent);
    alignas(16) std::uint32_t pairs[4];
    CUTE_UNROLL
    for (int word = 0; word < 2; ++word) {
      pairs[2 * word] = decode_pair(spread_bytes<false>(words[word]), scale);
      pairs[2 * word + 1] = decode_pair(spread_bytes<true>(words[word]), scale);
    }
    CUTE_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      pairs[pair] = exponent == kExponentNan ? 0x7FC07FC0u : pairs[pair];
    }
    return *reinterpret_cast<const StorePack*>(pairs);
  }

  MASE_HOST_DEVICE const std::uint8_t* exponents_of(int row) const {
    return problem.exponents + (tile_row * kRows + row) * problem.blocks;
  }

  MASE_HOST_DEVICE std::int64_t first_of(int pack) const {
    return tile_column * kColumns + pack * kStore;
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

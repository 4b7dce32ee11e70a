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
template <class OutBits, bool kVector>
struct DequantizeTile {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 16;
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

  // Calls body(pack index within the tile's row, row within the tile) for this thread's packs
  // that lie inside the tensor. Packs never straddle its edge: columns are a multiple of them.
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
        body(row, pack);
      }
    }
  }

  MASE_HOST_DEVICE void load(std::int8_t* shared_memory, int thread) const {
    auto source = cute::recast<const LoadPack>(global_tile(problem.codes));
    auto shared = cute::make_tensor(shared_memory, SharedLayout{});
    auto target = cute::recast<LoadPack>(shared);
    for_packs<kLoad>(thread, [&](int row, int pack) { target(row, pack) = source(row, pack); });
  }

  MASE_HOST_DEVICE void store(const std::int8_t* shared_memory, int thread) const {
    auto codes = cute::make_tensor(shared_memory, SharedLayout{});
    auto target = cute::recast<StorePack>(global_tile(static_cast<OutBits*>(problem.out)));
    for_packs<kStore>(thread, [&](int row, int pack) {
      const std::uint8_t* exponents = problem.exponents + (tile_row * kRows + row) * problem.blocks;
      const std::int64_t first = tile_column * kColumns + pack * kStore;
      const bool one_block = problem.block % kStore == 0;
      const std::uint8_t shared_exponent = exponents[problem.block_of(first)];
      alignas(16) OutBits values[kStore];
      CUTE_UNROLL
      for (int lane = 0; lane < kStore; ++lane) {
        const std::uint8_t exponent =
            one_block ? shared_exponent : exponents[problem.block_of(first + lane)];
        const std::uint32_t bits = decode(codes(row, pack * kStore + lane), exponent);
        values[lane] = static_cast<OutBits>(sizeof(OutBits) == 2 ? bits >> 16 : bits);
      }
      target(row, pack) = *reinterpret_cast<const StorePack*>(values);
    });
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

// Data that is dense and in whole blocks of a power of two, as one row: no pack looks for its row.
// The phases are those of `DequantizeTile`; exponents are read with the codes, before the barrier.
template <class OutBits, int kThreads_ = 128, int kLoads_ = 1>
struct FlatTile {
  static constexpr int kThreads = kThreads_;
  static constexpr int kLoads = kLoads_;  // of 16 codes, of a thread
  static constexpr int kStore = 16 / int{sizeof(OutBits)};
  static constexpr int kStores = kLoads * 16 / kStore;
  static constexpr int kCodes = kThreads * kLoads * 16;

  using LoadPack = cute::uint_bit_t<128>;
  using StorePack = cute::uint_bit_t<128>;
  struct Exponents {
    std::uint8_t of[kStores];
  };

  Problem problem;
  std::int64_t tile;
  int block_bits;  // a block is of 2**block_bits

  // Of the tile's codes, how many exist.
  MASE_HOST_DEVICE int count() const {
    const std::int64_t rest = problem.rows * problem.columns - tile * kCodes;
    return rest < kCodes ? static_cast<int>(rest) : kCodes;
  }

  MASE_HOST_DEVICE Exponents load(std::int8_t* shared_memory, int thread) const {
    const int here = count();
    const std::int8_t* codes = problem.codes + tile * kCodes;
    const std::uint8_t* exponents = problem.exponents + (tile * kCodes >> block_bits);
    CUTE_UNROLL
    for (int at = 0; at < kLoads; ++at) {
      const int first = (at * kThreads + thread) * 16;
      if (first < here) {
        *reinterpret_cast<LoadPack*>(shared_memory + first) =
            *reinterpret_cast<const LoadPack*>(codes + first);
      }
    }
    Exponents result{};
    CUTE_UNROLL
    for (int at = 0; at < kStores; ++at) {
      const int first = (at * kThreads + thread) * kStore;
      if (first < here) result.of[at] = exponents[first >> block_bits];
    }
    return result;
  }

  MASE_HOST_DEVICE void store(const std::int8_t* shared_memory, int thread,
                              const Exponents& exponents) const {
    const int here = count();
    auto* out = static_cast<OutBits*>(problem.out) + tile * kCodes;
    CUTE_UNROLL
    for (int at = 0; at < kStores; ++at) {
      const int first = (at * kThreads + thread) * kStore;
      if (first >= here) continue;
      const auto* words = reinterpret_cast<const std::uint32_t*>(shared_memory + first);
      const std::uint32_t scale = scale_pair(exponents.of[at]);
      const bool nan = exponents.of[at] == kExponentNan;
      alignas(16) std::uint32_t values[4];
      CUTE_UNROLL
      for (int pair = 0; pair < kStore / 2; ++pair) {
        const std::uint32_t codes = pair % 2 == 0 ? spread_bytes<false>(words[pair / 2])
                                                  : spread_bytes<true>(words[pair / 2]);
        const std::uint32_t two = nan ? 0x7FC07FC0u : decode_pair(codes, scale);
        if constexpr (sizeof(OutBits) == 2) {
          values[pair] = two;
        } else {
          values[2 * pair] = two << 16;
          values[2 * pair + 1] = two & 0xFFFF0000u;
        }
      }
      *reinterpret_cast<StorePack*>(out + first) = *reinterpret_cast<const StorePack*>(values);
    }
  }
};

inline bool is_flat(const Problem& problem) {
  const std::int64_t block = problem.block;
  return (block & (block - 1)) == 0 && block >= 16 && problem.columns % block == 0 &&
         joint_address(problem.codes, static_cast<const char*>(problem.out)) % 16 == 0;
}

}  // namespace mase::mxint8

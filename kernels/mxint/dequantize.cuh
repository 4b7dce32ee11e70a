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

}  // namespace mase::mxint8

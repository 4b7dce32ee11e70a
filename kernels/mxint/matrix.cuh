// SPDX-License-Identifier: Apache-2.0
//
// A dense row-major matrix in MXINT8, as the kernels see it.

#pragma once

#include "bits.cuh"

namespace mase::mxint8 {

struct Matrix {
  const std::int8_t* codes;       // [rows, columns]
  const std::uint8_t* exponents;  // [rows, blocks]
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t block;
  std::int64_t blocks;  // of a row

  // Index of the block of a row that holds a column; 64-bit divisions are slow on the device.
  MASE_HOST_DEVICE std::int64_t block_of(std::int64_t column) const {
    if (block == 32) return column >> 5;
    if (columns <= INT32_MAX) {
      return static_cast<std::uint32_t>(column) / static_cast<std::uint32_t>(block);
    }
    return column / block;
  }
};

MASE_HOST_DEVICE std::int64_t ceil_div(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

inline Matrix make_matrix(const void* codes, const void* exponents, std::int64_t rows,
                          std::int64_t columns, std::int64_t block) {
  return {static_cast<const std::int8_t*>(codes),
          static_cast<const std::uint8_t*>(exponents),
          rows,
          columns,
          block,
          ceil_div(columns, block)};
}

inline int bits_of(std::int64_t power_of_two) {
  int bits = 0;
  while (power_of_two >> (bits + 1)) ++bits;
  return bits;
}

// The low bits of all addresses together: zero below 16 when each allows 16-byte accesses.
template <class... Pointer>
std::uintptr_t joint_address(const Pointer*... pointers) {
  return (reinterpret_cast<std::uintptr_t>(pointers) | ...);
}

}  // namespace mase::mxint8

// SPDX-License-Identifier: Apache-2.0
//
// MXINT8 on the CPU: quantize, dequantize and linear layers, equal to reference.py on every bit
// (the float sums of `linear` excepted, whose order is free). Plain C interface; the caller owns
// and checks every buffer, which is dense and row-major.

#include <omp.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

using bf16 = std::uint16_t;

template <int kValue>
using Number = std::integral_constant<int, kValue>;

constexpr int kExponentNan = 255;
constexpr int kDecodeBias = 133;  // E8M0 bias 127 plus six fraction bits
// Results beyond this size bypass the caches: little of them would stay there.
constexpr std::int64_t kStreamBytes = std::int64_t{16} << 20;

float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint32_t to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// 2**power for power in [-149, 127], subnormals included.
constexpr std::uint32_t power_bits(int power) {
  return power >= -126 ? static_cast<std::uint32_t>(power + 127) << 23
                       : std::uint32_t{1} << (power + 149);
}

// Bits of the factor of an INT8 code under each E8M0 exponent; the product with a code is exact.
constexpr std::array<std::uint32_t, 256> make_scales() {
  std::array<std::uint32_t, 256> scales{};
  for (int exponent = 0; exponent < kExponentNan; ++exponent) {
    scales[exponent] = power_bits(exponent - kDecodeBias);
  }
  scales[kExponentNan] = 0x7FC00000u;
  return scales;
}
constexpr std::array<std::uint32_t, 256> kScales = make_scales();

inline float scale_of(std::uint8_t exponent) { return from_bits(kScales[exponent]); }

// 2**23 times the factor of a code: the last bit of its fraction is worth one factor. NaN where that
// leaves float32.
constexpr std::array<std::uint32_t, 256> make_magic() {
  std::array<std::uint32_t, 256> magic{};
  for (int exponent = 0; exponent < 256; ++exponent) {
    const int power = exponent - kDecodeBias + 23;
    magic[exponent] = power <= 127 ? power_bits(power) : 0x7FC00000u;
  }
  return magic;
}
constexpr std::array<std::uint32_t, 256> kMagic = make_magic();

inline float magic_of(std::uint8_t exponent) { return from_bits(kMagic[exponent]); }

constexpr std::array<bf16, 32> make_odd_numbers() {
  std::array<bf16, 32> numbers{};
  for (int index = 0; index < 32; ++index) numbers[index] = static_cast<bf16>(2 * index + 1);
  return numbers;
}
alignas(64) constexpr std::array<bf16, 32> kOddNumbers = make_odd_numbers();

// Round to nearest even and keep subnormals, whatever mode the calling thread is in.
class DefaultFloatMode {
 public:
  DefaultFloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatMode() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
};

inline void store(float* out, float value) { *out = value; }
// Exact: decoded values have eight bits or fewer.
inline void store(bf16* out, float value) { *out = static_cast<bf16>(to_bits(value) >> 16); }

inline float load(float value) { return value; }
inline float load(bf16 value) { return from_bits(static_cast<std::uint32_t>(value) << 16); }

// Round to nearest even; NaNs stay NaN.
inline bf16 round_to_bf16(float value) {
  const std::uint32_t bits = to_bits(value);
  if (value != value) return static_cast<bf16>(bits >> 16 | 0x40u);
  return static_cast<bf16>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t block;
  std::int64_t blocks() const { return (columns + block - 1) / block; }
};

// Where the outputs of a linear layer go, in float32 or bfloat16; `bias` may be null.
struct Result {
  const void* bias;
  void* out;
  std::int64_t outputs;
  bool is_bf16;

  void put(std::int64_t row, std::int64_t output, float total) const {
    const std::int64_t index = row * outputs + output;
    if (is_bf16) {
      if (bias) total += load(static_cast<const bf16*>(bias)[output]);
      static_cast<bf16*>(out)[index] = round_to_bf16(total);
    } else {
      if (bias) total += static_cast<const float*>(bias)[output];
      static_cast<float*>(out)[index] = total;
    }
  }
};

// Columns that the linear layer takes at a time.
constexpr std::int64_t kUnit = 32;

// Rows of values as float32, on 64 bytes: of four rows, or of the fewer last ones, the first unit of
// each, then the second, with zeros beyond their columns.
struct Packed {
  const float* rows;
  std::int64_t count;
};

// What an instruction set offers; [is_bf16] and [bypass the caches] choose.
struct Path {
  void (*dequantize[2][2])(const std::int8_t*, const std::uint8_t*, void*, const Shape&,
                           std::int64_t, std::int64_t);
  void (*quantize[2])(const void*, std::int8_t*, std::uint8_t*, const Shape&, std::int64_t,
                      std::int64_t);
  void (*linear)(const Packed&, const std::int8_t*, const std::uint8_t*, const Result&,
                 const Shape&, std::int64_t, std::int64_t);
  void (*linear_both)(const std::int8_t*, const std::uint8_t*, const std::int8_t*,
                      const std::uint8_t*, const Result&, std::int64_t, const Shape&, std::int64_t,
                      std::int64_t);
};

// Sum of value * decoded code over a row of the weight, whatever the exponents; `pitch` is from one
// unit of values to the next.
float dot(const float* values, std::int64_t pitch, const std::int8_t* codes,
          const std::uint8_t* exponents, const Shape& weight) {
  float total = 0.0f;
  for (std::int64_t column = 0; column < weight.columns; ++column) {
    const float scale = scale_of(exponents[column / weight.block]);
    total += values[column / kUnit * pitch + column % kUnit] * (codes[column] * scale);
  }
  return total;
}

// 2**power for powers far outside float32, and NaN where either exponent is NaN.
inline double pair_scale(std::uint8_t left, std::uint8_t right) {
  if (left == kExponentNan || right == kExponentNan) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint64_t bits = static_cast<std::uint64_t>(left + right - 2 * kDecodeBias + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#define MASE_UNROLL _Pragma("GCC unroll 8")

namespace plain {
constexpr int kLanes = 4;
#define MASE_PATH 0
#include "cpu_lanes.h"
#undef MASE_PATH
}  // namespace plain

#if defined(__x86_64__)
#define MASE_PATH 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
constexpr int kLanes = 8;
#include "cpu_lanes.h"
}  // namespace avx2
#undef MASE_PATH
#define MASE_PATH 2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw")
#endif
namespace avx512 {
constexpr int kLanes = 16;
#include "cpu_lanes.h"
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef MASE_PATH
#endif

// The paths of this processor, the widest last.
int supported_paths() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? 3 : 2;
#else
  return 1;
#endif
}

#if defined(__x86_64__)
constexpr const Path* kPaths[] = {&plain::kPath, &avx2::kPath, &avx512::kPath};
#else
constexpr const Path* kPaths[] = {&plain::kPath};
#endif
const Path* path = kPaths[supported_paths() - 1];

// Splits [0, count) into one contiguous range per thread.
template <typename Body>
void parallel_ranges(std::int64_t count, int threads, const Body& body) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const DefaultFloatMode mode;
    const std::int64_t workers = omp_get_num_threads();
    const std::int64_t worker = omp_get_thread_num();
    body(count * worker / workers, count * (worker + 1) / workers);
  }
}

// Asks for huge pages under a large result: memory fresh from the system is otherwise faulted in
// 4 KiB at a time, which takes ten times as long as decoding. A refusal changes nothing.
void prefer_huge_pages(void* memory, std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge;
  const std::uintptr_t last = (begin + static_cast<std::uintptr_t>(bytes)) / kHuge * kHuge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

void dequantize(const std::int8_t* codes, const std::uint8_t* exponents, void* out, bool is_bf16,
                const Shape& shape, int threads) {
  if (shape.rows == 0 || shape.columns == 0) return;
  const std::int64_t bytes = shape.rows * shape.columns * (is_bf16 ? 2 : 4);
  const bool large = bytes >= kStreamBytes;
  const bool whole = shape.block % 32 == 0 && shape.columns % shape.block == 0;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  if (large) prefer_huge_pages(out, bytes);
  const auto decode = path->dequantize[is_bf16][large && whole && aligned];
  parallel_ranges(shape.rows * shape.blocks(), threads, [&](std::int64_t first, std::int64_t last) {
    decode(codes, exponents, out, shape, first, last);
  });
}

void quantize(const void* values, bool is_bf16, std::int8_t* codes, std::uint8_t* exponents,
              const Shape& shape, int threads) {
  if (shape.rows == 0 || shape.columns == 0) return;
  parallel_ranges(shape.rows * shape.blocks(), threads, [&](std::int64_t first, std::int64_t last) {
    path->quantize[is_bf16](values, codes, exponents, shape, first, last);
  });
}

void linear(const void* values, const std::int8_t* codes, const std::uint8_t* exponents,
            const Result& result, std::int64_t count, const Shape& weight, int threads) {
  constexpr std::align_val_t kLine{64};
  const std::int64_t width = (weight.columns + kUnit - 1) / kUnit * kUnit;
  auto* packed = new (kLine) float[static_cast<std::size_t>(count * width)];
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t rows = std::min<std::int64_t>(4, count - row / 4 * 4);
    for (std::int64_t start = 0; start < width; start += kUnit) {
      float* to = packed + row / 4 * 4 * width + start * rows + row % 4 * kUnit;
      const std::int64_t columns = std::min(kUnit, weight.columns - start);
      const std::int64_t from = row * weight.columns + start;
      for (std::int64_t at = 0; at < columns; ++at) {
        to[at] = result.is_bf16 ? load(static_cast<const bf16*>(values)[from + at])
                                : static_cast<const float*>(values)[from + at];
      }
      std::fill(to + columns, to + kUnit, 0.0f);
    }
  }
  parallel_ranges(weight.rows, threads, [&](std::int64_t first, std::int64_t last) {
    path->linear({packed, count}, codes, exponents, result, weight, first, last);
  });
  operator delete[](packed, kLine);
}

void linear_both(const std::int8_t* values, const std::uint8_t* value_exponents,
                 const std::int8_t* codes, const std::uint8_t* exponents, const Result& result,
                 std::int64_t count, const Shape& weight, int threads) {
  parallel_ranges(weight.rows, threads, [&](std::int64_t first, std::int64_t last) {
    path->linear_both(values, value_exponents, codes, exponents, result, count, weight, first,
                      last);
  });
}

}  // namespace

extern "C" {

int mase_mxint8_paths() { return supported_paths(); }

// Takes a path below `mase_mxint8_paths()`; the widest one is the default.
void mase_mxint8_choose(int index) { path = kPaths[index]; }

void mase_mxint8_dequantize(const std::int8_t* codes, const std::uint8_t* exponents, void* out,
                            std::int64_t rows, std::int64_t columns, std::int64_t block,
                            int is_bf16, int threads) {
  dequantize(codes, exponents, out, is_bf16, {rows, columns, block}, threads);
}

void mase_mxint8_quantize(const void* values, std::int8_t* codes, std::uint8_t* exponents,
                          std::int64_t rows, std::int64_t columns, std::int64_t block, int is_bf16,
                          int threads) {
  quantize(values, is_bf16, codes, exponents, {rows, columns, block}, threads);
}

// out[count, out_features] = values[count, in] @ weight[out_features, in].T + bias
void mase_mxint8_linear(const void* values, const std::int8_t* codes,
                        const std::uint8_t* exponents, const void* bias, void* out,
                        std::int64_t count, std::int64_t out_features, std::int64_t in_features,
                        std::int64_t block, int is_bf16, int threads) {
  linear(values, codes, exponents, {bias, out, out_features, is_bf16 != 0}, count,
         {out_features, in_features, block}, threads);
}

void mase_mxint8_linear_both(const std::int8_t* values, const std::uint8_t* value_exponents,
                             const std::int8_t* codes, const std::uint8_t* exponents,
                             const void* bias, void* out, std::int64_t count,
                             std::int64_t out_features, std::int64_t in_features,
                             std::int64_t block, int is_bf16, int threads) {
  linear_both(values, value_exponents, codes, exponents, {bias, out, out_features, is_bf16 != 0},
              count, {out_features, in_features, block}, threads);
}

}  // extern "C"

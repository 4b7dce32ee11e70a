// SPDX-License-Identifier: Apache-2.0
//
// MXINT8 on the CPU: quantize, dequantize and linear layers, equal to reference.py on every bit
// (the float sums of `linear` excepted, whose order is free). Plain C interface; the caller owns
// and checks every buffer, which is dense and row-major.

#include <omp.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__AVX2__)
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

float scale_of(std::uint8_t exponent) { return from_bits(kScales[exponent]); }

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

template <typename Value>
void store(Value* out, float value) {
  if constexpr (std::is_same_v<Value, float>) {
    *out = value;
  } else {
    *out = static_cast<bf16>(to_bits(value) >> 16);  // exact: decoded values have 8 bits or fewer
  }
}

float load(float value) { return value; }
float load(bf16 value) { return from_bits(static_cast<std::uint32_t>(value) << 16); }


#if defined(__AVX2__)
__m256 decode8(const std::int8_t* codes, __m256 scale) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), scale);
}

template <bool kStream>
void put16(float* out, __m256 low, __m256 high) {
  if constexpr (kStream) {
    _mm256_stream_ps(out, low);
    _mm256_stream_ps(out + 8, high);
  } else {
    _mm256_storeu_ps(out, low);
    _mm256_storeu_ps(out + 8, high);
  }
}

template <bool kStream>
void put16(bf16* out, __m256 low, __m256 high) {
  const __m256i left = _mm256_srli_epi32(_mm256_castps_si256(low), 16);
  const __m256i right = _mm256_srli_epi32(_mm256_castps_si256(high), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(left, right), 0xD8);
  auto* target = reinterpret_cast<__m256i*>(out);
  if constexpr (kStream) {
    _mm256_stream_si256(target, packed);
  } else {
    _mm256_storeu_si256(target, packed);
  }
}
#endif

// One block; with kStream, `out` lies on 32 bytes and `count` is a multiple of 16.
template <bool kStream, typename Value>
void decode_block(const std::int8_t* codes, std::uint8_t exponent, Value* out, std::int64_t count) {
  const float scale = scale_of(exponent);
  std::int64_t index = 0;
#if defined(__AVX2__)
  const __m256 scales = _mm256_set1_ps(scale);
  for (; index + 16 <= count; index += 16) {
    put16<kStream>(out + index, decode8(codes + index, scales), decode8(codes + index + 8, scales));
  }
#endif
  for (; index < count; ++index) store(out + index, static_cast<float>(codes[index]) * scale);
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t block;
  std::int64_t blocks() const { return (columns + block - 1) / block; }
};

// Calls body(block index, offset of its first element, elements in it) for this thread's blocks.
template <typename Body>
void for_blocks(const Shape& shape, std::int64_t first, std::int64_t last, const Body& body) {
  const std::int64_t per_row = shape.blocks();
  std::int64_t row = first / per_row;
  std::int64_t inside = first % per_row;
  for (std::int64_t index = first; index < last; ++index) {
    const std::int64_t start = inside * shape.block;
    body(index, row * shape.columns + start, std::min(shape.block, shape.columns - start));
    if (++inside == per_row) {
      inside = 0;
      ++row;
    }
  }
}

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

template <bool kStream, typename Value>
void decode_blocks(const std::int8_t* codes, const std::uint8_t* exponents, Value* out,
                   const Shape& shape, int threads) {
  parallel_ranges(shape.rows * shape.blocks(), threads, [&](std::int64_t first, std::int64_t last) {
    for_blocks(shape, first, last, [&](std::int64_t index, std::int64_t offset, std::int64_t n) {
      decode_block<kStream>(codes + offset, exponents[index], out + offset, n);
    });
#if defined(__AVX2__)
    if constexpr (kStream) _mm_sfence();
#endif
  });
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

template <typename Value>
void dequantize(const std::int8_t* codes, const std::uint8_t* exponents, Value* out,
                const Shape& shape, int threads) {
  if (shape.rows == 0 || shape.columns == 0) return;
  const std::int64_t bytes = shape.rows * shape.columns * static_cast<std::int64_t>(sizeof(Value));
  const bool whole = shape.block % 16 == 0 && shape.columns % shape.block == 0;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 32 == 0;
  if (bytes >= kStreamBytes) prefer_huge_pages(out, bytes);
  if (whole && aligned && bytes >= kStreamBytes) {
    decode_blocks<true>(codes, exponents, out, shape, threads);
  } else {
    decode_blocks<false>(codes, exponents, out, shape, threads);
  }
}

// The magnitude bits of floats order as integers do, infinities and NaNs on top.
template <typename Value>
std::uint32_t largest_magnitude(const Value* values, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    const auto bits = static_cast<std::int32_t>(to_bits(load(values[index])) & 0x7FFFFFFFu);
    largest = std::max(largest, bits);
  }
  return static_cast<std::uint32_t>(largest);
}

template <typename Value>
std::uint8_t encode_block(const Value* values, std::int8_t* codes, std::int64_t count) {
  const int exponent = static_cast<int>(largest_magnitude(values, count) >> 23);
  if (exponent == kExponentNan) {
    std::memset(codes, 0, static_cast<std::size_t>(count));
    return kExponentNan;
  }
  // 2**(133 - exponent) leaves float32 for small exponents: two exact steps.
  const int power = kDecodeBias - exponent;
  const float first = from_bits(power_bits(std::min(power, 127)));
  const float second = from_bits(power_bits(std::max(power - 127, 0)));
  constexpr float kRound = 12582912.0f;  // 1.5 * 2**23: adding it rounds to an integer, ties to even
  for (std::int64_t index = 0; index < count; ++index) {
    const float scaled = load(values[index]) * first * second;
    const auto rounded = static_cast<std::int32_t>(to_bits(scaled + kRound) - to_bits(kRound));
    codes[index] = static_cast<std::int8_t>(std::min(std::max(rounded, -127), 127));
  }
  return static_cast<std::uint8_t>(exponent);
}

template <typename Value>
void quantize(const Value* values, std::int8_t* codes, std::uint8_t* exponents, const Shape& shape,
              int threads) {
  if (shape.rows == 0 || shape.columns == 0) return;
  parallel_ranges(shape.rows * shape.blocks(), threads, [&](std::int64_t first, std::int64_t last) {
    for_blocks(shape, first, last, [&](std::int64_t index, std::int64_t offset, std::int64_t n) {
      exponents[index] = encode_block(values + offset, codes + offset, n);
    });
  });
}

// Sum over one block of value * decoded code, in float32.
float dot_block(const float* values, const std::int8_t* codes, float scale, std::int64_t count) {
  float total = 0.0f;
  for (std::int64_t index = 0; index < count; ++index) {
    total += values[index] * (static_cast<float>(codes[index]) * scale);
  }
  return total;
}

#if defined(__AVX2__) && defined(__FMA__)
float sum_lanes(__m256 lanes) {
  float values[8];
  _mm256_storeu_ps(values, lanes);
  float total = 0.0f;
  for (const float value : values) total += value;
  return total;
}

// Whole blocks of one weight row against kRows rows of values: each code is decoded once.
// kChains independent sums per row hide the latency of the multiply-add.
template <int kRows, int kChains>
void dot_whole_blocks(const float* values, std::int64_t stride, const std::int8_t* codes,
                      const std::uint8_t* exponents, std::int64_t blocks, std::int64_t block,
                      float* totals) {
  __m256 sums[kRows][kChains];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm256_setzero_ps();
  }
  for (std::int64_t index = 0; index < blocks; ++index) {
    const __m256 scale = _mm256_set1_ps(scale_of(exponents[index]));
    for (std::int64_t at = index * block; at < (index + 1) * block; at += 8 * kChains) {
      for (int chain = 0; chain < kChains; ++chain) {
        const __m256 weight = decode8(codes + at + 8 * chain, scale);
        for (int row = 0; row < kRows; ++row) {
          const __m256 value = _mm256_loadu_ps(values + row * stride + at + 8 * chain);
          sums[row][chain] = _mm256_fmadd_ps(value, weight, sums[row][chain]);
        }
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    totals[row] = 0.0f;
    for (int chain = 0; chain < kChains; ++chain) totals[row] += sum_lanes(sums[row][chain]);
  }
}

template <int kRows, int kChains>
void linear_rows(const float* values, const std::int8_t* codes, const std::uint8_t* exponents,
                 const float* bias, float* out, const Shape& weight, std::int64_t first,
                 std::int64_t last) {
  const std::int64_t whole = weight.columns / weight.block;
  const std::int64_t done = whole * weight.block;
  for (std::int64_t column = first; column < last; ++column) {
    const std::int8_t* row_codes = codes + column * weight.columns;
    const std::uint8_t* row_exponents = exponents + column * weight.blocks();
    float totals[kRows];
    dot_whole_blocks<kRows, kChains>(values, weight.columns, row_codes, row_exponents, whole,
                                     weight.block, totals);
    for (int row = 0; row < kRows; ++row) {
      if (done < weight.columns) {
        totals[row] += dot_block(values + row * weight.columns + done, row_codes + done,
                                 scale_of(row_exponents[whole]), weight.columns - done);
      }
      out[row * weight.rows + column] = bias ? totals[row] + bias[column] : totals[row];
    }
  }
}

// Registers of the widest vectors: sums of kTileRows rows of values with kTileOutputs of weights,
// and those that are multiplied.
#if defined(__AVX512F__)
using Lanes = __m512;
constexpr int kLanes = 16, kTileOutputs = 4, kTileRows = 6, kOutputsOfEight = 3;
Lanes load_lanes(const float* values) { return _mm512_loadu_ps(values); }
Lanes fused(Lanes left, Lanes right, Lanes sum) { return _mm512_fmadd_ps(left, right, sum); }
float sum_of(Lanes lanes) { return _mm512_reduce_add_ps(lanes); }
Lanes decode_lanes(const std::int8_t* codes, float scale) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), _mm512_set1_ps(scale));
}
#else
using Lanes = __m256;
constexpr int kLanes = 8, kTileOutputs = 3, kTileRows = 4, kOutputsOfEight = 1;
Lanes load_lanes(const float* values) { return _mm256_loadu_ps(values); }
Lanes fused(Lanes left, Lanes right, Lanes sum) { return _mm256_fmadd_ps(left, right, sum); }
float sum_of(Lanes lanes) { return sum_lanes(lanes); }
Lanes decode_lanes(const std::int8_t* codes, float scale) {
  return decode8(codes, _mm256_set1_ps(scale));
}
#endif
// Columns that are decoded at a time: a tile stays in the nearest caches.
constexpr std::int64_t kTileColumns = 1024;
// Fewer rows are bound by reading the weight.
constexpr int kTiledRows = 4;

// Add the products of kRows rows of values with a decoded tile to results of `outputs` columns.
template <int kRows>
void multiply_tile(const float* values, std::int64_t stride, const float* tile,
                   std::int64_t columns, float* out, std::int64_t out_stride, int outputs) {
  Lanes sums[kRows][kTileOutputs] = {};
  std::int64_t at = 0;
  for (; at + kLanes <= columns; at += kLanes) {
    Lanes weight[kTileOutputs];
    for (int output = 0; output < kTileOutputs; ++output) {
      weight[output] = load_lanes(tile + output * kTileColumns + at);
    }
    for (int row = 0; row < kRows; ++row) {
      const Lanes value = load_lanes(values + row * stride + at);
      for (int output = 0; output < kTileOutputs; ++output) {
        sums[row][output] = fused(value, weight[output], sums[row][output]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int output = 0; output < outputs; ++output) {
      float total = sum_of(sums[row][output]);
      for (std::int64_t rest = at; rest < columns; ++rest) {
        total += values[row * stride + rest] * tile[output * kTileColumns + rest];
      }
      out[row * out_stride + output] += total;
    }
  }
}

// Few rows: codes of whole blocks are decoded where they are multiplied.
template <int kRows, int kOutputs>
void linear_codes(const float* values, const std::int8_t* codes, const std::uint8_t* exponents,
                  const float* bias, float* out, const Shape& weight, std::int64_t first,
                  std::int64_t last) {
  for (std::int64_t column = first; column < last; column += kOutputs) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(kOutputs, last - column));
    // Of what is no output the last one is computed again.
    std::int64_t own[kOutputs];
    for (int output = 0; output < kOutputs; ++output) {
      own[output] = column + std::min(output, outputs - 1);
    }
    Lanes sums[kRows][kOutputs] = {};
    for (std::int64_t block = 0; block < weight.blocks(); ++block) {
      float scales[kOutputs];
      for (int output = 0; output < kOutputs; ++output) {
        scales[output] = scale_of(exponents[own[output] * weight.blocks() + block]);
      }
      const std::int64_t start = block * weight.block;
      for (std::int64_t at = start; at < start + weight.block; at += kLanes) {
        Lanes decoded[kOutputs];
        for (int output = 0; output < kOutputs; ++output) {
          decoded[output] = decode_lanes(codes + own[output] * weight.columns + at, scales[output]);
        }
        for (int row = 0; row < kRows; ++row) {
          const Lanes value = load_lanes(values + row * weight.columns + at);
          for (int output = 0; output < kOutputs; ++output) {
            sums[row][output] = fused(value, decoded[output], sums[row][output]);
          }
        }
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int output = 0; output < outputs; ++output) {
        const float total = sum_of(sums[row][output]);
        out[row * weight.rows + column + output] = bias ? total + bias[column + output] : total;
      }
    }
  }
}

// Each code is decoded once for all rows, a tile of outputs and columns at a time.
void linear_tiles(const float* values, const std::int8_t* codes, const std::uint8_t* exponents,
                  const float* bias, float* out, std::int64_t count, const Shape& weight,
                  std::int64_t first, std::int64_t last) {
  alignas(64) float tile[kTileOutputs * kTileColumns];
  const std::int64_t step = std::max<std::int64_t>(1, kTileColumns / weight.block);
  for (std::int64_t column = first; column < last; column += kTileOutputs) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(kTileOutputs, last - column));
    for (std::int64_t row = 0; row < count; ++row) {
      for (int output = 0; output < outputs; ++output) {
        out[row * weight.rows + column + output] = bias ? bias[column + output] : 0.0f;
      }
    }
    for (std::int64_t block = 0; block < weight.blocks(); block += step) {
      const std::int64_t start = block * weight.block;
      const std::int64_t columns = std::min(step * weight.block, weight.columns - start);
      for (int output = 0; output < outputs; ++output) {
        const std::int64_t row = column + output;
        for (std::int64_t at = 0; at < columns; at += weight.block) {
          decode_block<false>(codes + row * weight.columns + start + at,
                              exponents[row * weight.blocks() + block + at / weight.block],
                              tile + output * kTileColumns + at,
                              std::min(weight.block, columns - at));
        }
      }
      std::int64_t row = 0;
      const auto run = [&](auto rows) {
        multiply_tile<decltype(rows)::value>(values + row * weight.columns + start, weight.columns,
                                             tile, columns, out + row * weight.rows + column,
                                             weight.rows, outputs);
        row += decltype(rows)::value;
      };
      while (count - row >= kTileRows) run(Number<kTileRows>{});
      if (count - row >= 4) run(Number<4>{});
      if (count - row >= 2) run(Number<2>{});
      if (count - row >= 1) run(Number<1>{});
    }
  }
}
#endif

void linear_any(const float* values, const std::int8_t* codes, const std::uint8_t* exponents,
                const float* bias, float* out, std::int64_t count, const Shape& weight,
                std::int64_t first, std::int64_t last) {
  for (std::int64_t column = first; column < last; ++column) {
    for (std::int64_t row = 0; row < count; ++row) {
      float total = 0.0f;
      for (std::int64_t index = 0; index < weight.blocks(); ++index) {
        const std::int64_t start = index * weight.block;
        const std::int64_t n = std::min(weight.block, weight.columns - start);
        const float scale = scale_of(exponents[column * weight.blocks() + index]);
        total += dot_block(values + row * weight.columns + start,
                           codes + column * weight.columns + start, scale, n);
      }
      out[row * weight.rows + column] = bias ? total + bias[column] : total;
    }
  }
}

void linear(const float* values, const std::int8_t* codes, const std::uint8_t* exponents,
            const float* bias, float* out, std::int64_t count, const Shape& weight, int threads) {
  parallel_ranges(weight.rows, threads, [&](std::int64_t first, std::int64_t last) {
#if defined(__AVX2__) && defined(__FMA__)
    if ((count == 4 || count == 8) && weight.block % 32 == 0 &&
        weight.columns % weight.block == 0) {
      const auto few = count == 4 ? linear_codes<4, kTileOutputs> : linear_codes<8, kOutputsOfEight>;
      few(values, codes, exponents, bias, out, weight, first, last);
      return;
    }
    if (count >= kTiledRows && weight.block <= kTileColumns) {
      linear_tiles(values, codes, exponents, bias, out, count, weight, first, last);
      return;
    }
    if (weight.block % 32 == 0) {
      std::int64_t row = 0;
      const auto run = [&](auto rows, auto chains) {
        linear_rows<decltype(rows)::value, decltype(chains)::value>(
            values + row * weight.columns, codes, exponents, bias, out + row * weight.rows, weight,
            first, last);
        row += decltype(rows)::value;
      };
      while (count - row >= 2) run(Number<2>{}, Number<4>{});
      if (count - row >= 1) run(Number<1>{}, Number<4>{});
      return;
    }
#endif
    linear_any(values, codes, exponents, bias, out, count, weight, first, last);
  });
}

std::int32_t dot_codes(const std::int8_t* left, const std::int8_t* right, std::int64_t count) {
  std::int32_t total = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    total += static_cast<std::int16_t>(left[index]) * static_cast<std::int16_t>(right[index]);
  }
  return total;
}

// 2**power for powers far outside float32, and NaN where either exponent is NaN.
double pair_scale(std::uint8_t left, std::uint8_t right) {
  if (left == kExponentNan || right == kExponentNan) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint64_t bits = static_cast<std::uint64_t>(left + right - 2 * kDecodeBias + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <std::int64_t kBlock>
float dot_both(const std::int8_t* left, const std::uint8_t* left_exponents,
               const std::int8_t* right, const std::uint8_t* right_exponents, const Shape& shape) {
  const std::int64_t block = kBlock ? kBlock : shape.block;
  const std::int64_t whole = shape.columns / block;
  float total = 0.0f;
  for (std::int64_t index = 0; index < whole; ++index) {
    const std::int32_t dot = dot_codes(left + index * block, right + index * block, block);
    total += static_cast<float>(dot * pair_scale(left_exponents[index], right_exponents[index]));
  }
  const std::int64_t done = whole * block;
  if (done < shape.columns) {
    const std::int32_t dot = dot_codes(left + done, right + done, shape.columns - done);
    total += static_cast<float>(dot * pair_scale(left_exponents[whole], right_exponents[whole]));
  }
  return total;
}

void linear_both(const std::int8_t* values, const std::uint8_t* value_exponents,
                 const std::int8_t* codes, const std::uint8_t* exponents, const float* bias,
                 float* out, std::int64_t count, const Shape& weight, int threads) {
  const std::int64_t blocks = weight.blocks();
  const auto dot = weight.block == 32 ? dot_both<32> : dot_both<0>;
  parallel_ranges(weight.rows, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t column = first; column < last; ++column) {
      for (std::int64_t row = 0; row < count; ++row) {
        const float total = dot(values + row * weight.columns, value_exponents + row * blocks,
                                codes + column * weight.columns, exponents + column * blocks, weight);
        out[row * weight.rows + column] = bias ? total + bias[column] : total;
      }
    }
  });
}

}  // namespace

extern "C" {

void mase_mxint8_dequantize_float32(const std::int8_t* codes, const std::uint8_t* exponents,
                                    float* out, std::int64_t rows, std::int64_t columns,
                                    std::int64_t block, int threads) {
  dequantize(codes, exponents, out, {rows, columns, block}, threads);
}

void mase_mxint8_dequantize_bfloat16(const std::int8_t* codes, const std::uint8_t* exponents,
                                     bf16* out, std::int64_t rows, std::int64_t columns,
                                     std::int64_t block, int threads) {
  dequantize(codes, exponents, out, {rows, columns, block}, threads);
}

void mase_mxint8_quantize_float32(const float* values, std::int8_t* codes, std::uint8_t* exponents,
                                  std::int64_t rows, std::int64_t columns, std::int64_t block,
                                  int threads) {
  quantize(values, codes, exponents, {rows, columns, block}, threads);
}

void mase_mxint8_quantize_bfloat16(const bf16* values, std::int8_t* codes, std::uint8_t* exponents,
                                   std::int64_t rows, std::int64_t columns, std::int64_t block,
                                   int threads) {
  quantize(values, codes, exponents, {rows, columns, block}, threads);
}

// out[count, out_features] = values[count, in] @ weight[out_features, in].T + bias
void mase_mxint8_linear_float32(const float* values, const std::int8_t* codes,
                                const std::uint8_t* exponents, const float* bias, float* out,
                                std::int64_t count, std::int64_t out_features,
                                std::int64_t in_features, std::int64_t block, int threads) {
  linear(values, codes, exponents, bias, out, count, {out_features, in_features, block}, threads);
}

void mase_mxint8_linear_both_float32(const std::int8_t* values, const std::uint8_t* value_exponents,
                                     const std::int8_t* codes, const std::uint8_t* exponents,
                                     const float* bias, float* out, std::int64_t count,
                                     std::int64_t out_features, std::int64_t in_features,
                                     std::int64_t block, int threads) {
  linear_both(values, value_exponents, codes, exponents, bias, out, count,
              {out_features, in_features, block}, threads);
}

}  // extern "C"

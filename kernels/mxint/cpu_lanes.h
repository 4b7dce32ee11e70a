// SPDX-License-Identifier: Apache-2.0
//
// The CPU kernels for vectors of kLanes float32 numbers. cpu.cpp includes this file once for each
// instruction set, in a namespace of its own, so that one library holds them all.

using Lanes = float __attribute__((vector_size(4 * kLanes)));
using Bits = std::int32_t __attribute__((vector_size(4 * kLanes)));

inline Lanes load_lanes(const float* values) {
  Lanes lanes;
  std::memcpy(&lanes, values, sizeof lanes);
  return lanes;
}

#if MASE_PATH == 2
constexpr int kOutputs = 4;
inline Bits load_unsigned(const std::int8_t* codes) {
  return (Bits)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
}
inline Bits load_signed(const std::int8_t* codes) {
  return (Bits)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
}
inline Lanes broadcast(float value) { return _mm512_set1_ps(value); }
inline Lanes fused(Lanes left, Lanes right, Lanes sum) { return _mm512_fmadd_ps(left, right, sum); }
// Add the sum of each of four vectors.
inline void add_sums(const Lanes (&sums)[4], float* totals) {
  const Lanes left = _mm512_unpacklo_ps(sums[0], sums[1]) + _mm512_unpackhi_ps(sums[0], sums[1]);
  const Lanes right = _mm512_unpacklo_ps(sums[2], sums[3]) + _mm512_unpackhi_ps(sums[2], sums[3]);
  const Lanes all = (Lanes)_mm512_unpacklo_pd((__m512d)left, (__m512d)right) +
                    (Lanes)_mm512_unpackhi_pd((__m512d)left, (__m512d)right);
  const __m256 half = _mm512_castps512_ps256(all) +
                      (__m256)_mm512_extractf64x4_pd((__m512d)all, 1);
  const __m128 quarter = _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
  _mm_storeu_ps(totals, _mm_loadu_ps(totals) + quarter);
}
template <bool kStream>
void put(void* out, __m512i lanes) {
  kStream ? _mm512_stream_si512(static_cast<__m512i*>(out), lanes)
          : _mm512_storeu_si512(out, lanes);
}
template <bool kStream>
void put(float* out, Lanes low, Lanes high) {
  put<kStream>(static_cast<void*>(out), (__m512i)low);
  put<kStream>(static_cast<void*>(out + kLanes), (__m512i)high);
}
template <bool kStream>
void put(bf16* out, Lanes low, Lanes high) {
  const __m512i odd = _mm512_load_si512(kOddNumbers.data());
  const __m512i halves = _mm512_permutex2var_epi16((__m512i)low, odd, (__m512i)high);
  put<kStream>(static_cast<void*>(out), halves);
}
#elif MASE_PATH == 1
constexpr int kOutputs = 2;
inline Bits load_unsigned(const std::int8_t* codes) {
  return (Bits)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
}
inline Bits load_signed(const std::int8_t* codes) {
  return (Bits)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
}
inline Lanes broadcast(float value) { return _mm256_set1_ps(value); }
inline Lanes fused(Lanes left, Lanes right, Lanes sum) { return _mm256_fmadd_ps(left, right, sum); }
inline void add_sums(const Lanes (&sums)[2], float* totals) {
  const __m256 pairs = _mm256_hadd_ps(sums[0], sums[1]);
  const __m128 half = _mm256_castps256_ps128(pairs) + _mm256_extractf128_ps(pairs, 1);
  totals[0] += half[0] + half[1];
  totals[1] += half[2] + half[3];
}
template <bool kStream>
void put(void* out, __m256i lanes) {
  auto* target = static_cast<__m256i*>(out);
  kStream ? _mm256_stream_si256(target, lanes) : _mm256_storeu_si256(target, lanes);
}
template <bool kStream>
void put(float* out, Lanes low, Lanes high) {
  put<kStream>(static_cast<void*>(out), (__m256i)low);
  put<kStream>(static_cast<void*>(out + kLanes), (__m256i)high);
}
template <bool kStream>
void put(bf16* out, Lanes low, Lanes high) {
  const __m256i left = _mm256_srli_epi32((__m256i)low, 16);
  const __m256i right = _mm256_srli_epi32((__m256i)high, 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(left, right), 0xD8);
  put<kStream>(static_cast<void*>(out), packed);
}
#else
constexpr int kOutputs = 2;
inline Bits load_signed(const std::int8_t* codes) {
  return Bits{codes[0], codes[1], codes[2], codes[3]};
}
inline Bits load_unsigned(const std::int8_t* codes) { return load_signed(codes) & 0xFF; }
inline Lanes broadcast(float value) { return Lanes{value, value, value, value}; }
inline Lanes fused(Lanes left, Lanes right, Lanes sum) { return left * right + sum; }
inline void add_sums(const Lanes (&sums)[2], float* totals) {
  for (int output = 0; output < 2; ++output) {
    for (int lane = 0; lane < kLanes; ++lane) totals[output] += sums[output][lane];
  }
}
template <bool kStream, typename Value>
void put(Value* out, Lanes low, Lanes high) {
  for (int lane = 0; lane < kLanes; ++lane) {
    store(out + lane, low[lane]);
    store(out + kLanes + lane, high[lane]);
  }
}
#endif

// Keeps a value in a register that the compiler would otherwise load at each of its uses.
inline void keep([[maybe_unused]] Lanes& lanes) {
#if MASE_PATH > 0
  asm("" : "+v"(lanes));
#endif
}

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

// With kStream, `out` lies on 64 bytes and `count` is a multiple of 32.
template <bool kStream, typename Value>
void decode_block(const std::int8_t* codes, std::uint8_t exponent, Value* out, std::int64_t count) {
  const float scale = scale_of(exponent);
  std::int64_t at = 0;
  for (; at + 2 * kLanes <= count; at += 2 * kLanes) {
    const Lanes low = __builtin_convertvector(load_signed(codes + at), Lanes) * scale;
    const Lanes high = __builtin_convertvector(load_signed(codes + at + kLanes), Lanes) * scale;
    put<kStream>(out + at, low, high);
  }
  for (; at < count; ++at) store(out + at, static_cast<float>(codes[at]) * scale);
}

template <bool kStream, typename Value>
void dequantize(const std::int8_t* codes, const std::uint8_t* exponents, void* out,
                const Shape& shape, std::int64_t first, std::int64_t last) {
  auto* values = static_cast<Value*>(out);
  const bool units = shape.block == kUnit && shape.columns % kUnit == 0;
  for (std::int64_t index = first; units && index < last; ++index) {
    const std::int64_t offset = index * kUnit;
    decode_block<kStream>(codes + offset, exponents[index], values + offset, kUnit);
  }
  for_blocks(shape, units ? last : first, last, [&](std::int64_t index, std::int64_t offset,
                                                    std::int64_t count) {
    decode_block<kStream>(codes + offset, exponents[index], values + offset, count);
  });
#if MASE_PATH > 0
  if constexpr (kStream) _mm_sfence();
#endif
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
void quantize(const void* values, std::int8_t* codes, std::uint8_t* exponents, const Shape& shape,
              std::int64_t first, std::int64_t last) {
  const auto* source = static_cast<const Value*>(values);
  for_blocks(shape, first, last, [&](std::int64_t index, std::int64_t offset, std::int64_t count) {
    exponents[index] = encode_block(source + offset, codes + offset, count);
  });
}

// How a code gets its factor. For one row of values, kSum multiplies the sum of a block of 32 by it.
// Else codes are decoded once for all rows: as the low bits of a float, which `magic_of` gives for a
// block of 32 or a column, a code counts factors, 128 too many with its 0x80 bit inverted.
enum class Factor { kSum, kBlock, kColumn };

// Adds the products of kRows rows of values with kOutputs rows of codes to `totals`. Each unit of
// 32 columns has kRows times 32 values, and kOutputs factors or as many times 32.
template <int kRows, Factor kFactor>
void multiply(const float* values, const std::int8_t* const (&codes)[kOutputs],
              const std::uint8_t* const (&exponents)[kOutputs], const float* factors, std::int64_t units,
              float (&totals)[kRows][kOutputs]) {
  constexpr int kParts = kUnit / kLanes;
  Lanes sums[kRows][kOutputs] = {};
  for (std::int64_t start = 0; start < units * kUnit; start += kUnit) {
    if constexpr (kFactor == Factor::kSum) {
      Lanes value[kParts];
      MASE_UNROLL for (int part = 0; part < kParts; ++part) {
        value[part] = load_lanes(values + part * kLanes);
        keep(value[part]);
      }
      MASE_UNROLL for (int output = 0; output < kOutputs; ++output) {
        Lanes block = {};
        MASE_UNROLL for (int part = 0; part < kParts; ++part) {
          const Bits code = load_signed(codes[output] + start + part * kLanes);
          const Lanes weight = __builtin_convertvector(code, Lanes);
          block = part == 0 ? value[0] * weight : fused(value[part], weight, block);
        }
        sums[0][output] = fused(block, broadcast(magic_of(exponents[output][start / kUnit])), sums[0][output]);
      }
    } else {
      Lanes magic[kOutputs];
      MASE_UNROLL for (int output = 0; output < kOutputs; ++output) {
        if constexpr (kFactor == Factor::kBlock) {
          magic[output] = broadcast(magic_of(exponents[output][start / kUnit]));
        }
      }
      MASE_UNROLL for (int part = 0; part < kParts; ++part) {
        Lanes weight[kOutputs];
        MASE_UNROLL for (int output = 0; output < kOutputs; ++output) {
          if constexpr (kFactor == Factor::kColumn) {
            magic[output] = load_lanes(factors + output * kUnit + part * kLanes);
          }
          const Bits code = load_unsigned(codes[output] + start + part * kLanes) ^ 0x80;
          weight[output] = (Lanes)(code | (Bits)magic[output]) - (Lanes)((Bits)magic[output] | 0x80);
          keep(weight[output]);
        }
        MASE_UNROLL for (int row = 0; row < kRows; ++row) {
          Lanes value = load_lanes(values + row * kUnit + part * kLanes);
          keep(value);
          MASE_UNROLL for (int output = 0; output < kOutputs; ++output) {
            sums[row][output] = fused(value, weight[output], sums[row][output]);
          }
        }
      }
    }
    values += kRows * kUnit;
    factors += kOutputs * kUnit;
  }
  for (int row = 0; row < kRows; ++row) add_sums(sums[row], totals[row]);
}

// Outputs first to last of all rows of values.
inline void linear(const Packed& values, const std::int8_t* codes, const std::uint8_t* exponents,
                   const Result& result, const Shape& weight, std::int64_t first,
                   std::int64_t last) {
  const Factor factor = weight.block != kUnit ? Factor::kColumn
                        : values.count == 1   ? Factor::kSum
                                              : Factor::kBlock;
  const std::int64_t whole = weight.columns / kUnit;
  const std::int64_t rest = weight.columns % kUnit;
  const std::int64_t units = whole + (rest > 0);
  const std::unique_ptr<float[]> factors(new float[units * kOutputs * kUnit]);
  std::int8_t last_codes[kOutputs][kUnit] = {};
  for (std::int64_t column = first; column < last; column += kOutputs) {
    const int outputs = static_cast<int>(std::min<std::int64_t>(kOutputs, last - column));
    const std::int8_t* group[kOutputs];
    const std::int8_t* group_end[kOutputs];
    const std::uint8_t* its_exponents[kOutputs];
    const std::uint8_t* end_exponents[kOutputs];
    for (int output = 0; output < kOutputs; ++output) {
      // Of what is no output the last one is computed again.
      const std::int64_t row = column + std::min(output, outputs - 1);
      group[output] = codes + row * weight.columns;
      std::memcpy(last_codes[output], group[output] + whole * kUnit, rest);
      group_end[output] = last_codes[output];
      its_exponents[output] = exponents + row * weight.blocks();
      end_exponents[output] = its_exponents[output] + whole;
    }
    if (factor == Factor::kColumn) {
      for (std::int64_t at = 0; at < units * kUnit; ++at) {
        const std::int64_t block = std::min(at, weight.columns - 1) / weight.block;
        for (int output = 0; output < kOutputs; ++output) {
          factors[(at / kUnit * kOutputs + output) * kUnit + at % kUnit] =
              magic_of(its_exponents[output][block]);
        }
      }
    }
    std::int64_t row = 0;
    const auto run = [&](auto rows) {
      constexpr int kRows = decltype(rows)::value;
      float totals[kRows][kOutputs] = {};
      auto multiplied = multiply<kRows, Factor::kBlock>;
      if (factor == Factor::kColumn) multiplied = multiply<kRows, Factor::kColumn>;
      if constexpr (kRows == 1) {
        if (factor == Factor::kSum) multiplied = multiply<1, Factor::kSum>;
      }
      const float* source = values.rows + row * units * kUnit;
      multiplied(source, group, its_exponents, factors.get(), whole, totals);
      if (rest > 0) {
        multiplied(source + whole * kRows * kUnit, group_end, end_exponents,
                   factors.get() + whole * kOutputs * kUnit, 1, totals);
      }
      for (int of_row = 0; of_row < kRows; ++of_row) {
        for (int output = 0; output < outputs; ++output) {
          float total = totals[of_row][output] * (factor == Factor::kSum ? 0x1p-23f : 1.0f);
          // Factors of 2**105 and more have no magic number, and sums without a factor overflow.
          if (!(std::abs(total) <= std::numeric_limits<float>::max())) {
            total = dot(source + of_row * kUnit, kRows * kUnit, group[output],
                        exponents + (column + output) * weight.blocks(), weight);
          }
          result.put(row + of_row, column + output, total);
        }
      }
      row += kRows;
    };
    while (values.count - row >= 4) run(Number<4>{});
    if (values.count - row == 3) run(Number<3>{});
    if (values.count - row == 2) run(Number<2>{});
    if (values.count - row == 1) run(Number<1>{});
  }
}

inline std::int32_t dot_codes(const std::int8_t* left, const std::int8_t* right,
                              std::int64_t count) {
  std::int32_t total = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    total += static_cast<std::int16_t>(left[index]) * static_cast<std::int16_t>(right[index]);
  }
  return total;
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

inline void linear_both(const std::int8_t* values, const std::uint8_t* value_exponents,
                        const std::int8_t* codes, const std::uint8_t* exponents,
                        const Result& result, std::int64_t count, const Shape& weight,
                        std::int64_t first, std::int64_t last) {
  const std::int64_t blocks = weight.blocks();
  const auto dot = weight.block == 32 ? dot_both<32> : dot_both<0>;
  for (std::int64_t column = first; column < last; ++column) {
    for (std::int64_t row = 0; row < count; ++row) {
      result.put(row, column, dot(values + row * weight.columns, value_exponents + row * blocks,
                                  codes + column * weight.columns, exponents + column * blocks,
                                  weight));
    }
  }
}

constexpr Path kPath{{{dequantize<false, float>, dequantize<true, float>},
                      {dequantize<false, bf16>, dequantize<true, bf16>}},
                     {quantize<float>, quantize<bf16>},
                     linear,
                     linear_both};

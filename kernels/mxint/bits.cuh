// SPDX-License-Identifier: Apache-2.0
//
// MXINT8 decoded and encoded by moving bits; runs on the device and, for tests, on the host.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define MASE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MASE_HOST_DEVICE inline
#endif

namespace mase::mxint8 {

constexpr int kExponentNan = 255;
constexpr int kDecodeBias = 133;  // E8M0 bias 127 plus six fraction bits

MASE_HOST_DEVICE float as_float(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

MASE_HOST_DEVICE std::uint32_t as_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

// Float32 bits of a decoded element; their upper half is the same value in bfloat16, exactly.
//
// Sign, shared exponent and the low six magnitude bits make a float whose implicit one is right
// only when the magnitude's 0x40 bit is set. Otherwise a bias, the float of the same sign and
// exponent and zero fraction, is subtracted; the difference is exact.
MASE_HOST_DEVICE std::uint32_t decode(std::int8_t code, std::uint8_t exponent) {
  if (exponent == kExponentNan) return 0x7FC00000u;
  const std::uint32_t sign = code < 0 ? 0x80000000u : 0u;
  const std::uint32_t magnitude = code < 0 ? -static_cast<int>(code) : static_cast<int>(code);
  // Field 0 has no implicit one: there the magnitude is the subnormal's fraction.
  if (exponent == 0) return sign | (magnitude << 16);
  const std::uint32_t bias = sign | (static_cast<std::uint32_t>(exponent) << 23);
  if (magnitude == 0x80) return bias + 0x00800000u;  // code -128: the next power of two
  const std::uint32_t bits = bias | ((magnitude & 0x3Fu) << 17);
  if (magnitude & 0x40u) return bits;
  const std::uint32_t difference = as_bits(as_float(bits) - as_float(bias));
  return code == 0 ? 0u : difference;
}

MASE_HOST_DEVICE float power_of_two(int power) {
  return as_float(power >= -126 ? static_cast<std::uint32_t>(power + 127) << 23
                                : std::uint32_t{1} << (power + 149));
}

// The factor of a code under an exponent; every product but that of -128 at 254 is exact.
MASE_HOST_DEVICE float scale_of(std::uint8_t exponent) {
  return exponent == kExponentNan ? as_float(0x7FC00000u) : power_of_two(exponent - kDecodeBias);
}

// A code as float, faster than by conversion: 0x4B000000 is 2**23, whose last bit has weight one.
MASE_HOST_DEVICE float small_float(std::int8_t code) {
  return as_float(0x4B000000u | (static_cast<std::uint8_t>(code) ^ 0x80u)) - 8388736.0f;
}

// The factor of a value as two bfloat16, one in each half: 2**(e - 127), or NaN.
MASE_HOST_DEVICE std::uint32_t scale_pair(std::uint32_t exponent) {
  // Field 0 is 2**-127, a subnormal, and field 255 NaN: of both, the upper fraction bit is set.
  const std::uint32_t ends = ((exponent + 1) & 0xFEu) == 0 ? 0x00400040u : 0u;
  return exponent * 0x00800080u | ends;
}

// fma of the lower and of the upper bfloat16; rounding never happens in its uses here.
MASE_HOST_DEVICE std::uint32_t fma_pair(std::uint32_t left, std::uint32_t right,
                                        std::uint32_t offset) {
#if defined(__CUDA_ARCH__)
  std::uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(left), "r"(right), "r"(offset));
  return result;
#else
  std::uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto half = [shift](std::uint32_t pair) { return as_float(pair >> shift << 16); };
    const std::uint32_t bits = as_bits(half(left) * half(right) + half(offset));
    result |= bits >> 16 << shift;
  }
  return result;
#endif
}

// Bytes 0 and 1, or 2 and 3, of a word as the lower bytes of its halves, the upper being 0x40.
template <bool kUpper>
MASE_HOST_DEVICE std::uint32_t spread_bytes(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(word, 0x40404040u, kUpper ? 0x4342 : 0x4140);
#else
  word = kUpper ? word >> 16 : word;
  return (word & 0xFFu) | (word & 0xFF00u) << 8 | 0x40004000u;
#endif
}

// Two codes, spread, times 2**-6 and their factor as bfloat16: exact, NaN and the infinity of -128
// included.
//
// 0x4000 is 2 in bfloat16, whose last bit then has weight 2**-6: the low seven bits of a code make
// 2 + low * 2**-6. Bit 7, the sign, is the last bit of the exponent: alone it makes 2 or 4. The
// difference is the code times 2**-6.
MASE_HOST_DEVICE std::uint32_t decode_pair(std::uint32_t codes, std::uint32_t scale) {
  constexpr std::uint32_t kMinusOne = 0xBF80BF80u;
  return fma_pair(fma_pair(codes & 0xFF80FF80u, kMinusOne, codes & 0xFF7FFF7Fu), scale, 0);
}

// A float, or the bits of a bfloat16, as float.
MASE_HOST_DEVICE float widen(float value) { return value; }
MASE_HOST_DEVICE float widen(std::uint16_t value) {
  return as_float(static_cast<std::uint32_t>(value) << 16);
}

// A float as it is, or rounded to the bits of a bfloat16, ties to even.
template <class Value>
MASE_HOST_DEVICE Value narrow(float value) {
  if constexpr (sizeof(Value) == sizeof(float)) {
    return value;
  } else {
    const std::uint32_t bits = as_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
    return static_cast<Value>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
}

// The code of a finite value under the exponent of its block, ties to even.
MASE_HOST_DEVICE std::int8_t encode(float value, int exponent) {
  // 2**(133 - exponent) leaves float32 for small exponents: two exact steps.
  const int power = kDecodeBias - exponent;
  const float scaled = value * power_of_two(power < 127 ? power : 127) *
                       power_of_two(power > 127 ? power - 127 : 0);
  // 1.5 * 2**23: adding it rounds to an integer.
  const int code = static_cast<int>(as_bits(scaled + 12582912.0f) - 0x4B400000u);
  return static_cast<std::int8_t>(code < -127 ? -127 : code > 127 ? 127 : code);
}

}  // namespace mase::mxint8

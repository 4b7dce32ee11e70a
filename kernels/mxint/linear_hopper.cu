// SPDX-License-Identifier: Apache-2.0
//
// The weight-only linear layer for many rows of bfloat16 values on devices of capability 9.0.
//
// A tile is kOutputs x kBatch, made by two groups of four warps from kColumns columns at a time,
// with the weight as the left operand: its codes come to shared memory as bytes, are decoded into
// registers, and multiplied from there, while the other group multiplies. A warp of its own keeps
// kStages steps of both operands on their way. Two CTAs, neighbours in outputs, load half of the
// values each, for both.

#include <cuda.h>
#include <cuda_runtime.h>

#include <utility>

#include <cute/arch/mma_sm90_gmma.hpp>

#include "bits.cuh"
#include "matrix.cuh"

namespace {

using namespace mase::mxint8;

constexpr int kOutputs = 128;
constexpr int kBatch = 256;
constexpr int kColumns = 64;
constexpr int kBlock = 32;
constexpr int kStages = 4;
constexpr int kCluster = 2;
constexpr int kGroup = 128;  // threads of a warp group
constexpr int kConsumers = 2;
constexpr int kThreads = kGroup * (1 + kConsumers);
constexpr int kGroupOutputs = kOutputs / kConsumers;

constexpr int kValueBytes = kBatch * kColumns * 2;
constexpr int kCodeBytes = kOutputs * kColumns;
constexpr int kOutBytes = kBatch * kGroupOutputs * 2;  // of a group

struct alignas(1024) Shared {
  std::uint8_t values[kStages][kValueBytes];  // rows of 128 bytes, their 16-byte parts swizzled
  std::uint8_t out[kConsumers][kOutBytes];    // [row of values][output], likewise
  std::uint8_t codes[kStages][kCodeBytes];    // rows of 64 bytes, likewise
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

struct Layer {
  const std::uint8_t* exponents;
  const std::uint16_t* bias;
  std::uint16_t* out;
  std::int64_t batch;
  std::int64_t outputs;
  std::int64_t columns;
};

__device__ __forceinline__ std::uint32_t address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void wait(std::uint64_t& barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(address(&barrier)),
      "r"(parity)
      : "memory");
}

// Arrives at the barrier of the same place in a CTA of the cluster.
__device__ __forceinline__ void arrive(std::uint64_t& barrier, unsigned cta) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(address(&barrier)),
      "r"(cta)
      : "memory");
}

__device__ __forceinline__ void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

__device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void load_codes(const CUtensorMap& map, std::uint8_t* target,
                                           std::uint64_t& full, std::int64_t column,
                                           std::int64_t row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(address(target)),
      "l"(&map), "r"(address(&full)), "r"(static_cast<int>(column)), "r"(static_cast<int>(row))
      : "memory");
}

// To the same place of every CTA of the cluster.
__device__ __forceinline__ void load_values(const CUtensorMap& map, std::uint8_t* target,
                                            std::uint64_t& full, std::int64_t column,
                                            std::int64_t row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(address(target)),
      "l"(&map), "r"(address(&full)), "r"(static_cast<int>(column)), "r"(static_cast<int>(row)),
      "h"(static_cast<std::uint16_t>((1 << kCluster) - 1))
      : "memory");
}

// Where in the ring of stages a thread is.
struct Place {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

struct Tiles {
  std::int64_t across;  // along the rows of values
  std::int64_t total;   // pairs of tiles, one for each CTA of a cluster

  __device__ explicit Tiles(const Layer& layer)
      : across(ceil_div(layer.batch, kBatch)),
        total(across * ceil_div(layer.outputs, kOutputs * kCluster)) {}
  __device__ std::int64_t first_value(std::int64_t tile) const { return tile % across * kBatch; }
  __device__ std::int64_t first_output(std::int64_t tile, unsigned rank) const {
    return (tile / across * kCluster + rank) * kOutputs;
  }
};

__device__ __forceinline__ void produce(const CUtensorMap& values, const CUtensorMap& codes,
                                        const Layer& layer, Shared& shared) {
  constexpr int kShare = kBatch / kCluster;
  const Tiles tiles(layer);
  const unsigned rank = rank_in_cluster();
  const std::int64_t steps = layer.columns / kColumns;
  Place place;
  for (std::int64_t tile = blockIdx.x / kCluster; tile < tiles.total;
       tile += gridDim.x / kCluster) {
    const std::int64_t value = tiles.first_value(tile) + rank * kShare;
    const std::int64_t output = tiles.first_output(tile, rank);
    for (std::int64_t step = 0; step < steps; ++step, place.advance()) {
      std::uint64_t& full = shared.full[place.stage];
      wait(shared.empty[place.stage], place.parity ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&full)),
                   "r"(kValueBytes + kCodeBytes)
                   : "memory");
      load_codes(codes, shared.codes[place.stage], full, step * kColumns, output);
      load_values(values, shared.values[place.stage] + rank * (kValueBytes / kCluster), full,
                  step * kColumns, value);
    }
  }
}

using Multiply = cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_RS<cute::SM90::GMMA::Major::K,
                                                                cute::SM90::GMMA::Major::K>;
constexpr int kSums = kGroupOutputs * kBatch / kGroup;
constexpr int kProducts = kColumns / 16;

template <int... kIndex>
__device__ __forceinline__ void multiply(const std::uint32_t (&left)[4], std::uint64_t right,
                                         float (&sums)[kSums], bool add,
                                         std::integer_sequence<int, kIndex...>) {
  Multiply::fma(left[0], left[1], left[2], left[3], right, sums[kIndex]...,
                add ? cute::SM90::GMMA::ScaleOut::One : cute::SM90::GMMA::ScaleOut::Zero);
}

// The left operands of a step, two rows of a thread: rows are 64 bytes, and a part of 16 codes
// lies where the two upper bits of row % 8 were exclusive-ored to its number.
__device__ __forceinline__ void decode_step(const std::uint8_t* codes, int thread,
                                            const std::uint16_t (&exponents)[2],
                                            std::uint32_t (&left)[kProducts][4]) {
  const int row = thread / 32 * 16 + thread % 32 / 4;
  const std::uint8_t* rows = codes + row * kColumns + thread % 4 * 2;
  const int swizzle = row / 2 % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t scales[2];
    scales[0] = scale_pair(exponents[half] & 0xFFu);
    scales[1] = scale_pair(exponents[half] >> 8u);
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
      const std::uint8_t* part = rows + half * 8 * kColumns + (product ^ swizzle) * 16;
      const std::uint32_t first = *reinterpret_cast<const std::uint16_t*>(part);
      const std::uint32_t second = *reinterpret_cast<const std::uint16_t*>(part + 8);
      const std::uint32_t scale = scales[product / 2];
      left[product][half] = decode_pair(spread_bytes<false>(first), scale);
      left[product][half + 2] = decode_pair(spread_bytes<false>(second), scale);
    }
  }
}

// Start, and distance of eight rows, in units of 16 bytes; parts of 16 bytes swizzled over 128.
__device__ __forceinline__ std::uint64_t describe(const std::uint8_t* values) {
  return std::uint64_t{1} << 62 | std::uint64_t{64} << 32 | std::uint64_t{1} << 16 |
         (address(values) & 0x3FFFFu) >> 4;
}

__device__ __forceinline__ std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

__device__ __forceinline__ void write_tile(const Layer& layer, const float (&sums)[kSums],
                                           std::uint8_t* shared, int group, int thread,
                                           std::int64_t first_value, std::int64_t first_output) {
  const int lane = thread % 32, warp = thread / 32;
  float bias[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t output = first_output + warp * 16 + half * 8 + lane / 4;
    if (layer.bias && output < layer.outputs) bias[half] = widen(layer.bias[output]);
  }
  // Everyone has read what the last tile left there.
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"(kGroup) : "memory");
#pragma unroll
  for (int pair = 0; pair < kBatch / 16; ++pair) {
    // Four squares of eight by eight: two halves of the outputs, of two eights of values.
    std::uint32_t squares[4];
#pragma unroll
    for (int square = 0; square < 4; ++square) {
      const float* from = sums + (pair * 2 + square / 2) * 4 + square % 2 * 2;
      squares[square] = narrow_pair(from[0] + bias[square % 2], from[1] + bias[square % 2]);
    }
    const int value = pair * 16 + lane / 16 * 8 + lane % 8;
    const int part = (warp * 2 + lane / 8 % 2) ^ (value % 8);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     address(shared + value * kGroupOutputs * 2 + part * 16)),
                 "r"(squares[0]), "r"(squares[1]), "r"(squares[2]), "r"(squares[3])
                 : "memory");
  }
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"(kGroup) : "memory");
  const int part = thread % 8;
#pragma unroll 4
  for (int value = thread / 8; value < kBatch; value += kGroup / 8) {
    const std::int64_t output = first_output + part * 8;
    if (first_value + value >= layer.batch || output >= layer.outputs) continue;
    const std::uint8_t* from = shared + value * kGroupOutputs * 2 + (part ^ (value % 8)) * 16;
    *reinterpret_cast<uint4*>(layer.out + (first_value + value) * layer.outputs + output) =
        *reinterpret_cast<const uint4*>(from);
  }
}

__device__ __forceinline__ void consume(const Layer& layer, Shared& shared, int group,
                                        int thread) {
  const Tiles tiles(layer);
  const unsigned rank = rank_in_cluster();
  const std::int64_t steps = layer.columns / kColumns;
  const std::int64_t blocks = layer.columns / kBlock;
  constexpr auto kIndices = std::make_integer_sequence<int, kSums>{};
  Place place;
  float sums[kSums];
  std::uint32_t left[2][kProducts][4];
  for (std::int64_t tile = blockIdx.x / kCluster; tile < tiles.total;
       tile += gridDim.x / kCluster) {
    const std::int64_t first_output = tiles.first_output(tile, rank) + group * kGroupOutputs;
    const std::uint16_t* rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Rows that do not exist repeat the last one, and are not stored.
      std::int64_t row = first_output + thread / 32 * 16 + half * 8 + thread % 32 / 4;
      row = row < layer.outputs ? row : layer.outputs - 1;
      rows[half] = reinterpret_cast<const std::uint16_t*>(layer.exponents + row * blocks);
    }
    std::uint16_t now[2] = {rows[0][0], rows[1][0]};
    std::uint16_t next[2] = {};
    if (steps > 1) {
      next[0] = rows[0][1];
      next[1] = rows[1][1];
    }
    wait(shared.full[place.stage], place.parity);
    const std::uint8_t* codes = shared.codes[place.stage] + group * kGroupOutputs * kColumns;
    decode_step(codes, thread, now, left[0]);
    // Multiplies what was decoded, and decodes the next step meanwhile.
    const auto run = [&](std::int64_t step, std::uint32_t(&current)[kProducts][4],
                         std::uint32_t(&following)[kProducts][4]) {
      const std::uint64_t right = describe(shared.values[place.stage]);
      cute::warpgroup_arrive();
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
        multiply(current[product], right + product * 2, sums, step + product > 0, kIndices);
      }
      cute::warpgroup_commit_batch();
      const int done = place.stage;
      place.advance();
      if (step + 1 < steps) {
        now[0] = next[0];
        now[1] = next[1];
        if (step + 2 < steps) {
          next[0] = rows[0][step + 2];
          next[1] = rows[1][step + 2];
        }
        wait(shared.full[place.stage], place.parity);
        decode_step(shared.codes[place.stage] + group * kGroupOutputs * kColumns, thread, now,
                    following);
      }
      cute::warpgroup_wait<0>();
      if (thread % 32 < kCluster) arrive(shared.empty[done], static_cast<unsigned>(thread % 32));
    };
    for (std::int64_t step = 0; step < steps; step += 2) {
      run(step, left[0], left[1]);
      if (step + 1 < steps) run(step + 1, left[1], left[0]);
    }
    write_tile(layer, sums, shared.out[group], group, thread, tiles.first_value(tile),
               first_output);
  }
}

__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    linear_kernel(const __grid_constant__ CUtensorMap values,
                  const __grid_constant__ CUtensorMap codes, const Layer layer) {
  extern __shared__ std::uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(
      memory + (1024 - address(memory) % 1024) % 1024);
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&shared.full[stage])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(&shared.empty[stage])),
                   "r"(kConsumers * (kGroup / 32) * kCluster));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  synchronize_cluster();
  if (group == kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (thread == 0) produce(values, codes, layer, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume(layer, shared, group, thread);
  }
  __syncthreads();
  synchronize_cluster();  // nobody leaves while others still write to its memory
}

cudaError_t make_map(CUtensorMap& map, CUtensorMapDataType type, int bytes, const void* memory,
                     std::int64_t rows, std::int64_t columns, int tile_rows,
                     CUtensorMapSwizzle swizzle) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                     cudaEnableDefault, &found);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns * bytes)};
  const cuuint32_t box[] = {kColumns, static_cast<cuuint32_t>(tile_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(memory), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

extern "C" {

// out[batch, outputs] = values[batch, columns] @ weight[outputs, columns].T + bias in bfloat16, a
// null bias being none. Blocks are of 32, columns a multiple of 64, outputs of 8; values, codes and
// out begin at a multiple of 16 bytes, exponents of 2.
int mase_mxint8_hopper_linear(const void* values, const void* codes, const void* exponents,
                              const void* bias, void* out, std::int64_t batch,
                              std::int64_t outputs, std::int64_t columns, int value_bytes,
                              void* stream) {
  if (value_bytes != 2) return cudaErrorInvalidValue;
  if (batch == 0 || outputs == 0) return cudaSuccess;
  if (columns == 0 || columns % kColumns != 0 || outputs % 8 != 0) return cudaErrorInvalidValue;
  CUtensorMap values_map, codes_map;
  cudaError_t error =
      make_map(values_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, values, batch, columns,
               kBatch / kCluster, CU_TENSOR_MAP_SWIZZLE_128B);
  if (error != cudaSuccess) return error;
  error = make_map(codes_map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, codes, outputs, columns, kOutputs,
                   CU_TENSOR_MAP_SWIZZLE_64B);
  if (error != cudaSuccess) return error;
  constexpr int kSharedBytes = sizeof(Shared) + 1024;
  int device = 0, multiprocessors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  error = cudaFuncSetAttribute(linear_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kSharedBytes);
  if (error != cudaSuccess) return error;
  const std::int64_t pairs =
      ceil_div(batch, kBatch) * ceil_div(outputs, kOutputs * kCluster);
  const std::int64_t clusters = multiprocessors / kCluster;
  const auto grid = static_cast<unsigned>((pairs < clusters ? pairs : clusters) * kCluster);
  const Layer layer{static_cast<const std::uint8_t*>(exponents),
                    static_cast<const std::uint16_t*>(bias), static_cast<std::uint16_t*>(out),
                    batch, outputs, columns};
  linear_kernel<<<grid, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      values_map, codes_map, layer);
  return cudaGetLastError();
}

const char* mase_mxint8_hopper_error(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

}  // extern "C"

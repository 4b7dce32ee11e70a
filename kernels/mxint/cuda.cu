// SPDX-License-Identifier: Apache-2.0
//
// MXINT8 on CUDA devices: launches behind a plain C interface. Every function returns the
// cudaError_t of its launch.

#include <cuda_runtime.h>

#include <algorithm>

#include "bits.cuh"
#include "dequantize.cuh"
#include "linear.cuh"
#include "linear_mma.cuh"

namespace {

using namespace mase::mxint8;

constexpr int kWarp = 32;
constexpr int kWarpsPerCta = 8;
constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};
constexpr bool kCanStartEarly = kArchitectures[0] >= 900;

// The next kernel of the stream may start when every CTA of this one runs.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the kernel before this one has ended and its writes can be read.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Launches a kernel that calls the two functions above.
template <class... Parameter, class... Argument>
cudaError_t launch_early(void (*kernel)(Parameter...), std::int64_t ctas, int threads,
                         cudaStream_t stream, const Argument&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = static_cast<unsigned>(ctas);
  launch.blockDim = static_cast<unsigned>(threads);
  launch.stream = stream;
  launch.attrs = &early;
  launch.numAttrs = kCanStartEarly ? 1 : 0;
  return cudaLaunchKernelEx(&launch, kernel, Parameter(arguments)...);
}

template <class OutBits, bool kVector>
__global__ void __launch_bounds__(256) dequantize_kernel(Problem problem, unsigned tiles_across) {
  using Tile = DequantizeTile<OutBits, kVector>;
  __shared__ alignas(16) std::int8_t shared_memory[Tile::kRows * Tile::kColumns];
  const unsigned tile = blockIdx.x;
  const Tile body{problem, tile / tiles_across, tile % tiles_across};
  body.load(shared_memory, static_cast<int>(threadIdx.x));
  __syncthreads();
  body.store(shared_memory, static_cast<int>(threadIdx.x));
}

// Codes and exponents are not what the kernel before this one writes, unless that kernel has ended:
// only kernels of this file, which write floats, let the next one start earlier. So their loads
// need not wait.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 16)
    dequantize_flat_kernel(Problem problem, int block_bits) {
  __shared__ alignas(16) std::int8_t shared_memory[Tile::kCodes];
  const int thread = static_cast<int>(threadIdx.x);
  const Tile body{problem, blockIdx.x, block_bits};
  let_next_start();
  const auto exponents = body.load(shared_memory, thread);
  __syncthreads();
  wait_for_previous();
  body.store(shared_memory, thread, exponents);
}

template <class OutBits, bool kVector>
cudaError_t launch_dequantize(const Problem& problem, cudaStream_t stream) {
  using Tile = DequantizeTile<OutBits, kVector>;
  const std::int64_t down = ceil_div(problem.rows, Tile::kRows);
  const std::int64_t across = ceil_div(problem.columns, Tile::kColumns);
  dequantize_kernel<OutBits, kVector>
      <<<static_cast<unsigned>(down * across), Tile::kThreads, 0, stream>>>(
          problem, static_cast<unsigned>(across));
  return cudaGetLastError();
}

template <class OutBits>
cudaError_t dequantize(Problem problem, cudaStream_t stream) {
  if (is_flat(problem)) {
    using Tile = FlatTile<OutBits>;
    return launch_early(dequantize_flat_kernel<Tile>,
                        ceil_div(problem.rows * problem.columns, Tile::kCodes), Tile::kThreads,
                        stream, problem, bits_of(problem.block));
  }
  problem = widen(problem, DequantizeTile<OutBits, true>::kColumns);
  return vectorizable(problem) ? launch_dequantize<OutBits, true>(problem, stream)
                               : launch_dequantize<OutBits, false>(problem, stream);
}

// One warp per block: the largest magnitude by a warp reduction, then the codes.
template <class Value>
__global__ void quantize_kernel(const Value* values, std::int8_t* codes, std::uint8_t* exponents,
                                std::int64_t total, std::int64_t columns, std::int64_t block,
                                std::int64_t blocks) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kWarpsPerCta + static_cast<int>(threadIdx.x) / kWarp;
  if (index >= total) return;  // the whole warp leaves
  const std::int64_t start = index % blocks * block;
  const std::int64_t offset = index / blocks * columns + start;
  const std::int64_t count = block < columns - start ? block : columns - start;
  std::uint32_t largest = 0;
  for (std::int64_t at = lane; at < count; at += kWarp) {
    const std::uint32_t magnitude = as_bits(widen(values[offset + at])) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  largest = __reduce_max_sync(0xFFFFFFFFu, largest);
  const int exponent = static_cast<int>(largest >> 23);
  for (std::int64_t at = lane; at < count; at += kWarp) {
    const float value = widen(values[offset + at]);
    codes[offset + at] = exponent == kExponentNan ? std::int8_t{0} : encode(value, exponent);
  }
  if (lane == 0) exponents[index] = static_cast<std::uint8_t>(exponent);
}

template <class Value>
cudaError_t quantize(const Value* values, std::int8_t* codes, std::uint8_t* exponents,
                     std::int64_t rows, std::int64_t columns, std::int64_t block,
                     cudaStream_t stream) {
  const std::int64_t blocks = ceil_div(columns, block);
  const std::int64_t total = rows * blocks;
  const auto grid = static_cast<unsigned>(ceil_div(total, kWarpsPerCta));
  quantize_kernel<<<grid, kWarp * kWarpsPerCta, 0, stream>>>(values, codes, exponents, total,
                                                            columns, block, blocks);
  return cudaGetLastError();
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    linear_kernel(LinearProblem<typename Tile::Value> problem) {
  using Value = typename Tile::Value;
  __shared__ alignas(16) Value shared_memory[Tile::kBatch * Tile::kColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const Tile body{problem, blockIdx.x};
  typename Tile::Sums sums;
  for (std::int64_t chunk = 0; chunk < body.chunks(); ++chunk) {
    if (chunk > 0) __syncthreads();  // everyone has read what is now overwritten
    body.load(shared_memory, thread, chunk);
    __syncthreads();
    body.accumulate(shared_memory, thread, chunk, sums);
  }
  CUTE_UNROLL
  for (int row = 0; row < Tile::kRowsPerWarp; ++row) {
    CUTE_UNROLL
    for (int batch = 0; batch < Tile::kBatch; ++batch) {
      CUTE_UNROLL
      for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        sums.of[row][batch] += __shfl_xor_sync(0xFFFFFFFFu, sums.of[row][batch], distance);
      }
    }
  }
  body.store(sums, thread);
}

// sums += left * right, 16 x 16 times 16 x 8 over the threads of a warp.
template <class Left, class Right>
__device__ __forceinline__ void multiply_in_warp(float (&sums)[4], const Left& left,
                                                 const Right& right) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left.of[0]), "r"(left.of[1]), "r"(left.of[2]), "r"(left.of[3]), "r"(right.of[0]),
        "r"(right.of[1]));
}

// While the codes of one step are multiplied, those of the next are on their way. The first ones
// need not wait for the kernel before, see `dequantize_flat_kernel`; the values must.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    linear_mma_kernel(LinearProblem<typename Tile::Value> problem, int block_bits) {
  __shared__ float shared_memory[Tile::kPartials];
  const int thread = static_cast<int>(threadIdx.x);
  const Tile body{problem, blockIdx.x, block_bits};
  const auto multiply = [](float(&to)[4], const auto& left, const auto& right) {
    multiply_in_warp(to, left, right);
  };
  typename Tile::Exponents exponents[2];
  typename Tile::Weights weights[Tile::kSteps];
  typename Tile::Values values[Tile::kSteps];
  typename Tile::Sums sums;
  let_next_start();
  const auto start = body.start(thread);
  if (start.slices > 0) {
    body.load_exponents(start, 0, exponents[0]);
    CUTE_UNROLL
    for (int step = 0; step < Tile::kSteps; ++step) {
      body.load_weights(start, 0, step, weights[step]);
    }
  }
  wait_for_previous();
  if (start.slices > 0) {
    CUTE_UNROLL
    for (int step = 0; step < Tile::kSteps; ++step) {
      body.load_values(start, 0, step, values[step]);
    }
  }
  for (int slice = 0; slice < start.slices; ++slice) {
    const bool more = slice + 1 < start.slices;
    if (more) body.load_exponents(start, slice + 1, exponents[1]);
    CUTE_UNROLL
    for (int step = 0; step < Tile::kSteps; ++step) {
      body.accumulate(thread, step, exponents[0], weights[step], values[step], sums, multiply);
      if (more) {
        body.load_weights(start, slice + 1, step, weights[step]);
        body.load_values(start, slice + 1, step, values[step]);
      }
    }
    exponents[0] = exponents[1];
  }
  body.share(shared_memory, thread, sums);
  __syncthreads();
  body.store(shared_memory, thread);
}

template <class Tile>
cudaError_t launch_linear(const LinearProblem<typename Tile::Value>& problem, cudaStream_t stream) {
  return launch_early(linear_mma_kernel<Tile>, ceil_div(problem.weight.rows, Tile::kRows),
                      Tile::kThreads, stream, problem, bits_of(problem.weight.block));
}

template <class Value>
cudaError_t linear(const LinearProblem<Value>& problem, cudaStream_t stream) {
  if constexpr (sizeof(Value) == 2) {
    if (fits_mma(problem)) {
      int device = 0, multiprocessors = 0;
      cudaGetDevice(&device);
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      return with_mma_tile(problem, multiprocessors, [&](auto type) {
        return launch_linear<typename decltype(type)::type>(problem, stream);
      });
    }
  }
  return with_linear_tile(problem, [&](auto type) {
    using Tile = typename decltype(type)::type;
    const auto grid = static_cast<unsigned>(ceil_div(problem.weight.rows, Tile::kRows));
    linear_kernel<Tile><<<grid, Tile::kThreads, 0, stream>>>(problem);
    return cudaGetLastError();
  });
}

template <class Value>
cudaError_t linear(const void* values, const Matrix& weight, const void* bias, void* out,
                   std::int64_t batch, cudaStream_t stream) {
  return linear(LinearProblem<Value>{weight, static_cast<const Value*>(values),
                                     static_cast<const Value*>(bias), static_cast<Value*>(out),
                                     batch},
                stream);
}

}  // namespace

extern "C" {

int mase_mxint8_cuda_dequantize(const void* codes, const void* exponents, void* out,
                                std::int64_t rows, std::int64_t columns, std::int64_t block,
                                int out_bytes, void* stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  const Problem problem{make_matrix(codes, exponents, rows, columns, block), out};
  const auto queue = static_cast<cudaStream_t>(stream);
  return out_bytes == 2 ? dequantize<std::uint16_t>(problem, queue)
                        : dequantize<std::uint32_t>(problem, queue);
}

int mase_mxint8_cuda_quantize(const void* values, void* codes, void* exponents, std::int64_t rows,
                              std::int64_t columns, std::int64_t block, int value_bytes,
                              void* stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  auto* code = static_cast<std::int8_t*>(codes);
  auto* exponent = static_cast<std::uint8_t*>(exponents);
  const auto queue = static_cast<cudaStream_t>(stream);
  return value_bytes == 2 ? quantize(static_cast<const std::uint16_t*>(values), code, exponent,
                                     rows, columns, block, queue)
                          : quantize(static_cast<const float*>(values), code, exponent, rows,
                                     columns, block, queue);
}

// out[batch, outputs] = values[batch, columns] @ weight[outputs, columns].T + bias, a null bias
// being none; batch is at most 16.
int mase_mxint8_cuda_linear(const void* values, const void* codes, const void* exponents,
                            const void* bias, void* out, std::int64_t batch, std::int64_t outputs,
                            std::int64_t columns, std::int64_t block, int value_bytes,
                            void* stream) {
  if (batch > kMaxLinearBatch) return cudaErrorInvalidValue;
  if (batch == 0 || outputs == 0) return cudaSuccess;
  const Matrix weight = make_matrix(codes, exponents, outputs, columns, block);
  const auto queue = static_cast<cudaStream_t>(stream);
  return value_bytes == 2 ? linear<std::uint16_t>(values, weight, bias, out, batch, queue)
                          : linear<float>(values, weight, bias, out, batch, queue);
}

const char* mase_mxint8_cuda_error(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

}  // extern "C"

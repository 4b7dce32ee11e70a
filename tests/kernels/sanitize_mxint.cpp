// Runs the CPU kernels on exactly sized heap buffers, for the address and undefined-behavior
// sanitizers. With an argument, breaks the rules once, which the sanitizer must report.

#include "cpu.cpp"

#include <cstdlib>
#include <memory>

template <typename Value>
std::unique_ptr<Value[]> filled(std::int64_t count, unsigned seed) {
  std::unique_ptr<Value[]> values(new Value[static_cast<std::size_t>(count)]);
  std::srand(seed);
  for (std::int64_t index = 0; index < count; ++index) {
    const auto bits = static_cast<std::uint32_t>(std::rand()) * 2654435761u;
    std::memcpy(&values[index], &bits, sizeof(Value));
  }
  return values;
}

void check(std::int64_t rows, std::int64_t columns, std::int64_t block, int threads) {
  const std::int64_t blocks = rows * ((columns + block - 1) / block);
  const std::int64_t count = rows * columns;
  const auto values = filled<float>(count, 1);
  const auto halves = filled<std::uint16_t>(count, 2);
  const auto codes = filled<std::int8_t>(count, 3);
  const auto exponents = filled<std::uint8_t>(blocks, 4);
  const auto out = filled<float>(count, 5);
  const auto half_out = filled<std::uint16_t>(count, 6);
  for (const int is_bf16 : {0, 1}) {
    const auto input = is_bf16 ? static_cast<const void*>(halves.get()) : values.get();
    const auto output = is_bf16 ? static_cast<void*>(half_out.get()) : out.get();
    mase_mxint8_dequantize(codes.get(), exponents.get(), output, rows, columns, block, is_bf16,
                           threads);
    mase_mxint8_quantize(input, codes.get(), exponents.get(), rows, columns, block, is_bf16,
                         threads);
  }
  for (const std::int64_t batch : {1, 2, 3, 4, 7, 8, 9, 15}) {
    const auto input = filled<float>(batch * columns, 7);
    const auto half_input = filled<std::uint16_t>(batch * columns, 12);
    const auto bias = filled<float>(rows, 8);
    const auto half_bias = filled<std::uint16_t>(rows, 13);
    const auto result = filled<float>(batch * rows, 9);
    const auto half_result = filled<std::uint16_t>(batch * rows, 14);
    const auto input_codes = filled<std::int8_t>(batch * columns, 10);
    const auto input_exponents =
        filled<std::uint8_t>(batch * (blocks / std::max<std::int64_t>(rows, 1)), 11);
    mase_mxint8_linear(input.get(), codes.get(), exponents.get(), bias.get(), result.get(), batch,
                       rows, columns, block, 0, threads);
    mase_mxint8_linear(half_input.get(), codes.get(), exponents.get(), half_bias.get(),
                       half_result.get(), batch, rows, columns, block, 1, threads);
    mase_mxint8_linear_both(input_codes.get(), input_exponents.get(), codes.get(), exponents.get(),
                            bias.get(), result.get(), batch, rows, columns, block, 0, threads);
  }
}

int main(int count, char**) {
  const std::int64_t shapes[][3] = {{1, 1, 1},   {1, 32, 32},  {3, 77, 32},   {5, 64, 16},
                                    {2, 100, 7}, {3, 33, 100}, {4, 1000, 64}, {7, 15, 5},
                                    {0, 32, 32}, {3, 0, 32},   {2, 31, 8},    {1, 1025, 1024}};
  for (int path = 0; path < mase_mxint8_paths(); ++path) {
    mase_mxint8_choose(path);
    for (const auto& shape : shapes) {
      for (const int threads : {1, 3}) check(shape[0], shape[1], shape[2], threads);
    }
  }
  const std::int64_t large = (kStreamBytes / 4) + 32;
  const auto codes = filled<std::int8_t>(large, 1);
  const auto exponents = filled<std::uint8_t>(large / 32, 2);
  const auto out = filled<float>(large, 3);
  mase_mxint8_dequantize(codes.get(), exponents.get(), out.get(), 1, large, 32, 0, 2);
  if (count > 1) {
    mase_mxint8_dequantize(codes.get(), exponents.get(), out.get(), 1, large + 32, 32, 0, 1);
  }
  return 0;
}

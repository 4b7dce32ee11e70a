// Runs the emulated CUDA kernels on exactly sized heap buffers, for the address sanitizer. With an
// argument, breaks the rules once, which the sanitizer must report.

#include "emulate_cuda.cu"

#include <cstdlib>

namespace {

// Elements that end where the heap buffer ends; shifted, they miss the 16-byte alignment.
template <class Element>
struct Buffer {
  Buffer(std::int64_t count, bool shifted)
      : memory(new Element[static_cast<std::size_t>(count + shifted)]),
        start(memory.get() + shifted) {
    for (std::int64_t index = 0; index < count; ++index) {
      start[index] = static_cast<Element>(std::rand());
    }
  }
  std::unique_ptr<Element[]> memory;
  Element* start;
};

template <class Value>
void check(std::int64_t outputs, std::int64_t columns, std::int64_t block, bool shifted,
           std::int64_t missing = 0) {
  const std::int64_t blocks = outputs * ceil_div(columns, block);
  const Buffer<std::int8_t> codes(outputs * columns - missing, shifted);
  const Buffer<std::uint8_t> exponents(blocks, shifted);
  const Buffer<std::uint32_t> wide(outputs * columns, shifted);
  const Buffer<std::uint16_t> half(outputs * columns, shifted);
  emulate_dequantize(codes.start, exponents.start, wide.start, outputs, columns, block, 4);
  emulate_dequantize(codes.start, exponents.start, half.start, outputs, columns, block, 2);
  for (const std::int64_t batch : {1, 3, 4, 7, 16}) {
    const Buffer<Value> values(batch * columns, shifted), bias(outputs, shifted);
    const Buffer<Value> out(batch * outputs, shifted);
    for (const bool add : {false, true}) {
      emulate_linear(values.start, codes.start, exponents.start, add ? bias.start : nullptr,
                     out.start, batch, outputs, columns, block, sizeof(Value));
    }
  }
}

}  // namespace

int main(int count, char**) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {3, 77, 32}, {17, 64, 16}, {5, 4112, 32},
                                    {2, 100, 7},  {4, 0, 32},  {16, 32, 32}, {33, 528, 48},
                                    {2, 1040, 16}, {1, 48, 1024}, {17, 2816, 32}, {18, 768, 32}};
  for (const auto& shape : shapes) {
    for (const bool shifted : {false, true}) {
      check<float>(shape[0], shape[1], shape[2], shifted);
      check<std::uint16_t>(shape[0], shape[1], shape[2], shifted);
    }
  }
  if (count > 1) check<std::uint16_t>(16, 32, 32, false, 1);
  return 0;
}

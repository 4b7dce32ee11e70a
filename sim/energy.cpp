// SPDX-License-Identifier: Apache-2.0
//
// Runs a netlist of gates, cycle by cycle and without delays, and counts how often each net changes;
// what the numbers mean is in energy.py.

#include <cstddef>
#include <cstdint>

namespace {

constexpr int kMostInputs = 6;

// A net is the value of a truth table of others; those that are unused are the constant 0.
struct Gate {
  std::uint64_t table;
  std::int32_t inputs[kMostInputs], output, unused;
};

struct Register {
  std::int32_t next, state;
};

struct Stream {
  std::int32_t is_input, width, valid, ready;
  std::int64_t beats;
  const std::int32_t* nets;
  const std::uint8_t *bits, *mask;
  std::int64_t place, wrong;
};

}  // namespace

extern "C" {

// Runs from cycle `first`, those below 0 in reset, to `last`. Returns the number of cycles from the end of
// reset to the last beat of the last output; -1 where it did not come.
std::int64_t toggles_run(const Gate* gates, std::int64_t gate_count, const Register* registers,
                         std::int64_t register_count, Stream* streams, std::int64_t stream_count,
                         std::int32_t reset, std::int64_t first, std::int64_t last,
                         std::uint8_t* values, std::uint8_t* before, std::uint8_t* next,
                         std::int64_t net_count, std::uint64_t* toggles) {
  for (std::int64_t cycle = first; cycle < last; ++cycle) {
    values[reset] = cycle < 0;
    for (std::int64_t i = 0; i < stream_count; ++i) {
      const Stream& stream = streams[i];
      if (!stream.is_input) {
        values[stream.ready] = 1;
        continue;
      }
      const bool valid = cycle >= 0 && stream.place < stream.beats;
      values[stream.valid] = valid;
      if (!valid) continue;
      const std::uint8_t* bits = stream.bits + stream.place * stream.width;
      for (int bit = 0; bit < stream.width; ++bit) values[stream.nets[bit]] = bits[bit];
    }
    for (std::int64_t i = 0; i < gate_count; ++i) {
      int row = 0;
      for (int pin = 0; pin < kMostInputs; ++pin) row |= values[gates[i].inputs[pin]] << pin;
      values[gates[i].output] = gates[i].table >> row & 1;
    }
    if (cycle > 0) {
      for (std::int64_t net = 0; net < net_count; ++net) toggles[net] += values[net] != before[net];
    }
    for (std::int64_t net = 0; net < net_count; ++net) before[net] = values[net];
    bool ended = cycle >= 0;
    for (std::int64_t i = 0; i < stream_count; ++i) {
      Stream& stream = streams[i];
      const bool moves = cycle >= 0 && values[stream.valid] && values[stream.ready];
      if (moves && !stream.is_input && stream.place < stream.beats) {
        const std::size_t start = stream.place * stream.width;
        for (int bit = 0; bit < stream.width; ++bit) {
          const bool differs = values[stream.nets[bit]] != stream.bits[start + bit];
          stream.wrong += differs && stream.mask[start + bit];
        }
      }
      stream.place += moves;
      ended = ended && (stream.is_input || stream.place >= stream.beats);
    }
    if (ended) return cycle + 1;
    for (std::int64_t i = 0; i < register_count; ++i) next[i] = values[registers[i].next];
    for (std::int64_t i = 0; i < register_count; ++i) values[registers[i].state] = next[i];
  }
  return -1;
}

}  // extern "C"

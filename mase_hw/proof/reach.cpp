// SPDX-License-Identifier: Apache-2.0
//
// The states that a circuit comes to, each once, breadth first; what they mean is in _reach.py.
// A register or gate is 0, 1 or anything: two bits of a lane say that it is 1, and that it is 0.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

constexpr int kGroups = 4, kLanes = 64 * kGroups, kChunk = 1 << 14;
using Word = std::uint64_t;
using Lanes = Word __attribute__((vector_size(8 * kGroups)));
using List = std::vector<std::int32_t>;
using Block = std::array<Word, 64>;

// Lists that describe the circuit, in this order: both operands of each gate, literals of the next
// values, of rules and of claims, places of the inputs that are tried, that are told where they
// matter and that carry data, of those of the first kind whose value rules alone tell, numbers of
// registers that keep data, that are told in every state, and that hold anything where nothing is
// followed; then the place of the first gate, that of the first gate that depends on inputs, the
// number of the register that is set where nothing is followed or -1, and the most MiB of states.
enum Part { kLeft, kRight, kNext, kRules, kClaims, kTried, kLate, kData, kRuled, kKept, kDecided,
            kFollowed, kNumbers, kParts };
enum Status { kMore, kDone, kTooMany };

const Lanes kNone = {};
const Lanes kAll = ~kNone;

bool any(const Lanes& lanes) { return (lanes[0] | lanes[1] | lanes[2] | lanes[3]) != 0; }

bool has(const Lanes& lanes, int lane) { return lanes[lane / 64] >> (lane % 64) & 1; }

void transpose(Block& rows) {
  Word mask = 0x00000000FFFFFFFF;
  for (int size = 32; size != 0; size >>= 1, mask ^= mask << size) {
    for (int row = 0; row < 64; row = ((row | size) + 1) & ~size) {
      const Word moved = (rows[row] >> size ^ rows[row | size]) & mask;
      rows[row | size] ^= moved;
      rows[row] ^= moved << size;
    }
  }
}

// A state, the inputs that are 1 and that are 0, and whether data that it brings stays unknown.
struct Item {
  std::uint32_t state;
  Word ones, zeros;
  bool quiet;
};

class Reach {
 public:
  Reach(const std::int32_t* numbers, const std::int32_t* sizes, const std::uint8_t* first) {
    for (int part = 0; part < kParts; ++part) {
      lists_[part].assign(numbers, numbers + sizes[part]);
      numbers += sizes[part];
    }
    const List& plain = lists_[kNumbers];
    first_ = plain[0], late_ = plain[1], nothing_ = plain[2], most_ = Word(plain[3]) << 20;
    for (Part part : {kTried, kLate, kData}) {
      inputs_.insert(inputs_.end(), lists_[part].begin(), lists_[part].end());
    }
    registers_ = lists_[kNext].size();
    half_ = (registers_ + 63) / 64;
    values_.assign(2 * (first_ + lists_[kLeft].size()), kNone);
    values_[1] = kAll;
    followed_.assign(registers_, false);
    for (int number : lists_[kFollowed]) followed_[number] = true;
    open.assign(lists_[kClaims].size(), 1);
    table_.assign(1 << 12, 0);
    found_.assign(2 * half_ * kLanes, 0);
    for (std::size_t number = 0; number < registers_; ++number) {
      if (first[number] < 2) {
        found_[(first[number] ? 0 : half_) + number / 64] |= Word{1} << (number % 64);
      }
    }
    insert(found_.data());
    level_ = states;
  }

  Status run(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (states * (16 * half_ + 8) > most_) return kTooMany;
      if (!entering_.empty() && (entering_.size() >= kLanes || head_ == level_)) {
        enter();
      } else if (!waiting_.empty() && (waiting_.size() >= kLanes || head_ == level_)) {
        later();
      } else if (head_ < level_) {
        next();
      } else {
        ++cycles;
        if (level_ == states || std::find(open.begin(), open.end(), 1) == open.end()) {
          return kDone;
        }
        level_ = states;
      }
    }
    return kMore;
  }

  std::vector<std::uint8_t> open;
  Word states = 0, cycles = 0;

 private:
  // Look at the next states with all values of the inputs that are tried.
  void next() {
    items_.clear();
    for (; items_.size() < kLanes && head_ < level_; ++head_) {
      items_.push_back({static_cast<std::uint32_t>(head_), 0, 0, false});
    }
    load();
    const List& tried = lists_[kTried];
    const Word count = tried.size();
    Word fixed = 0;
    for (Word input = 0; input < count; ++input) {
      const List& ruled = lists_[kRuled];
      if (std::find(ruled.begin(), ruled.end(), tried[input]) == ruled.end()) continue;
      give(Word{1} << input, 0);
      if (!any(allowed())) fixed |= Word{1} << input;
    }
    for (Word ones = 0; ones < Word{1} << count; ++ones) {
      if (ones & fixed) continue;
      const Word zeros = ~ones & ((Word{1} << count) - 1);
      for (Item& item : items_) item.ones = ones, item.zeros = zeros;
      give(ones, zeros);
      look();
    }
  }

  // Look at states of which more inputs matter.
  void later() {
    take(waiting_);
    give_each();
    look();
  }

  // Find the bit of data that tells more of what is kept.
  void enter() {
    take(entering_);
    give_each();
    allowed();
    const List& kept = lists_[kKept];
    std::vector<Lanes> before;
    for (int number : kept) before.push_back(known(number));
    Lanes waits = there_;
    const Word first = lists_[kTried].size() + lists_[kLate].size();
    for (Word input = first; input < inputs_.size(); ++input) {
      const Word bit = Word{1} << input;
      Lanes& zero = values_[2 * inputs_[input] + 1];
      const Lanes saved = zero;
      zero |= ~values_[2 * inputs_[input]];
      allowed();
      Lanes more = kNone;
      for (std::size_t place = 0; place < kept.size(); ++place) {
        more |= known(kept[place]) & ~before[place];
      }
      zero = saved;
      for (std::size_t lane = 0; lane < items_.size(); ++lane) {
        if (has(more & waits, lane)) split(items_[lane], bit);
      }
      waits &= ~more;
    }
    for (std::size_t lane = 0; lane < items_.size(); ++lane) {
      if (!has(waits, lane)) continue;
      items_[lane].quiet = true;
      waiting_.push_back(items_[lane]);
    }
  }

  // Let a state wait, with 0 and with 1 of one more input.
  void split(Item item, Word bit) {
    item.zeros |= bit;
    waiting_.push_back(item);
    item.zeros ^= bit;
    item.ones |= bit;
    waiting_.push_back(item);
  }

  void take(std::vector<Item>& from) {
    const std::size_t count = std::min<std::size_t>(from.size(), kLanes);
    items_.assign(from.end() - count, from.end());
    from.resize(from.size() - count);
    load();
  }

  // Keep what the states of this block lead to; what depends on further inputs waits.
  void look() {
    Lanes alive = allowed() & there_;
    Lanes unsure = kNone;
    for (int number : lists_[kDecided]) unsure |= ~known(number);
    for (std::size_t claim = 0; claim < open.size(); ++claim) {
      if (open[claim]) unsure |= ~values_[lists_[kClaims][claim] ^ 1];
    }
    unsure &= alive;
    const Word from = lists_[kTried].size(), to = from + lists_[kLate].size();
    if (from < to && any(unsure)) {
      for (std::size_t lane = 0; lane < items_.size(); ++lane) {
        if (!has(unsure, lane)) continue;
        const Item& item = items_[lane];
        Word input = from;
        while (input < to && (item.ones | item.zeros) >> input & 1) ++input;
        if (input == to) continue;
        split(item, Word{1} << input);
        alive[lane / 64] &= ~(Word{1} << (lane % 64));
      }
    }
    if (nothing_ >= 0 && !lists_[kKept].empty() && to < inputs_.size()) {
      unsure = kNone;
      for (int number : lists_[kKept]) unsure |= ~known(number);
      unsure &= alive & values_[lists_[kNext][nothing_] ^ 1];
      if (any(unsure)) {
        for (std::size_t lane = 0; lane < items_.size(); ++lane) {
          if (!has(unsure, lane) || items_[lane].quiet) continue;
          entering_.push_back(items_[lane]);
          alive[lane / 64] &= ~(Word{1} << (lane % 64));
        }
      }
    }
    for (std::size_t claim = 0; claim < open.size(); ++claim) {
      if (any(alive & ~values_[lists_[kClaims][claim] ^ 1])) open[claim] = 0;
    }
    if (any(alive)) store(alive);
  }

  void store(const Lanes& alive) {
    const Lanes follows = nothing_ < 0 ? kAll : ~values_[lists_[kNext][nothing_]];
    Block block;
    for (int side = 0; side < 2; ++side) {
      for (std::size_t word = 0; word < half_; ++word) {
        for (int group = 0; group < kGroups; ++group) {
          if (!alive[group]) continue;
          for (std::size_t bit = 0; bit < 64; ++bit) {
            const std::size_t number = 64 * word + bit;
            block[bit] = 0;
            if (number >= registers_) continue;
            block[bit] = values_[lists_[kNext][number] ^ side][group];
            if (followed_[number]) block[bit] &= follows[group];
          }
          transpose(block);
          for (int lane = 0; lane < 64; ++lane) {
            found_[(64 * group + lane) * 2 * half_ + side * half_ + word] = block[lane];
          }
        }
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if (has(alive, lane)) insert(&found_[lane * 2 * half_]);
    }
  }

  // Keep a state if there is none like it.
  void insert(const Word* row) {
    std::uint32_t& found = slot(row);
    if (found) return;
    if (states % kChunk == 0) rows_.emplace_back(new Word[kChunk * 2 * half_]);
    found = ++states;
    std::copy(row, row + 2 * half_, at(states - 1));
    if (2 * states < table_.size()) return;
    table_.assign(2 * table_.size(), 0);
    for (Word state = 0; state < states; ++state) slot(at(state)) = state + 1;
  }

  // The place in the table of a state: one more than its number, or 0.
  std::uint32_t& slot(const Word* row) {
    Word hash = 0;
    for (std::size_t word = 0; word < 2 * half_; ++word) {
      hash = (hash ^ row[word]) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 29;
    }
    for (Word place = hash;; ++place) {
      std::uint32_t& found = table_[place & (table_.size() - 1)];
      if (!found || std::equal(row, row + 2 * half_, at(found - 1))) return found;
    }
  }

  Word* at(Word state) const { return &rows_[state / kChunk][state % kChunk * 2 * half_]; }

  // Let registers hold the states of this block, and evaluate what depends on nothing else.
  void load() {
    Block block;
    there_ = kNone;
    for (std::size_t lane = 0; lane < items_.size(); ++lane) {
      there_[lane / 64] |= Word{1} << (lane % 64);
    }
    for (int side = 0; side < 2; ++side) {
      for (std::size_t word = 0; word < half_; ++word) {
        for (std::size_t group = 0; group < kGroups; ++group) {
          for (std::size_t lane = 0; lane < 64; ++lane) {
            const std::size_t number = 64 * group + lane;
            const bool there = number < items_.size();
            block[lane] = there ? at(items_[number].state)[side * half_ + word] : 0;
          }
          transpose(block);
          for (std::size_t bit = 0; bit < 64 && 64 * word + bit < registers_; ++bit) {
            values_[2 * (1 + 64 * word + bit) + side][group] = block[bit];
          }
        }
      }
    }
    evaluate(first_, late_);
  }

  void give(Word ones, Word zeros) {
    for (std::size_t input = 0; input < inputs_.size(); ++input) {
      values_[2 * inputs_[input]] = ones >> input & 1 ? kAll : kNone;
      values_[2 * inputs_[input] + 1] = zeros >> input & 1 ? kAll : kNone;
    }
  }

  void give_each() {
    give(0, 0);
    for (std::size_t lane = 0; lane < items_.size(); ++lane) {
      const Item& item = items_[lane];
      for (std::size_t input = 0; input < inputs_.size(); ++input) {
        const int group = lane / 64, bit = lane % 64;
        values_[2 * inputs_[input]][group] |= (item.ones >> input & 1) << bit;
        values_[2 * inputs_[input] + 1][group] |= (item.zeros >> input & 1) << bit;
      }
    }
  }

  // Evaluate all gates for the inputs; return where no rule is broken.
  Lanes allowed() {
    evaluate(late_, first_ + lists_[kLeft].size());
    Lanes broken = kNone;
    for (int rule : lists_[kRules]) broken |= values_[rule ^ 1];
    return ~broken;
  }

  void evaluate(std::size_t from, std::size_t to) {
    const std::int32_t* left = lists_[kLeft].data() - first_;
    const std::int32_t* right = lists_[kRight].data() - first_;
    Lanes* values = values_.data();
    for (std::size_t place = from; place < to; ++place) {
      values[2 * place] = values[left[place]] & values[right[place]];
      values[2 * place + 1] = values[left[place] ^ 1] | values[right[place] ^ 1];
    }
  }

  Lanes known(int number) const {
    const int literal = lists_[kNext][number];
    return values_[literal] | values_[literal ^ 1];
  }

  List lists_[kParts], inputs_;
  std::size_t registers_, half_, first_, late_;
  int nothing_;
  Word most_, head_ = 0, level_ = 0;
  std::vector<Lanes> values_;
  std::vector<bool> followed_;
  std::vector<std::unique_ptr<Word[]>> rows_;
  std::vector<Word> found_;
  std::vector<std::uint32_t> table_;
  std::vector<Item> items_, waiting_, entering_;
  Lanes there_;
};

}  // namespace

extern "C" {

void* reach_begin(const std::int32_t* numbers, const std::int32_t* sizes,
                  const std::uint8_t* first) {
  return new Reach(numbers, sizes, first);
}

int reach_run(void* reach, double seconds) { return static_cast<Reach*>(reach)->run(seconds); }

// Writes how many states there are and after how many cycles no new one, and which claims held.
void reach_end(void* reach, std::uint64_t* counts, std::uint8_t* open) {
  auto* done = static_cast<Reach*>(reach);
  counts[0] = done->states;
  counts[1] = done->cycles;
  std::copy(done->open.begin(), done->open.end(), open);
  delete done;
}
}

// Streams a data set through a verilated design: drives every input, records every output and
// probe with the cycle in which each beat moved, and checks the stream rules.
//
// Usage: native JOB, a folder with `job.txt` (the numbers read by Job below), `NAME.in` per input
// (the beats as bytes). Writes `NAME.out` (bytes), `NAME.cycles` (64-bit) per stream and
// `result.txt`; prints `progress DONE TOTAL` on standard output. With resets, what moved before each
// is in the same files, and `NAME.marks` (64-bit) says where each run after a reset begins. Of
// repeated inputs only the first pass is kept, `NAME.mask` has the bits of it that others repeat.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "ports.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

// Verilator's runtime asks for this where the time is not taken from a context.
double sc_time_stamp() { return 0; }

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kResetCycles = 1;
constexpr std::uint64_t kReportCycles = 1 << 14;
constexpr std::uint64_t kProbeCycles = 16;
constexpr std::size_t kMaxViolations = 16;
constexpr int kErrorLimit = 10000;
constexpr std::uint64_t kHalfPeriodPicoseconds = 5000;

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // True with the probability `threshold / 2**32`.
  bool below(std::uint64_t threshold) { return (next() >> 32) < threshold; }
  // Uniform from 0 to below 1.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

struct Job {
  std::string folder;
  std::uint64_t inferences = 0;
  std::uint64_t seed = 0;
  double input_stall = 0;         // of the memory, too
  double output_stall = 0;
  std::uint64_t longest = 1;      // cycles of a phase of pauses
  std::uint64_t quiet_limit = 0;  // cycles without a beat that mean a hang
  std::uint64_t drain = 0;        // cycles watched for surplus beats at the end
  bool waves = false;
  std::uint64_t repeats = 1;      // how often all inputs are streamed
  bool reset_memory = true;       // a reset is the memory's, too
  std::vector<std::uint64_t> resets;  // cycles of each run before a reset
  std::ifstream rest;  // beats per inference of each stream follow

  explicit Job(const std::string& path) : folder(path), rest(path + "/job.txt") {
    rest >> inferences >> seed >> input_stall >> output_stall >> longest >> quiet_limit >> drain >>
        waves >> repeats >> reset_memory;
    std::uint64_t count = 0;
    rest >> count;
    resets.resize(count);
    for (std::uint64_t& cycles : resets) rest >> cycles;
  }
  std::uint64_t next_beats() {
    std::uint64_t beats = 0;
    rest >> beats;
    return beats * inferences;
  }
};

// For `Random::below`.
std::uint64_t threshold(double probability) {
  return static_cast<std::uint64_t>(probability * 4294967296.0);
}

// Pauses with a probability over all, in phases: half of them with that probability in each cycle,
// the others all pauses or none. Lengths are spread over magnitudes.
class Pauses {
 public:
  Pauses(double stall, std::uint64_t longest, std::uint64_t seed)
      : stall_(stall), longest_(static_cast<double>(longest)), random_(seed) {}
  bool operator()() {
    if (left_ == 0) {
      left_ = static_cast<std::uint64_t>(std::pow(longest_, random_.unit()));
      const double kind = random_.unit();
      threshold_ = threshold(kind < 0.5 ? stall_ : kind < 0.5 + 0.5 * stall_ ? 1.0 : 0.0);
    }
    --left_;
    return random_.below(threshold_);
  }

 private:
  double stall_;
  double longest_;
  Random random_;
  std::uint64_t threshold_ = 0;
  std::uint64_t left_ = 0;
};

struct Violation {
  std::string port;
  std::string rule;
  std::uint64_t cycle;
  std::uint64_t beat;
};

class Violations {
 public:
  void add(const char* port, const char* rule, std::uint64_t cycle, std::uint64_t beat) {
    if (found_.size() < kMaxViolations) found_.push_back({port, rule, cycle, beat});
  }
  const std::vector<Violation>& found() const { return found_; }

 private:
  std::vector<Violation> found_;
};

void write_bytes(const std::string& path, const void* data, std::size_t size) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

template <class Port>
class Driver {
 public:
  Driver(Job& job, std::uint64_t stream)
      : count_(job.next_beats()),
        total_(count_ * job.repeats),
        pauses_(job.input_stall, job.longest, job.seed * 1000003 + stream) {
    std::ifstream file(job.folder + "/" + Port::kName + ".in", std::ios::binary);
    beats_.assign(std::istreambuf_iterator<char>(file), {});
    cycles_.reserve(count_);
    if (beats_.size() != count_ * Port::kBytes) {
      std::fprintf(stderr, "%s: %zu bytes of beats, expected %zu\n", Port::kName, beats_.size(),
                   static_cast<std::size_t>(count_ * Port::kBytes));
      std::exit(2);
    }
  }

  // Before the falling edge: offer the next beat unless one is on offer.
  template <bool kStall>
  void drive(Vtop& top) {
    if (valid_) return;
    if (sent_ == total_) return;
    if (kStall && pauses_()) return;
    Port::put(top, beats_.data() + (sent_ % count_) * Port::kBytes);
    Port::valid(top, true);
    valid_ = true;
  }

  // At a reset: begin again.
  void restart(Vtop& top) {
    marks_.push_back(cycles_.size());
    sent_ = 0;
    valid_ = false;
    Port::valid(top, false);
  }

  // Before the rising edge: does the beat on offer move?
  bool sample(Vtop& top) {
    moved_ = valid_ && Port::ready(top);
    return moved_;
  }

  // After the rising edge.
  void advance(Vtop& top, std::uint64_t cycle) {
    if (!moved_) return;
    if (++sent_ <= count_) cycles_.push_back(cycle);
    valid_ = false;
    Port::valid(top, false);
  }

  void check_combinational(Vtop& top, std::uint64_t cycle, Violations& violations) {
    const bool before = Port::ready(top);
    Port::valid(top, !valid_);
    top.eval();
    if (Port::ready(top) != before) {
      violations.add(Port::kName, "ready depends on valid in the same cycle", cycle, sent_);
    }
    Port::valid(top, valid_);
  }

  void write(const Job& job, std::ostream& result) const {
    result << "input " << Port::kName << ' ' << cycles_.size() << ' ' << valid_ << '\n';
    const std::string path = job.folder + "/" + Port::kName;
    write_bytes(path + ".cycles", cycles_.data(), cycles_.size() * 8);
    write_bytes(path + ".marks", marks_.data(), marks_.size() * 8);
  }

 private:
  std::uint64_t count_;
  std::uint64_t total_;
  std::uint64_t sent_ = 0;
  std::vector<std::uint64_t> marks_;
  Pauses pauses_;
  std::vector<unsigned char> beats_;
  std::vector<std::uint64_t> cycles_;
  bool valid_ = false;
  bool moved_ = false;
};

// What a consumer sees of a stream, and rule 2: valid and data hold until the beat moves.
template <class Port>
class Recorder {
 public:
  explicit Recorder(Job& job) : count_(job.next_beats()), total_(count_ * job.repeats) {
    beats_.reserve((count_ + 64) * Port::kBytes);
    cycles_.reserve(count_ + 64);
    if (job.repeats == 1) return;
    std::ifstream file(job.folder + "/" + Port::kName + ".mask", std::ios::binary);
    mask_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // At a reset: begin again.
  void restart() {
    marks_.push_back(cycles_.size());
    seen_ = 0;
    waiting_ = false;
  }

  bool record(const Vtop& top, bool ready, std::uint64_t cycle, Violations& violations) {
    valid_ = Port::valid(top);
    if (!valid_ && !waiting_) return false;
    if (!valid_) {
      violations.add(Port::kName, "valid fell before the beat moved", cycle, seen_);
      waiting_ = false;
      return false;
    }
    std::array<unsigned char, Port::kBytes> beat;
    Port::get(top, beat.data());
    if (waiting_ && beat != held_) {
      violations.add(Port::kName, "data changed before the beat moved", cycle, seen_);
    }
    waiting_ = !ready;
    held_ = beat;
    if (!ready) return false;
    if (seen_ < count_ || seen_ >= total_) {
      beats_.insert(beats_.end(), beat.begin(), beat.end());
      cycles_.push_back(cycle);
    } else if (!repeated(beat)) {
      violations.add(Port::kName, "the beat differs from that of the first pass", cycle, seen_);
    }
    ++seen_;
    return true;
  }

  bool complete() const { return seen_ >= total_; }
  std::size_t beats() const { return seen_; }

  void write(const Job& job, std::ostream& result, const char* kind, bool ready) const {
    result << kind << ' ' << Port::kName << ' ' << cycles_.size() << ' ' << valid_ << ' ' << ready
           << '\n';
    const std::string path = job.folder + "/" + Port::kName;
    write_bytes(path + ".out", beats_.data(), beats_.size());
    write_bytes(path + ".cycles", cycles_.data(), cycles_.size() * 8);
    write_bytes(path + ".marks", marks_.data(), marks_.size() * 8);
  }

 private:
  // Whether a beat is as in the first pass, in the bits that count.
  bool repeated(const std::array<unsigned char, Port::kBytes>& beat) const {
    const unsigned char* first = beats_.data() + (seen_ % count_) * Port::kBytes;
    const unsigned char* mask = mask_.data() + (seen_ * Port::kBytes) % mask_.size();
    for (std::size_t i = 0; i < Port::kBytes; ++i) {
      if ((beat[i] ^ first[i]) & mask[i]) return false;
    }
    return true;
  }

  std::uint64_t count_;
  std::uint64_t total_;
  std::uint64_t seen_ = 0;
  std::vector<std::uint64_t> marks_;
  std::vector<unsigned char> mask_;
  std::vector<unsigned char> beats_;
  std::vector<std::uint64_t> cycles_;
  std::array<unsigned char, Port::kBytes> held_{};
  bool valid_ = false;
  bool waiting_ = false;
};

template <class Port>
class Consumer {
 public:
  Consumer(Job& job, std::uint64_t stream)
      : recorder_(job),
        pauses_(job.output_stall, job.longest, job.seed * 1000003 + stream) {}

  template <bool kStall>
  void drive(Vtop& top) {
    ready_ = !kStall || !pauses_();
    if (kStall) Port::ready(top, ready_);
  }
  void start(Vtop& top) { Port::ready(top, true); }
  void restart() { recorder_.restart(); }

  bool sample(const Vtop& top, std::uint64_t cycle, Violations& violations) {
    return recorder_.record(top, ready_, cycle, violations);
  }

  void check_combinational(Vtop& top, std::uint64_t cycle, Violations& violations) {
    const bool before = Port::valid(top);
    Port::ready(top, !ready_);
    top.eval();
    if (Port::valid(top) != before) {
      violations.add(Port::kName, "valid depends on ready in the same cycle", cycle,
                     recorder_.beats());
    }
    Port::ready(top, ready_);
  }

  const Recorder<Port>& recorder() const { return recorder_; }
  void write(const Job& job, std::ostream& result) const {
    recorder_.write(job, result, "output", ready_);
  }

 private:
  Recorder<Port> recorder_;
  Pauses pauses_;
  bool ready_ = true;
};

template <class Port>
class Probe {
 public:
  explicit Probe(Job& job) : recorder_(job) {}
  void sample(const Vtop& top, std::uint64_t cycle, Violations& violations) {
    ready_ = Port::ready(top);
    recorder_.record(top, ready_, cycle, violations);
  }
  void restart() { recorder_.restart(); }
  void write(const Job& job, std::ostream& result) const {
    recorder_.write(job, result, "probe", ready_);
  }

 private:
  Recorder<Port> recorder_;
  bool ready_ = false;
};

// The memory behind an AXI4 read port: accepts bursts, answers them in order, and checks them.
template <class Port>
class Memory {
 public:
  Memory(Job& job, std::uint64_t stream)
      : pauses_(job.input_stall, job.longest, job.seed * 1000003 + stream) {
    std::ifstream options(job.folder + "/memory.txt");
    options >> latency_ >> step_ >> error_beat_ >> answered_beats_ >> outstanding_ >> std::ws;
    std::string path;
    std::getline(options, path);
    std::ifstream file(path, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), {});
  }

  void start(Vtop& top) {
    Port::accept(top, true);
    Port::valid(top, false);
  }

  // At a reset: of the memory, too, or of the design alone, to which bursts are on their way.
  void restart(Vtop& top, bool with_memory, std::uint64_t cycle, Violations& violations) {
    if (!with_memory && !bursts_.empty()) {
      violations.add(Port::kName, "the design was reset while bursts were on their way", cycle,
                     asked_);
    }
    waiting_ = false;
    error_ = false;
    if (!with_memory) return;
    bursts_.clear();
    valid_ = false;
    Port::valid(top, false);
  }

  // Before the falling edge: be ready for a burst or not, and offer the beat that is due.
  template <bool kStall>
  void drive(Vtop& top, std::uint64_t cycle) {
    // With pauses, every other burst is accepted only after it was asked for.
    accepts_ = !kStall || (!pauses_() && (waiting_ || asked_ % 2 == 0));
    if (kStall) Port::accept(top, accepts_);
    if (valid_ || bursts_.empty() || beats_ == answered_beats_) return;
    const Burst& burst = bursts_.front();
    if (cycle < burst.due || (beats_ > 0 && cycle < last_ + step_)) return;
    if (kStall && pauses_()) return;
    const std::uint64_t place = burst.address + burst.done * Port::kBytes;
    const bool inside = place + Port::kBytes <= image_.size();
    const unsigned char* data = inside ? image_.data() + place : nothing_.data();
    const unsigned response = !inside ? 3 : beats_ == error_beat_ ? 2 : 0;
    Port::put(top, data, burst.id, response, burst.done + 1 == burst.beats);
    Port::valid(top, true);
    valid_ = true;
  }

  void check_combinational(Vtop& top, std::uint64_t cycle, Violations& violations) {
    const bool asks = Port::asks(top);
    const bool ready = Port::ready(top);
    Port::accept(top, !accepts_);
    top.eval();
    if (Port::asks(top) != asks) {
      violations.add(Port::kName, "arvalid depends on arready in the same cycle", cycle, asked_);
    }
    Port::accept(top, accepts_);
    Port::valid(top, !valid_);
    top.eval();
    if (Port::ready(top) != ready) {
      violations.add(Port::kName, "rready depends on rvalid in the same cycle", cycle, asked_);
    }
    Port::valid(top, valid_);
  }

  // Before the rising edge; true when a beat moves.
  bool sample(const Vtop& top, std::uint64_t cycle, Violations& violations) {
    const auto rule = [&](bool kept, const char* text) {
      if (!kept) violations.add(Port::kName, text, cycle, asked_);
    };
    asks_ = Port::asks(top);
    rule(!waiting_ || asks_, "arvalid fell before the burst was accepted");
    const auto burst = Port::burst(top);
    rule(!waiting_ || !asks_ || burst == held_, "the burst changed before it was accepted");
    waiting_ = asks_ && !accepts_;
    held_ = burst;
    if (asks_ && accepts_) {
      const std::uint64_t bytes = (burst[2] + 1) * Port::kBytes;
      rule((std::uint64_t{1} << burst[3]) == Port::kBytes && burst[4] == 1,
           "the burst is not incremental in whole beats");
      rule(burst[0] % Port::kBytes == 0, "the burst does not start on a beat");
      rule(burst[0] / 4096 == (burst[0] + bytes - 1) / 4096, "the burst crosses 4 KiB");
      rule(burst[0] + bytes <= image_.size(), "the burst leaves the image");
      rule(bursts_.size() < outstanding_, "too many bursts are on their way");
      accepted_ = {burst[0], burst[1], burst[2] + 1, 0, cycle + latency_};
    }
    if (Port::error(top) && !error_) rule(false, "m_axi_error: the memory answered with an error");
    error_ = Port::error(top);
    moved_ = valid_ && Port::ready(top);
    return moved_;
  }

  // After the rising edge.
  void advance(Vtop& top, std::uint64_t cycle) {
    if (moved_) {
      ++beats_;
      last_ = cycle;
      if (++bursts_.front().done == bursts_.front().beats) bursts_.pop_front();
      valid_ = false;
      Port::valid(top, false);
    }
    if (asks_ && accepts_) {
      bursts_.push_back(accepted_);
      ++asked_;
    }
  }

  void write(std::ostream& result) const {
    result << "memory " << asked_ << ' ' << beats_ << ' ' << bursts_.size() << ' ' << waiting_
           << '\n';
  }

 private:
  struct Burst {
    std::uint64_t address, id, beats, done, due;
  };
  Pauses pauses_;
  std::uint64_t latency_ = 0;
  std::uint64_t step_ = 1;
  std::int64_t error_beat_ = -1;
  std::int64_t answered_beats_ = -1;
  std::uint64_t outstanding_ = 0;
  std::vector<unsigned char> image_;
  std::array<unsigned char, Port::kBytes> nothing_{};
  std::deque<Burst> bursts_;
  Burst accepted_{};
  std::array<std::uint64_t, 5> held_{};
  std::int64_t beats_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t last_ = 0;
  bool accepts_ = true;
  bool asks_ = false;
  bool waiting_ = false;
  bool valid_ = false;
  bool moved_ = false;
  bool error_ = false;
};

// One object of each role. Bases are cheaper to compile than the elements of a tuple, whose names
// grow with their number.
template <class... Items>
struct Each : Items... {
  // Bases are initialised in order: each stream reads its own number from the job.
  template <class... Arguments>
  explicit Each([[maybe_unused]] Job& job, Arguments&... stream) : Items(job, stream++...)... {}
};

template <template <class> class Role, class Ports>
struct EachOfPorts;
template <template <class> class Role, class... Ports>
struct EachOfPorts<Role, std::tuple<Ports...>> {
  using Type = Each<Role<Ports>...>;
};
template <template <class> class Role, class Ports>
using EachOf = typename EachOfPorts<Role, Ports>::Type;

template <class Function, class... Items>
void for_each([[maybe_unused]] Each<Items...>& items, [[maybe_unused]] Function&& function) {
  (function(static_cast<Items&>(items)), ...);
}

template <class First, class... Items>
const First& first_of(const Each<First, Items...>& items) {
  return items;
}

// The most memory that this process held, in KiB; 0 where the system does not say.
std::uint64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") {
      status >> kib;
      break;
    }
  }
  return kib;
}

class Simulation {
 public:
  Simulation(Job& job, VerilatedContext& context)
      : job_(job),
        context_(context),
        top_(&context),
        drivers_(job, streams_),
        consumers_(job, streams_),
        memories_(job, streams_),
        probes_(job) {
#if VM_TRACE
    if (job.waves) {
      context.traceEverOn(true);
      trace_ = std::make_unique<VerilatedVcdC>();
      top_.trace(trace_.get(), 99);
      trace_->open((job.folder + "/waves.vcd").c_str());
    }
#endif
  }

  void run() {
    reset();
    const auto start = Clock::now();
    if (job_.input_stall > 0 || job_.output_stall > 0) {
      loop<true>();
    } else {
      loop<false>();
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    top_.final();
#if VM_TRACE
    if (trace_) trace_->close();
#endif
  }

  void write() {
    std::ofstream result(job_.folder + "/result.txt");
    result << "cycles " << cycle_ << "\nseconds " << seconds_ << "\nhung " << hung_ << "\npeak "
           << peak_kib() << '\n';
    for_each(drivers_, [&](auto& item) { item.write(job_, result); });
    for_each(consumers_, [&](auto& item) { item.write(job_, result); });
    for_each(probes_, [&](auto& item) { item.write(job_, result); });
    for_each(memories_, [&](auto& item) { item.write(result); });
    for (const Violation& item : violations_.found()) {
      result << "violation " << item.port << ' ' << item.cycle << ' ' << item.beat << ' '
             << item.rule << '\n';
    }
  }

 private:
  void eval_dump(std::uint64_t half) {
    context_.time(half * kHalfPeriodPicoseconds);
    top_.eval();
#if VM_TRACE
    if (trace_) trace_->dump(half * kHalfPeriodPicoseconds);
#endif
  }

  void reset() {
    top_.rst = 1;
    for (std::uint64_t i = 0; i < kResetCycles; ++i) {
      top_.clk = 0;
      eval_dump(2 * i);
      top_.clk = 1;
      eval_dump(2 * i + 1);
    }
    top_.rst = 0;
    for_each(consumers_, [&](auto& item) { item.start(top_); });
    for_each(memories_, [&](auto& item) { item.start(top_); });
  }

  // A reset of one cycle, from which everything begins again.
  void restart() {
    for_each(drivers_, [&](auto& item) { item.restart(top_); });
    for_each(consumers_, [&](auto& item) { item.restart(); });
    for_each(probes_, [&](auto& item) { item.restart(); });
    top_.rst = 1;
    top_.clk = 0;
    eval_dump(2 * (cycle_ + kResetCycles));
    Violations unasked;
    for_each(memories_, [&](auto& item) { item.sample(top_, cycle_, unasked); });
    top_.clk = 1;
    eval_dump(2 * (cycle_ + kResetCycles) + 1);
    for_each(memories_, [&](auto& item) {
      item.advance(top_, cycle_);
      item.restart(top_, job_.reset_memory, cycle_, violations_);
    });
    top_.rst = 0;
    ++cycle_;
  }

  template <bool kStall>
  void loop() {
    std::uint64_t quiet = 0;
    std::uint64_t fetched = 0;
    std::uint64_t drained = 0;
    std::size_t resets = 0;
    std::uint64_t began = 0;
    while (drained <= job_.drain || resets < job_.resets.size()) {
      if (resets < job_.resets.size() && cycle_ - began >= job_.resets[resets]) {
        restart();
        ++resets;
        quiet = fetched = drained = 0;
        began = cycle_;
      }
      fetched_ = false;
      if (step<kStall>()) {
        quiet = 0;
        fetched = 0;
      } else if (fetched_ && ++fetched <= job_.quiet_limit) {
        // The memory is at work, as long as no more comes than any inference reads.
        quiet = 0;
      } else if (++quiet > job_.quiet_limit || fetched > job_.quiet_limit) {
        hung_ = true;
        return;
      }
      if (complete()) {
        ++drained;
        quiet = 0;
      }
      if (++cycle_ % kReportCycles == 0) report();
      // An assertion failed too often.
      if (context_.gotFinish()) return;
    }
  }

  // One clock cycle; true when a beat moved on any stream.
  template <bool kStall>
  bool step() {
    for_each(drivers_, [&](auto& item) { item.template drive<kStall>(top_); });
    for_each(consumers_, [&](auto& item) { item.template drive<kStall>(top_); });
    for_each(memories_, [&](auto& item) { item.template drive<kStall>(top_, cycle_); });
    top_.clk = 0;
    if (kStall && cycle_ % kProbeCycles == 0) check_combinational();
    eval_dump(2 * (cycle_ + kResetCycles));
    bool moved = false;
    for_each(drivers_, [&](auto& item) { moved |= item.sample(top_); });
    for_each(consumers_, [&](auto& item) { moved |= item.sample(top_, cycle_, violations_); });
    for_each(memories_, [&](auto& item) { fetched_ |= item.sample(top_, cycle_, violations_); });
    for_each(probes_, [&](auto& item) { item.sample(top_, cycle_, violations_); });
    top_.clk = 1;
    eval_dump(2 * (cycle_ + kResetCycles) + 1);
    for_each(drivers_, [&](auto& item) { item.advance(top_, cycle_); });
    for_each(memories_, [&](auto& item) { item.advance(top_, cycle_); });
    return moved;
  }

  // Rules 3 and 4: turn each valid and ready over, look at its partner, and turn it back.
  void check_combinational() {
    context_.time(2 * (cycle_ + kResetCycles) * kHalfPeriodPicoseconds);
    top_.eval();
    for_each(drivers_, [&](auto& item) {
      item.check_combinational(top_, cycle_, violations_);
      top_.eval();
    });
    for_each(consumers_, [&](auto& item) {
      item.check_combinational(top_, cycle_, violations_);
      top_.eval();
    });
    for_each(memories_, [&](auto& item) {
      item.check_combinational(top_, cycle_, violations_);
      top_.eval();
    });
  }

  bool complete() {
    bool all = true;
    for_each(consumers_, [&](auto& item) { all &= item.recorder().complete(); });
    return all;
  }

  void report() {
    const auto now = Clock::now();
    if (now - reported_ < std::chrono::milliseconds(200)) return;
    reported_ = now;
    std::printf("progress %zu\n", first_of(consumers_).recorder().beats());
    std::fflush(stdout);
  }

  Job& job_;
  VerilatedContext& context_;
  Vtop top_;
  std::uint64_t streams_ = 0;
  EachOf<Driver, Inputs> drivers_;
  EachOf<Consumer, Outputs> consumers_;
  EachOf<Memory, Memories> memories_;
  EachOf<Probe, Probes> probes_;
#if VM_TRACE
  std::unique_ptr<VerilatedVcdC> trace_;
#endif
  Violations violations_;
  std::uint64_t cycle_ = 0;
  double seconds_ = 0;
  bool hung_ = false;
  bool fetched_ = false;
  Clock::time_point reported_ = Clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: native JOB\n");
    return 2;
  }
  Job job(argv[1]);
  const auto context = std::make_unique<VerilatedContext>();
  // Registers without a reset start with random bits.
  context->randReset(2);
  context->randSeed(static_cast<int>(job.seed % 2147483646 + 1));
  // Assertions inside the design are reported when it has ended.
  context->fatalOnError(false);
  context->errorLimit(kErrorLimit);
  Simulation simulation(job, *context);
  simulation.run();
  simulation.write();
  return 0;
}

// Common two-term sub-expressions of sums of shifted columns.
//
// A row is a sum of digits, each a column times plus or minus a power of two. In every step the
// pair of digits that saves most becomes a column of its own: one adder for each occurrence but the
// first, each as wide as its operands overlap. Columns are numbers without sign: what is subtracted
// counts down from its largest value, so that no sign is extended.
#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

struct Digit {
  int column, shift, sign;
};

struct Column {
  std::uint64_t high;
  int level;
  int width() const { return 64 - __builtin_clzll(high | 1); }
};

// Two columns: the second is shifted by `shift` against the first, and has `sign` against it.
struct Pattern {
  int first, second, shift, sign;

  static Pattern of(const Digit &a, const Digit &b) {
    const bool swap = b.column < a.column || (b.column == a.column && b.shift < a.shift);
    const Digit &x = swap ? b : a, &y = swap ? a : b;
    return {x.column, y.column, y.shift - x.shift, x.sign * y.sign};
  }
  static Pattern of(std::uint64_t key) {
    return {int(key >> 36), int((key >> 8) & 0xFFFFFFF), int((key >> 1) & 0x7F) - 64,
            key & 1 ? 1 : -1};
  }
  std::uint64_t key() const {
    return (std::uint64_t(first) << 36) | (std::uint64_t(second) << 8) |
           (std::uint64_t(shift + 64) << 1) | (sign > 0);
  }
};

struct Search {
  std::vector<Column> columns;
  std::vector<std::vector<Digit>> rows;
  double slow;
  std::vector<std::vector<int>> users;
  std::unordered_map<std::uint64_t, int> counts;
  std::priority_queue<std::pair<double, std::uint64_t>> queue;
  std::vector<std::int32_t> sums;

  double score(std::uint64_t key, int count) const {
    const Pattern p = Pattern::of(key);
    const Column &a = columns[p.first], &b = columns[p.second];
    const int overlap = std::min(a.width(), b.width() + p.shift) - std::max(0, p.shift);
    const int inverted = std::min(a.width(), b.width()) - std::max(0, overlap);
    return (count - 1) * (std::max(0, overlap) + 0.01) - slow * std::max(a.level, b.level) -
           (p.sign < 0 ? std::max(0, inverted) : 0);
  }

  void count_pair(const Digit &a, const Digit &b, int by) {
    const std::uint64_t key = Pattern::of(a, b).key();
    const int count = counts[key] += by;
    if (by > 0 && count > 1) queue.push({score(key, count), key});
  }

  void run() {
    users.resize(columns.size());
    for (int r = 0; r < int(rows.size()); ++r) {
      for (std::size_t i = 0; i < rows[r].size(); ++i) {
        users[rows[r][i].column].push_back(r);
        for (std::size_t j = 0; j < i; ++j) ++counts[Pattern::of(rows[r][i], rows[r][j]).key()];
      }
    }
    for (const auto &[key, count] : counts)
      if (count > 1) queue.push({score(key, count), key});
    while (!queue.empty()) {
      const auto [value, key] = queue.top();
      queue.pop();
      const int count = counts[key];
      if (count < 2 || value <= 0) continue;
      const double now = score(key, count);
      if (now < value)
        queue.push({now, key});
      else
        extract(Pattern::of(key));
    }
  }

  void extract(const Pattern &p) {
    const int made = int(columns.size()), base = std::min(0, p.shift);
    std::vector<int> touched(users[p.first]);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    std::vector<std::vector<std::pair<Digit, Digit>>> places(touched.size());
    int occurrences = 0;
    for (std::size_t t = 0; t < touched.size(); ++t) {
      const auto &row = rows[touched[t]];
      std::vector<bool> used(row.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        for (std::size_t j = 0; j < row.size() && row[i].column == p.first && !used[i]; ++j) {
          if (j == i || used[j] || row[j].column != p.second ||
              row[j].shift - row[i].shift != p.shift || row[i].sign * row[j].sign != p.sign)
            continue;
          used[i] = used[j] = true;
          places[t].push_back({row[i], row[j]});
          ++occurrences;
        }
      }
    }
    if (occurrences < 2) {
      // Digits that overlap, as the three in x + 2x + 4x, count twice and are taken once.
      counts[p.key()] = 0;
      return;
    }
    const std::uint64_t second = columns[p.second].high;
    const std::uint64_t full = (std::uint64_t(2) << (63 - __builtin_clzll(second | 1))) - 1;
    const int level = 1 + std::max(columns[p.first].level, columns[p.second].level);
    columns.push_back({(columns[p.first].high << -base) +
                           ((p.sign > 0 ? second : full) << (p.shift - base)),
                       level});
    users.emplace_back();
    for (int value : {p.first, p.second, -base, p.shift - base, p.sign}) sums.push_back(value);
    for (std::size_t t = 0; t < touched.size(); ++t)
      for (const auto &[a, b] : places[t])
        replace(touched[t], a, b, {made, a.shift + base, a.sign});
  }

  void replace(int r, const Digit &a, const Digit &b, const Digit &sum) {
    auto &row = rows[r];
    const auto is = [](const Digit &x, const Digit &y) {
      return x.column == y.column && x.shift == y.shift;
    };
    row.erase(std::remove_if(row.begin(), row.end(),
                             [&](const Digit &d) { return is(d, a) || is(d, b); }),
              row.end());
    count_pair(a, b, -1);
    for (const Digit &other : row) {
      count_pair(a, other, -1);
      count_pair(b, other, -1);
      count_pair(sum, other, 1);
    }
    row.push_back(sum);
    users[sum.column].push_back(r);
  }
};

}  // namespace

// Returns how many sums there are; each is five numbers in `sums`: two columns, their shifts, and
// the sign of the second. `digits` are rows, columns, shifts and signs; what is left is in `left`.
extern "C" int share(int column_count, const std::uint64_t *highs, const std::int32_t *levels,
                     int digit_count, const std::int32_t *digits, int row_count, double slow,
                     std::int32_t *sums, std::int32_t *left, std::int32_t *left_count) {
  Search search;
  search.slow = slow;
  for (int c = 0; c < column_count; ++c) search.columns.push_back({highs[c], levels[c]});
  search.rows.resize(row_count);
  for (int d = 0; d < digit_count; ++d)
    search.rows[digits[4 * d]].push_back({digits[4 * d + 1], digits[4 * d + 2], digits[4 * d + 3]});
  search.run();
  std::copy(search.sums.begin(), search.sums.end(), sums);
  int at = 0;
  for (int r = 0; r < row_count; ++r)
    for (const Digit &d : search.rows[r])
      for (int value : {r, d.column, d.shift, d.sign}) left[at++] = value;
  *left_count = at / 4;
  return int(search.sums.size() / 5);
}

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace trireme::shm {

/// A set of numbers kept as disjoint half-open ranges [begin, end); neighbours are merged.
class Ranges {
 public:
  void add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    remove(begin, end);
    auto next = ranges_.lower_bound(begin);
    total_ += end - begin;
    if (next != ranges_.end() && next->first == end) {
      end = next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = end;
    } else {
      ranges_.emplace(begin, end);
    }
  }

  void remove(uint64_t begin, uint64_t end) {
    for (auto [from, to] : within(begin, end)) {
      auto range = std::prev(ranges_.upper_bound(from));
      const auto [first, last] = *range;
      ranges_.erase(range);
      if (first < from) ranges_.emplace(first, from);
      if (to < last) ranges_.emplace(to, last);
      total_ -= to - from;
    }
  }

  /// The parts of [begin, end) that are in the set.
  std::vector<std::pair<uint64_t, uint64_t>> within(uint64_t begin, uint64_t end) const {
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin()) --range;
    for (; range != ranges_.end() && range->first < end; ++range) {
      const uint64_t from = std::max(begin, range->first);
      const uint64_t to = std::min(end, range->second);
      if (from < to) parts.emplace_back(from, to);
    }
    return parts;
  }

  /// Sum of the ranges' lengths.
  uint64_t total() const { return total_; }

  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }

 private:
  std::map<uint64_t, uint64_t> ranges_;
  uint64_t total_ = 0;
};

}  // namespace trireme::shm

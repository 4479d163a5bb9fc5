#include "trireme/base/names.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace trireme::base {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Optimal string alignment: rows of the usual table for Levenshtein's distance, plus the swap of two neighbours.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), current(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view wrong, std::span<const std::string> known) {
  const std::string* nearest = nullptr;
  size_t nearest_distance = SIZE_MAX;
  for (const std::string& name : known) {
    const size_t longer = std::max(wrong.size(), name.size());
    const size_t shorter = std::min(wrong.size(), name.size());
    const size_t allowed = std::max<size_t>(1, longer / 3);
    // also spares the table for absurdly long names
    if (shorter == 0 || longer - shorter > allowed || longer > 1000) continue;
    const size_t d = distance(wrong, name);
    // all letters replaced is no resemblance, however short the name
    if (d > allowed || d >= longer || d >= nearest_distance) continue;
    nearest = &name;
    nearest_distance = d;
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string> known) {
  const auto name = nearest_name(wrong, known);
  return name ? "; did you mean " + base::quoted(*name) + "?" : "";
}

std::string printable(std::string_view text, size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues_a_letter = (byte & 0xC0) == 0x80;
    if (out.size() >= limit && !continues_a_letter) return out + "…";
    if (byte < 0x20 || byte == 0x7F) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += c;
    }
    // a run of continuation bytes belongs to no letter and must not get past the limit
    if (out.size() >= limit + 8) return out + "…";
  }
  return out;
}

std::string quoted(std::string_view text, size_t limit) {
  return "'" + printable(text, limit) + "'";
}

std::string joined(std::span<const std::string> names, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += separator;
    out += names[i];
  }
  return out;
}

}  // namespace trireme::base

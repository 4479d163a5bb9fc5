#include "trireme/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

struct Unit {
  const char* name;
  int64_t factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"b", 1},
                                          {"kb", 1'000},
                                          {"mb", 1'000'000},
                                          {"gb", 1'000'000'000},
                                          {"tb", 1'000'000'000'000},
                                          {"kib", int64_t{1} << 10},
                                          {"mib", int64_t{1} << 20},
                                          {"gib", int64_t{1} << 30},
                                          {"tib", int64_t{1} << 40}}};

constexpr std::array<Unit, 7> kTimeUnits{{{"ns", 1},
                                          {"us", 1'000},
                                          {"ms", 1'000'000},
                                          {"s", 1'000'000'000},
                                          {"min", 60'000'000'000},
                                          {"h", 3'600'000'000'000},
                                          {"d", 86'400'000'000'000}}};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// `what` is "a size" or "a time", `example` shows how one is written.
int64_t parse(std::string_view text, std::span<const Unit> units, int64_t default_factor, const char* what,
              const char* example) {
  const auto refuse = [&](const char* reason) {
    throw ConfigError(text_of(base::quoted(text), " is not ", what, ": ", reason, "; write it as ", example));
  };
  const std::string_view trimmed_text = trimmed(text);
  const size_t digits = trimmed_text.find_first_not_of("0123456789.");
  const std::string_view number = trimmed_text.substr(0, digits);
  const std::string unit = digits == std::string_view::npos ? "" : lower(trimmed(trimmed_text.substr(digits)));
  if (trimmed_text.starts_with('-')) refuse("it is negative");
  if (number.empty()) refuse("it starts with no number");

  int64_t factor = unit.empty() ? default_factor : 0;
  for (const Unit& known : units)
    if (unit == known.name) factor = known.factor;
  if (factor == 0) refuse(unit.empty() ? "it has no unit" : "its unit is unknown");

  int64_t result = 0;
  if (number.find('.') == std::string_view::npos) {
    int64_t whole = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), whole);
    if (error != std::errc() || __builtin_mul_overflow(whole, factor, &result)) refuse("it is beyond 64 bits");
    return result;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) refuse("it starts with no number");
  value = std::round(value * static_cast<double>(factor));
  if (!(value < 0x1p63)) refuse("it is beyond 64 bits");
  return static_cast<int64_t>(value);
}

std::string printed(const char* format, auto... values) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

/// Three significant digits of a value in [1, 1024).
std::string three_digits(double value, const char* unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return printed("%.*f %s", decimals, value, unit);
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  return parse(text, kByteUnits, 1, "a size", "25MB or 1.5GiB");
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
  return std::chrono::nanoseconds(parse(text, kTimeUnits, 0, "a time", "250ms, 30s, 10min or 1.5h"));
}

std::string format_bytes(int64_t bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes));
  const std::string sign = bytes < 0 ? "-" : "";
  if (magnitude < 1024) return printed("%lld B", static_cast<long long>(bytes));
  constexpr std::array<const char*, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = magnitude / 1024;
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return sign + three_digits(value, kNames[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return printed("%f s", seconds);
  if (seconds < 0) return "-" + format_duration(-seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return printed("%.0f ns", seconds * 1e9);
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 0.9995) return three_digits(seconds * 1e3, "ms");
  if (seconds < 59.95) return three_digits(seconds, "s");
  if (seconds < 3599.5) {
    const auto whole = static_cast<long long>(std::llround(seconds));
    return printed("%lld min %02lld s", whole / 60, whole % 60);
  }
  if (seconds > 1e15) return printed("%.3g h", seconds / 3600);
  const auto minutes = static_cast<long long>(std::llround(seconds / 60));
  return printed("%lld h %02lld min", minutes / 60, minutes % 60);
}

}  // namespace trireme::base

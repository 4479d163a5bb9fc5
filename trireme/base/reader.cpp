#include "trireme/base/reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

const Json kNull;
const Json kEmpty = Json::object();

std::string number_text(double value) {
  return shown(Json(value));
}
std::string number_text(int64_t value) {
  return std::to_string(value);
}

template <class T>
std::string allowed_text(const Range<T>& range) {
  std::string low;
  std::string high;
  if (range.min) low = (range.min_open ? "above " : "at least ") + number_text(*range.min);
  if (range.max) high = (range.max_open ? "below " : "at most ") + number_text(*range.max);
  return low + (low.empty() || high.empty() ? "" : " and ") + high;
}

template <class T>
bool inside(T value, const Range<T>& range) {
  if (range.min && (range.min_open ? value <= *range.min : value < *range.min)) return false;
  return !range.max || (range.max_open ? value < *range.max : value <= *range.max);
}

std::string must_be(const char* what, const Json& value) {
  return text_of("must be ", what, ", not ", shown(value));
}

/// The sentence of the violation, or nothing and `out` is set. `allowed` is the range in words.
std::optional<std::string> to_integer(const Json& value, int64_t& out, const std::string& allowed) {
  const auto too_large = [&] {
    return text_of(shown(value), " is out of range; must be ", allowed.empty() ? "an integer of 64 bits" : allowed);
  };
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return too_large();
  if (value.is_number_integer()) {
    out = value.get<int64_t>();
    return std::nullopt;
  }
  // DeepSpeed's files say 5e8 for 500000000
  if (!value.is_number_float() || value.get<double>() != std::floor(value.get<double>()))
    return must_be("an integer", value);
  const double number = value.get<double>();
  if (!(number >= -0x1p63 && number < 0x1p63)) return too_large();
  out = static_cast<int64_t>(number);
  return std::nullopt;
}

template <class T>
std::optional<std::string> out_of_range(const Json& value, T number, const Range<T>& range) {
  if (inside(number, range)) return std::nullopt;
  return text_of(shown(value), " is out of range; must be ", allowed_text(range));
}

std::optional<std::string> convert(const Json& value, int64_t& out, const Range<int64_t>& range) {
  if (auto wrong = to_integer(value, out, allowed_text(range))) return wrong;
  return out_of_range(value, out, range);
}

std::optional<std::string> convert(const Json& value, int& out, const Range<int>& range) {
  constexpr std::numeric_limits<int> kLimits;
  const Range<int64_t> wide{.min = range.min.value_or(kLimits.min()),
                            .max = range.max.value_or(kLimits.max()),
                            .min_open = range.min_open,
                            .max_open = range.max_open};
  int64_t number = 0;
  const auto wrong = convert(value, number, wide);
  if (!wrong) out = static_cast<int>(number);
  return wrong;
}

std::optional<std::string> convert(const Json& value, double& out, const Range<double>& range) {
  if (!value.is_number()) return must_be("a number", value);
  out = value.get<double>();
  if (!std::isfinite(out)) return text_of("must be a finite number, not ", out);
  return out_of_range(value, out, range);
}

std::optional<std::string> convert(const Json& value, bool& out, const Range<bool>&) {
  if (!value.is_boolean()) return must_be("true or false", value);
  out = value.get<bool>();
  return std::nullopt;
}

std::optional<std::string> convert(const Json& value, std::string& out, const Range<std::string>& range) {
  if (!value.is_string()) return must_be("a string", value);
  out = value.get<std::string>();
  if (range.one_of.empty() || std::ranges::count(range.one_of, out) > 0) return std::nullopt;
  std::vector<std::string> legal;
  for (const std::string& name : range.one_of) legal.push_back(base::quoted(name));
  return text_of(base::quoted(out), " is not known; must be ", legal.size() > 1 ? "one of " : "", joined(legal),
                 did_you_mean(out, range.one_of));
}

template <class T>
std::optional<std::string> convert(const Json& value, std::vector<T>& out, const Range<std::vector<T>>& range) {
  if (!value.is_array()) return must_be("a list", value);
  if (range.size && value.size() != *range.size)
    return text_of("must have ", *range.size, " elements, not ", value.size(), ": ", shown(value));
  for (size_t i = 0; i < value.size(); ++i) {
    T element{};
    if (const auto wrong = convert(value[i], element, range.element)) return text_of("element ", i, ": ", *wrong);
    out.push_back(std::move(element));
  }
  return std::nullopt;
}

}  // namespace

Reader::Reader(const Json& object, std::string path, Violations& violations)
    : object_(&object), path_(std::move(path)), violations_(&violations) {
  if (object.is_object()) return;
  violations_->add(path_, must_be("an object {…}", object));
  object_ = &kEmpty;
}

std::string Reader::path_of(const std::string& key) const {
  const std::string name = printable(key);
  return path_.empty() ? name : path_ + "." + name;
}

const Json* Reader::find(const std::string& key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.push_back(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Reader::has(const std::string& key) {
  return find(key) != nullptr;
}

template <class T>
T Reader::get(const std::string& key, T fallback, std::type_identity_t<Range<T>> range) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  T out{};
  const auto wrong = convert(*value, out, range);
  if (!wrong) return out;
  violations_->add(path_of(key), *wrong);
  return fallback;
}

template <class T>
T Reader::require(const std::string& key, std::type_identity_t<Range<T>> range) {
  if (!has(key)) violations_->add(path_of(key), "is required");
  return get<T>(key, T{}, range);
}

Reader Reader::object(const std::string& key) {
  const Json* value = find(key);
  return Reader(value == nullptr ? kEmpty : *value, path_of(key), *violations_);
}

const Json& Reader::raw(const std::string& key) {
  const Json* value = find(key);
  return value == nullptr ? kNull : *value;
}

void Reader::refuse(const std::string& key, const std::string& reason) {
  if (has(key)) violations_->add(path_of(key), reason);
}

void Reader::know(const std::vector<std::string>& names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void Reader::finish() {
  std::vector<std::string> candidates = asked_;
  candidates.insert(candidates.end(), known_.begin(), known_.end());
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    const bool known = std::ranges::find(known_, key) != known_.end();
    violations_->add(path_, known ? text_of("key ", base::quoted(key), " has no place here")
                                  : text_of("unknown key ", base::quoted(key), did_you_mean(key, candidates)));
  }
}

#define TRIREME_READER_TYPE(...)                                                                      \
  template __VA_ARGS__ Reader::get<__VA_ARGS__>(const std::string&, __VA_ARGS__, Range<__VA_ARGS__>); \
  template __VA_ARGS__ Reader::require<__VA_ARGS__>(const std::string&, Range<__VA_ARGS__>);
TRIREME_READER_TYPE(int)
TRIREME_READER_TYPE(int64_t)
TRIREME_READER_TYPE(double)
TRIREME_READER_TYPE(bool)
TRIREME_READER_TYPE(std::string)
TRIREME_READER_TYPE(std::vector<int64_t>)
TRIREME_READER_TYPE(std::vector<double>)
TRIREME_READER_TYPE(std::vector<bool>)
TRIREME_READER_TYPE(std::vector<std::string>)
#undef TRIREME_READER_TYPE

}  // namespace trireme::base

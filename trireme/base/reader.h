#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/violations.h"

namespace trireme::base {

/// What a value may be. Numbers: bounds, closed unless said otherwise, as in {.min = 0.0, .min_open = true}.
template <class T>
struct Range {
  std::optional<T> min = std::nullopt;
  std::optional<T> max = std::nullopt;
  bool min_open = false;
  bool max_open = false;
};

template <>
struct Range<bool> {};

/// Strings: the legal ones, spelled exactly; empty means any.
template <>
struct Range<std::string> {
  std::vector<std::string> one_of = {};
};

/// Lists: a rule for each element, and how many there must be.
template <class T>
struct Range<std::vector<T>> {
  Range<T> element = {};
  std::optional<size_t> size = std::nullopt;
};

/// A strict view of one JSON object. Every key that is asked for is remembered; finish() reports the others.
/// A wrong value adds a violation "path: what is wrong, the value, what is allowed" and the reading goes on with the
/// fallback, so that all violations come out at once. `null` means "not given".
///
/// The object and the violations must outlive the reader. T is one of int, int64_t, double, bool, std::string and
/// std::vector of int64_t, double, bool, std::string. An integer may be written 5e8 or 2.0; a fraction is a violation.
class Reader {
 public:
  /// `path` names the object in messages; empty for the root. A value that is not an object is a violation.
  Reader(const Json& object, std::string path, Violations& violations);

  /// Whether the key is given and not null. Counts as read.
  bool has(const std::string& key);

  /// The value; `fallback`, which the range does not judge, if it is absent or wrong.
  template <class T>
  T get(const std::string& key, T fallback, std::type_identity_t<Range<T>> range = {});

  /// As get; an absent key is a violation too, and a value-initialised T is returned then.
  template <class T>
  T require(const std::string& key, std::type_identity_t<Range<T>> range = {});

  /// The nested object, empty if absent or wrong. Its finish() is the caller's to call.
  Reader object(const std::string& key);

  /// The value as it stands; null if absent. Counts as read.
  const Json& raw(const std::string& key);

  /// A violation "path: reason" if the key is given: for keys that are known but not built.
  void refuse(const std::string& key, const std::string& reason);

  /// Further legal names that finish() may propose for a typo.
  void know(const std::vector<std::string>& names);

  /// Reports every key that was never asked for, with the nearest of the known names.
  void finish();

  /// "optimizer.params.lr" for the key "lr" of the object "optimizer.params".
  std::string path_of(const std::string& key) const;
  const std::string& path() const { return path_; }
  Violations& violations() { return *violations_; }

 private:
  const Json* find(const std::string& key);

  const Json* object_;
  std::string path_;
  Violations* violations_;
  std::vector<std::string> asked_;
  std::vector<std::string> known_;
};

}  // namespace trireme::base

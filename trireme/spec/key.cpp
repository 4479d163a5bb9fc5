#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/spec/keys.h"

namespace trireme::spec {

using base::Json;
using base::text_of;

namespace {

std::string number_text(double value) {
  return Json(value).dump();
}

/// "2147483647" for people: powers of ten as 1e12.
std::string integer_text(int64_t value) {
  int zeros = 0;
  int64_t rest = value;
  while (rest != 0 && rest % 10 == 0) rest /= 10, ++zeros;
  return rest == 1 && zeros >= 6 ? text_of("1e", zeros) : text_of(value);
}

}  // namespace

Key& Key::at_least(int64_t value) {
  return between(value, int64_t{1'000'000'000'000});
}

Key& Key::between(int64_t least_value, int64_t most_value) {
  least = least_value;
  most = most_value;
  shown_range = text_of(integer_text(least), " to ", integer_text(most));
  return *this;
}

Key& Key::above(double value, double most_value) {
  low = value;
  low_open = true;
  high = most_value;
  shown_range = text_of("above ", number_text(low), ", at most ", number_text(high));
  return *this;
}

Key& Key::within(double low_value, double high_value) {
  low = low_value;
  high = high_value;
  shown_range = text_of(number_text(low), " to ", number_text(high));
  return *this;
}

Key& Key::below(double low_value, double high_value) {
  low = low_value;
  high = high_value;
  high_open = true;
  shown_range = text_of("at least ", number_text(low), ", below ", number_text(high));
  return *this;
}

Key& Key::one_of(std::vector<std::string> names, std::vector<std::string> later_names) {
  choices = std::move(names);
  later_choices = std::move(later_names);
  return *this;
}

Key& Key::in(std::string unit_name) {
  unit = std::move(unit_name);
  return *this;
}

Key& Key::derived(std::string text) {
  shown_default = std::move(text);
  return *this;
}

Key& Key::or_null() {
  nullable = true;
  return *this;
}

Key& Key::not_auto() {
  automatic = false;
  return *this;
}

Key& Key::case_free() {
  any_case = true;
  return *this;
}

Key& Key::only(std::vector<std::string> types) {
  only_for = std::move(types);
  return *this;
}

Key later(std::string path, std::vector<Json> off, std::string sentence) {
  Key key;
  key.path = std::move(path);
  key.status = Status::Later;
  key.off = std::move(off);
  key.sentence = std::move(sentence);
  return key;
}

Key switched(std::string path, std::string sentence) {
  Key key;
  key.path = std::move(path);
  key.status = Status::Switched;
  key.sentence = std::move(sentence);
  return key;
}

Key dormant(std::string path, Kind kind, std::string sentence) {
  Key key;
  key.path = std::move(path);
  key.kind = kind;
  key.status = Status::Dormant;
  key.sentence = std::move(sentence);
  return key;
}

Key carried(std::string path, std::string sentence) {
  Key key;
  key.path = std::move(path);
  key.status = Status::Carried;
  key.sentence = std::move(sentence);
  key.nullable = true;
  return key;
}

const Key* find_key(const KeyTable& table, const std::string& path) {
  for (const Key& key : table) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

Json value_in(const Key& key, Draft& draft) {
  return std::visit(
      [&](auto access) -> Json {
        if constexpr (std::is_same_v<decltype(access), std::monostate>) {
          return Json();
        } else {
          auto& value = access(draft);
          if constexpr (std::is_same_v<decltype(value), std::chrono::nanoseconds&>) {
            const int64_t count = value.count();
            for (auto [unit, size] : {std::pair{"h", int64_t{3'600'000'000'000}},
                                      {"min", int64_t{60'000'000'000}},
                                      {"s", int64_t{1'000'000'000}},
                                      {"ms", int64_t{1'000'000}}}) {
              if (count % size == 0) return text_of(count / size, unit);
            }
            return text_of(count, "ns");
          } else {
            return Json(value);
          }
        }
      },
      key.access);
}

std::string listed(const std::vector<std::string>& names) {
  return base::joined(names);
}

}  // namespace trireme::spec

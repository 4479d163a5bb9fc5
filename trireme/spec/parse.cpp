#include "trireme/spec/parse.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/base/units.h"

namespace trireme::spec {

using base::Json;
using base::shown;
using base::text_of;
using base::Violations;

namespace {

bool is_auto(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>() == "auto";
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string allowed(const Key& key) {
  return key.shown_range.empty() ? "" : text_of("; allowed: ", key.shown_range);
}

/// The whole number that `value` holds, also written 5e8; nothing if it is none or beyond 64 bits.
std::optional<int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const double number = value.get<double>();
  // 2^63 is a double, the largest int64 is not: the comparison must leave it out
  if (number != std::floor(number) || number >= 9223372036854775808.0 || number < -9223372036854775808.0)
    return std::nullopt;
  return static_cast<int64_t>(number);
}

/// What is wrong with `value` for `key`; on success the value in its final form is put into the draft, if the key has a
/// place there.
class Judge {
 public:
  Judge(const Key& key, Draft& draft) : key_(key), draft_(draft) {}

  std::optional<std::string> operator()(const Json& value) const {
    switch (key_.kind) {
      case Kind::Integer:
        return integer(value);
      case Kind::Number:
        return number(value);
      case Kind::Flag:
        return flag(value);
      case Kind::Text:
        return text(value);
      case Kind::Duration:
        return duration(value);
      case Kind::Pair:
        return pair(value);
      case Kind::Any:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  template <class T>
  void put(const T& value) const {
    if (auto* access = std::get_if<T& (*)(Draft&)>(&key_.access)) (*access)(draft_) = value;
  }

  std::string wrong(const Json& value, const std::string& what) const {
    return text_of(shown(value), " is not ", what, allowed(key_));
  }

  bool in_range(double value) const {
    return std::isfinite(value) && (key_.low_open ? value > key_.low : value >= key_.low) &&
           (key_.high_open ? value < key_.high : value <= key_.high);
  }

  std::optional<std::string> integer(const Json& value) const {
    if (!value.is_number()) return wrong(value, "a whole number");
    const std::optional<int64_t> whole = whole_number(value);
    const bool fraction = !whole && value.is_number_float() && value.get<double>() != std::floor(value.get<double>());
    if (fraction) return wrong(value, "a whole number");
    if (!whole || *whole < key_.least || *whole > key_.most)
      return text_of(shown(value), " is out of range", allowed(key_));
    put(*whole);
    return std::nullopt;
  }

  std::optional<std::string> number(const Json& value) const {
    if (!value.is_number()) return wrong(value, "a number");
    if (!in_range(value.get<double>())) return text_of(shown(value), " is out of range", allowed(key_));
    put(value.get<double>());
    return std::nullopt;
  }

  std::optional<std::string> flag(const Json& value) const {
    if (!value.is_boolean()) return wrong(value, "true or false");
    put(value.get<bool>());
    return std::nullopt;
  }

  std::optional<std::string> text(const Json& value) const {
    const std::string choices = key_.choices.empty() ? "" : text_of("; allowed: ", listed(key_.choices));
    if (!value.is_string()) return text_of(shown(value), " is not a string", choices);
    const std::string given = value.get<std::string>();
    const auto named = [&](const std::vector<std::string>& names) -> const std::string* {
      for (const std::string& name : names) {
        if (key_.any_case ? name == lower(given) : name == given) return &name;
      }
      return nullptr;
    };
    if (key_.choices.empty()) {
      put(given);
      return std::nullopt;
    }
    if (const std::string* name = named(key_.choices)) {
      put(*name);
      return std::nullopt;
    }
    if (named(key_.later_choices)) return text_of(shown(value), " is not supported yet", choices);
    return text_of(shown(value), " is unknown", choices, base::did_you_mean(given, key_.choices));
  }

  std::optional<std::string> duration(const Json& value) const {
    const char* want = "; allowed: a time above 0 such as \"30s\" or \"10min\", at most 1000 days";
    if (!value.is_string()) return text_of(shown(value), " is not a time with its unit", want);
    try {
      const std::chrono::nanoseconds time = base::parse_duration(value.get_ref<const std::string&>());
      if (time.count() <= 0 || time > std::chrono::hours(24'000))
        return text_of(shown(value), " is out of range", want);
      put(time);
      return std::nullopt;
    } catch (const base::Error&) {
      return text_of(shown(value), " is not a time with its unit", want);
    }
  }

  std::optional<std::string> pair(const Json& value) const {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number()) {
      return wrong(value, "a list of two numbers");
    }
    const std::array<double, 2> both = {value[0].get<double>(), value[1].get<double>()};
    if (!in_range(both[0]) || !in_range(both[1]))
      return text_of(shown(value), " is out of range", allowed(key_), " (each)");
    put(both);
    return std::nullopt;
  }

  const Key& key_;
  Draft& draft_;
};

class Parser {
 public:
  Parser(const KeyTable& table, Draft& draft, Given& given, Violations& violations)
      : table_(table), draft_(draft), given_(given), violations_(violations) {}

  void block(const Json& object, const std::string& prefix, const std::vector<std::string>& skip) {
    for (const auto& [name, value] : object.items()) {
      if (prefix.empty() && std::find(skip.begin(), skip.end(), name) != skip.end()) continue;
      const std::string path = prefix + name;
      const Key* key = find_key(table_, path);
      // "a.b" as one name in the file is not the key b of block a
      if (name.find('.') != std::string::npos) key = nullptr;
      if (key && key->status == Status::Switched) {
        switched_block(*key, value);
      } else if (key) {
        one(*key, value);
      } else if (name.find('.') == std::string::npos && is_block(path + ".")) {
        nested(path, value);
      } else {
        unknown(prefix, name, skip);
      }
    }
  }

 private:
  bool is_block(const std::string& prefix) const {
    return std::any_of(table_.begin(), table_.end(), [&](const Key& key) { return key.path.starts_with(prefix); });
  }

  void nested(const std::string& path, const Json& value) {
    if (value.is_null()) return;
    // DeepSpeed's deprecated form: true is stage 1
    if (path == "zero_optimization" && value.is_boolean()) {
      if (value.get<bool>()) violations_.add(path, "true (stage 1) is not supported yet; only stage 0 is built");
      return;
    }
    if (!value.is_object()) {
      violations_.add(path, text_of(shown(value), " is not an object"));
      return;
    }
    block(value, path + ".", {});
  }

  void switched_block(const Key& key, const Json& value) {
    if (value.is_null()) return;
    if (!value.is_object()) {
      violations_.add(key.path, text_of(shown(value), " is not an object"));
      return;
    }
    const std::string path = key.path + ".enabled";
    bool described = false;
    for (const Key& inner : table_) described = described || inner.path.starts_with(key.path + ".");
    for (const auto& [name, inner] : value.items()) {
      if (name == "enabled") {
        if (is_auto(inner)) {
          given_.autos.insert(path);
        } else if (!inner.is_boolean()) {
          violations_.add(path, text_of(shown(inner), " is not true or false"));
        } else if (inner.get<bool>()) {
          violations_.add(path,
                          text_of("true is not supported yet; set it to false or remove the block \"", key.path, "\""));
        }
      } else if (described) {
        const Key* known = find_key(table_, key.path + "." + name);
        if (known && name.find('.') == std::string::npos) {
          one(*known, inner);
        } else {
          unknown(key.path + ".", name, {"enabled"});
        }
      }
    }
  }

  void one(const Key& key, const Json& value) {
    if (key.status == Status::Later) return later_key(key, value);
    if (key.status == Status::Carried) {
      draft_.gpt2.carried[key.path.substr(key.path.rfind('.') + 1)] = value;
      return;
    }
    const bool chosen = std::find(key.choices.begin(), key.choices.end(), "auto") != key.choices.end();
    if (is_auto(value) && !chosen) {
      if (key.automatic) {
        given_.autos.insert(key.path);
      } else {
        reject(key, "\"auto\" has no meaning here; give a value or leave the key out");
      }
      return;
    }
    if (value.is_null() && key.nullable) return;
    given_.paths.insert(key.path);
    if (const auto problem = Judge(key, draft_)(value)) reject(key, *problem);
  }

  void later_key(const Key& key, const Json& value) {
    if (std::find(key.off.begin(), key.off.end(), value) != key.off.end()) return;
    if (is_auto(value) && key.automatic && !key.off.empty()) {
      given_.autos.insert(key.path);
      return;
    }
    const std::string what = text_of(shown(value), " is not supported yet");
    const std::string reason =
        key.sentence.empty() ? "" : text_of(" (", key.sentence.substr(0, key.sentence.size() - 1), ")");
    if (key.off.empty()) {
      violations_.add(key.path, text_of(what, reason, "; remove it"));
    } else {
      violations_.add(key.path, text_of(what, reason, "; remove it or set it to ", shown(key.off.back())));
    }
  }

  void reject(const Key& key, const std::string& problem) {
    given_.wrong.insert(key.path);
    violations_.add(key.path, problem);
  }

  void unknown(const std::string& prefix, const std::string& name, const std::vector<std::string>& skip) {
    std::vector<std::string> siblings = skip;
    std::string elsewhere;
    for (const Key& key : table_) {
      if (key.path.starts_with(prefix)) {
        const std::string rest = key.path.substr(prefix.size());
        std::string sibling = rest.substr(0, rest.find('.'));
        if (std::find(siblings.begin(), siblings.end(), sibling) == siblings.end())
          siblings.push_back(std::move(sibling));
      }
      if (elsewhere.empty() && key.status == Status::Built && key.path.ends_with("." + name)) elsewhere = key.path;
    }
    std::string hint = elsewhere.empty() ? base::did_you_mean(name, siblings) : text_of("; it belongs to ", elsewhere);
    violations_.add(prefix + name, text_of("unknown key", hint));
  }

  const KeyTable& table_;
  Draft& draft_;
  Given& given_;
  Violations& violations_;
};

}  // namespace

void parse_block(const KeyTable& table, const Json& object, const std::string& prefix,
                 const std::vector<std::string>& skip, Draft& draft, Given& given, Violations& violations) {
  Parser(table, draft, given, violations).block(object, prefix, skip);
}

void check_applies(const KeyTable& table, const std::string& block, const std::string& type, const Given& given,
                   Violations& violations) {
  for (const Key& key : table) {
    if (!key.path.starts_with(block + ".") || key.only_for.empty() || !given.has(key.path)) continue;
    if (std::find(key.only_for.begin(), key.only_for.end(), type) == key.only_for.end()) {
      violations.add(key.path, text_of(type, " has no such key, only ", listed(key.only_for), "; remove it"));
    }
  }
}

}  // namespace trireme::spec

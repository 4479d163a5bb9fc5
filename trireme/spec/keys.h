#pragma once

#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "trireme/spec/config.h"

// The table of keys: the one description of every key, built or not.
namespace trireme::spec {

/// A Config in the making: what the keys write into, in the shape of the file.
struct Draft {
  Config config;
  SchedulerConfig scheduler;
  std::string warmup_type = "log";
  ScaleLr scale;
  std::string scale_rule = "linear";
  std::array<double, 2> betas = {0.9, 0.999};
  bool adam_w_mode = true;
  int64_t tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  int64_t reduce_bucket_size = 0;
  std::string model_type;
  int64_t n_ctx = 0;
  Gpt2Spec gpt2;
  MlpSpec mlp;
};

/// The place in a Draft that a key writes to; its type is the key's type.
using Access =
    std::variant<std::monostate, int64_t& (*)(Draft&), double& (*)(Draft&), bool& (*)(Draft&), std::string& (*)(Draft&),
                 std::chrono::nanoseconds& (*)(Draft&), std::array<double, 2>& (*)(Draft&)>;

enum class Kind { Integer, Number, Flag, Text, Duration, Pair, Any };

enum class Status {
  Built,
  Dormant,   // inside a block whose switch is not built: the value is checked, and has no effect while the block is off
  Later,     // known, refused as "not supported yet" unless the value is one of `off`
  Switched,  // a block, refused as "not supported yet" unless its "enabled" is false
  Carried,   // Hugging Face's keys that do not touch training: kept and exported as given
};

struct Key {
  std::string path;  // "optimizer.params.lr"
  Kind kind = Kind::Any;
  Status status = Status::Built;
  Access access;
  std::string sentence;       // for the reference page
  std::string shown_default;  // where the default is derived; otherwise a default Draft tells it
  std::string unit;           // "samples", "elements"
  std::string shown_range;    // the bounds below in words
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool low_open = false;
  bool high_open = false;
  std::vector<std::string> choices;        // of a Text
  std::vector<std::string> later_choices;  // known, not supported yet
  bool any_case = false;                   // choices are written in any case
  bool nullable = false;                   // null means not given
  bool automatic = true;                   // "auto" means not given
  std::vector<std::string> only_for;       // values of the block's "type" that have this key; empty: all
  std::vector<base::Json> off;             // Later: the values that are accepted because they change nothing

  // The table reads as sentences: built("x", …).at_least(1).in("samples").
  Key& at_least(int64_t value);
  Key& between(int64_t least_value, int64_t most_value);
  Key& above(double value, double most_value);       // low < x <= high
  Key& within(double low_value, double high_value);  // low <= x <= high
  Key& below(double low_value, double high_value);   // low <= x < high
  Key& one_of(std::vector<std::string> names, std::vector<std::string> later = {});
  Key& in(std::string unit_name);
  Key& derived(std::string text);
  Key& or_null();
  Key& not_auto();
  Key& case_free();
  Key& only(std::vector<std::string> types);
};

/// A key that works. `access` is a captureless lambda that returns the place in a Draft.
template <class Function>
Key built(std::string path, Function access, std::string sentence) {
  using Value = std::remove_reference_t<std::invoke_result_t<Function, Draft&>>;
  Key key;
  key.path = std::move(path);
  key.sentence = std::move(sentence);
  key.access = static_cast<Value& (*)(Draft&)>(access);
  if constexpr (std::is_same_v<Value, int64_t>) key.kind = Kind::Integer;
  if constexpr (std::is_same_v<Value, double>) key.kind = Kind::Number;
  if constexpr (std::is_same_v<Value, bool>) key.kind = Kind::Flag;
  if constexpr (std::is_same_v<Value, std::string>) key.kind = Kind::Text;
  if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) key.kind = Kind::Duration;
  if constexpr (std::is_same_v<Value, std::array<double, 2>>) key.kind = Kind::Pair;
  return key;
}

/// A known key that is not built; `off` are the values that are accepted because they change nothing.
Key later(std::string path, std::vector<base::Json> off, std::string sentence);

/// A block that is legal only while its "enabled" is false.
Key switched(std::string path, std::string sentence);

/// A key inside a switched block.
Key dormant(std::string path, Kind kind, std::string sentence);

/// A key that is kept for the export.
Key carried(std::string path, std::string sentence);

using KeyTable = std::vector<Key>;

/// Every key outside "model": the built ones in the order of the reference page, then the later ones.
const KeyTable& config_keys();
/// "model" with model_type gpt2 and mlp.
const KeyTable& gpt2_keys();
const KeyTable& mlp_keys();

/// DeepSpeed's keys that are not built yet (later_keys.cpp).
void add_later_keys(KeyTable& table);

/// nullptr if the table has no such key.
const Key* find_key(const KeyTable& table, const std::string& path);

/// The value that `draft` holds for a built key, as it would be written in a file.
base::Json value_in(const Key& key, Draft& draft);

/// "adamw, adam".
std::string listed(const std::vector<std::string>& names);

}  // namespace trireme::spec

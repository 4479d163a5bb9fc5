#include "trireme/spec/reference.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/spec/keys.h"

namespace trireme::spec {

using base::Json;
using base::text_of;

namespace {

const char* type_name(Kind kind) {
  switch (kind) {
    case Kind::Integer:
      return "integer";
    case Kind::Number:
      return "number";
    case Kind::Flag:
      return "true, false";
    case Kind::Text:
      return "string";
    case Kind::Duration:
      return "time";
    case Kind::Pair:
      return "two numbers";
    case Kind::Any:
      return "any";
  }
  return "";
}

/// Text that may stand in a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string quoted_choices(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += text_of(out.empty() ? "" : ", ", "`", name, "`");
  return out;
}

std::string row(const Key& key, Draft& defaults) {
  std::string range = key.choices.empty() ? key.shown_range : quoted_choices(key.choices);
  const std::string value =
      key.shown_default.empty() ? text_of("`", value_in(key, defaults).dump(), "`") : key.shown_default;
  std::string sentence = key.sentence;
  if (!key.only_for.empty()) sentence += text_of(" Only for ", quoted_choices(key.only_for), ".");
  if (!key.later_choices.empty()) sentence += text_of(" Not supported yet: ", quoted_choices(key.later_choices), ".");
  return text_of("| `", key.path, "` | ", type_name(key.kind), key.unit.empty() ? "" : ", ", key.unit, " | ",
                 cell(value), " | ", cell(range), " | ", cell(sentence), " |\n");
}

/// The rows of built keys whose path begins with `prefix` ("": those of the top level).
std::string section(const std::string& title, const KeyTable& table, const std::string& prefix) {
  Draft defaults;
  std::string out = text_of("\n## ", title, "\n\n| Key | Type | Default | Allowed | Meaning |\n|--|--|--|--|--|\n");
  for (const Key& key : table) {
    const bool inside = prefix.empty() ? key.path.find('.') == std::string::npos : key.path.starts_with(prefix);
    if (key.status == Status::Built && inside) out += row(key, defaults);
  }
  return out;
}

std::string carried_keys(const KeyTable& table) {
  std::vector<std::string> names;
  for (const Key& key : table) {
    if (key.status == Status::Carried) names.push_back(key.path.substr(key.path.find('.') + 1));
  }
  return text_of("\nHugging Face's keys that do not touch training are kept and exported as given: ",
                 quoted_choices(names), ".\n");
}

std::string later_section(const KeyTable& table) {
  std::string out =
      "\n## Known, not supported yet\n\nThese keys are refused by name. The values in the second column are accepted, "
      "because a run without the feature does "
      "what they say; \"auto\" counts as the first of them.\n\n| Key | Accepted | What it is |\n|--|--|--|\n";
  for (const Key& key : table) {
    std::string accepted;
    if (key.status == Status::Later) {
      for (const Json& value : key.off) accepted += text_of(accepted.empty() ? "" : ", ", "`", value.dump(), "`");
    } else if (key.status == Status::Switched) {
      accepted = "`{\"enabled\": false}`";
    } else if (key.status == Status::Dormant) {
      accepted = text_of(key.choices.empty() ? type_name(key.kind) : quoted_choices(key.choices),
                         key.shown_range.empty() ? "" : ", ", key.shown_range, ", while the block is off");
    } else {
      continue;
    }
    out += text_of("| `", key.path, "` | ", cell(accepted), " | ", cell(key.sentence), " |\n");
  }
  return out;
}

}  // namespace

const std::vector<std::string>& differences_from_deepspeed() {
  static const std::vector<std::string> list = {
      "Unknown keys are errors, at the top level too; DeepSpeed reads past them.",
      "All violations are reported at once, before a rank starts, and every known key that is not built is refused "
      "unless its value changes nothing.",
      "`\"auto\"` is resolved and printed, or an error that names the key; DeepSpeed drops it or fails late.",
      "`zero_optimization.overlap_comm`: unset means true; in DeepSpeed only at stage 3.",
      "`zero_optimization.reduce_bucket_size`: unset means a size that gives at least 8 buckets, printed at the start; "
      "DeepSpeed's default is 5e8. 0 is refused.",
      "`scheduler.params.warmup_max_lr`: unset means `optimizer.params.lr`, printed; DeepSpeed's WarmupDecayLR takes "
      "0.001. Where both are given and differ, the scheduler's is used, as in DeepSpeed, and a warning has both.",
      "`scheduler.params.warmup_num_steps`: 0 is legal and begins at the peak, 1 reaches the peak after one step; "
      "DeepSpeed refuses 0 and makes 2 of 1.",
      "`scheduler.params.total_num_steps`: unset means `training.steps`; DeepSpeed requires it.",
      "`scheduler.params.warmup_type`: an unknown value is an error; DeepSpeed warns and takes log.",
      "A step runs at the rate that DeepSpeed prints after that step; DeepSpeed's update itself still runs at the rate "
      "before, so that its first two updates have the same rate.",
      "`scheduler.type` may be `constant`, and `scale_lr_with_batch` is ours.",
      "`steps_per_print`: the default is 10, as DeepSpeed's documentation says; its code prints nothing unless it is "
      "given.",
      "`train_batch_size` is checked against data-parallel ranks, as in DeepSpeed, before the first rank starts; "
      "`gradient_accumulation_steps` need not be given.",
      "Gradients are divided once, by the global number of items (tokens), so that micro-batches of unequal size count "
      "by their items; DeepSpeed averages the means of micro-batches.",
      "`optimizer.params.weight_decay` is 0 unless it is given, also for AdamW: that is DeepSpeed's default, PyTorch's "
      "is 0.01.",
      "`model.vocab_size` is 256 (bytes) and the dropouts are 0 unless they are given; Hugging Face's defaults are "
      "50257 and 0.1.",
  };
  return list;
}

std::string reference_page() {
  const KeyTable& keys = config_keys();
  std::string page =
      "# Configuration\n\n"
      "Generated from the table of keys in `trireme/spec/keys.cpp`; the test `spec_test` compares it and, with "
      "`TRIREME_REGENERATE=1`, writes it.\n\n"
      "A configuration is one JSON object, with `//`, `#` and `/* */` comments. Several files are merged from left to "
      "right: objects key by key, anything else is "
      "replaced. `--set a.b=value` wins over the files; the value is JSON if it parses, else a string. What overrides "
      "what is printed. Integers may be written `5e8`. "
      "`\"auto\"` counts as not given for every key outside `model`, and what it became is printed. The resolved "
      "configuration lies in the run folder as `config.json` "
      "and can be run again with the same --ranks. `trireme check FILE…` prints the verdict.\n";
  page += section("Batch and printing", keys, "");
  page += section("optimizer", keys, "optimizer.");
  page += section("scheduler", keys, "scheduler.");
  page += section("zero_optimization", keys, "zero_optimization.");
  page += section("parallel", keys, "parallel.");
  page += section("training", keys, "training.");
  page += section("data", keys, "data.");
  page += section("checkpoint", keys, "checkpoint.");
  page += section("communication", keys, "communication.");
  page += section("logging", keys, "logging.");
  page += section("model: gpt2", gpt2_keys(), "model.");
  page += carried_keys(gpt2_keys());
  page += section("model: mlp", mlp_keys(), "model.");
  page += "\nA program with a job of its own reads its own `model` block; keys that it does not read are errors.\n";
  page += "\n## Differences from DeepSpeed, on purpose\n\n";
  for (const std::string& sentence : differences_from_deepspeed()) page += text_of("- ", sentence, "\n");
  KeyTable later_keys = keys;
  later_keys.insert(later_keys.end(), gpt2_keys().begin(), gpt2_keys().end());
  page += later_section(later_keys);
  return page;
}

}  // namespace trireme::spec

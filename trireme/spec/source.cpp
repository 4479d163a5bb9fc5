#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/names.h"
#include "trireme/spec/config.h"

// Several files and --set values become one JSON object.
namespace trireme::spec {

using base::Json;
using base::shown;
using base::text_of;

namespace {

struct Merge {
  std::string name;  // of what is merged in, for the notes
  std::vector<std::string>& notes;

  void operator()(Json& into, const Json& from, const std::string& prefix) const {
    for (const auto& [key, value] : from.items()) {
      const auto old = into.find(key);
      if (old == into.end()) {
        into[key] = value;
      } else if (old->is_object() && value.is_object()) {
        (*this)(*old, value, prefix + key + ".");
      } else if (*old != value) {
        notes.push_back(
            text_of(name, " overrides ", base::printable(prefix + key), ": ", shown(*old), " becomes ", shown(value)));
        *old = value;
      }
    }
  }
};

/// The value of a --set: JSON where it parses, else the text itself.
Json set_value(const std::string& text) {
  try {
    return base::parse_json(text, "--set");
  } catch (const base::ConfigError&) {
    return text;
  }
}

void apply_set(Json& merged, const std::string& set, std::vector<std::string>& notes) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw base::UsageError(
        text_of("--set needs key=value, such as --set optimizer.params.lr=1e-3, not ", base::quoted(set)));
  }
  const std::string path = set.substr(0, equals);
  const Json value = set_value(set.substr(equals + 1));
  Json* place = &merged;
  size_t begin = 0;
  while (true) {
    const size_t dot = path.find('.', begin);
    const std::string name = path.substr(begin, dot == std::string::npos ? dot : dot - begin);
    if (name.empty()) throw base::UsageError(text_of("--set has an empty name in ", base::quoted(path)));
    if (dot == std::string::npos) {
      const auto old = place->find(name);
      if (old != place->end() && *old != value) {
        notes.push_back(text_of("the command line overrides ", base::printable(path), ": ", shown(*old), " becomes ",
                                shown(value)));
      }
      (*place)[name] = value;
      return;
    }
    Json& next = (*place)[name];
    if (next.is_null()) next = Json::object();
    if (!next.is_object()) {
      throw base::UsageError(text_of("--set ", base::quoted(path), " goes into ", base::printable(path.substr(0, dot)),
                                     ", which is ", shown(next), " and has no keys"));
    }
    place = &next;
    begin = dot + 1;
  }
}

}  // namespace

Json merged_source(const ConfigSource& source, std::vector<std::string>& notes) {
  Json merged = Json::object();
  for (const std::string& file : source.files) {
    const Json json = base::parse_json(base::read_file(file, uint64_t{64} << 20), file);
    if (!json.is_object())
      throw base::ConfigError(text_of(file, ": a configuration is a JSON object, not ", shown(json)));
    Merge{file, notes}(merged, json, "");
  }
  for (const std::string& set : source.sets) apply_set(merged, set, notes);
  return merged;
}

}  // namespace trireme::spec

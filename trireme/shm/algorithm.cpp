#include "trireme/shm/algorithm.h"

#include <limits>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/reader.h"
#include "trireme/shm/control.h"

namespace trireme::shm {
namespace {

// those with a choice; a barrier has no data, messages have one way
constexpr Operation kOperations[] = {Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter,
                                     Operation::Broadcast, Operation::Reduce,    Operation::Gather,
                                     Operation::Scatter,   Operation::AllToAll};

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Method read_method(const base::Json& json, const std::string& path, bool last, bool may_push,
                   base::Violations& violations) {
  base::Reader reader(json, path, violations);
  Method method;
  if (!last) method.up_to_bytes = static_cast<uint64_t>(reader.require<int64_t>("up_to_bytes", {.min = 0}));
  std::vector<std::string> names{"inline", "pull"};
  if (may_push) names.emplace_back("push");
  const auto name = reader.require<std::string>("algorithm", {.one_of = names});
  method.algorithm = name == "inline" ? Algorithm::Inline : name == "push" ? Algorithm::Push : Algorithm::Pull;
  if (method.algorithm == Algorithm::Pull) {
    method.streaming = reader.get<bool>("streaming", false);
    method.piece_bytes = static_cast<uint64_t>(reader.get<int64_t>("piece_bytes", kMost, {.min = 4096}));
    if (method.piece_bytes == static_cast<uint64_t>(kMost)) method.piece_bytes = UINT64_MAX;
  }
  if (method.algorithm == Algorithm::Inline && method.up_to_bytes > kInlineBytes) {
    violations.add(reader.path_of("up_to_bytes"), base::text_of("inline carries at most ", kInlineBytes, " bytes"));
  }
  reader.finish();
  return method;
}

}  // namespace

const Method& AlgorithmTable::choose(Operation operation, uint64_t bytes) const {
  static const Method plain;
  const auto found = methods.find(operation);
  if (found == methods.end()) return plain;
  for (const Method& method : found->second) {
    const bool fits = method.algorithm != Algorithm::Inline || bytes <= kInlineBytes;
    if (bytes <= method.up_to_bytes && fits) return method;
  }
  return plain;
}

AlgorithmTable default_table() {
  AlgorithmTable table;
  for (Operation operation : kOperations) {
    const bool gathers = operation == Operation::AllGather;
    table.methods[operation] = {{.up_to_bytes = kInlineBytes / 2, .algorithm = Algorithm::Inline},
                                {.up_to_bytes = 4 << 20, .piece_bytes = 512 << 10},
                                {.streaming = gathers, .piece_bytes = 512 << 10}};
  }
  table.copied_up_to_bytes = 64 << 10;
  return table;
}

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Inline:
      return "inline";
    case Algorithm::Pull:
      return "pull";
    case Algorithm::Push:
      return "push";
  }
  return "unknown algorithm";
}

base::Json to_json(const AlgorithmTable& table) {
  base::Json json = base::Json::object();
  for (const auto& [operation, methods] : table.methods) {
    base::Json list = base::Json::array();
    for (const Method& method : methods) {
      base::Json entry = base::Json::object();
      if (&method != &methods.back()) entry["up_to_bytes"] = method.up_to_bytes;
      entry["algorithm"] = name_of(method.algorithm);
      if (method.streaming) entry["streaming"] = true;
      if (method.piece_bytes != UINT64_MAX) entry["piece_bytes"] = method.piece_bytes;
      list.push_back(std::move(entry));
    }
    json[std::string(name_of(operation))] = std::move(list);
  }
  json["copied_up_to_bytes"] = table.copied_up_to_bytes;
  return json;
}

AlgorithmTable table_from_json(const base::Json& json, const std::string& source) {
  base::Violations violations;
  base::Reader reader(json, "", violations);
  AlgorithmTable table;
  for (Operation operation : kOperations) {
    const std::string name(name_of(operation));
    const base::Json& list = reader.raw(name);
    if (!list.is_array() || list.empty()) {
      violations.add(name, "needs a list of methods, the last of which serves all sizes");
      continue;
    }
    auto& methods = table.methods[operation];
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string path = base::text_of(name, "[", i, "]");
      const bool last = i + 1 == list.size();
      methods.push_back(read_method(list[i], path, last, operation == Operation::AllReduce, violations));
      if (i > 0 && methods[i].up_to_bytes <= methods[i - 1].up_to_bytes) {
        violations.add(path + ".up_to_bytes", "must be above the method before it");
      }
    }
  }
  table.copied_up_to_bytes = static_cast<uint64_t>(reader.require<int64_t>("copied_up_to_bytes", {.min = 0}));
  reader.finish();
  if (!violations.empty()) throw base::ConfigError(source + ": " + violations.text());
  return table;
}

}  // namespace trireme::shm

#include "trireme/checkpoint/agreement.h"

#include <exception>

#include "trireme/base/error.h"

namespace trireme::checkpoint {
namespace {

base::Json failure_json(Failure::Kind kind, const char* text) {
  return {{"kind", static_cast<int>(kind)}, {"error", text}};
}

base::Json outcome_of(const std::function<base::Json()>& action) {
  try {
    return {{"result", action()}};
  } catch (const base::UsageError& error) {
    return failure_json(Failure::Kind::Usage, error.what());
  } catch (const base::DataError& error) {
    return failure_json(Failure::Kind::Data, error.what());
  } catch (const std::exception& error) {
    return failure_json(Failure::Kind::System, error.what());
  }
}

}  // namespace

std::vector<base::Json> agree(const GatherStrings& gather, const std::function<base::Json()>& action) {
  // error texts may quote foreign bytes that are not UTF-8
  const auto replace = base::Json::error_handler_t::replace;
  const std::vector<std::string> texts = gather(outcome_of(action).dump(-1, ' ', false, replace));
  std::vector<base::Json> results;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const base::Json outcome = base::Json::parse(texts[rank]);
    if (outcome.contains("error"))
      throw Failure{static_cast<Failure::Kind>(outcome["kind"].get<int>()),
                    base::text_of("rank ", rank, ": ", outcome["error"].get<std::string>())};
    results.push_back(outcome["result"]);
  }
  return results;
}

void throw_error(const Failure& failure, const std::string& task) {
  const std::string text = base::text_of(task, " failed on ", failure.text);
  switch (failure.kind) {
    case Failure::Kind::Usage:
      throw base::UsageError(text);
    case Failure::Kind::Data:
      throw base::DataError(text);
    case Failure::Kind::System:
      break;
  }
  throw base::SystemError(text);
}

}  // namespace trireme::checkpoint

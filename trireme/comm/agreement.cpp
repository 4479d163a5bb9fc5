#include "trireme/comm/agreement.h"

#include <exception>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

using Kind = Failure::Kind;

Kind kind_of(const std::exception& error) {
  if (dynamic_cast<const base::UsageError*>(&error)) return Kind::Usage;
  if (dynamic_cast<const base::ConfigError*>(&error)) return Kind::Config;
  if (dynamic_cast<const base::DataError*>(&error)) return Kind::Data;
  if (dynamic_cast<const base::NonFiniteError*>(&error)) return Kind::NonFinite;
  if (dynamic_cast<const base::PeerLostError*>(&error)) return Kind::PeerLost;
  if (dynamic_cast<const base::CommError*>(&error)) return Kind::Comm;
  if (dynamic_cast<const std::logic_error*>(&error)) return Kind::Internal;
  return Kind::System;
}

}  // namespace

std::vector<base::Json> agree(const GatherStrings& gather, const std::function<base::Json()>& action) {
  std::exception_ptr own;
  base::Json outcome;
  try {
    outcome = {{"result", action()}};
  } catch (const std::exception& error) {
    own = std::current_exception();
    outcome = {{"kind", static_cast<int>(kind_of(error))}, {"error", error.what()}};
  }
  std::vector<std::string> texts;
  try {
    // error texts may quote foreign bytes that are not UTF-8
    texts = gather(outcome.dump(-1, ' ', false, base::Json::error_handler_t::replace));
  } catch (...) {
    if (own) std::rethrow_exception(own);
    throw;
  }
  std::vector<base::Json> results;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const base::Json theirs = base::Json::parse(texts[rank]);
    if (theirs.contains("error"))
      throw Failure{static_cast<Kind>(theirs["kind"].get<int>()), static_cast<int>(rank),
                    theirs["error"].get<std::string>()};
    results.push_back(theirs["result"]);
  }
  return results;
}

void throw_error(const Failure& failure, const std::string& text) {
  switch (failure.kind) {
    case Kind::Usage:
      throw base::UsageError(text);
    case Kind::Config:
      throw base::ConfigError(text);
    case Kind::Data:
      throw base::DataError(text);
    case Kind::NonFinite:
      throw base::NonFiniteError(text);
    case Kind::PeerLost:
      throw base::PeerLostError(text);
    case Kind::Comm:
      throw base::CommError(text);
    case Kind::Internal:
      throw base::InternalError(text);
    case Kind::System:
      break;
  }
  throw base::SystemError(text);
}

}  // namespace trireme::comm

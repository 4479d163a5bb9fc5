#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

#include "trireme/launch/environment.h"

namespace trireme::comm {

/// The TCP store at the address that the launcher named; rank 0 serves it unless torchrun's agent does. Throws
/// base::CommError if the address does not resolve, the port is taken, or nobody answers within `timeout`.
c10::intrusive_ptr<c10d::Store> meet_at_store(const launch::RankVariables& variables,
                                              std::chrono::milliseconds timeout);

/// Marks `rank` as present in this run. Throws base::UsageError if another process is there under the same rank.
void claim_rank(c10d::Store& store, int rank);

}  // namespace trireme::comm

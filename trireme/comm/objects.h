#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

// Strings between ranks, for what is small and rare: configurations, names, error texts.
namespace trireme::comm {

/// Each rank's text, in group order, on every rank.
std::vector<std::string> all_gather_strings(const Group& group, const std::string& text);

/// The root's text on every rank.
std::string broadcast_string(const Group& group, const std::string& text, int root = 0);

/// Runs `action` on this rank, then tells the others whether it threw. If it did on any, every rank throws the error of
/// the first of them, in its words, which name the rank unless it is rank 0. So that a decision or a failure of one
/// rank never leaves the others waiting.
void together(const Group& group, const std::function<void()>& action);

}  // namespace trireme::comm

#pragma once

#include <string>
#include <string_view>
#include <vector>

// The two notations of Slurm's environment.
namespace trireme::launch {

/// "2(x3),1" -> {2, 2, 2, 1}: tasks of each node. Throws base::UsageError that names `variable` where it is malformed.
std::vector<int> parse_tasks_per_node(std::string_view text, const std::string& variable);

/// "node[07-09,12],login" -> "node07": the first host of a node list; empty for an empty list.
std::string first_host(std::string_view node_list);

}  // namespace trireme::launch

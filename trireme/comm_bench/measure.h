#pragma once

#include <string>
#include <vector>

#include "trireme/comm_bench/contender.h"

namespace trireme::comm_bench {

struct Timing {
  std::string name;
  double seconds = 0;        // of one run: median over the rounds of the slowest rank's mean
  double low = 0, high = 0;  // quartiles over the rounds
};

/// Measures all contenders in turn, round after round, so that whatever else the machine does meets all alike. Before
/// each turn the ranks meet at a barrier of `group`; a turn repeats the run until about 30 ms have passed.
std::vector<Timing> measure(const comm::Group& group, const std::vector<Contender>& contenders, int rounds = 15);

}  // namespace trireme::comm_bench

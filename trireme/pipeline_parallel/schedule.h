#pragma once

#include <cstdint>
#include <string>
#include <vector>

// A pipeline schedule is data: for each rank the list of what it does, in order.
namespace trireme::pipeline_parallel {

/// F: forward of a micro-batch through a stage; B: backward with respect to inputs and weights; W: the weights' part
/// alone, for schedules that split backward.
enum class ActionKind { F, B, W };

struct Action {
  ActionKind kind = ActionKind::F;
  int stage = 0;
  int micro_batch = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

/// [rank] -> actions; stage s runs on rank s.
using Schedule = std::vector<std::vector<Action>>;

/// GPipe (Huang et al., 2019): all forwards, then all backwards in reverse order.
Schedule gpipe(int stages, int micro_batches);

struct ScheduleProof {
  bool complete = false;            // every stage runs F and B of every micro-batch once, and no deadlock is possible
  std::string problem;              // what is wrong, if anything
  std::vector<int> peak_in_flight;  // [rank]: most micro-batches whose activations are held at once
};

/// Runs the schedule on paper: an F needs the F of the stage before, a B the rank's own F and the B of the stage
/// behind.
ScheduleProof verify(const Schedule& schedule, int micro_batches);

}  // namespace trireme::pipeline_parallel

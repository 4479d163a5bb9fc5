#include "trireme/pipeline_parallel/schedule.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme::pipeline_parallel {

Schedule gpipe(int stages, int micro_batches) {
  Schedule schedule(stages);
  for (int s = 0; s < stages; ++s) {
    for (int m = 0; m < micro_batches; ++m) schedule[s].push_back({ActionKind::F, s, m});
    for (int m = micro_batches - 1; m >= 0; --m) schedule[s].push_back({ActionKind::B, s, m});
  }
  return schedule;
}

ScheduleProof verify(const Schedule& schedule, int micro_batches) {
  ScheduleProof proof;
  const int stages = static_cast<int>(schedule.size());
  proof.peak_in_flight.assign(stages, 0);
  std::set<std::tuple<ActionKind, int, int>> done;
  std::vector<size_t> next(stages, 0);
  std::vector<int> held(stages, 0);
  const auto has = [&](ActionKind kind, int stage, int m) { return done.count({kind, stage, m}) > 0; };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < stages; ++rank)
      while (next[rank] < schedule[rank].size()) {
        const auto [kind, stage, m] = schedule[rank][next[rank]];
        if (has(kind, stage, m)) {
          proof.problem = base::text_of("rank ", rank, " repeats an action of micro-batch ", m);
          return proof;
        }
        const bool may = kind == ActionKind::F ? stage == 0 || has(ActionKind::F, stage - 1, m)
                         : kind == ActionKind::B
                             ? has(ActionKind::F, stage, m) && (stage == stages - 1 || has(ActionKind::B, stage + 1, m))
                             : has(ActionKind::B, stage, m);
        if (!may) break;
        done.insert({kind, stage, m});
        held[rank] += kind == ActionKind::F ? 1 : kind == ActionKind::B ? -1 : 0;
        proof.peak_in_flight[rank] = std::max(proof.peak_in_flight[rank], held[rank]);
        ++next[rank];
        moved = true;
      }
  }
  for (int rank = 0; rank < stages; ++rank)
    if (next[rank] < schedule[rank].size()) {
      proof.problem = base::text_of("rank ", rank, " waits for ever at its action ", next[rank]);
      return proof;
    }
  for (int s = 0; s < stages; ++s)
    for (int m = 0; m < micro_batches; ++m)
      if (!has(ActionKind::F, s, m) || !has(ActionKind::B, s, m)) {
        proof.problem = base::text_of("stage ", s, " leaves out micro-batch ", m);
        return proof;
      }
  proof.complete = true;
  return proof;
}

}  // namespace trireme::pipeline_parallel

#include "trireme/comm_bench/bench_comm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdio>
#include <iostream>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/units.h"
#include "trireme/comm/store.h"
#include "trireme/comm/world.h"
#include "trireme/comm_bench/measure.h"

namespace trireme::comm_bench {
namespace {

using cli::BenchRequest;
using comm::World;

struct Row {
  Problem problem;
  std::map<std::string, Timing> timings;
};

World make_world(const c10::intrusive_ptr<c10d::Store>& store, const launch::RankVariables& place,
                 const std::string& backend) {
  return World::from_store({place.rank, place.world_size, place.local_rank, place.local_world_size},
                           c10::make_intrusive<c10d::PrefixStore>("bench/" + backend, store), {.backend = backend});
}

Row measure_row(const Problem& problem, const BenchRequest& request, const World& ours,
                const std::optional<World>& gloo) {
  const auto memory = request.private_memory ? Memory::Private : Memory::Arena;
  std::vector<Contender> contenders{group_contender("trireme", ours.all(), problem, memory)};
  if (problem.op != BenchOp::Barrier) contenders.push_back(floor_contender(problem, ours.rank()));
  if (request.against_mpi) contenders.push_back(mpi_contender(problem, ours.rank()));
  if (gloo) contenders.push_back(group_contender("gloo", gloo->all(), problem, Memory::Private));
  Row row{problem, {}};
  for (Timing& timing : measure(ours.all(), contenders)) {
    if (problem.op == BenchOp::SendRecv) {  // there and back
      for (double* value : {&timing.seconds, &timing.low, &timing.high}) *value /= 2;
    }
    row.timings[timing.name] = timing;
  }
  return row;
}

base::Json to_json(const Row& row) {
  base::Json json{{"op", cli::name_of(row.problem.op)}, {"bytes", row.problem.bytes}};
  const auto add = [&](const std::string& contender, const std::string& key) {
    const auto found = row.timings.find(contender);
    if (found == row.timings.end()) return;
    json[key] = found->second.seconds;
    json[key + "_quartiles"] = {found->second.low, found->second.high};
  };
  add("trireme", "seconds");
  for (const char* other : {"floor", "mpi", "gloo"}) add(other, std::string(other) + "_seconds");
  return json;
}

std::string to_text(const Row& row) {
  const double ours = row.timings.at("trireme").seconds;
  std::string size = row.problem.op == BenchOp::Barrier ? "" : base::format_bytes(row.problem.bytes);
  char line[160];
  std::snprintf(line, sizeof line, "%-15s %9s %12s", std::string(cli::name_of(row.problem.op)).c_str(), size.c_str(),
                base::format_duration(ours).c_str());
  std::string text = line;
  for (const char* other : {"floor", "mpi", "gloo"}) {
    const auto found = row.timings.find(other);
    if (found == row.timings.end()) continue;
    const double ratio = std::string(other) == "floor" ? ours / found->second.seconds : found->second.seconds / ours;
    std::snprintf(line, sizeof line,
                  std::string(other) == "floor" ? "  %.2f x the floor's time" : "  %.2f x faster than %s", ratio,
                  other);
    text += line;
  }
  return text;
}

std::vector<Problem> problems(const BenchRequest& request, int ranks) {
  std::vector<Problem> all;
  for (BenchOp op : request.ops) {
    for (int64_t bytes : request.sizes) {
      all.push_back({op, op == BenchOp::Barrier ? 0 : bytes, request.dtype, ranks});
      if (op == BenchOp::Barrier) break;
    }
  }
  return all;
}

void print_table(const World& world) {
  std::cerr << "table of algorithms for " << world.size()
            << " ranks: " << world.algorithms()["origin"].get<std::string>() << std::endl;
  std::cout << world.algorithms()["table"].dump(2) << std::endl;
  if (!std::cout) throw base::SystemError("cannot write to stdout; is the disk full?");
}

}  // namespace

void run_bench_comm(const BenchRequest& request, bool json, const launch::RankVariables& place) {
  at::set_num_threads(1);
  if (request.against_mpi) start_mpi(place.world_size);
  const auto store = comm::meet_at_store(place, std::chrono::minutes(1));
  const World ours = make_world(store, place, "shm");
  if (request.table) {
    if (place.rank == 0) print_table(ours);
    return;
  }
  std::optional<World> gloo;
  if (request.against_gloo) gloo = make_world(store, place, "gloo");
  for (const World* world : {&ours, gloo ? &*gloo : &ours}) world->set_timeout(std::chrono::minutes(2));
  base::Json rows = base::Json::array();
  for (const Problem& problem : problems(request, place.world_size)) {
    const Row row = measure_row(problem, request, ours, gloo);
    if (place.rank != 0) continue;
    if (json) {
      rows.push_back(to_json(row));
    } else {
      std::cout << to_text(row) << std::endl;
    }
  }
  if (place.rank == 0 && json) {
    std::cout << base::Json{{"ranks", place.world_size},
                            {"memory", request.private_memory ? "private" : "arena"},
                            {"rows", rows}}
                     .dump(2)
              << std::endl;
  }
  if (place.rank == 0 && !std::cout) throw base::SystemError("cannot write to stdout; is the disk full?");
  if (request.against_mpi) end_mpi();
}

}  // namespace trireme::comm_bench

#include "trireme/comm_bench/measure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

namespace trireme::comm_bench {
namespace {

constexpr double kTurnSeconds = 0.03;

double seconds_of(const comm::Group& group, const Contender& contender, int64_t repeats) {
  group.barrier("turn of " + contender.name).wait();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeats; ++i) contender.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // the same number on all ranks
  auto slowest = at::scalar_tensor(took.count(), at::kDouble).view({1});
  group.all_reduce(slowest, comm::ReduceOp::Max).wait();
  return slowest.item<double>() / static_cast<double>(repeats);
}

int64_t repeats_for(const comm::Group& group, const Contender& contender) {
  int64_t repeats = 1;
  for (;;) {
    const double one = seconds_of(group, contender, repeats);
    const auto enough = static_cast<int64_t>(kTurnSeconds / std::max(one, 1e-9));
    if (enough <= 2 * repeats || repeats >= 1'000'000) return std::max<int64_t>(1, enough);
    repeats = std::min<int64_t>(enough, repeats * 10);
  }
}

double at_rank(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
}

}  // namespace

std::vector<Timing> measure(const comm::Group& group, const std::vector<Contender>& contenders, int rounds) {
  std::vector<int64_t> repeats;
  for (const Contender& contender : contenders) repeats.push_back(repeats_for(group, contender));
  std::vector<std::vector<double>> samples(contenders.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      samples[i].push_back(seconds_of(group, contenders[i], repeats[i]));
    }
  }
  std::vector<Timing> timings;
  for (size_t i = 0; i < contenders.size(); ++i) {
    timings.push_back(
        {contenders[i].name, at_rank(samples[i], 0.5), at_rank(samples[i], 0.25), at_rank(samples[i], 0.75)});
  }
  return timings;
}

}  // namespace trireme::comm_bench

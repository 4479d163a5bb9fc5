#include "trireme/launch/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "trireme/base/error.h"
#include "trireme/launch/cores.h"

namespace trireme::launch {
namespace {

int first_of_list(const std::string& omp_num_threads) {
  const std::string first = omp_num_threads.substr(0, omp_num_threads.find(','));
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  if (error != std::errc() || end != first.data() + first.size() || threads < 1) {
    throw base::UsageError(base::text_of("OMP_NUM_THREADS='", omp_num_threads, "' is not a positive number"));
  }
  return threads;
}

}  // namespace

ThreadChoice rank_threads(const ThreadRequest& request) {
  TRIREME_CHECK(request.cores >= 1 && request.ranks >= 1 && request.threads >= 0, "cores ", request.cores, " ranks ",
                request.ranks, " threads ", request.threads);
  ThreadChoice choice;
  const char* asked = nullptr;
  if (request.threads > 0) {
    choice.threads = request.threads;
    asked = "--threads ";
  } else if (request.omp_num_threads && !request.omp_num_threads->empty()) {
    choice.threads = first_of_list(*request.omp_num_threads);
    asked = "OMP_NUM_THREADS=";
  } else {
    choice.threads = std::max(request.cores / request.ranks, 1);
  }
  // one thread a rank is the least there is, so it is no reason to warn
  if (asked && choice.threads > 1 && int64_t{request.ranks} * choice.threads > request.cores) {
    choice.warning =
        base::text_of(asked, choice.threads, " gives ", request.ranks, " x ", choice.threads, " threads > ",
                      request.cores, request.cores == 1 ? " core" : " cores", "; expect it to be slower than without");
  }
  return choice;
}

ThreadChoice rank_threads_here(int local_ranks, int threads) {
  ThreadRequest request{.cores = usable_cores(), .ranks = local_ranks, .threads = threads, .omp_num_threads = {}};
  if (const char* value = std::getenv("OMP_NUM_THREADS")) request.omp_num_threads = value;
  return rank_threads(request);
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int ranks, int threads) {
  TRIREME_CHECK(ranks >= 1, "ranks ", ranks);
  const size_t parts = static_cast<size_t>(ranks);
  const size_t smallest = cpus.size() / parts;
  if (smallest == 0 || smallest < static_cast<size_t>(threads)) return {};
  std::vector<std::vector<int>> shares;
  size_t begin = 0;
  for (size_t rank = 0; rank < parts; ++rank) {
    const size_t end = begin + smallest + (rank < cpus.size() % parts ? 1 : 0);
    shares.emplace_back(cpus.begin() + static_cast<ptrdiff_t>(begin), cpus.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
  }
  return shares;
}

}  // namespace trireme::launch

#include "trireme/shm/measure_table.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/shm/control.h"

// Ranks must agree on every choice, and on how long they go on choosing: each decides by times of which all have the
// same, that of the slowest rank.
namespace trireme::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLeastBytes = 1 << 10;
constexpr uint64_t kMostBytes = 16 << 20;
constexpr uint64_t kGrowth = 4;
constexpr double kEnoughSeconds = 0.3;  // after which no larger size is begun
constexpr double kMustWinBy = 1.05;
constexpr double kHopeless = 2;  // times the best of a round

/// An operation in place on `buffer`, [bytes] of zeros.
struct Trial {
  Operation operation;
  std::byte* buffer;
  uint64_t bytes;
  int repeats;
};

struct Candidate {
  AlgorithmTable table;
  std::vector<double> seconds;  // of each round
  bool hopeless = false;
};

void all_max(Communicator& communicator, std::vector<double>& values) {
  communicator.wait(communicator.all_reduce(reinterpret_cast<std::byte*>(values.data()), values.size(),
                                            base::DType::F64, ReduceOp::Max));
}

double max_of_all(Communicator& communicator, double value) {
  std::vector<double> values{value};
  all_max(communicator, values);
  return values[0];
}

/// The bytes of this rank's part, whole elements.
uint64_t part_bytes(const Communicator& communicator, const Trial& trial) {
  return std::max<uint64_t>(4, trial.bytes / static_cast<uint64_t>(communicator.size()) / 4 * 4);
}

void run(Communicator& communicator, const Trial& trial) {
  const uint64_t part = part_bytes(communicator, trial);
  std::byte* own = trial.buffer + part * static_cast<uint64_t>(communicator.rank());
  Ticket ticket;
  switch (trial.operation) {
    case Operation::AllGather:
      ticket = communicator.all_gather(own, trial.buffer, part);
      break;
    case Operation::ReduceScatter:
      ticket = communicator.reduce_scatter(trial.buffer, own, part / 4, base::DType::F32, ReduceOp::Sum);
      break;
    default:
      ticket = communicator.all_reduce(trial.buffer, trial.bytes / 4, base::DType::F32, ReduceOp::Sum);
  }
  communicator.wait(ticket);
}

/// Every line of what the peers will read becomes this rank's again.
void write_input(const Communicator& communicator, const Trial& trial) {
  const bool part_only = trial.operation == Operation::AllGather;
  const uint64_t bytes = part_only ? part_bytes(communicator, trial) : trial.bytes;
  std::byte* first = trial.buffer + (part_only ? bytes * static_cast<uint64_t>(communicator.rank()) : 0);
  for (uint64_t at = 0; at < bytes; at += 64) *static_cast<volatile std::byte*>(first + at) = std::byte{0};
}

/// Every line of the result, as whoever asked for it will.
void read_output(const Communicator& communicator, const Trial& trial) {
  const bool part_only = trial.operation == Operation::ReduceScatter;
  const uint64_t bytes = part_only ? part_bytes(communicator, trial) : trial.bytes;
  const std::byte* first = trial.buffer + (part_only ? bytes * static_cast<uint64_t>(communicator.rank()) : 0);
  for (uint64_t at = 0; at < bytes; at += 64) static_cast<void>(*static_cast<const volatile std::byte*>(first + at));
}

double seconds_of(Communicator& communicator, const Trial& trial, const AlgorithmTable& table) {
  communicator.set_table(table);
  run(communicator, trial);
  communicator.wait(communicator.barrier());
  const auto start = Clock::now();
  for (int i = 0; i < trial.repeats; ++i) {
    write_input(communicator, trial);
    run(communicator, trial);
    read_output(communicator, trial);
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / trial.repeats;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The number of the best; of two that are equal within noise, the first.
size_t best_of(Communicator& communicator, const Trial& trial, std::vector<Candidate>& candidates) {
  const int rounds = trial.bytes <= 1 << 20 ? 5 : 3;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> seconds;
    for (const Candidate& candidate : candidates) {
      seconds.push_back(candidate.hopeless ? 1e9 : seconds_of(communicator, trial, candidate.table));
    }
    all_max(communicator, seconds);
    const double best = *std::min_element(seconds.begin(), seconds.end());
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].seconds.push_back(seconds[i]);
      candidates[i].hopeless |= seconds[i] > kHopeless * best;
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (median(candidates[i].seconds) * kMustWinBy < median(candidates[best].seconds)) best = i;
  }
  return best;
}

// ---- what is tried -------------------------------------------------------------------------------------------------

std::vector<Method> ways_of(Operation operation, uint64_t bytes) {
  std::vector<Method> ways;
  if (bytes <= kInlineBytes) ways.push_back({.algorithm = Algorithm::Inline});
  ways.push_back({});
  if (operation == Operation::AllReduce) {
    ways.push_back({.algorithm = Algorithm::Push});
    for (uint64_t piece : {64 << 10, 256 << 10, 512 << 10}) {
      if (bytes >= 4 * piece) ways.push_back({.piece_bytes = piece});
    }
  }
  if (operation != Operation::ReduceScatter && bytes >= 1 << 20) {
    ways.push_back({.streaming = true, .piece_bytes = operation == Operation::AllReduce ? 512 << 10 : UINT64_MAX});
  }
  return ways;
}

Method best_method(Communicator& communicator, const Trial& trial) {
  const auto ways = ways_of(trial.operation, trial.bytes);
  std::vector<Candidate> candidates;
  for (const Method& way : ways) {
    AlgorithmTable table;
    table.methods[trial.operation] = {way};
    candidates.push_back({table, {}});
  }
  return ways[best_of(communicator, trial, candidates)];
}

/// Whether inputs in private memory are no worse copied into the arena than read where they lie.
bool copying_wins(Communicator& communicator, const Trial& trial, const Method& method) {
  std::vector<Candidate> candidates;
  for (const uint64_t copied_up_to : {UINT64_MAX, uint64_t{0}}) {
    AlgorithmTable table;
    table.methods[trial.operation] = {method};
    table.copied_up_to_bytes = copied_up_to;
    candidates.push_back({table, {}});
  }
  return best_of(communicator, trial, candidates) == 0;
}

/// Neighbouring sizes with the same method are one entry; the border lies halfway, by factors, between two sizes.
void add(std::vector<Method>& methods, Method method, uint64_t bytes) {
  if (!methods.empty()) {
    Method& last = methods.back();
    method.up_to_bytes = last.up_to_bytes;
    if (method == last) return;
    last.up_to_bytes = bytes / 2;
    if (last.algorithm == Algorithm::Inline) last.up_to_bytes = std::min<uint64_t>(last.up_to_bytes, kInlineBytes);
  }
  method.up_to_bytes = UINT64_MAX;
  methods.push_back(method);
}

struct Memory {
  std::shared_ptr<Arena> arena;
  std::byte* block = nullptr;
  std::unique_ptr<std::byte[]> ordinary;
  uint64_t bytes = 0;

  explicit Memory(const std::shared_ptr<Arena>& owner) : arena(owner) {}
  ~Memory() {
    if (block != nullptr) arena->release(block);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

/// As much as this rank gets, from kMostBytes down.
void take(Memory& memory) {
  for (uint64_t bytes = kMostBytes; bytes >= kLeastBytes; bytes /= kGrowth) {
    try {
      memory.block = memory.arena->allocate(2 * bytes);  // as much again for the copy of a private input
      memory.arena->release(memory.block);
      memory.block = memory.arena->allocate(bytes);
      memory.ordinary = std::make_unique<std::byte[]>(bytes);  // zeros
      memory.bytes = bytes;
      std::memset(memory.block, 0, bytes);
      return;
    } catch (const base::SystemError&) {
      continue;  // a smaller one may do
    } catch (const std::bad_alloc&) {
      memory.arena->release(memory.block);
      memory.block = nullptr;
    }
  }
}

}  // namespace

AlgorithmTable measure_table(Communicator& communicator) {
  const auto start = Clock::now();
  Memory memory(communicator.arena());
  take(memory);
  const auto most = static_cast<uint64_t>(-max_of_all(communicator, -static_cast<double>(memory.bytes)));
  AlgorithmTable table;
  bool copying = true;
  double elapsed = 0;
  for (uint64_t bytes = kLeastBytes; bytes <= most && elapsed < kEnoughSeconds; bytes *= kGrowth) {
    const int repeats = static_cast<int>(std::clamp<uint64_t>((1 << 20) / bytes, 1, 50));
    for (Operation operation : {Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter}) {
      add(table.methods[operation], best_method(communicator, {operation, memory.block, bytes, repeats}), bytes);
    }
    const Trial ordinary{Operation::AllReduce, memory.ordinary.get(), bytes, repeats};
    copying = copying && copying_wins(communicator, ordinary, table.methods[Operation::AllReduce].back());
    if (copying) table.copied_up_to_bytes = bytes;
    elapsed = max_of_all(communicator, std::chrono::duration<double>(Clock::now() - start).count());
  }
  if (table.methods.empty()) table = default_table();
  for (Operation like : {Operation::Broadcast, Operation::Gather, Operation::Scatter, Operation::AllToAll}) {
    table.methods[like] = table.methods[Operation::AllGather];
  }
  table.methods[Operation::Reduce] = table.methods[Operation::ReduceScatter];
  communicator.set_table(table);
  return table;
}

}  // namespace trireme::shm

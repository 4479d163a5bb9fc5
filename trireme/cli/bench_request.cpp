#include "trireme/cli/bench_request.h"

#include "trireme/base/error.h"
#include "trireme/base/names.h"
#include "trireme/base/units.h"

namespace trireme::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

constexpr BenchOp kOps[] = {BenchOp::AllReduce, BenchOp::ReduceScatter, BenchOp::AllGather, BenchOp::Broadcast,
                            BenchOp::Reduce,    BenchOp::AllToAll,      BenchOp::SendRecv,  BenchOp::Barrier};

std::vector<std::string> words(const std::string& flag, const std::string& text) {
  std::vector<std::string> result(1);
  for (char c : text) {
    if (c == ',') {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  for (const std::string& word : result) {
    if (word.empty()) throw base::UsageError(base::text_of(flag, " ", base::quoted(text), " has an empty entry"));
  }
  return result;
}

// the place of `word` among `known`
size_t choice(const std::string& flag, const std::string& word, const std::vector<std::string>& known) {
  std::string list;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == word) return i;
    list += (i > 0 ? ", " : "") + known[i];
  }
  const std::string nearest = base::did_you_mean(word, known);
  throw base::UsageError(
      base::text_of(flag, " ", base::quoted(word), " is not known", nearest.empty() ? "; use " + list : nearest));
}

}  // namespace

std::string_view name_of(BenchOp op) {
  switch (op) {
    case BenchOp::AllReduce:
      return "all_reduce";
    case BenchOp::ReduceScatter:
      return "reduce_scatter";
    case BenchOp::AllGather:
      return "all_gather";
    case BenchOp::Broadcast:
      return "broadcast";
    case BenchOp::Reduce:
      return "reduce";
    case BenchOp::AllToAll:
      return "all_to_all";
    case BenchOp::SendRecv:
      return "send_recv";
    case BenchOp::Barrier:
      return "barrier";
  }
  TRIREME_CHECK(false);
  return {};
}

BenchRequest parse_bench(const BenchTexts& texts) {
  choice("bench", texts.what, {"comm"});
  BenchRequest request;
  if (!texts.ops.empty()) {
    std::vector<std::string> known;
    for (BenchOp op : kOps) known.emplace_back(name_of(op));
    request.ops.clear();
    for (const std::string& word : words("--ops", texts.ops)) request.ops.push_back(kOps[choice("--ops", word, known)]);
  }
  if (!texts.sizes.empty()) {
    request.sizes.clear();
    for (const std::string& word : words("--sizes", texts.sizes)) {
      int64_t bytes = 0;
      try {
        bytes = base::parse_bytes(word);
      } catch (const base::Error&) {
        throw base::UsageError(base::text_of("--sizes ", base::quoted(word), " is no size; write 64KiB or 1MiB"));
      }
      if (bytes < 4 || bytes > kMostBytes) {
        throw base::UsageError(base::text_of("--sizes ", word, " is not in 4 B to 1 TiB"));
      }
      request.sizes.push_back(bytes);
    }
  }
  if (!texts.dtype.empty()) {
    constexpr base::DType kTypes[] = {base::DType::F32, base::DType::F16, base::DType::BF16};
    request.dtype = kTypes[choice("--dtype", texts.dtype, {"fp32", "fp16", "bf16"})];
  }
  if (!texts.memory.empty()) request.private_memory = choice("--memory", texts.memory, {"arena", "private"}) == 1;
  if (!texts.against.empty()) {
    for (const std::string& word : words("--against", texts.against)) {
      (choice("--against", word, {"mpi", "gloo"}) == 0 ? request.against_mpi : request.against_gloo) = true;
    }
  }
  if (request.against_mpi && request.dtype != base::DType::F32) {
    throw base::UsageError("--against mpi adds no 16-bit floats; use --against gloo, or --dtype fp32");
  }
  return request;
}

}  // namespace trireme::cli

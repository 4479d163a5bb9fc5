#include "trireme/spec/batch.h"

#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::spec {

using base::text_of;

namespace {

constexpr int64_t largest_batch = 2'147'483'647;

std::string or_none(int64_t value) {
  return value == 0 ? "not given" : text_of(value);
}

/// "train_batch_size 30, train_micro_batch_size_per_gpu not given, …"
std::string all_four(const BatchSizes& given, int64_t data_ranks) {
  return text_of("train_batch_size ", or_none(given.train), ", train_micro_batch_size_per_gpu ", or_none(given.micro),
                 ", gradient_accumulation_steps ", or_none(given.accumulation), ", data-parallel ranks ", data_ranks);
}

/// The multiples of `unit` on both sides of `value`.
std::string neighbours(int64_t value, int64_t unit) {
  const int64_t below = value / unit * unit;
  if (below == 0) return text_of(unit);
  return below + unit > largest_batch ? text_of(below) : text_of(below, " or ", below + unit);
}

/// train_batch_size must be a multiple of `unit`, the product that `factors` writes out.
void not_a_multiple(const BatchSizes& given, int64_t data_ranks, int64_t unit, const std::string& factors,
                    base::Violations& violations) {
  violations.add("train_batch_size",
                 text_of(given.train, " is not a multiple of ", factors, " = ", unit, " (", all_four(given, data_ranks),
                         "); nearest legal train_batch_size: ", neighbours(given.train, unit)));
}

void contradiction(const BatchSizes& given, int64_t data_ranks, base::Violations& violations) {
  std::vector<std::string> legal = {text_of("train_batch_size ", given.micro * given.accumulation * data_ranks)};
  if (given.train % (given.accumulation * data_ranks) == 0) {
    legal.push_back(text_of("train_micro_batch_size_per_gpu ", given.train / (given.accumulation * data_ranks)));
  }
  if (given.train % (given.micro * data_ranks) == 0) {
    legal.push_back(text_of("gradient_accumulation_steps ", given.train / (given.micro * data_ranks)));
  }
  violations.add("train_batch_size",
                 text_of("is not train_micro_batch_size_per_gpu * gradient_accumulation_steps * data-parallel ranks: ",
                         given.train, " != ", given.micro, " * ", given.accumulation, " * ", data_ranks,
                         "; nearest legal: ", base::joined(legal, ", or ")));
}

}  // namespace

BatchSizes resolve_batch(const BatchSizes& given, int64_t data_ranks, base::Violations& violations) {
  if (given.train == 0 && given.micro == 0) {
    violations.add("train_batch_size",
                   text_of("either train_batch_size or train_micro_batch_size_per_gpu must be given (",
                           all_four(given, data_ranks), "); for example \"train_batch_size\": ", 8 * data_ranks));
    return {};
  }
  // 128 bits: the product of three legal numbers can exceed 64
  const __int128 product =
      static_cast<__int128>(given.micro ? given.micro : 1) * (given.accumulation ? given.accumulation : 1) * data_ranks;
  if (product > largest_batch) {
    violations.add("train_batch_size", text_of("the global batch would exceed ", largest_batch, " samples (",
                                               all_four(given, data_ranks), ")"));
    return {};
  }
  BatchSizes sizes = given;
  if (given.train == 0) {
    sizes.accumulation = given.accumulation ? given.accumulation : 1;
    sizes.train = sizes.micro * sizes.accumulation * data_ranks;
  } else if (given.micro == 0) {
    sizes.accumulation = given.accumulation ? given.accumulation : 1;
    const int64_t unit = sizes.accumulation * data_ranks;
    if (given.train % unit != 0) {
      not_a_multiple(
          given, data_ranks, unit,
          text_of("gradient_accumulation_steps * data-parallel ranks = ", sizes.accumulation, " * ", data_ranks),
          violations);
      return {};
    }
    sizes.micro = given.train / unit;
  } else if (given.accumulation == 0) {
    const int64_t unit = given.micro * data_ranks;
    if (given.train % unit != 0) {
      not_a_multiple(given, data_ranks, unit,
                     text_of("train_micro_batch_size_per_gpu * data-parallel ranks = ", given.micro, " * ", data_ranks),
                     violations);
      return {};
    }
    sizes.accumulation = given.train / unit;
  } else if (given.train != given.micro * given.accumulation * data_ranks) {
    contradiction(given, data_ranks, violations);
    return {};
  }
  return sizes;
}

}  // namespace trireme::spec

#include "trireme/data/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "trireme/base/error.h"
#include "trireme/data/data_fixture.h"

namespace trireme::data {
namespace {

// The samples of `steps` steps from `position` on, which moves along.
std::vector<int64_t> walk(const SampleOrder& order, int64_t steps, int64_t& position) {
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < steps; ++i) {
    const StepSamples step = step_samples(order, position);
    seen.insert(seen.end(), step.samples.begin(), step.samples.end());
    position = step.samples_consumed_after;
  }
  return seen;
}

std::vector<int64_t> first_numbers(int64_t n) {
  std::vector<int64_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

template <class E, class F>
std::string error_of(F action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

TEST(Sampling, without_shuffle_the_order_is_that_of_the_data) {
  const SampleOrder order = {.dataset_size = 10, .global_batch = 4, .shuffle = false};
  int64_t position = 0;
  EXPECT_EQ(step_samples(order, 0).samples, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(step_samples(order, 8).samples, (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(step_samples(order, 8).samples_consumed_after, 10);
  EXPECT_EQ(step_samples(order, 10).epoch, 1);
  EXPECT_EQ(walk(order, 6, position),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(position, 20);
}

TEST(Sampling, steps_per_epoch_round_up_or_drop) {
  SampleOrder order = {.dataset_size = 10, .global_batch = 4};
  EXPECT_EQ(samples_per_epoch(order), 10);
  EXPECT_EQ(steps_per_epoch(order), 3);
  order.drop_last = true;
  EXPECT_EQ(samples_per_epoch(order), 8);
  EXPECT_EQ(steps_per_epoch(order), 2);
  order.global_batch = 5;
  EXPECT_EQ(steps_per_epoch(order), 2);
}

// B133: the number of steps derived from epochs with accumulation 4 on 2 ranks
TEST(DataCases, B133_steps_of_three_epochs) {
  const SampleOrder order = {.dataset_size = 1001, .global_batch = 2 * 4 * 2};
  EXPECT_EQ(3 * steps_per_epoch(order), 3 * 63);
}

TEST(DataCases, B097_order_differs_per_epoch_and_repeats_with_the_seed) {
  const SampleOrder order = {.seed = 7, .dataset_size = 22, .global_batch = 2};
  std::vector<std::vector<int64_t>> epochs;
  int64_t position = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back(walk(order, 11, position));
    EXPECT_EQ(sorted(epochs.back()), first_numbers(22));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_NE(epochs[0], epochs[2]);
  position = 0;
  EXPECT_EQ(walk(order, 11, position), epochs[0]);
  SampleOrder other = order;
  other.seed = 8;
  position = 0;
  EXPECT_NE(walk(other, 11, position), epochs[0]);
}

TEST(DataCases, B097_ranks_are_disjoint_and_complete) {
  for (const int64_t n : {1, 5, 22, 24}) {
    for (const BatchSplit split : {BatchSplit{3, 4, 2, 0}, BatchSplit{1, 12, 2, 0}, BatchSplit{6, 1, 4, 0},
                                   BatchSplit{2, 3, 4, 0}, BatchSplit{24, 1, 1, 0}, BatchSplit{1, 1, 24, 0}}) {
      std::vector<int64_t> covered;
      for (int rank = 0; rank < split.ranks; ++rank) {
        BatchSplit mine = split;
        mine.rank = rank;
        for (int64_t micro = 0; micro < split.accumulation; ++micro) {
          const Rows rows = rows_of(mine, micro, n);
          EXPECT_LE(rows.count(), split.micro_batch);
          for (int64_t row = rows.begin; row < rows.end; ++row) covered.push_back(row);
        }
      }
      EXPECT_EQ(sorted(covered), first_numbers(n));
    }
  }
}

TEST(Sampling, rows_interleave_ranks_within_a_micro_batch) {
  EXPECT_EQ(rows_of({3, 2, 2, 0}, 0, 12), (Rows{0, 3}));
  EXPECT_EQ(rows_of({3, 2, 2, 1}, 0, 12), (Rows{3, 6}));
  EXPECT_EQ(rows_of({3, 2, 2, 0}, 1, 12), (Rows{6, 9}));
  EXPECT_EQ(rows_of({3, 2, 2, 1}, 1, 12), (Rows{9, 12}));
  EXPECT_EQ(rows_of({3, 2, 2, 1}, 0, 4), (Rows{3, 4}));
  EXPECT_EQ(rows_of({3, 2, 2, 0}, 1, 4).count(), 0);
}

TEST(DataCases, B099_fewer_samples_than_ranks) {
  for (const int ranks : {4, 8}) {
    SampleOrder order = {.seed = 1, .dataset_size = 3, .global_batch = ranks};
    const StepSamples step = step_samples(order, 0);
    EXPECT_EQ(sorted(step.samples), first_numbers(3));
    EXPECT_EQ(step.samples_consumed_after, 3);
    int64_t taken = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Rows rows = rows_of({1, 1, ranks, rank}, 0, 3);
      EXPECT_EQ(rows.count(), rank < 3 ? 1 : 0);
      taken += rows.count();
    }
    EXPECT_EQ(taken, 3);

    order.drop_last = true;
    const std::string text = error_of<base::ConfigError>([&] { step_samples(order, 0); });
    EXPECT_NE(text.find("0 steps per epoch"), std::string::npos) << text;
    EXPECT_NE(text.find("3 samples, global batch " + std::to_string(ranks)), std::string::npos) << text;
  }
  const std::string none = error_of<base::DataError>([] { step_samples({.dataset_size = 0}, 0); });
  EXPECT_NE(none.find("0 samples"), std::string::npos) << none;
}

TEST(DataCases, B101_tail_samples_are_seen) {
  SampleOrder order = {.seed = 3, .dataset_size = 10, .global_batch = 4};
  int64_t position = 0;
  for (int epoch = 0; epoch < 20; ++epoch) EXPECT_EQ(sorted(walk(order, 3, position)), first_numbers(10));
  EXPECT_EQ(position, 200);

  order.drop_last = true;
  position = 0;
  std::set<int64_t> seen;
  for (int epoch = 0; epoch < 20; ++epoch) {
    EXPECT_EQ(step_samples(order, position).epoch, epoch);
    const std::vector<int64_t> samples = walk(order, 2, position);
    EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()).size(), 8u);
    seen.insert(samples.begin(), samples.end());
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(DataCases, B102_evaluation_counts_each_sample_once) {
  std::map<int64_t, int> times;
  int64_t right = 0;
  int64_t counted = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const Rows rows = evaluation_share(10, 4, rank);
    EXPECT_EQ(rows.count(), rank < 2 ? 3 : 2);
    for (int64_t sample = rows.begin; sample < rows.end; ++sample) {
      ++times[sample];
      ++counted;
      right += sample != 0;
    }
  }
  EXPECT_EQ(counted, 10);
  EXPECT_EQ(times.size(), 10u);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / static_cast<double>(counted), 0.9);
}

TEST(Sampling, evaluation_share_with_more_ranks_than_samples) {
  EXPECT_EQ(evaluation_share(3, 8, 2), (Rows{2, 3}));
  EXPECT_EQ(evaluation_share(3, 8, 3).count(), 0);
  EXPECT_EQ(evaluation_share(0, 2, 1).count(), 0);
}

TEST(DataCases, B104_resume_in_a_later_epoch) {
  const SampleOrder order = {.seed = 11, .dataset_size = 250, .global_batch = 2};
  ASSERT_EQ(steps_per_epoch(order), 125);
  int64_t position = 0;
  walk(order, 200, position);
  const int64_t saved = position;
  EXPECT_EQ(saved, 400);
  const std::vector<int64_t> through = walk(order, 300, position);
  position = saved;
  EXPECT_EQ(walk(order, 300, position), through);
  // step 250 starts the third epoch, 375 the fourth
  const std::vector<int64_t> third(through.begin() + 100, through.begin() + 350);
  const std::vector<int64_t> fourth(through.begin() + 350, through.begin() + 600);
  EXPECT_EQ(sorted(third), first_numbers(250));
  EXPECT_EQ(sorted(fourth), first_numbers(250));
  EXPECT_NE(third, fourth);
}

TEST(DataCases, B106_resume_on_another_number_of_ranks) {
  for (const bool drop_last : {false, true}) {
    SampleOrder three = {.seed = 5, .dataset_size = 100, .global_batch = 3, .drop_last = drop_last};
    SampleOrder two = three;
    two.global_batch = 2;
    // after the last step of the first epoch
    int64_t position = 0;
    walk(three, steps_per_epoch(three), position);
    const StepSamples next = step_samples(two, position);
    EXPECT_EQ(next.epoch, 1);
    EXPECT_EQ(sorted(walk(two, 50, position)), first_numbers(100));
    // in the middle: 14 steps on three ranks, the remaining 58 samples on two
    position = 0;
    std::vector<int64_t> all = walk(three, 14, position);
    const std::vector<int64_t> rest = walk(two, 29, position);
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(sorted(all), first_numbers(100));
    EXPECT_EQ(position, 100);
  }
}

TEST(Sampling, drop_last_after_a_larger_batch_goes_to_the_next_epoch) {
  const SampleOrder order = {.seed = 5, .dataset_size = 10, .global_batch = 4, .drop_last = true};
  const StepSamples step = step_samples(order, 7);
  EXPECT_EQ(step.epoch, 1);
  EXPECT_EQ(step.samples, step_samples(order, 10).samples);
  EXPECT_EQ(step.samples_consumed_after, 14);
}

TEST(Sampling, every_split_of_a_batch_sees_the_same_samples) {
  const SampleOrder order = {.seed = 9, .dataset_size = 1000, .global_batch = 24};
  const StepSamples step = step_samples(order, 240);
  EXPECT_EQ(step.samples.size(), 24u);
  const SampleOrder halves = {.seed = 9, .dataset_size = 1000, .global_batch = 12};
  int64_t position = 240;
  EXPECT_EQ(walk(halves, 2, position), step.samples);
}

TEST(DataCases, B092_samples_beyond_32_bits) {
  for (const int64_t start : {(int64_t{1} << 31) - 3, (int64_t{1} << 32) - 3, int64_t{1} << 40}) {
    const SampleOrder order = {.seed = 2, .dataset_size = 10, .global_batch = 3};
    int64_t position = start;
    for (int i = 0; i < 10; ++i) {
      const StepSamples step = step_samples(order, position);
      EXPECT_EQ(step.epoch, position / 10);
      EXPECT_GT(step.samples_consumed_after, position);
      EXPECT_LE(step.samples_consumed_after, position + 3);
      for (const int64_t sample : step.samples) EXPECT_TRUE(sample >= 0 && sample < 10);
      position = step.samples_consumed_after;
    }
  }
  // a data set of more than 2^32 samples
  const SampleOrder large = {.seed = 2, .dataset_size = (int64_t{1} << 33) + 5, .global_batch = 4, .shuffle = false};
  EXPECT_EQ(step_samples(large, (int64_t{1} << 32) - 1).samples,
            (std::vector<int64_t>{4294967295, 4294967296, 4294967297, 4294967298}));
  EXPECT_EQ(rows_of({1 << 20, 1 << 20, 8, 7}, (1 << 20) - 1, int64_t{1} << 43).end, int64_t{1} << 43);
}

TEST(DataCases, B108_random_numbers_of_samples) {
  // two epochs of 64 samples, asked for by two ranks in any order: no number comes twice
  std::set<std::array<uint32_t, 4>> seen;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t sample = 0; sample < 64; ++sample) {
      for (int64_t draw = 0; draw < 2; ++draw) seen.insert(sample_bits(1, epoch, sample, draw));
    }
  }
  EXPECT_EQ(seen.size(), 2u * 64u * 2u);
  EXPECT_EQ(sample_bits(1, 1, 5), sample_bits(1, 1, 5));
  EXPECT_NE(sample_bits(1, 1, 5), sample_bits(2, 1, 5));
  EXPECT_NE(sample_bits(1, 0, 5), sample_bits(1, 0, 5 + (int64_t{1} << 32)));
}

TEST(Sampling, wrong_numbers_are_refused) {
  EXPECT_THROW(step_samples({.dataset_size = 5, .global_batch = 0}, 0), base::ConfigError);
  EXPECT_THROW(step_samples({.dataset_size = 5}, -1), base::DataError);
  EXPECT_THROW(rows_of({1, 1, 2, 2}, 0, 4), base::InternalError);
  EXPECT_THROW(rows_of({1, 2, 2, 0}, 2, 4), base::InternalError);
}

}  // namespace
}  // namespace trireme::data

#include "trireme/data/loader.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/data/data_fixture.h"

namespace trireme::data {
namespace {

// Its inputs are the sample's index, its targets the index and a random number of the epoch.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }

  Batch batch_in_epoch(std::span<const int64_t> samples, int64_t epoch) const override {
    Batch out = batch(samples);
    at::Tensor bits = at::empty({out.samples}, at::kLong);
    for (int64_t i = 0; i < out.samples; ++i) {
      const auto words = sample_bits(42, epoch, samples[i]);
      bits.mutable_data_ptr<int64_t>()[i] = (static_cast<int64_t>(words[0]) << 31) ^ words[1];
    }
    out.targets.push_back(bits);
    return out;
  }

  Batch batch(std::span<const int64_t> samples) const override {
    at::Tensor ids = at::empty({static_cast<int64_t>(samples.size())}, at::kLong);
    std::copy(samples.begin(), samples.end(), ids.mutable_data_ptr<int64_t>());
    return {{ids}, {}, static_cast<int64_t>(samples.size())};
  }

 private:
  int64_t size_;
};

// Throws at one sample.
class Broken : public Numbers {
 public:
  Broken(int64_t size, int64_t bad) : Numbers(size), bad_(bad) {}
  Batch batch(std::span<const int64_t> samples) const override {
    if (std::count(samples.begin(), samples.end(), bad_)) throw base::DataError("sample 13 is torn");
    return Numbers::batch(samples);
  }

 private:
  int64_t bad_;
};

void append(std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<int64_t> ids_of(const StepBatches& step) {
  std::vector<int64_t> ids;
  for (const Batch& batch : step.micro_batches) {
    if (batch.samples > 0) append(ids, values(batch.inputs[0]));
  }
  return ids;
}

LoaderOptions options_of(int64_t micro_batch, int64_t accumulation, int ranks, int rank) {
  LoaderOptions options;
  options.seed = 4;
  options.global_batch = micro_batch * accumulation * ranks;
  options.micro_batch = micro_batch;
  options.accumulation = accumulation;
  options.ranks = ranks;
  options.rank = rank;
  return options;
}

// The ids of each step over all ranks.
std::vector<std::vector<int64_t>> steps_of(int64_t samples, int64_t micro_batch, int64_t accumulation, int ranks,
                                           int steps) {
  std::vector<std::vector<int64_t>> out(steps);
  const auto data = std::make_shared<Numbers>(samples);
  for (int rank = 0; rank < ranks; ++rank) {
    Loader loader(data, options_of(micro_batch, accumulation, ranks, rank));
    for (int step = 0; step < steps; ++step) append(out[step], ids_of(loader.next()));
  }
  for (auto& step : out) step = sorted(step);
  return out;
}

TEST(Loader, every_split_of_a_batch_covers_the_same_samples) {
  const auto plain = steps_of(50, 12, 1, 1, 12);
  EXPECT_EQ(plain[0].size(), 12u);
  EXPECT_EQ(plain[4].size(), 2u);
  EXPECT_EQ(steps_of(50, 3, 2, 2, 12), plain);
  EXPECT_EQ(steps_of(50, 1, 4, 3, 12), plain);
  EXPECT_EQ(steps_of(50, 6, 1, 2, 12), plain);
  EXPECT_EQ(steps_of(50, 1, 3, 4, 12), plain);
}

TEST(DataCases, B097_loader_three_epochs_on_two_ranks) {
  const auto data = std::make_shared<Numbers>(22);
  std::vector<std::vector<int64_t>> epochs(3);
  for (int step = 0; step < 33; ++step) {
    std::vector<int64_t> both;
    for (int rank = 0; rank < 2; ++rank) append(both, ids_of(step_batches(*data, options_of(1, 1, 2, rank), step * 2)));
    append(epochs[step / 11], both);
  }
  std::vector<int64_t> all(22);
  for (int i = 0; i < 22; ++i) all[i] = i;
  for (const auto& epoch : epochs) EXPECT_EQ(sorted(epoch), all);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(DataCases, B099_loader_gives_a_rank_without_samples_an_empty_batch) {
  const auto data = std::make_shared<Numbers>(3);
  int64_t samples = 0;
  for (int rank = 0; rank < 8; ++rank) {
    Loader loader(data, options_of(1, 1, 8, rank));
    for (int epoch = 0; epoch < 3; ++epoch) {
      const StepBatches step = loader.next();
      EXPECT_EQ(step.epoch, epoch);
      EXPECT_EQ(step.global_samples, 3);
      ASSERT_EQ(step.micro_batches.size(), 1u);
      EXPECT_EQ(step.micro_batches[0].samples, rank < 3 ? 1 : 0);
      EXPECT_EQ(step.micro_batches[0].inputs.size(), rank < 3 ? 1u : 0u);
      samples += step.micro_batches[0].samples;
    }
  }
  EXPECT_EQ(samples, 9);
  LoaderOptions drop = options_of(1, 1, 8, 0);
  drop.drop_last = true;
  EXPECT_THROW(Loader(data, drop), base::ConfigError);
  EXPECT_THROW(Loader(std::make_shared<Numbers>(0), options_of(1, 1, 8, 0)), base::DataError);
}

TEST(DataCases, B104_loader_resumes_where_it_stopped) {
  const auto data = std::make_shared<Numbers>(500);
  LoaderOptions options = options_of(2, 1, 2, 1);
  Loader through(data, options);
  ASSERT_EQ(through.steps_per_epoch(), 125);
  for (int step = 0; step < 200; ++step) through.next();
  EXPECT_EQ(through.state(), 800);  // the steps prepared ahead are not in it
  options.samples_consumed = through.state();
  Loader resumed(data, options);
  EXPECT_EQ(resumed.state(), 800);
  for (int step = 200; step < 500; ++step) {
    const StepBatches a = through.next();
    const StepBatches b = resumed.next();
    ASSERT_EQ(ids_of(a), ids_of(b)) << "step " << step;
    EXPECT_EQ(b.epoch, step / 125);
    EXPECT_EQ(b.samples_consumed_after, (step + 1) * 4);
  }
}

TEST(Loader, prefetching_changes_nothing) {
  const auto data = std::make_shared<Numbers>(37);
  LoaderOptions options = options_of(2, 2, 2, 0);
  options.prefetch = 0;
  Loader direct(data, options);
  options.prefetch = 5;
  Loader ahead(data, options);
  for (int step = 0; step < 30; ++step) {
    const StepBatches a = direct.next();
    const StepBatches b = ahead.next();
    EXPECT_EQ(ids_of(a), ids_of(b));
    EXPECT_EQ(direct.state(), ahead.state());
  }
}

TEST(DataCases, B108_no_random_number_comes_twice) {
  // 2 ranks x 2 epochs, with 4 steps prepared ahead or none: the number belongs to (epoch, sample)
  const auto data = std::make_shared<Numbers>(64);
  std::vector<std::vector<int64_t>> runs;
  for (const int64_t prefetch : {0, 4, 4}) {
    std::vector<int64_t> numbers;
    for (int rank = 0; rank < 2; ++rank) {
      LoaderOptions options = options_of(4, 1, 2, rank);
      options.prefetch = prefetch;
      Loader loader(data, options);
      for (int step = 0; step < 16; ++step) append(numbers, values(loader.next().micro_batches[0].targets[0]));
    }
    EXPECT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()).size(), 128u);
    runs.push_back(numbers);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[1], runs[2]);
}

TEST(DataCases, B080_an_error_of_the_data_comes_at_its_step) {
  const auto data = std::make_shared<Broken>(20, 13);
  for (const int64_t prefetch : {0, 1, 3}) {
    LoaderOptions options = options_of(2, 1, 1, 0);
    options.shuffle = false;
    options.prefetch = prefetch;
    Loader loader(data, options);
    for (int step = 0; step < 6; ++step) EXPECT_EQ(ids_of(loader.next())[0], 2 * step);
    for (int again = 0; again < 2; ++again) {
      try {
        loader.next();
        FAIL() << "no error";
      } catch (const base::DataError& error) {
        EXPECT_STREQ(error.what(), "sample 13 is torn");
      }
    }
    EXPECT_EQ(loader.state(), 12);
  }
}

TEST(Loader, options_that_do_not_fit_are_refused) {
  const auto data = std::make_shared<Numbers>(20);
  LoaderOptions options = options_of(2, 2, 2, 0);
  options.global_batch = 9;
  try {
    Loader loader(data, options);
    FAIL() << "no error";
  } catch (const base::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("9 is not 2 x 2 x 2"), std::string::npos) << error.what();
  }
  options.global_batch = 0;
  EXPECT_THROW(Loader(data, options), base::ConfigError);
  EXPECT_THROW(Loader(data, options_of(2, 1, 2, 2)), base::ConfigError);
  LoaderOptions negative = options_of(2, 1, 2, 0);
  negative.samples_consumed = -4;
  EXPECT_THROW(Loader(data, negative), base::DataError);
}

// Floats with one bad element.
class Floats : public Dataset {
 public:
  Floats(at::ScalarType type, double bad) : type_(type), bad_(bad) {}
  int64_t size() const override { return 8; }
  Batch batch(std::span<const int64_t> samples) const override {
    at::Tensor x = at::empty({static_cast<int64_t>(samples.size()), 2, 2}, type_);
    x.fill_(1);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] == 5) x[static_cast<int64_t>(i)][1][0] = bad_;
    }
    return {{x}, {}, x.size(0)};
  }

 private:
  at::ScalarType type_;
  double bad_;
};

TEST(Loader, values_that_are_not_finite_are_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double bad : {nan, infinity, -infinity}) {
      LoaderOptions options = options_of(4, 1, 1, 0);
      options.shuffle = false;
      Loader loader(std::make_shared<Floats>(type, bad), options);
      EXPECT_EQ(loader.next().global_samples, 4);
      try {
        loader.next();
        FAIL() << "no error";
      } catch (const base::DataError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("sample 5, input 0, element 2 is"), std::string::npos) << text;
        EXPECT_NE(text.find(std::isnan(bad) ? "nan" : "inf"), std::string::npos) << text;
      }
      options.check_finite = false;
      Loader trusting(std::make_shared<Floats>(type, bad), options);
      trusting.next();
      EXPECT_EQ(trusting.next().global_samples, 4);
    }
  }
}

// Returns one sample too few.
class Short : public Numbers {
 public:
  using Numbers::Numbers;
  Batch batch(std::span<const int64_t> samples) const override { return Numbers::batch(samples.subspan(1)); }
};

TEST(Loader, batches_of_a_wrong_shape_are_refused) {
  Loader loader(std::make_shared<Short>(8), options_of(4, 1, 1, 0));
  try {
    loader.next();
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("4 samples were asked for, it holds 3"), std::string::npos)
        << error.what();
  }
}

// A dataset that takes 5 ms a micro-batch.
class Slow : public Numbers {
 public:
  using Numbers::Numbers;
  Batch batch(std::span<const int64_t> samples) const override {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Numbers::batch(samples);
  }
  mutable std::atomic<int> calls = 0;
};

TEST(Loader, ends_between_two_micro_batches) {
  const auto data = std::make_shared<Slow>(100000);
  const auto start = std::chrono::steady_clock::now();
  {
    Loader loader(data, options_of(1, 10000, 1, 0));
    while (data->calls == 0) std::this_thread::yield();
  }
  EXPECT_LT(data->calls, 10000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // all of them take 50 s
}

}  // namespace
}  // namespace trireme::data

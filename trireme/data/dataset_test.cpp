#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/tokens.h"
#include "trireme/data/data_fixture.h"
#include "trireme/data/loader.h"
#include "trireme/data/synthetic_dataset.h"
#include "trireme/data/token_dataset.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;
using base::TokenFile;

// A folder that lives as long as a test.
class Files : public testing::Test {
 protected:
  Files() : folder_(fs::temp_directory_path() / ("trireme_data_test_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string write_tokens(const std::string& name, const std::vector<uint16_t>& tokens) {
    return write(name, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2});
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

template <class F>
std::string data_error(F action) {
  try {
    action();
  } catch (const base::DataError& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_HOLDS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Files, windows_of_bytes) {
  const auto file = std::make_shared<TokenFile>(write("text", "0123456789abc"));
  const TokenDataset data(file, {0, 13}, 4);
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.items_per_sample(), 4);
  const Batch batch = data.batch(std::vector<int64_t>{2, 0});
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(values(batch.inputs[0]), (std::vector<int64_t>{'8', '9', 'a', 'b', '0', '1', '2', '3'}));
  EXPECT_EQ(values(batch.targets[0]), (std::vector<int64_t>{'9', 'a', 'b', 'c', '1', '2', '3', '4'}));
  // one token less: the third window has no last target
  EXPECT_EQ(TokenDataset(file, {0, 12}, 4).size(), 2);
  EXPECT_EQ(values(TokenDataset(file, {5, 13}, 3).batch(std::vector<int64_t>{1}).targets[0]),
            (std::vector<int64_t>{'9', 'a', 'b'}));
}

TEST_F(Files, every_byte_is_a_token_of_its_own) {
  std::string bytes;
  for (int i = 0; i < 257; ++i) bytes.push_back(static_cast<char>(i));
  const TokenDataset data(std::make_shared<TokenFile>(write("bytes", bytes)), {0, 257}, 256, 256);
  const Batch batch = data.batch(std::vector<int64_t>{0});
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(values(batch.inputs[0])[i], i);
    EXPECT_EQ(values(batch.targets[0])[i], (i + 1) % 256);
  }
}

TEST_F(Files, windows_of_uint16_tokens_and_the_vocabulary) {
  const auto file = std::make_shared<TokenFile>(write_tokens("t.bin", {5, 6, 50256, 7, 8, 60000, 9}));
  const TokenDataset data(file, {0, 7}, 2, 50257);
  EXPECT_EQ(values(data.batch(std::vector<int64_t>{0}).targets[0]), (std::vector<int64_t>{6, 50256}));
  const std::string text = data_error([&] { data.batch(std::vector<int64_t>{0, 2}); });
  EXPECT_HOLDS(text, "t.bin");
  EXPECT_HOLDS(text, "60000");
  EXPECT_HOLDS(text, "50257");
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(values(TokenDataset(file, {0, 7}, 2).batch(std::vector<int64_t>{2}).targets[0]),
            (std::vector<int64_t>{60000, 9}));
}

TEST_F(Files, bad_files_give_one_line) {
  EXPECT_HOLDS(data_error([&] { TokenFile(path("missing")); }), "missing");
  EXPECT_HOLDS(data_error([&] { TokenFile(write("empty", "")); }), "empty");
  EXPECT_HOLDS(data_error([&] { TokenFile(fs::temp_directory_path().string()); }), "directory");
  const auto file = std::make_shared<TokenFile>(write("short", "abcd"));
  const std::string text = data_error([&] { TokenDataset(file, {0, 4}, 4); });
  EXPECT_HOLDS(text, "short");
  EXPECT_HOLDS(text, "4 tokens where a window needs 4 + 1");
  EXPECT_THROW(TokenDataset(file, {0, 5}, 2), base::InternalError);
  EXPECT_THROW(TokenDataset(file, {0, 4}, 0), base::ConfigError);
}

TEST_F(Files, a_file_that_shrinks_ends_the_loader_with_a_data_error) {
  const std::string name = write("shrinks", std::string(100000, 'x'));
  const auto file = std::make_shared<TokenFile>(name);
  LoaderOptions options;
  options.shuffle = false;
  Loader loader(std::make_shared<TokenDataset>(file, TokenRange{0, file->size()}, 100), options);
  EXPECT_EQ(loader.next().micro_batches[0].samples, 1);
  fs::resize_file(name, 50000);
  const std::string text = data_error([&] {
    for (int step = 0; step < 999; ++step) loader.next();
  });
  EXPECT_HOLDS(text, name);
  EXPECT_GE(loader.state(), 400);
  EXPECT_LE(loader.state(), 500);
}

TEST(Split, the_tail_is_for_validation) {
  EXPECT_EQ(split(1000, 0.05, 10).training, (TokenRange{0, 950}));
  EXPECT_EQ(split(1000, 0.05, 10).validation, (TokenRange{950, 1000}));
  // at least a window each
  EXPECT_EQ(split(1000, 0.001, 10).validation, (TokenRange{989, 1000}));
  EXPECT_EQ(split(1000, 0.999, 10).training, (TokenRange{0, 11}));
  EXPECT_EQ(split(1000, 0, 10).training, (TokenRange{0, 1000}));
  EXPECT_EQ(split(1000, 0, 10).validation.size(), 0);
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(split(huge, 0.5, 1024).validation, (TokenRange{huge / 2, huge}));
}

TEST(Split, too_little_data_names_both_numbers) {
  EXPECT_EQ(split(130, 0.05, 64).training, (TokenRange{0, 65}));
  const std::string text = data_error([] { split(129, 0.05, 64); });
  EXPECT_HOLDS(text, "129 tokens, 130 are needed");
  EXPECT_HOLDS(data_error([] { split(64, 0, 64); }), "64 tokens, 65 are needed");
  EXPECT_THROW(split(1000, 1.0, 10), base::ConfigError);
  EXPECT_THROW(split(1000, -0.1, 10), base::ConfigError);
  EXPECT_THROW(split(1000, std::nan(""), 10), base::ConfigError);
  EXPECT_THROW(split(1000, 0.1, 0), base::ConfigError);
}

TEST(Synthetic, a_sample_does_not_depend_on_the_others) {
  const SyntheticDataset data({.samples = 100, .inputs = 5, .outputs = 3, .seed = 9});
  const std::vector<int64_t> all = {0, 1, 50, 99};
  const Batch together = data.batch(all);
  EXPECT_EQ(together.inputs[0].sizes(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(together.targets[0].sizes(), (std::vector<int64_t>{4, 3}));
  for (int64_t row = 0; row < 4; ++row) {
    const Batch alone = data.batch(std::vector<int64_t>{all[row]});
    EXPECT_TRUE(alone.inputs[0][0].equal(together.inputs[0][row]));
    EXPECT_TRUE(alone.targets[0][0].equal(together.targets[0][row]));
  }
  EXPECT_FALSE(together.inputs[0][0].equal(together.inputs[0][1]));
  const SyntheticDataset other({.samples = 100, .inputs = 5, .outputs = 3, .seed = 10});
  EXPECT_FALSE(other.batch(all).inputs[0].equal(together.inputs[0]));
}

TEST(Synthetic, inputs_are_standard_normal_and_targets_vary) {
  const SyntheticDataset data({.samples = 4000, .inputs = 8, .outputs = 2, .seed = 1});
  std::vector<int64_t> all(4000);
  for (int64_t i = 0; i < 4000; ++i) all[i] = i;
  const Batch batch = data.batch(all);
  // 32000 values: standard error of the mean 0.0056, of the deviation 0.004
  EXPECT_NEAR(batch.inputs[0].mean().item<double>(), 0, 0.03);
  EXPECT_NEAR(batch.inputs[0].std().item<double>(), 1, 0.03);
  EXPECT_GT(batch.targets[0].std().item<double>(), 0.1);
}

TEST(Synthetic, classes_are_the_largest_output) {
  SyntheticOptions options = {.samples = 200, .inputs = 6, .outputs = 4, .seed = 3};
  const SyntheticDataset values_of(options);
  options.task = SyntheticTask::Classification;
  const SyntheticDataset classes_of(options);
  std::vector<int64_t> all(200);
  for (int64_t i = 0; i < 200; ++i) all[i] = i;
  const Batch labels = classes_of.batch(all);
  const Batch outputs = values_of.batch(all);
  EXPECT_TRUE(labels.inputs[0].equal(outputs.inputs[0]));
  EXPECT_TRUE(labels.targets[0].equal(outputs.targets[0].argmax(1)));
  for (int64_t label = 0; label < 4; ++label) EXPECT_TRUE((labels.targets[0] == label).any().item<bool>()) << label;
}

TEST(Synthetic, sizes_of_zero_are_refused) {
  EXPECT_THROW(SyntheticDataset({.samples = 0}), base::ConfigError);
  EXPECT_THROW(SyntheticDataset({.outputs = -1}), base::ConfigError);
}

}  // namespace
}  // namespace trireme::data

#include "trireme/model/models.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/layers/model.h"
#include "trireme/model/mlp.h"
#include "trireme/model/random_tokens.h"

namespace trireme::model {
namespace {

spec::Config small_gpt2() {
  spec::Gpt2Spec gpt2_spec;
  gpt2_spec.n_layer = 1;
  gpt2_spec.n_embd = 8;
  gpt2_spec.n_head = 2;
  gpt2_spec.n_inner = 32;
  gpt2_spec.n_positions = 10;
  gpt2_spec.vocab_size = 256;
  spec::Config config;
  config.model = gpt2_spec;
  config.data.validation_fraction = 0.1;
  config.train_batch_size = 4;
  config.training.seed = 3;
  return config;
}

class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(testing::TempDir() + "models_test_" + std::to_string(getpid()) + ".txt") {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(auto call) {
  try {
    call();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(JobFor, gpt2_takes_windows_of_the_file_and_its_tail_for_validation) {
  std::string text(1001, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = char('a' + i % 26);
  TextFile file(text);
  auto config = small_gpt2();
  config.data.path = file.path();
  const auto job = job_for(config);
  ASSERT_TRUE(job.training && job.validation);
  EXPECT_EQ(job.training->items_per_sample(), 10);
  EXPECT_NEAR(job.training->size(), 90, 1);
  EXPECT_NEAR(job.validation->size(), 10, 1);

  const std::vector<int64_t> samples = {0, 3};
  const auto batch = job.training->batch(samples);
  layers::Model model(job.layers, 1);
  const auto loss = job.loss(model.forward(batch.inputs), batch);
  EXPECT_EQ(loss.count, 20);
  EXPECT_NEAR(loss.sum.item<double>() / 20, std::log(256), 0.2);

  config.data.sequence_length = 5;
  EXPECT_EQ(job_for(config).training->items_per_sample(), 5);
  config.data.validation_fraction = 0;
  EXPECT_FALSE(job_for(config).validation);
}

TEST(JobFor, says_what_is_wrong_with_the_data_or_the_model) {
  auto config = small_gpt2();
  EXPECT_EQ(error_of([&] { job_for(config); }),
            "no training data is given; name a file of text or tokens with --data or data.path");
  config.data.path = "/nonexistent/corpus.txt";
  EXPECT_NE(error_of([&] { job_for(config); }).find("/nonexistent/corpus.txt"), std::string::npos);
  TextFile file("too short");
  config.data.path = file.path();
  EXPECT_NE(error_of([&] { job_for(config); }), "no error");
  config.data.sequence_length = 11;
  EXPECT_EQ(error_of([&] { job_for(config); }),
            "data.sequence_length is longer than model.n_positions: 11 > 10; lower the first or raise the second");
  EXPECT_EQ(error_of([&] { job_for(spec::Config{}); }),
            "the configuration names no reference model; give model.model_type \"gpt2\" or \"mlp\"");
}

TEST(JobFor, an_mlp_learns_its_synthetic_samples) {
  spec::Config config;
  spec::MlpSpec mlp_spec;
  mlp_spec.input_size = 6;
  mlp_spec.hidden_size = 32;
  mlp_spec.output_size = 2;
  mlp_spec.num_hidden_layers = 2;
  config.model = mlp_spec;
  config.data.samples = 64;
  config.data.validation_fraction = 0.25;
  const auto job = job_for(config);
  // further samples of the same teacher
  ASSERT_TRUE(job.validation);
  EXPECT_EQ(job.validation->size(), 16);
  const std::vector<int64_t> first_sample = {0};
  EXPECT_FALSE(job.validation->batch(first_sample).inputs[0].equal(job.training->batch(first_sample).inputs[0]));
  ASSERT_EQ(job.training->size(), 64);
  layers::Model model(job.layers, 1);
  std::vector<at::Tensor> weights;
  std::vector<std::string> names;
  int64_t elements = 0;
  for (const auto& parameter : model.parameters()) {
    weights.push_back(parameter.tensors[0]);
    names.push_back(parameter.name);
    elements += parameter.tensors[0].numel();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"hidden.0.weight", "hidden.0.bias", "hidden.1.weight", "hidden.1.bias",
                                             "output.weight", "output.bias"}));
  EXPECT_EQ(elements, spec::parameter_count(mlp_spec));

  std::vector<int64_t> samples(64);
  std::iota(samples.begin(), samples.end(), 0);
  const auto batch = job.training->batch(samples);
  torch::optim::Adam optimizer(weights, torch::optim::AdamOptions(0.01));
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const auto loss = job.loss(model.forward(batch.inputs), batch);
    ASSERT_EQ(loss.count, 64);
    (loss.sum / double(loss.count)).backward();
    optimizer.step();
    last = loss.sum.item<double>() / 64;
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.05 * first);
}

TEST(SquaredError, is_a_sum_over_outputs_and_counts_samples) {
  data::Batch batch;
  batch.targets = {at::zeros({3, 2})};
  const auto loss = squared_error({at::full({3, 2}, 2.f)}, batch);
  EXPECT_EQ(loss.count, 3);
  EXPECT_FLOAT_EQ(loss.sum.item<float>(), 24);
}

TEST(Mlp, activations_are_those_of_their_names) {
  const at::Tensor x = at::randn({5, 32});
  for (const std::string name : {"relu", "tanh", "gelu"}) {
    spec::MlpSpec spec;
    spec.num_hidden_layers = 1;
    spec.activation_function = name;
    layers::Model model(mlp(spec), 4);
    const auto& p = model.parameters();
    const at::Tensor hidden = at::linear(x, p[0].tensors[0], p[1].tensors[0]);
    const at::Tensor active = name == "relu" ? at::relu(hidden) : name == "tanh" ? at::tanh(hidden) : at::gelu(hidden);
    EXPECT_LE((model.forward({x})[0] - at::linear(active, p[2].tensors[0], p[3].tensors[0])).abs().max().item<float>(),
              1e-6)
        << name;
  }
}

TEST(RandomTokens, follow_from_seed_and_sample) {
  const auto config = small_gpt2();
  const auto job = job_on_random_tokens(config);
  EXPECT_EQ(job.training->size(), 4);
  const std::vector<int64_t> both = {2, 1}, one = {1};
  const auto a = job.training->batch(both), b = job.training->batch(one);
  EXPECT_TRUE(at::equal(a.inputs[0][1], b.inputs[0][0]));
  EXPECT_FALSE(at::equal(a.inputs[0][0], a.inputs[0][1]));
  // targets are the inputs one token later
  EXPECT_TRUE(at::equal(a.inputs[0].narrow(1, 1, 9), a.targets[0].narrow(1, 0, 9)));

  const RandomTokens many(1, 5000, 256, 7);
  const std::vector<int64_t> first = {0};
  const at::Tensor tokens = many.batch(first).inputs[0];
  EXPECT_EQ(tokens.min().item<int64_t>(), 0);
  EXPECT_EQ(tokens.max().item<int64_t>(), 255);
  EXPECT_NEAR(tokens.to(at::kDouble).mean().item<double>(), 127.5, 5);
}

}  // namespace
}  // namespace trireme::model

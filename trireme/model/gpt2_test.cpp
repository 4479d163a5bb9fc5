#include "trireme/model/gpt2.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/layers/forward_scope.h"
#include "trireme/layers/model.h"

namespace trireme::model {
namespace {

spec::Gpt2Spec small_spec() {
  spec::Gpt2Spec spec;
  spec.n_layer = 2;
  spec.n_embd = 24;
  spec.n_head = 3;
  spec.n_positions = 16;
  spec.vocab_size = 31;
  spec.n_inner = 4 * spec.n_embd;
  return spec;
}

using Weights = std::map<std::string, at::Tensor>;

// one tensor a weight: tied ones are joined, as the flat store of the trainer does
Weights join(layers::Model& model) {
  Weights weights;
  for (const auto& parameter : model.parameters()) {
    weights[parameter.name] = parameter.tensors[0];
    for (size_t i = 1; i < parameter.tensors.size(); ++i)
      at::Tensor(parameter.tensors[i]).set_data(parameter.tensors[0].detach());
  }
  return weights;
}

at::Tensor gradient_of(const layers::Parameter& parameter) {
  at::Tensor sum = at::zeros_like(parameter.tensors[0]);
  for (const auto& tensor : parameter.tensors)
    if (tensor.grad().defined()) sum += tensor.grad();
  return sum;
}

data::Batch random_batch(int64_t rows, int64_t sequence, int64_t vocabulary) {
  data::Batch batch;
  batch.samples = rows;
  batch.inputs = {at::randint(0, vocabulary, {rows, sequence}, at::kLong)};
  batch.targets = {at::randint(0, vocabulary, {rows, sequence}, at::kLong)};
  return batch;
}

// GPT-2 from its definition, in fp64, a head and a position at a time
at::Tensor reference_logits(const spec::Gpt2Spec& spec, Weights& w, const at::Tensor& tokens) {
  const int64_t sequence = tokens.size(1), head_width = spec.n_embd / spec.n_head;
  auto norm = [&](const at::Tensor& x, const std::string& name) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / at::sqrt(centred.square().mean(-1, true) + spec.layer_norm_epsilon) * w[name + ".weight"] +
           w[name + ".bias"];
  };
  auto project = [&](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, w[name + ".weight"]) + w[name + ".bias"];
  };
  auto activate = [&](const at::Tensor& x) {
    if (spec.activation_function == "relu") return x.clamp_min(0);
    if (spec.activation_function == "gelu") return 0.5 * x * (1 + at::erf(x / std::sqrt(2.0)));
    return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
  };
  at::Tensor x = w["wte.weight"].index_select(0, tokens.flatten()).view({tokens.size(0), sequence, spec.n_embd}) +
                 w["wpe.weight"].slice(0, 0, sequence);
  for (int64_t layer = 0; layer < spec.n_layer; ++layer) {
    const std::string h = "h." + std::to_string(layer);
    const at::Tensor qkv = project(norm(x, h + ".ln_1"), h + ".attn.c_attn");
    std::vector<at::Tensor> heads;
    for (int64_t head = 0; head < spec.n_head; ++head) {
      auto part = [&](int64_t which) { return qkv.narrow(-1, which * spec.n_embd + head * head_width, head_width); };
      std::vector<at::Tensor> rows;
      for (int64_t t = 0; t < sequence; ++t) {
        const at::Tensor scores = at::matmul(part(0).narrow(1, t, 1), part(1).narrow(1, 0, t + 1).transpose(1, 2));
        rows.push_back(
            at::matmul(at::softmax(scores / std::sqrt(double(head_width)), -1), part(2).narrow(1, 0, t + 1)));
      }
      heads.push_back(at::cat(rows, 1));
    }
    x = x + project(at::cat(heads, -1), h + ".attn.c_proj");
    x = x + project(activate(project(norm(x, h + ".ln_2"), h + ".mlp.c_fc")), h + ".mlp.c_proj");
  }
  const std::string head = spec.tie_word_embeddings ? "wte.weight" : "lm_head.weight";
  return at::matmul(norm(x, "ln_f"), w[head].t());
}

void expect_equals_definition(const spec::Gpt2Spec& spec) {
  torch::manual_seed(11);
  layers::Model model(gpt2(spec), 5);
  Weights weights = join(model);
  Weights doubles;
  for (auto& [name, weight] : weights) {
    // away from the starting point, where biases are zero
    torch::NoGradGuard guard;
    weight.add_(at::randn_like(weight), 0.05);
    doubles[name] = weight.detach().to(at::kDouble).set_requires_grad(true);
  }
  const data::Batch batch = random_batch(3, 13, spec.vocab_size);
  const at::Tensor logits = model.forward(batch.inputs)[0];
  const at::Tensor expected = reference_logits(spec, doubles, batch.inputs[0]);
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{3, 13, spec.vocab_size}));
  EXPECT_LE((logits - expected).abs().max().item<double>(), 1e-5);

  const auto loss = next_token_loss({logits}, batch);
  EXPECT_EQ(loss.count, 39);
  const at::Tensor expected_loss =
      at::cross_entropy_loss(expected.flatten(0, 1), batch.targets[0].flatten(), {}, at::Reduction::Sum);
  EXPECT_NEAR(loss.sum.item<double>() / expected_loss.item<double>(), 1, 1e-6);
  loss.sum.backward();
  expected_loss.backward();
  for (const auto& parameter : model.parameters()) {
    const at::Tensor wanted = doubles[parameter.name].grad();
    const double scale = std::max(wanted.abs().max().item<double>(), 1e-3);
    EXPECT_LE((gradient_of(parameter) - wanted).abs().max().item<double>(), 1e-5 * scale) << parameter.name;
  }
}

TEST(Gpt2, equals_its_definition_in_fp64_with_all_gradients) {
  expect_equals_definition(small_spec());
}

TEST(Gpt2, untied_head_and_exact_gelu) {
  auto spec = small_spec();
  spec.tie_word_embeddings = false;
  spec.activation_function = "gelu";
  spec.n_inner = 40;
  expect_equals_definition(spec);
}

TEST(Gpt2, relu_and_one_head) {
  auto spec = small_spec();
  spec.activation_function = "relu";
  spec.n_head = 1;
  spec.layer_norm_epsilon = 1e-3;
  expect_equals_definition(spec);
}

TEST(Gpt2, parameters_have_hugging_face_names_and_shapes) {
  const auto spec = small_spec();
  layers::Model model(gpt2(spec), 1);
  std::vector<std::pair<std::string, std::vector<int64_t>>> expected = {{"wte.weight", {31, 24}},
                                                                        {"wpe.weight", {16, 24}}};
  for (const std::string h : {"h.0.", "h.1."}) {
    expected.insert(expected.end(), {{h + "ln_1.weight", {24}},
                                     {h + "ln_1.bias", {24}},
                                     {h + "attn.c_attn.weight", {24, 72}},
                                     {h + "attn.c_attn.bias", {72}},
                                     {h + "attn.c_proj.weight", {24, 24}},
                                     {h + "attn.c_proj.bias", {24}},
                                     {h + "ln_2.weight", {24}},
                                     {h + "ln_2.bias", {24}},
                                     {h + "mlp.c_fc.weight", {24, 96}},
                                     {h + "mlp.c_fc.bias", {96}},
                                     {h + "mlp.c_proj.weight", {96, 24}},
                                     {h + "mlp.c_proj.bias", {24}}});
  }
  expected.insert(expected.end(), {{"ln_f.weight", {24}}, {"ln_f.bias", {24}}});
  std::vector<std::pair<std::string, std::vector<int64_t>>> found;
  int64_t elements = 0;
  for (const auto& parameter : model.parameters()) {
    found.emplace_back(parameter.name, parameter.tensors[0].sizes().vec());
    elements += parameter.tensors[0].numel();
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(elements, spec::parameter_count(spec));
}

TEST(Gpt2, starts_from_the_papers_distribution) {
  auto spec = small_spec();
  spec.n_embd = 96;
  spec.n_inner = 384;
  spec.n_layer = 8;
  spec.vocab_size = 256;
  layers::Model model(gpt2(spec), 3);
  for (const auto& parameter : model.parameters()) {
    const std::string& name = parameter.name;
    const at::Tensor& weight = parameter.tensors[0];
    if (name.ends_with("bias")) {
      EXPECT_EQ(weight.abs().max().item<float>(), 0) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_TRUE((weight == 1).all().item<bool>()) << name;
    } else {
      const double deviation = name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
      EXPECT_NEAR(weight.std().item<double>() / deviation, 1, 0.05) << name;
      EXPECT_NEAR(weight.mean().item<double>() / deviation, 0, 5 / std::sqrt(double(weight.numel()))) << name;
    }
  }
}

TEST(Gpt2, weights_follow_from_seed_and_name_wherever_they_are_built) {
  const auto layers = gpt2(small_spec());
  layers::Model whole(layers, 9), again(layers, 9), other(layers, 10);
  layers::Model stage(layers, 9, 3, 4);
  Weights all = join(whole), repeated = join(again), different = join(other), part = join(stage);
  EXPECT_EQ(part.size(), 12u);
  for (const auto& [name, weight] : part) EXPECT_TRUE(at::equal(weight, all[name])) << name;
  for (const auto& [name, weight] : all) EXPECT_TRUE(at::equal(weight, repeated[name])) << name;
  EXPECT_FALSE(at::equal(all["wte.weight"], different["wte.weight"]));
  EXPECT_FALSE(at::equal(all["h.0.attn.c_attn.weight"], all["h.1.attn.c_attn.weight"]));
}

TEST(Gpt2, a_tied_head_starts_equal_to_the_embedding) {
  layers::Model model(gpt2(small_spec()), 2);
  const auto& embedding = model.parameters()[0];
  ASSERT_EQ(embedding.name, "wte.weight");
  ASSERT_EQ(embedding.tensors.size(), 2u);
  EXPECT_TRUE(at::equal(embedding.tensors[0], embedding.tensors[1]));
}

TEST(Gpt2, a_token_does_not_change_what_comes_before_it) {
  torch::NoGradGuard guard;
  layers::Model model(gpt2(small_spec()), 1);
  at::Tensor tokens = at::randint(0, 31, {1, 16}, at::kLong);
  const at::Tensor before = model.forward({tokens})[0];
  tokens[0][9] = (tokens[0][9].item<int64_t>() + 1) % 31;
  const at::Tensor after = model.forward({tokens})[0];
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 9), after.narrow(1, 0, 9)));
  EXPECT_GT((before - after).narrow(1, 9, 7).abs().max().item<float>(), 1e-4);
}

TEST(Gpt2, refuses_a_sequence_longer_than_its_positions) {
  layers::Model model(gpt2(small_spec()), 1);
  try {
    model.forward({at::zeros({1, 17}, at::kLong)});
    FAIL() << "accepted";
  } catch (const base::DataError& error) {
    EXPECT_STREQ(error.what(), "the sequence is longer than the model's n_positions: 17 > 16");
  }
}

TEST(NextTokenLoss, ignores_masked_targets_in_sum_and_count) {
  data::Batch batch = random_batch(2, 5, 7);
  const at::Tensor logits = at::randn({2, 5, 7}).set_requires_grad(true);
  batch.targets[0][0][1] = kIgnoredTarget;
  batch.targets[0][1][4] = kIgnoredTarget;
  const auto loss = next_token_loss({logits}, batch);
  EXPECT_EQ(loss.count, 8);
  double expected = 0;
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t t = 0; t < 5; ++t) {
      const int64_t target = batch.targets[0][row][t].item<int64_t>();
      if (target != kIgnoredTarget) expected -= at::log_softmax(logits[row][t], -1)[target].item<double>();
    }
  EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-5);
  loss.sum.backward();
  EXPECT_EQ(logits.grad()[0][1].abs().max().item<float>(), 0);
}

TEST(NextTokenLoss, of_nothing_valid_is_zero_with_zero_gradient) {
  data::Batch batch = random_batch(2, 3, 7);
  batch.targets[0].fill_(kIgnoredTarget);
  const at::Tensor logits = at::randn({2, 3, 7}).set_requires_grad(true);
  const auto loss = next_token_loss({logits}, batch);
  EXPECT_EQ(loss.count, 0);
  EXPECT_EQ(loss.sum.item<float>(), 0);
  loss.sum.backward();
  EXPECT_EQ(logits.grad().abs().max().item<float>(), 0);
}

class Gpt2Dropout : public testing::Test {
 protected:
  at::Tensor logits(layers::Model& model, const at::Tensor& tokens, int64_t step, int64_t first_row,
                    bool training = true) {
    torch::NoGradGuard guard;
    layers::ForwardScope scope({.seed = 4, .step = step, .first_row = first_row, .training = training});
    return model.forward({tokens})[0];
  }
};

TEST_F(Gpt2Dropout, depends_on_step_and_global_row_but_not_on_the_micro_batch) {
  auto spec = small_spec();
  spec.resid_pdrop = spec.embd_pdrop = spec.attn_pdrop = 0.3;
  layers::Model model(gpt2(spec), 1);
  const at::Tensor tokens = at::randint(0, 31, {4, 12}, at::kLong);
  const at::Tensor whole = logits(model, tokens, 6, 0);
  const at::Tensor halves =
      at::cat({logits(model, tokens.narrow(0, 0, 2), 6, 0), logits(model, tokens.narrow(0, 2, 2), 6, 2)});
  EXPECT_LE((whole - halves).abs().max().item<float>(), 1e-5);
  EXPECT_GT((whole - logits(model, tokens, 7, 0)).abs().max().item<float>(), 1e-2);
  EXPECT_GT((whole - logits(model, tokens, 6, 4)).abs().max().item<float>(), 1e-2);

  spec.resid_pdrop = spec.embd_pdrop = spec.attn_pdrop = 0;
  layers::Model without(gpt2(spec), 1);
  EXPECT_TRUE(at::equal(logits(model, tokens, 6, 0, false), logits(without, tokens, 6, 0)));
}

TEST_F(Gpt2Dropout, attention_that_drops_nothing_equals_the_fused_kernel) {
  auto spec = small_spec();
  layers::Model fused(gpt2(spec), 1);
  // no random number lies below it
  spec.attn_pdrop = 1e-30;
  layers::Model spelled_out(gpt2(spec), 1);
  const at::Tensor tokens = at::randint(0, 31, {2, 12}, at::kLong);
  EXPECT_LE((logits(fused, tokens, 0, 0) - logits(spelled_out, tokens, 0, 0)).abs().max().item<float>(), 1e-5);
}

}  // namespace
}  // namespace trireme::model

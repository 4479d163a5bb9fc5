#include "trireme/model/gpt2.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/random.h"
#include "trireme/model/dropout.h"

namespace trireme::model {
namespace {

using layers::BuildContext;
using layers::Layer;
using layers::Tensors;
using spec::Gpt2Spec;

at::Tensor normal(const BuildContext& context, const std::string& full_name, at::IntArrayRef shape, double deviation) {
  at::Tensor weight = at::empty(shape);
  base::fill_normal(weight.mutable_data_ptr<float>(), 0, weight.numel(), context.seed, full_name, 0, deviation);
  return weight;
}

at::Tensor activation(const at::Tensor& x, const std::string& name) {
  if (name == "relu") return at::relu(x);
  return at::gelu(x, name == "gelu" ? "none" : "tanh");
}

// Hugging Face's Conv1D: y = x W + b with W [in, out]
class Conv1D : public torch::nn::Module {
 public:
  Conv1D(const BuildContext& context, const std::string& name, int64_t in, int64_t out, double deviation)
      : weight_(register_parameter("weight",
                                   normal(context, context.layer + "." + name + ".weight", {in, out}, deviation))),
        bias_(register_parameter("bias", at::zeros({out}))) {}

  // [rows, in] -> [rows, out]
  at::Tensor forward(const at::Tensor& x) { return at::addmm(bias_, x, weight_); }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class LayerNorm : public torch::nn::Module {
 public:
  LayerNorm(int64_t width, double epsilon)
      : weight_(register_parameter("weight", at::ones({width}))),
        bias_(register_parameter("bias", at::zeros({width}))),
        epsilon_(epsilon) {}

  at::Tensor forward(const at::Tensor& x) { return at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_); }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  double epsilon_;
};

class Attention : public torch::nn::Module {
 public:
  Attention(const BuildContext& context, const Gpt2Spec& spec)
      : name_(context.layer + ".attn"),
        heads_(spec.n_head),
        drop_(spec.attn_pdrop),
        residual_drop_(spec.resid_pdrop),
        c_attn_(register_module("c_attn", std::make_shared<Conv1D>(context, "attn.c_attn", spec.n_embd, 3 * spec.n_embd,
                                                                   spec.initializer_range))),
        c_proj_(register_module("c_proj",
                                std::make_shared<Conv1D>(context, "attn.c_proj", spec.n_embd, spec.n_embd,
                                                         spec.initializer_range / std::sqrt(2.0 * spec.n_layer)))) {}

  // x [batch * sequence, n_embd], the same shape out
  at::Tensor forward(const at::Tensor& x, int64_t batch, int64_t sequence) {
    const int64_t width = x.size(1);
    const Tensors qkv =
        c_attn_->forward(x).view({batch, sequence, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
    at::Tensor mixed = dropout_acts(drop_) ? attend_and_drop(qkv[0], qkv[1], qkv[2])
                                           : at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0, true);
    mixed = mixed.transpose(1, 2).reshape({batch * sequence, width});
    return keyed_dropout(c_proj_->forward(mixed), batch, residual_drop_, name_ + ".resid_dropout");
  }

 private:
  // spelled out, since the fused kernel draws its mask from a generator that depends on the layout
  at::Tensor attend_and_drop(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const int64_t sequence = q.size(2);
    const at::Tensor future = at::ones({sequence, sequence}, at::kBool).triu(1);
    const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(3)));
    const at::Tensor weights = at::softmax(scores.masked_fill(future, -INFINITY), -1);
    return at::matmul(keyed_dropout(weights, q.size(0), drop_, name_ + ".attn_dropout"), v);
  }

  std::string name_;
  int64_t heads_;
  double drop_;
  double residual_drop_;
  std::shared_ptr<Conv1D> c_attn_;
  std::shared_ptr<Conv1D> c_proj_;
};

class FeedForward : public torch::nn::Module {
 public:
  FeedForward(const BuildContext& context, const Gpt2Spec& spec)
      : name_(context.layer + ".mlp"),
        activation_(spec.activation_function),
        residual_drop_(spec.resid_pdrop),
        c_fc_(register_module(
            "c_fc", std::make_shared<Conv1D>(context, "mlp.c_fc", spec.n_embd, spec.n_inner, spec.initializer_range))),
        c_proj_(register_module("c_proj",
                                std::make_shared<Conv1D>(context, "mlp.c_proj", spec.n_inner, spec.n_embd,
                                                         spec.initializer_range / std::sqrt(2.0 * spec.n_layer)))) {}

  // x [batch * sequence, n_embd], the same shape out
  at::Tensor forward(const at::Tensor& x, int64_t batch) {
    return keyed_dropout(c_proj_->forward(activation(c_fc_->forward(x), activation_)), batch, residual_drop_,
                         name_ + ".dropout");
  }

 private:
  std::string name_;
  std::string activation_;
  double residual_drop_;
  std::shared_ptr<Conv1D> c_fc_;
  std::shared_ptr<Conv1D> c_proj_;
};

// x + attention(norm(x)), then x + feed_forward(norm(x))
class Block : public Layer {
 public:
  Block(const BuildContext& context, const Gpt2Spec& spec)
      : ln_1_(register_module("ln_1", std::make_shared<LayerNorm>(spec.n_embd, spec.layer_norm_epsilon))),
        attn_(register_module("attn", std::make_shared<Attention>(context, spec))),
        ln_2_(register_module("ln_2", std::make_shared<LayerNorm>(spec.n_embd, spec.layer_norm_epsilon))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(context, spec))) {}

  Tensors forward(const Tensors& inputs) override {
    const int64_t batch = inputs[0].size(0), sequence = inputs[0].size(1), width = inputs[0].size(2);
    at::Tensor x = inputs[0].view({batch * sequence, width});
    x = x + attn_->forward(ln_1_->forward(x), batch, sequence);
    x = x + mlp_->forward(ln_2_->forward(x), batch);
    return {x.view({batch, sequence, width})};
  }

 private:
  std::shared_ptr<LayerNorm> ln_1_;
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<LayerNorm> ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

class TokenEmbedding : public Layer {
 public:
  TokenEmbedding(const BuildContext& context, const Gpt2Spec& spec)
      : weight_(register_parameter("weight", normal(context, context.layer + ".weight", {spec.vocab_size, spec.n_embd},
                                                    spec.initializer_range))) {}

  Tensors forward(const Tensors& inputs) override { return {at::embedding(weight_, inputs[0])}; }

 private:
  at::Tensor weight_;
};

class PositionEmbedding : public Layer {
 public:
  PositionEmbedding(const BuildContext& context, const Gpt2Spec& spec)
      : name_(context.layer),
        drop_(spec.embd_pdrop),
        weight_(register_parameter("weight", normal(context, context.layer + ".weight", {spec.n_positions, spec.n_embd},
                                                    spec.initializer_range))) {}

  Tensors forward(const Tensors& inputs) override {
    const int64_t sequence = inputs[0].size(1);
    if (sequence > weight_.size(0)) {
      throw base::DataError(
          base::text_of("the sequence is longer than the model's n_positions: ", sequence, " > ", weight_.size(0)));
    }
    return {keyed_dropout(inputs[0] + weight_.slice(0, 0, sequence), inputs[0].size(0), drop_, name_ + ".dropout")};
  }

 private:
  std::string name_;
  double drop_;
  at::Tensor weight_;
};

class FinalNorm : public Layer {
 public:
  FinalNorm(const Gpt2Spec& spec)
      : weight_(register_parameter("weight", at::ones({spec.n_embd}))),
        bias_(register_parameter("bias", at::zeros({spec.n_embd}))),
        epsilon_(spec.layer_norm_epsilon) {}

  Tensors forward(const Tensors& inputs) override {
    return {at::layer_norm(inputs[0], weight_.sizes(), weight_, bias_, epsilon_)};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  double epsilon_;
};

class Head : public Layer {
 public:
  // a tied weight starts with the values of the one it shares, wherever that one is built
  Head(const BuildContext& context, const Gpt2Spec& spec)
      : weight_(register_parameter("weight",
                                   normal(context, spec.tie_word_embeddings ? "wte.weight" : context.layer + ".weight",
                                          {spec.vocab_size, spec.n_embd}, spec.initializer_range))) {}

  Tensors forward(const Tensors& inputs) override { return {at::linear(inputs[0], weight_)}; }

 private:
  at::Tensor weight_;
};

}  // namespace

layers::Layers gpt2(const Gpt2Spec& spec) {
  layers::Layers result;
  result.add("wte", [spec](const BuildContext& context) { return std::make_shared<TokenEmbedding>(context, spec); });
  result.add("wpe", [spec](const BuildContext& context) { return std::make_shared<PositionEmbedding>(context, spec); });
  for (int64_t i = 0; i < spec.n_layer; ++i) {
    result.add("h." + std::to_string(i),
               [spec](const BuildContext& context) { return std::make_shared<Block>(context, spec); });
  }
  result.add("ln_f", [spec] { return std::make_shared<FinalNorm>(spec); });
  layers::LayerOptions head;
  if (spec.tie_word_embeddings) head.tied = {{"lm_head.weight", "wte.weight"}};
  result.add(
      "lm_head", [spec](const BuildContext& context) { return std::make_shared<Head>(context, spec); }, head);
  return result;
}

layers::LossSum next_token_loss(const Tensors& outputs, const data::Batch& batch) {
  const at::Tensor targets = batch.targets.at(0).reshape({-1});
  const at::Tensor logits = outputs.at(0).reshape({targets.size(0), -1});
  at::Tensor sum = at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, kIgnoredTarget);
  const auto* first = targets.const_data_ptr<int64_t>();
  return {sum, targets.numel() - std::count(first, first + targets.numel(), kIgnoredTarget)};
}

}  // namespace trireme::model

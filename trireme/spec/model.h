#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "trireme/base/json.h"
#include "trireme/base/reader.h"
#include "trireme/base/violations.h"

// What the "model" block says: the reference models are parsed and checked here, without torch; an own job brings its
// own reader.
namespace trireme::spec {

/// model_type "gpt2", with the key names of Hugging Face's config.json.
struct Gpt2Spec {
  int64_t n_layer = 12;
  int64_t n_embd = 768;  // a multiple of n_head
  int64_t n_head = 12;
  int64_t n_positions = 1024;  // longest sequence, tokens
  int64_t vocab_size = 256;    // bytes
  int64_t n_inner = 0;         // width of the feed-forward part; resolved to 4 * n_embd where the block does not say
  std::string activation_function = "gelu_new";  // "gelu_new", "gelu_pytorch_tanh" (the same), "gelu", "relu"
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double resid_pdrop = 0;
  double embd_pdrop = 0;
  double attn_pdrop = 0;
  bool tie_word_embeddings = true;
  base::Json carried =
      base::Json::object();  // Hugging Face's keys that do not touch training (bos_token_id, …), exported as given

  bool operator==(const Gpt2Spec&) const = default;
};

/// model_type "mlp": input_size -> hidden_size (num_hidden_layers times) -> output_size, trained on data.samples
/// synthetic samples.
struct MlpSpec {
  int64_t input_size = 32;
  int64_t hidden_size = 64;
  int64_t output_size = 8;
  int64_t num_hidden_layers = 2;
  std::string activation_function = "relu";  // "relu", "tanh", "gelu"

  bool operator==(const MlpSpec&) const = default;
};

using ModelSpec = std::variant<std::monostate, Gpt2Spec, MlpSpec>;

/// Reads and checks the "model" block, which is an object, and adds to the violations. `path` is "model".
using ModelReader = std::function<ModelSpec(const base::Json& block, const std::string& path, base::Violations&)>;

/// gpt2 and mlp, by model_type.
ModelReader reference_models();

/// The block of an own job: `read` asks for its keys; a key that it did not ask for is a violation. Without `read` the
/// block is taken as it is; the job must then check it when it is built, from Config::model_block.
ModelReader own_model(std::function<void(base::Reader&)> read = {});

/// Parameters of the model, a tied embedding counted once.
int64_t parameter_count(const Gpt2Spec& spec);
int64_t parameter_count(const MlpSpec& spec);

/// A config.json in Hugging Face's form (an export, or a download), with Hugging Face's defaults where it is silent.
/// Throws ConfigError, all violations at once, if it is not a gpt2 that runs here. `source` is named in the errors.
Gpt2Spec gpt2_from_huggingface(const base::Json& json, const std::string& source);

/// The config.json of an export; transformers loads it as GPT2LMHeadModel.
base::Json huggingface_config(const Gpt2Spec& spec);

}  // namespace trireme::spec

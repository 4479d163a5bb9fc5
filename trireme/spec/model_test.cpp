#include "trireme/spec/model.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/spec/config.h"
#include "trireme/spec/spec_fixture.h"

namespace trireme::spec {
namespace {

using base::Json;

std::string wrong_model(const std::string& block) {
  try {
    config_from_json(base::parse_json("{\"train_batch_size\": 8, \"model\": " + block + "}", "test"), 1);
    return "";
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

Gpt2Spec gpt2(const std::string& members) {
  const Config config = config_from_json(
      base::parse_json(R"({"train_batch_size": 8, "model": {"model_type": "gpt2")" + members + "}}", "test"), 1);
  return std::get<Gpt2Spec>(config.model);
}

TEST(Model, gpt2_block) {
  const Gpt2Spec spec =
      gpt2(R"(, "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256, "n_inner": null)");
  EXPECT_EQ(spec.n_inner, 4 * 384);
  EXPECT_EQ(spec.resid_pdrop, 0);
  EXPECT_EQ(spec.vocab_size, 256);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_EQ(gpt2("").vocab_size, 256);
}

TEST(Model, gpt2_violations) {
  const std::string said = wrong_model(
      R"({"model_type": "gpt2", "n_embd": 100, "n_head": 3, "n_layers": 2, "layer_norm_epsilon": 0, "activation_function": "swish", "scale_attn_weights": false})");
  EXPECT_TRUE(contains(said, "model.n_layers: unknown key; did you mean 'n_layer'?")) << said;
  EXPECT_TRUE(contains(said, "model.n_embd: 100 is not a multiple of n_head 3; nearest legal n_embd: 99 or 102"))
      << said;
  EXPECT_TRUE(contains(said, "model.layer_norm_epsilon: 0 is out of range")) << said;
  EXPECT_TRUE(contains(said, "model.activation_function: \"swish\" is unknown")) << said;
  EXPECT_TRUE(contains(said, "model.scale_attn_weights: false is not supported yet")) << said;
  EXPECT_TRUE(contains(wrong_model("{}"), "model.model_type: is missing; one of gpt2, mlp"));
  EXPECT_TRUE(contains(wrong_model(R"({"model_type": "gtp2"})"), "did you mean 'gpt2'?"));
  EXPECT_TRUE(contains(wrong_model(R"({"model_type": 2})"), "model.model_type: 2 is not a string"));
  EXPECT_TRUE(contains(wrong_model("[]"), "model: [] is not an object"));
  EXPECT_TRUE(
      contains(wrong_model(R"({"model_type": "gpt2", "n_ctx": 5})"), "model.n_ctx: 5 differs from n_positions 1024"));
}

TEST(Model, huge_sizes_are_errors) {
  EXPECT_TRUE(contains(wrong_model(R"({"model_type": "gpt2", "n_layer": 1e99})"),
                       "model.n_layer: 1e+99 is out of range; allowed: 1 to 10000"));
  EXPECT_TRUE(contains(wrong_model(R"({"model_type": "gpt2", "n_layer": 200, "n_embd": 20480, "n_head": 160})"),
                       "parameters, more than"));
  EXPECT_TRUE(contains(
      wrong_model(
          R"({"model_type": "gpt2", "n_layer": 10000, "n_embd": 1000000, "n_head": 100000, "n_inner": 10000000, "vocab_size": 2147483647, "n_positions": 2147483647})"),
      "parameters, more than"));
  EXPECT_TRUE(contains(wrong_model(R"({"model_type": "mlp", "hidden_size": 1000000, "num_hidden_layers": 10000})"),
                       "parameters, more than"));
}

TEST(Model, parameter_counts) {
  // Hugging Face's gpt2: GPT2LMHeadModel(GPT2Config()).num_parameters()
  Gpt2Spec spec;
  spec.vocab_size = 50257;
  EXPECT_EQ(parameter_count(spec), 124'439'808);
  spec.tie_word_embeddings = false;
  EXPECT_EQ(parameter_count(spec), 124'439'808 + 50257 * 768);
  EXPECT_EQ(parameter_count(MlpSpec{.input_size = 3, .hidden_size = 5, .output_size = 2, .num_hidden_layers = 2}),
            (3 * 5 + 5) + (5 * 5 + 5) + (5 * 2 + 2));
}

TEST(Model, huggingface_download) {
  // the config.json that GPT2Config().save_pretrained writes (transformers 5.24)
  const Gpt2Spec spec = gpt2_from_huggingface(
      base::parse_json(
          R"({"activation_function": "gelu_new", "add_cross_attention": false, "attn_pdrop": 0.1, "bos_token_id": 50256,
    "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_inner": null,
    "n_layer": 12, "n_positions": 1024, "pad_token_id": null, "reorder_and_upcast_attn": false, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": false,
    "scale_attn_weights": true, "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
    "tie_word_embeddings": true, "transformers_version": "5.24.0", "use_cache": true, "vocab_size": 50257, "architectures": ["GPT2LMHeadModel"], "n_ctx": 1024,
    "task_specific_params": {"text-generation": {"do_sample": true}}, "torch_dtype": "float32"})",
          "test"),
      "config.json");
  EXPECT_EQ(spec.vocab_size, 50257);
  EXPECT_EQ(spec.resid_pdrop, 0.1);
  EXPECT_EQ(spec.carried["bos_token_id"], 50256);
  EXPECT_EQ(gpt2_from_huggingface(base::parse_json(R"({"model_type": "gpt2"})", "test"), "c").attn_pdrop, 0.1);
  EXPECT_EQ(gpt2_from_huggingface(huggingface_config(spec), "again"), spec);
}

TEST(Model, huggingface_export_reads_back) {
  const Gpt2Spec spec = gpt2(
      R"(, "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 64, "attn_pdrop": 0.2, "tie_word_embeddings": false)");
  const Json exported = huggingface_config(spec);
  EXPECT_EQ(exported["model_type"], "gpt2");
  EXPECT_EQ(exported["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(exported["attn_pdrop"], 0.2);
  EXPECT_EQ(exported["resid_pdrop"], 0.0);
  Gpt2Spec again = gpt2_from_huggingface(exported, "export");
  again.carried = Json::object();
  EXPECT_EQ(again, spec);
}

TEST(Model, huggingface_errors_name_the_file) {
  for (const char* text : {"[]", "{}", R"({"model_type": "llama"})"}) {
    try {
      gpt2_from_huggingface(base::parse_json(text, "test"), "e/config.json");
      ADD_FAILURE() << text;
    } catch (const base::ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), "e/config.json: ")) << error.what();
    }
  }
  try {
    gpt2_from_huggingface(base::parse_json(R"({"model_type": "gpt2", "n_layer": 0, "n_head": -1})", "test"),
                          "e/config.json");
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "e/config.json: n_layer: 0")) << error.what();
    EXPECT_TRUE(contains(error.what(), "\ne/config.json: n_head: -1")) << error.what();
  }
}

TEST(Model, sequence_length_within_positions) {
  EXPECT_THROW(
      config_from_json(
          base::parse_json(
              R"({"train_batch_size": 8, "data": {"sequence_length": 65}, "model": {"model_type": "gpt2", "n_embd": 4, "n_head": 1, "n_positions": 64}})",
              "t"),
          1),
      base::ConfigError);
}

}  // namespace
}  // namespace trireme::spec

#include "trireme/spec/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/spec/keys.h"
#include "trireme/spec/preflight.h"
#include "trireme/spec/spec_fixture.h"

namespace trireme::spec {
namespace {

using base::Json;

Json json(const std::string& text) {
  return base::parse_json(text, "test");
}

/// A legal configuration with further members.
Config with(const std::string& members, int world_size = 1) {
  return config_from_json(json("{\"train_batch_size\": 8" + (members.empty() ? "" : ", " + members) + "}"), world_size);
}

/// The violations of a configuration; empty if it is legal.
std::string wrong(const std::string& members, int world_size = 1) {
  try {
    with(members, world_size);
    return "";
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

#define EXPECT_WRONG(members, part)                               \
  do {                                                            \
    const std::string said = wrong(members);                      \
    EXPECT_TRUE(contains(said, part)) << members << ": " << said; \
  } while (false)

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme_spec_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text) const {
    base::write_file_atomically(path_ + "/" + name, text);
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

TEST(Config, reads_DeepSpeeds_keys) {
  const Config config = with(R"("train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5, "steps_per_print": null,
    "optimizer": {"type": "Adam", "params": {"lr": 6e-5, "betas": [0.8, 0.95], "eps": 1e-7, "weight_decay": 0.1, "adam_w_mode": false}},
    "zero_optimization": {"stage": 0, "reduce_bucket_size": 5e8, "overlap_comm": false, "contiguous_gradients": true},
    "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16}, "bf16": {"enabled": false}, "wall_clock_breakdown": false)",
                             2);
  EXPECT_EQ(config.train_batch_size, 8);
  EXPECT_EQ(config.gradient_accumulation_steps, 2);
  EXPECT_EQ(config.parallel.dp, 2);
  EXPECT_EQ(config.gradient_clipping, 0.5);
  EXPECT_EQ(config.steps_per_print, 10);
  EXPECT_EQ(config.optimizer.type, "adam");
  EXPECT_FALSE(config.optimizer.decoupled_decay);
  EXPECT_EQ(config.optimizer.beta1, 0.8);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.zero.reduce_bucket_size, 500'000'000);
  EXPECT_FALSE(config.zero.overlap_comm);
}

TEST(Config, defaults_are_those_of_the_structs) {
  const Config config = with("");
  EXPECT_EQ(config.gradient_clipping, 1.0);
  EXPECT_EQ(config.steps_per_print, 10);
  EXPECT_EQ(config.optimizer.type, "adamw");
  EXPECT_TRUE(config.optimizer.decoupled_decay);
  EXPECT_EQ(config.communication.timeout, std::chrono::minutes(10));
  EXPECT_EQ(config.checkpoint.keep, 2);
  EXPECT_FALSE(config.zero.reduce_bucket_size);
  EXPECT_FALSE(config.scheduler);
  EXPECT_TRUE(with(R"("optimizer": {"type": "Adam"})").optimizer.decoupled_decay);
  EXPECT_FALSE(
      with(R"("optimizer": {"type": "SGD", "params": {"momentum": 0.9, "nesterov": true}})").optimizer.decoupled_decay);
}

TEST(Config, unknown_keys_have_suggestions) {
  EXPECT_WRONG(R"("gradient_clipp1ng": 1)", "gradient_clipp1ng: unknown key; did you mean 'gradient_clipping'?");
  EXPECT_WRONG(R"("optimizer": {"parms": {}})", "optimizer.parms: unknown key; did you mean 'params'?");
  EXPECT_WRONG(R"("optimizer": {"params": {"learning_rate": 1}})", "optimizer.params.learning_rate: unknown key");
  EXPECT_WRONG(R"("optimizer": {"params": {"beta": 1}})", "did you mean 'betas'?");
  EXPECT_WRONG(R"("lr": 1e-3)", "lr: unknown key; it belongs to optimizer.params.lr");
  EXPECT_WRONG(R"("optimizer.params.lr": 1e-3)", "optimizer.params.lr: unknown key");
  EXPECT_WRONG(R"("fp16": {"enabled": false, "los_scale": 0})",
               "fp16.los_scale: unknown key; did you mean 'loss_scale'?");
  EXPECT_WRONG(R"("modle": {})", "modle: unknown key; did you mean 'model'?");
  EXPECT_WRONG(R"("parallel": {"tensor_model_paralel_size": 2})", "did you mean 'tensor_model_parallel_size'?");
}

TEST(Config, all_violations_at_once) {
  const std::string said = wrong(
      R"("gradient_clipp1ng": 1, "steps_per_print": "x", "zero_optimization": {"stage": 7}, "fp16": {"enabled": true},
    "model": {"model_type": "gpt2", "n_head": 5, "n_layer": 0})");
  for (const char* part :
       {"gradient_clipp1ng", "steps_per_print: \"x\" is not a whole number",
        "zero_optimization.stage: 7 is out of range; allowed: 0 to 3", "fp16.enabled: true is not supported yet",
        "model.n_layer: 0 is out of range", "model.n_embd: 768 is not a multiple of n_head 5"}) {
    EXPECT_TRUE(contains(said, part)) << part << " in " << said;
  }
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 5) << said;
}

TEST(Config, later_features_are_refused_by_name) {
  EXPECT_WRONG(R"("zero_optimization": {"stage": 1})", "zero_optimization.stage: 1 is not supported yet");
  EXPECT_WRONG(R"("zero_optimization": {"stage": 3})", "zero_optimization.stage: 3 is not supported yet");
  EXPECT_WRONG(R"("zero_optimization": true)", "stage 1) is not supported yet");
  EXPECT_EQ(wrong(R"("zero_optimization": false)"), "");
  EXPECT_WRONG(R"("bf16": {"enabled": true})", "bf16.enabled: true is not supported yet");
  EXPECT_WRONG(
      R"("parallel": {"pipeline_model_parallel_size": 1, "context_parallel_size": 1, "expert_model_parallel_size": 2})",
      "parallel.expert_model_parallel_size: 2 is not supported yet");
  EXPECT_WRONG(R"("zero_optimization": {"offload_optimizer": {"device": "cpu", "pin_memory": true}})",
               "offload_optimizer");
  EXPECT_EQ(wrong(R"("zero_optimization": {"offload_optimizer": {"device": "none"}, "allgather_bucket_size": 5e8})"),
            "");
  EXPECT_WRONG(R"("zero_optimization": {"allgather_bucket_size": 2e8})", "not supported yet");
  EXPECT_WRONG(R"("activation_checkpointing": {"partition_activations": true})", "not supported yet");
  EXPECT_EQ(wrong(R"("activation_checkpointing": {"partition_activations": false, "number_checkpoints": null})"), "");
  EXPECT_WRONG(R"("comms_logger": {})", "not supported yet");
  EXPECT_EQ(
      wrong(
          R"("comms_logger": {"enabled": false}, "tensorboard": {"enabled": false, "job_name": "x"}, "elasticity": {})"),
      "");
  EXPECT_WRONG(R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}})",
               "\"OneCycle\" is not supported yet");
  EXPECT_WRONG(R"("communication": {"backend": "nccl"})", "\"nccl\" is not supported yet");
  EXPECT_WRONG(R"("communication": {"backend": "foo"})", "\"foo\" is unknown; allowed: auto, shm, gloo");
  EXPECT_WRONG(R"("optimizer": {"params": {"max_grad_norm": 1}})", "use gradient_clipping");
  EXPECT_WRONG(R"("data_types": {"grad_accum_dtype": "bf16"})", "not supported yet");
  EXPECT_WRONG(R"("model": {"model_type": "llama"})", "\"llama\" is not supported yet");
}

// Every key of the table with values of the wrong type and beyond its range: refused by name, or legal; never another
// end.
TEST(ConfigCases, B126_zero_negative_NaN_huge) {
  for (const char* value : {"0", "-1", "1e30"}) {
    for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
      const std::string text = "{\"" + std::string(key) + "\": " + value + "}";
      try {
        config_from_json(json(text), 1);
        ADD_FAILURE() << text;
      } catch (const base::ConfigError& error) {
        EXPECT_TRUE(contains(error.what(), std::string(key) + ":")) << error.what();
        EXPECT_TRUE(contains(error.what(), "allowed: 1 to 2147483647")) << error.what();
      }
    }
    EXPECT_WRONG("\"zero_optimization\": {\"reduce_bucket_size\": " + std::string(value) + "}", "allowed: 1 to 1e12");
    EXPECT_WRONG("\"optimizer\": {\"params\": {\"lr\": " + std::string(value) + "}}",
                 "allowed: above 0.0, at most 1000.0");
  }
  EXPECT_WRONG(R"("optimizer": {"params": {"betas": [1.0, 0.999]}})",
               "optimizer.params.betas: [1.0,0.999] is out of range; allowed: at least 0.0, below 1.0");
  EXPECT_WRONG(R"("optimizer": {"params": {"betas": [0.9]}})", "not a list of two numbers");
  EXPECT_WRONG(R"("optimizer": {"params": {"eps": 0}})", "optimizer.params.eps: 0 is out of range; allowed: above 0.0");
  EXPECT_WRONG(R"("gradient_clipping": -1)", "gradient_clipping: -1 is out of range; allowed: 0.0 to");
  EXPECT_EQ(with(R"("gradient_clipping": 0)").gradient_clipping, 0);
  EXPECT_WRONG(R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": -5}})",
               "warmup_num_steps: -5 is out of range; allowed: 0 to 1e12");
  EXPECT_WRONG(R"("zero_optimization": {"stage": 4})", "zero_optimization.stage: 4 is out of range; allowed: 0 to 3");
  EXPECT_WRONG(R"("fp16": {"enabled": false, "loss_scale": -1})",
               "fp16.loss_scale: -1 is out of range; allowed: 0.0 to");
  EXPECT_THROW(json(R"({"optimizer": {"params": {"lr": NaN}}})"), base::ConfigError);
  EXPECT_THROW(json(R"({"optimizer": {"params": {"lr": Infinity}}})"), base::ConfigError);
  EXPECT_WRONG(R"("gradient_accumulation_steps": 1.5)", "1.5 is not a whole number");
  EXPECT_WRONG(R"("gradient_accumulation_steps": 18446744073709551615)", "out of range");
  EXPECT_WRONG(R"("training": {"seed": 9223372036854775808})", "out of range");
  EXPECT_EQ(with(R"("training": {"seed": 9223372036854775807})").training.seed, std::numeric_limits<int64_t>::max());
}

TEST(Config, every_key_with_the_wrong_type) {
  const auto nested = [](const std::string& path, const Json& value) {
    Json root = {{"train_batch_size", 8}};
    Json* place = &root;
    size_t begin = 0;
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
      place = &(*place)[path.substr(begin, dot - begin)];
      begin = dot + 1;
    }
    (*place)[path.substr(begin)] = value;
    return root;
  };
  for (const KeyTable* table : {&config_keys(), &gpt2_keys(), &mlp_keys()}) {
    for (const Key& key : *table) {
      if (key.status == Status::Carried || key.kind == Kind::Any) continue;
      for (const Json& value : {Json(true), Json("no such word"), Json({1, 2, 3}), Json({{"a", 1}}), Json(1.5),
                                Json(-7), Json(1e99), Json()}) {
        const bool legal = (key.kind == Kind::Flag && value.is_boolean()) ||
                           (key.kind == Kind::Text && key.choices.empty() && value.is_string()) ||
                           (key.kind == Kind::Number && value == 1.5) || (key.nullable && value.is_null());
        Json root = nested(key.path, value);
        if (key.path.starts_with("model.") && key.path != "model.model_type")
          root["model"]["model_type"] = table == &mlp_keys() ? "mlp" : "gpt2";
        try {
          config_from_json(root, 1);
          EXPECT_TRUE(legal) << root;
        } catch (const base::ConfigError& error) {
          EXPECT_TRUE(legal || contains(error.what(), key.path + ":")) << root << "\n" << error.what();
        }
      }
    }
  }
}

// Every key as "auto": resolved and printed, or an error that names the key
TEST(ConfigCases, B125_auto) {
  for (const KeyTable* table : {&config_keys(), &gpt2_keys()}) {
    for (const Key& key : *table) {
      if (key.status == Status::Carried || key.status == Status::Dormant) continue;
      Json root = {{"train_micro_batch_size_per_gpu", 8}, {"training", {{"steps", 100}}}};
      Json* place = &root;
      size_t begin = 0;
      for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', begin)) {
        place = &(*place)[key.path.substr(begin, dot - begin)];
        begin = dot + 1;
      }
      (*place)[key.path.substr(begin)] = "auto";
      if (key.path.starts_with("scheduler.") && key.path != "scheduler.type")
        root["scheduler"]["type"] = key.only_for.empty() ? "WarmupLR" : key.only_for[0];
      if (key.path == "train_micro_batch_size_per_gpu") root["train_batch_size"] = 8;
      if (key.path.starts_with("model.") && key.path != "model.model_type") root["model"]["model_type"] = "gpt2";
      try {
        const Config config = config_from_json(root, 2);
        const bool choice = std::find(key.choices.begin(), key.choices.end(), "auto") != key.choices.end();
        const bool off = std::find(key.off.begin(), key.off.end(), "auto") != key.off.end();
        EXPECT_TRUE(choice || off || contains(notes(config), key.path + " \"auto\": ")) << key.path << "\n"
                                                                                        << notes(config);
      } catch (const base::ConfigError& error) {
        EXPECT_TRUE(contains(error.what(), key.path + ":")) << error.what();
      }
    }
  }
  const Config config = with(
      R"("train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "fp16": {"enabled": "auto"}, "zero_optimization": {"reduce_bucket_size": "auto"})",
      2);
  EXPECT_EQ(config.micro_batch_size, 4);
  const std::string said = notes(config);
  for (const char* line : {"train_micro_batch_size_per_gpu \"auto\": 4", "gradient_accumulation_steps \"auto\": 1",
                           "optimizer.params.lr \"auto\": 0.001", "fp16.enabled \"auto\": false",
                           "zero_optimization.reduce_bucket_size \"auto\": at least 8 buckets a model"}) {
    EXPECT_TRUE(contains(said, line)) << line << " in " << said;
  }
}

TEST(ConfigCases, B128_nothing_is_accepted_without_effect) {
  // every later key: another value than its neutral ones is refused
  for (const Key& key : config_keys()) {
    if (key.status != Status::Later) continue;
    Json root = {{"train_batch_size", 8}};
    Json* place = &root;
    size_t begin = 0;
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', begin)) {
      place = &(*place)[key.path.substr(begin, dot - begin)];
      begin = dot + 1;
    }
    Json& value = (*place)[key.path.substr(begin)];
    value = key.off.empty() || !key.off.front().is_boolean() ? Json(12345) : Json(!key.off.front().get<bool>());
    try {
      config_from_json(root, 1);
      ADD_FAILURE() << root;
    } catch (const base::ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), key.path + ": " + value.dump() + " is not supported yet")) << error.what();
    }
  }
  // every built key has a place in the resolved configuration
  EXPECT_WRONG(R"("optimizer": {"type": "SGD", "params": {"betas": [0.9, 0.99]}})",
               "optimizer.params.betas: sgd has no such key, only adamw, adam");
  EXPECT_WRONG(R"("optimizer": {"type": "AdamW", "params": {"momentum": 0.9}})",
               "optimizer.params.momentum: adamw has no such key");
  EXPECT_WRONG(R"("optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}})", "contradicts type AdamW");
  EXPECT_WRONG(R"("optimizer": {"type": "SGD", "params": {"nesterov": true}})", "needs momentum above 0");
  EXPECT_WRONG(R"("training": {"steps": 5}, "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_max_lr": 0.1}})",
               "WarmupCosineLR has no such key");
  EXPECT_WRONG(R"("scheduler": {"type": "WarmupDecayLR"})",
               "scheduler.params.total_num_steps: is needed by WarmupDecayLR");
  EXPECT_WRONG(R"("scheduler": {})", "scheduler.type: is missing");
  EXPECT_WRONG(R"("scheduler": {"scale_lr_with_batch": {"rule": "sqrt"}})",
               "scheduler.scale_lr_with_batch.reference_batch: is missing");
  EXPECT_WRONG(R"("scheduler": {"scale_lr_with_batch": {}})",
               "scheduler.scale_lr_with_batch.reference_batch: is missing");
}

TEST(ConfigCases, B129_unknown_optimizers) {
  EXPECT_WRONG(R"("optimizer": {"type": "Adamm"})",
               "optimizer.type: \"Adamm\" is unknown; allowed: adamw, adam, sgd; did you mean 'adam");
  for (const char* type : {"Lion", "Lamb", "OneBitAdam", "Muon", "Adagrad"}) {
    EXPECT_WRONG("\"optimizer\": {\"type\": \"" + std::string(type) + "\"}",
                 "is not supported yet; allowed: adamw, adam, sgd");
  }
}

TEST(ConfigCases, B130_command_line_and_file) {
  const Folder folder;
  const std::string file =
      folder.file("a.json", R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8})");
  const Config differs = load_config({{file}, {"gradient_accumulation_steps=4"}}, 1);
  EXPECT_EQ(differs.gradient_accumulation_steps, 4);
  EXPECT_TRUE(contains(notes(differs), "the command line overrides gradient_accumulation_steps: 8 becomes 4"))
      << notes(differs);
  const Config same = load_config({{file}, {"gradient_accumulation_steps=8", "optimizer.params.lr=0.5"}}, 1);
  EXPECT_FALSE(contains(notes(same), "overrides")) << notes(same);
  EXPECT_EQ(same.optimizer.lr, 0.5);
}

TEST(Config, files_merge_left_to_right) {
  const Folder folder;
  const std::string a = folder.file(
      "a.json", "{ // a comment\n \"train_batch_size\": 8, \"data\": {\"path\": \"x\", \"shuffle\": false}}");
  const std::string b = folder.file("b.json", R"({"train_batch_size": 16, "data": {"path": "y"}})");
  const Config config = load_config({{a, b}, {"data.path=some file", "checkpoint.every=5"}}, 2);
  EXPECT_EQ(config.train_batch_size, 16);
  EXPECT_EQ(config.data.path, "some file");
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.checkpoint.every, 5);
  EXPECT_TRUE(contains(notes(config), b + " overrides train_batch_size: 8 becomes 16")) << notes(config);
}

TEST(Config, set_is_checked) {
  const Folder folder;
  const std::string file = folder.file("a.json", R"({"train_batch_size": 8})");
  EXPECT_THROW(load_config({{file}, {"novalue"}}, 1), base::UsageError);
  EXPECT_THROW(load_config({{file}, {"=3"}}, 1), base::UsageError);
  EXPECT_THROW(load_config({{file}, {"a..b=3"}}, 1), base::UsageError);
  EXPECT_THROW(load_config({{file}, {"train_batch_size.x=3"}}, 1), base::UsageError);
  EXPECT_THROW(load_config({{file}, {"a.b=c"}}, 1), base::ConfigError);
  try {
    load_config({{file}, {"optimizer.params.lrr=1"}}, 1);
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "optimizer.params.lrr: unknown key; did you mean 'lr'?")) << error.what();
  }
}

TEST(Config, bad_files) {
  const Folder folder;
  EXPECT_THROW(load_config({{"/nonexistent/x.json"}, {}}, 1), base::Error);
  EXPECT_THROW(load_config({{folder.file("a", "[]")}, {}}, 1), base::ConfigError);
  EXPECT_THROW(load_config({{folder.file("b", "")}, {}}, 1), base::ConfigError);
  EXPECT_THROW(load_config({{folder.file("c", "{")}, {}}, 1), base::ConfigError);
  EXPECT_THROW(load_config({{folder.file("d", R"({"train_batch_size": 8, "train_batch_size": 9})")}, {}}, 1),
               base::ConfigError);
  EXPECT_THROW(config_from_json(json(R"({"train_batch_size": 8})"), 0), base::ConfigError);
}

// The world size is an argument: nothing is looked up, and another world fails with its numbers.
TEST(ConfigCases, B087_config_before_the_world) {
  const Config config = config_from_json(
      json(R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8})"), 8);
  EXPECT_EQ(config.train_batch_size, 4 * 8 * 8);
  base::Violations violations;
  preflight(config, 1, {}, violations);
  EXPECT_TRUE(contains(violations.text(), "256 != 4 * 8 * 1")) << violations.text();
  EXPECT_TRUE(
      contains(wrong(R"("train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8)", 1), "8 != 4 * 8 * 1"));
}

TEST(Config, preflight_refuses_other_axes_and_names_them) {
  const std::string said =
      wrong(R"("parallel": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2})", 8);
  EXPECT_TRUE(contains(said, "parallel.tensor_model_parallel_size: 2 is not supported yet")) << said;
  EXPECT_TRUE(contains(said, "parallel.pipeline_model_parallel_size: 2 is not supported yet")) << said;
  EXPECT_FALSE(contains(said, "train_batch_size")) << said;
  EXPECT_TRUE(contains(wrong(R"("parallel": {"tensor_model_parallel_size": 3})", 8), "world size 8 is not divisible"));
}

TEST(Config, preflight_for_training) {
  base::Violations violations;
  const Config config = with("");
  preflight(config, 1, {.needs_steps = true, .needs_model = true}, violations);
  EXPECT_TRUE(contains(violations.text(), "training.steps: is not given")) << violations.text();
  EXPECT_TRUE(contains(violations.text(), "model: is not given")) << violations.text();
  base::Violations memory;
  const Config big = with(R"("model": {"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25})");
  preflight(big, 1, {.host_memory_bytes = int64_t{16} << 30, .ranks_on_host = 1}, memory);
  EXPECT_TRUE(contains(memory.text(), "16.0 GiB")) << memory.text();
}

TEST(Config, resolved_loads_to_the_same) {
  for (
      const char* members :
      {R"("optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}, "model": {"model_type": "mlp", "hidden_size": 7})",
       R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}, "training": {"steps": 20, "seed": 9223372036854775807},
              "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 3, "warmup_type": "linear"}, "scale_lr_with_batch": {"reference_batch": 3, "rule": "sqrt"}},
              "communication": {"timeout": "1500ms", "first_step_timeout": "1h"}, "zero_optimization": {"reduce_bucket_size": 1000})",
       R"("scheduler": {"type": "WarmupLR"}, "data": {"path": "p", "validation_fraction": 0.1},
              "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 64, "bos_token_id": 3, "n_ctx": 64, "resid_pdrop": 0.1})"}) {
    const Config first = with(members, 2);
    const Json once = resolved(first);
    const Config second = config_from_json(json(once.dump()), 2);
    EXPECT_EQ(resolved(second), once) << once.dump(1);
    EXPECT_EQ(second.model, first.model);
    EXPECT_EQ(second.optimizer.lr, first.optimizer.lr);
    EXPECT_EQ(second.communication.timeout, first.communication.timeout);
    EXPECT_EQ(second.train_batch_size, first.train_batch_size);
    EXPECT_FALSE(contains(notes(second), "warning")) << notes(second);
  }
}

TEST(Config, own_job_reads_its_block) {
  const Json file = json(R"({"train_batch_size": 8, "model": {"width": 3, "wdth2": 4}})");
  const auto read = [](base::Reader& reader) {
    reader.get<int64_t>("width", 1, {.min = 1});
    reader.get<int64_t>("width2", 1, {.min = 1});
  };
  try {
    config_from_json(file, 1, own_model(read));
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_TRUE(contains(error.what(), "'wdth2'; did you mean 'width2'?")) << error.what();
  }
  const Config config = config_from_json(file, 1, own_model());
  EXPECT_EQ(config.model_block["width"], 3);
  EXPECT_EQ(resolved(config)["model"], file["model"]);
}

}  // namespace
}  // namespace trireme::spec

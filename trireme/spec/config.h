#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/mesh/degrees.h"
#include "trireme/spec/model.h"

// The configuration of a run: DeepSpeed's keys with DeepSpeed's meaning at the top level, Megatron's names for parallel
// sizes under "parallel", Hugging Face's under "model", ours in our own blocks. Every key is described once, in the
// table of keys.cpp, which drives parsing, the suggestions for unknown keys, resolved() and docs/configuration.md.
namespace trireme::spec {

/// Block "optimizer".
struct OptimizerConfig {
  std::string type = "adamw";  // "adamw", "adam" or "sgd"
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;   // sgd
  double dampening = 0;  // sgd
  bool nesterov = false;
  bool decoupled_decay = true;  // AdamW's rule: type adamw, or adam with adam_w_mode true (the default)
  bool bias_correction = true;
};

/// "scheduler.scale_lr_with_batch": all rates of the file are meant for batches of reference_batch samples.
struct ScaleLr {
  enum class Rule { None, Linear, Sqrt };
  int64_t reference_batch = 0;  // samples an optimizer step, over all ranks and micro-batches
  Rule rule = Rule::Linear;
};

/// Block "scheduler". The rate of a step: schedule.h.
struct SchedulerConfig {
  enum class Warmup { Log, Linear };
  std::string type = "constant";  // "constant", "WarmupLR", "WarmupDecayLR" or "WarmupCosineLR"
  double warmup_min_lr = 0;       // WarmupLR, WarmupDecayLR
  double warmup_max_lr = 0;       // WarmupLR, WarmupDecayLR: the peak; optimizer.params.lr where the file does not say
  int64_t warmup_num_steps = 1000;
  Warmup warmup_type = Warmup::Log;
  int64_t total_num_steps = 0;    // WarmupDecayLR, WarmupCosineLR; training.steps where the file does not say
  double warmup_min_ratio = 0;    // WarmupCosineLR, a fraction of optimizer.params.lr
  double cos_min_ratio = 0.0001;  // WarmupCosineLR, a fraction of optimizer.params.lr
  std::optional<ScaleLr> scale;
};

/// Block "zero_optimization".
struct ZeroConfig {
  int64_t stage = 0;
  std::optional<int64_t> reduce_bucket_size;  // elements; unset: chosen so that a model has at least 8 buckets
  bool overlap_comm = true;
};

/// Block "data".
struct DataConfig {
  std::string path;
  std::string format = "auto";  // "auto" (by name and header), "text" (a token a byte), "uint16" (nanoGPT), "llmc"
  double validation_fraction = 0.05;  // of the file, its tail
  bool shuffle = true;
  bool drop_last = false;
  int64_t sequence_length = 0;  // tokens a sample; 0: the model's n_positions
  int64_t samples = 4096;       // of synthetic data (model_type mlp)
};

/// Block "checkpoint".
struct CheckpointConfig {
  int64_t every = 0;  // optimizer steps; 0: only the last step
  int64_t keep = 2;   // newest whole checkpoints that stay
};

/// Block "communication".
struct CommunicationConfig {
  std::string backend = "auto";  // "auto", "shm", "gloo"
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  std::chrono::nanoseconds first_step_timeout = std::chrono::minutes(30);
  std::string algorithm_table;
};

/// Block "training".
struct TrainingConfig {
  int64_t steps = 0;  // optimizer steps in all; 0: not given
  int64_t seed = 1234;
  int64_t evaluate_every = 0;    // optimizer steps; 0: at the end only
  int64_t evaluate_batches = 0;  // of micro-batch size a rank; 0: the whole validation part
  int64_t sample_length = 0;     // tokens of text sampled after the run; 0: none
};

/// Block "logging".
struct LoggingConfig {
  std::string level = "info";  // "debug", "info", "warning", "error"
};

struct Config {
  int world_size = 1;            // the number of ranks that this was resolved for
  int64_t train_batch_size = 0;  // samples an optimizer step over all ranks = micro_batch_size * accumulation * dp
  int64_t micro_batch_size = 0;  // samples a forward on one rank (train_micro_batch_size_per_gpu)
  int64_t gradient_accumulation_steps = 0;
  mesh::Degrees parallel;  // dp is derived from the world size
  OptimizerConfig optimizer;
  std::optional<SchedulerConfig> scheduler;
  double gradient_clipping = 1.0;  // largest global norm; 0: off
  int64_t steps_per_print = 10;    // 0: only the last step
  ZeroConfig zero;
  DataConfig data;
  CheckpointConfig checkpoint;
  CommunicationConfig communication;
  TrainingConfig training;
  LoggingConfig logging;
  ModelSpec model;                 // monostate: no "model" block, or an own job's
  base::Json model_block;          // the "model" block as given, for an own job's Reader; null without one
  base::Json source;               // the merged files with --set applied, as given
  std::vector<std::string> notes;  // one line each: what was resolved or overridden, what differs or is doubtful
};

/// Where a configuration comes from.
struct ConfigSource {
  std::vector<std::string> files;  // merged left to right; objects merge key by key, anything else is replaced
  std::vector<std::string> sets;  // "a.b=value"; they win over the files. The value is JSON if it parses, else a string
};

/// The files and --set values as one JSON object. Says in `notes` what overrode what.
/// Throws SystemError (unreadable), ConfigError (not JSON), UsageError (a --set without "=").
base::Json merged_source(const ConfigSource& source, std::vector<std::string>& notes);

/// Checks and resolves one JSON object for `world_size` ranks. Throws ConfigError with all violations, one a line;
/// combinations that are not built are violations too. Nothing but the arguments is looked at.
Config config_from_json(const base::Json& merged, int world_size, const ModelReader& models = reference_models());

/// merged_source, then config_from_json.
Config load_config(const ConfigSource& source, int world_size, const ModelReader& models = reference_models());

/// Every key with its resolved value. Loading it for the same world size gives the same Config.
base::Json resolved(const Config& config);

}  // namespace trireme::spec

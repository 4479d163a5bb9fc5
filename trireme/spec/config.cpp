#include "trireme/spec/config.h"

#include "trireme/base/error.h"
#include "trireme/spec/batch.h"
#include "trireme/spec/preflight.h"
#include "trireme/spec/resolve.h"
#include "trireme/spec/schedule.h"

namespace trireme::spec {

using base::Json;
using base::shown;
using base::text_of;
using base::Violations;

namespace {

void resolve_degrees(Draft& draft) {
  mesh::Degrees& degrees = draft.config.parallel;
  degrees.tp = static_cast<int>(draft.tp);
  degrees.pp = static_cast<int>(draft.pp);
  degrees.cp = static_cast<int>(draft.cp);
  degrees.ep = static_cast<int>(draft.ep);
  degrees.etp = static_cast<int>(draft.etp);
}

/// Fills dp and the batch sizes, unless a number that they follow from is wrong already.
void resolve_batch_sizes(Draft& draft, const Given& given, int world_size, Violations& violations) {
  Config& config = draft.config;
  for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    if (given.wrong.count(key)) return;
  }
  const int64_t model_ranks = int64_t{config.parallel.tp} * config.parallel.pp * config.parallel.cp;
  if (world_size % model_ranks != 0) {
    violations.add("parallel",
                   text_of("world size ", world_size,
                           " is not divisible by tensor_model_parallel_size * pipeline_model_parallel_size * "
                           "context_parallel_size = ",
                           config.parallel.tp, " * ", config.parallel.pp, " * ", config.parallel.cp, " = ", model_ranks,
                           "; the nearest world sizes are multiples of ", model_ranks));
    return;
  }
  config.parallel.dp = static_cast<int>(world_size / model_ranks);
  const BatchSizes sizes =
      resolve_batch({config.train_batch_size, config.micro_batch_size, config.gradient_accumulation_steps},
                    config.parallel.dp, violations);
  if (sizes.train == 0) return;
  config.train_batch_size = sizes.train;
  config.micro_batch_size = sizes.micro;
  config.gradient_accumulation_steps = sizes.accumulation;
  config.notes.push_back(text_of("train_batch_size ", sizes.train, " = ", sizes.micro, " samples * ",
                                 sizes.accumulation, " micro-batches * ", config.parallel.dp, " data-parallel ranks"));
}

void read_model(const Json& merged, const ModelReader& models, Config& config, Violations& violations) {
  const auto block = merged.find("model");
  if (block == merged.end() || block->is_null()) return;
  if (!block->is_object()) {
    violations.add("model", text_of(shown(*block), " is not an object"));
    return;
  }
  config.model_block = *block;
  config.model = models(*block, "model", violations);
  const Gpt2Spec* gpt2 = std::get_if<Gpt2Spec>(&config.model);
  if (gpt2 && config.data.sequence_length > gpt2->n_positions) {
    violations.add("data.sequence_length",
                   text_of(config.data.sequence_length, " is more than model.n_positions ", gpt2->n_positions));
  }
}

/// "auto" is said for what it became; a key that is not built became "off".
void note_autos(const Given& given, Config& config) {
  const Json values = resolved(config);
  for (const std::string& path : given.autos) {
    const Json* value = &values;
    for (size_t begin = 0; value && begin <= path.size();) {
      const size_t dot = std::min(path.find('.', begin), path.size());
      const auto found = value->is_object() ? value->find(path.substr(begin, dot - begin)) : value->end();
      value = value->is_object() && found != value->end() ? &*found : nullptr;
      begin = dot + 1;
    }
    const Key* key = find_key(config_keys(), path);
    if (value) {
      config.notes.push_back(text_of(path, " \"auto\": ", shown(*value)));
    } else if (key && key->status == Status::Built) {
      config.notes.push_back(
          text_of(path, " \"auto\": ", key->shown_default.empty() ? "not used here" : key->shown_default));
    } else {
      config.notes.push_back(
          text_of(path, " \"auto\": ", key && !key->off.empty() ? shown(key->off.front()) : "false"));
    }
  }
}

void note_rates(Config& config) {
  if (!config.scheduler) return;
  const SchedulerConfig& scheduler = *config.scheduler;
  const double factor = learning_rate_scale(config);
  if (scheduler.scale) {
    const char* rule = scheduler.scale->rule == ScaleLr::Rule::Linear ? "linear"
                       : scheduler.scale->rule == ScaleLr::Rule::Sqrt ? "sqrt"
                                                                      : "none";
    config.notes.push_back(text_of("scale_lr_with_batch ", rule, ": train_batch_size ", config.train_batch_size,
                                   ", reference_batch ", scheduler.scale->reference_batch,
                                   ": every rate is multiplied by ", written(factor)));
  }
  std::string line = text_of("learning rate: ", scheduler.type, ", peak ", written(peak_learning_rate(config)));
  if (scheduler.type != "constant") {
    line += text_of(" after ", scheduler.warmup_num_steps, " warm-up steps (",
                    scheduler.warmup_type == SchedulerConfig::Warmup::Log ? "log" : "linear", ")");
  }
  if (scheduler.total_num_steps != 0) line += text_of(", decay until step ", scheduler.total_num_steps);
  config.notes.push_back(line);
}

}  // namespace

Config config_from_json(const Json& merged, int world_size, const ModelReader& models) {
  if (!merged.is_object()) throw base::ConfigError(text_of("a configuration is a JSON object, not ", shown(merged)));
  if (world_size < 1) throw base::ConfigError(text_of("a run has at least 1 rank, not ", world_size));
  Violations violations;
  Draft draft;
  Given given;
  Config& config = draft.config;
  config.world_size = world_size;
  config.source = merged;
  parse_block(config_keys(), merged, "", {"model"}, draft, given, violations);
  if (given.has("zero_optimization.reduce_bucket_size")) config.zero.reduce_bucket_size = draft.reduce_bucket_size;
  const auto scheduler = merged.find("scheduler");
  const bool has_scheduler = scheduler != merged.end() && scheduler->is_object();
  resolve_degrees(draft);
  resolve_batch_sizes(draft, given, world_size, violations);
  resolve_optimizer(draft, given, violations);
  if (has_scheduler) resolve_scheduler(draft, given, *scheduler, violations);
  read_model(merged, models, config, violations);
  preflight(config, world_size, {}, violations);
  violations.throw_if_any();
  note_autos(given, config);
  note_rates(config);
  return config;
}

Config load_config(const ConfigSource& source, int world_size, const ModelReader& models) {
  std::vector<std::string> notes;
  const Json merged = merged_source(source, notes);
  Config config = config_from_json(merged, world_size, models);
  config.notes.insert(config.notes.begin(), notes.begin(), notes.end());
  return config;
}

}  // namespace trireme::spec

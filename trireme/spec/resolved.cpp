#include <algorithm>

#include "trireme/spec/keys.h"

namespace trireme::spec {

using base::Json;

namespace {

Draft draft_of(const Config& config) {
  Draft draft;
  draft.config = config;
  if (config.scheduler) {
    draft.scheduler = *config.scheduler;
    draft.warmup_type = config.scheduler->warmup_type == SchedulerConfig::Warmup::Log ? "log" : "linear";
    if (config.scheduler->scale) {
      draft.scale = *config.scheduler->scale;
      draft.scale_rule = draft.scale.rule == ScaleLr::Rule::Linear ? "linear"
                         : draft.scale.rule == ScaleLr::Rule::Sqrt ? "sqrt"
                                                                   : "none";
    }
  }
  draft.betas = {config.optimizer.beta1, config.optimizer.beta2};
  draft.adam_w_mode = config.optimizer.decoupled_decay;
  draft.tp = config.parallel.tp;
  draft.pp = config.parallel.pp;
  draft.cp = config.parallel.cp;
  draft.ep = config.parallel.ep;
  draft.etp = config.parallel.etp;
  draft.reduce_bucket_size = config.zero.reduce_bucket_size.value_or(0);
  if (const auto* gpt2 = std::get_if<Gpt2Spec>(&config.model)) draft.gpt2 = *gpt2;
  if (const auto* mlp = std::get_if<MlpSpec>(&config.model)) draft.mlp = *mlp;
  draft.model_type = std::holds_alternative<MlpSpec>(config.model) ? "mlp" : "gpt2";
  return draft;
}

/// Whether the key says something in this configuration.
bool present(const Key& key, const Config& config) {
  const std::string& path = key.path;
  if (key.status != Status::Built || path == "model.n_ctx") return false;
  if (path.starts_with("scheduler.") && !config.scheduler) return false;
  if (path.starts_with("scheduler.scale_lr_with_batch.") && !config.scheduler->scale) return false;
  if (path == "zero_optimization.reduce_bucket_size" && !config.zero.reduce_bucket_size) return false;
  if (path == "data.path" && config.data.path.empty()) return false;
  if (key.only_for.empty()) return true;
  const std::string& type = path.starts_with("scheduler.") ? config.scheduler->type : config.optimizer.type;
  return std::find(key.only_for.begin(), key.only_for.end(), type) != key.only_for.end();
}

void put(Json& root, const std::string& path, Json value) {
  Json* place = &root;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    place = &(*place)[path.substr(begin, dot - begin)];
    begin = dot + 1;
  }
  (*place)[path.substr(begin)] = std::move(value);
}

}  // namespace

Json resolved(const Config& config) {
  Draft draft = draft_of(config);
  Json json = Json::object();
  const auto put_table = [&](const KeyTable& table) {
    for (const Key& key : table) {
      if (present(key, config)) put(json, key.path, value_in(key, draft));
    }
  };
  put_table(config_keys());
  if (const auto* gpt2 = std::get_if<Gpt2Spec>(&config.model)) {
    put_table(gpt2_keys());
    for (const auto& [name, value] : gpt2->carried.items()) json["model"][name] = value;
  } else if (std::holds_alternative<MlpSpec>(config.model)) {
    put_table(mlp_keys());
  } else if (!config.model_block.is_null()) {
    json["model"] = config.model_block;
  }
  return json;
}

}  // namespace trireme::spec

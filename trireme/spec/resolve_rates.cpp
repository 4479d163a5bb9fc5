#include "trireme/base/error.h"
#include "trireme/spec/resolve.h"

// Optimizer and scheduler: whose rate counts, and whether the warm-up fits. A scheduler's default never replaces the
// optimizer's rate (DeepSpeed's WarmupDecayLR has a peak of its own, 0.001); where two keys disagree both are printed.
namespace trireme::spec {

using base::text_of;

std::string written(double value) {
  return base::Json(value).dump();
}

void resolve_optimizer(Draft& draft, const Given& given, base::Violations& violations) {
  OptimizerConfig& optimizer = draft.config.optimizer;
  optimizer.beta1 = draft.betas[0];
  optimizer.beta2 = draft.betas[1];
  optimizer.decoupled_decay = optimizer.type != "sgd" && draft.adam_w_mode;
  if (given.wrong.count("optimizer.type")) return;
  check_applies(config_keys(), "optimizer", optimizer.type, given, violations);
  if (optimizer.type == "adamw" && !draft.adam_w_mode) {
    violations.add("optimizer.params.adam_w_mode",
                   "false contradicts type AdamW; use type Adam for decay inside the gradient");
  }
  if (optimizer.type == "sgd" && optimizer.nesterov && (optimizer.momentum == 0 || optimizer.dampening != 0)) {
    violations.add("optimizer.params.nesterov",
                   text_of("needs momentum above 0 and dampening 0; momentum is ", written(optimizer.momentum),
                           ", dampening ", written(optimizer.dampening)));
  }
  if (!given.has("optimizer.type")) draft.config.notes.push_back("optimizer.type not given: adamw");
  if (!given.has("optimizer.params.lr") && !given.has("scheduler.params.warmup_max_lr")) {
    draft.config.notes.push_back(text_of("optimizer.params.lr not given: ", written(optimizer.lr)));
  }
}

namespace {

bool has_peak(const SchedulerConfig& scheduler) {
  return scheduler.type == "WarmupLR" || scheduler.type == "WarmupDecayLR";
}
bool has_end(const SchedulerConfig& scheduler) {
  return scheduler.type == "WarmupDecayLR" || scheduler.type == "WarmupCosineLR";
}

void resolve_peak(Draft& draft, const Given& given, std::vector<std::string>& notes) {
  SchedulerConfig& scheduler = draft.scheduler;
  const double lr = draft.config.optimizer.lr;
  if (!has_peak(scheduler)) return;
  if (!given.has("scheduler.params.warmup_max_lr")) {
    scheduler.warmup_max_lr = lr;
    notes.push_back(text_of("warmup_max_lr not given: optimizer.lr ", written(lr)));
  } else if (given.has("optimizer.params.lr") && lr != scheduler.warmup_max_lr) {
    notes.push_back(text_of("warning: optimizer.params.lr is ", written(lr), " and scheduler.params.warmup_max_lr ",
                            written(scheduler.warmup_max_lr), "; the scheduler's ", written(scheduler.warmup_max_lr),
                            " is used"));
  }
}

void resolve_end(Draft& draft, const Given& given, std::vector<std::string>& notes, base::Violations& violations) {
  SchedulerConfig& scheduler = draft.scheduler;
  const int64_t steps = draft.config.training.steps;
  if (!has_end(scheduler)) return;
  if (!given.has("scheduler.params.total_num_steps")) {
    if (steps == 0) {
      violations.add("scheduler.params.total_num_steps",
                     text_of("is needed by ", scheduler.type, "; give it or training.steps"));
      return;
    }
    scheduler.total_num_steps = steps;
    notes.push_back(text_of("total_num_steps not given: training.steps ", steps));
  } else if (steps != 0 && steps != scheduler.total_num_steps) {
    notes.push_back(text_of("warning: the rate decays over scheduler.params.total_num_steps ",
                            scheduler.total_num_steps, ", the run has training.steps ", steps));
  }
}

void check_warmup(Draft& draft, std::vector<std::string>& notes) {
  const SchedulerConfig& scheduler = draft.scheduler;
  if (scheduler.type == "constant") return;
  const int64_t steps = draft.config.training.steps;
  const int64_t total = has_end(scheduler) ? scheduler.total_num_steps : steps;
  if (total != 0 && scheduler.warmup_num_steps > total) {
    notes.push_back(text_of("warning: the warm-up of ", scheduler.warmup_num_steps, " steps is longer than the ", total,
                            " steps of the schedule; the peak is never reached"));
  } else if (steps != 0 && scheduler.warmup_num_steps > steps) {
    notes.push_back(text_of("warning: the warm-up of ", scheduler.warmup_num_steps, " steps is longer than the run of ",
                            steps, "; the peak is never reached"));
  }
}

}  // namespace

void resolve_scheduler(Draft& draft, const Given& given, const base::Json& block, base::Violations& violations) {
  std::vector<std::string>& notes = draft.config.notes;
  SchedulerConfig& scheduler = draft.scheduler;
  scheduler.warmup_type = draft.warmup_type == "log" ? SchedulerConfig::Warmup::Log : SchedulerConfig::Warmup::Linear;
  const std::string scale_block = "scheduler.scale_lr_with_batch";
  const bool scale_given = block.contains("scale_lr_with_batch");
  if (given.has(scale_block + ".reference_batch")) {
    draft.scale.rule = draft.scale_rule == "linear" ? ScaleLr::Rule::Linear
                       : draft.scale_rule == "sqrt" ? ScaleLr::Rule::Sqrt
                                                    : ScaleLr::Rule::None;
    scheduler.scale = draft.scale;
    if (!given.has(scale_block + ".rule")) notes.push_back("scale_lr_with_batch.rule not given: linear");
  } else if (scale_given) {
    violations.add(scale_block + ".reference_batch",
                   "is missing; it is the batch that the rates of the file are meant for");
  }
  if (given.wrong.count("scheduler.type") == 0) {
    if (!given.has("scheduler.type") && !scale_given) {
      violations.add("scheduler.type",
                     text_of("is missing; one of ", listed(find_key(config_keys(), "scheduler.type")->choices)));
    }
    check_applies(config_keys(), "scheduler", scheduler.type, given, violations);
    resolve_peak(draft, given, notes);
    resolve_end(draft, given, notes, violations);
    check_warmup(draft, notes);
    if (has_peak(scheduler) && scheduler.warmup_min_lr > scheduler.warmup_max_lr) {
      violations.add("scheduler.params.warmup_min_lr", text_of(written(scheduler.warmup_min_lr), " is above the peak ",
                                                               written(scheduler.warmup_max_lr)));
    }
  }
  draft.config.scheduler = scheduler;
}

}  // namespace trireme::spec

#include "trireme/spec/preflight.h"

#include "trireme/base/error.h"
#include "trireme/base/units.h"

namespace trireme::spec {

using base::text_of;
using base::Violations;

namespace {

constexpr int64_t most_parameters = 100'000'000'000;
/// fp32 parameter, gradient and two moments of Adam, as a rank holds them at stage 0
constexpr double bytes_a_parameter = 16;

void check_degrees(const Config& config, Violations& violations) {
  const auto only_one = [&](const char* key, int degree, const char* name) {
    if (degree > 1)
      violations.add(text_of("parallel.", key), text_of(degree, " is not supported yet (", name,
                                                        "); only data parallel ranks are built, set it to 1"));
  };
  only_one("tensor_model_parallel_size", config.parallel.tp, "tensor parallel");
  only_one("pipeline_model_parallel_size", config.parallel.pp, "pipeline parallel");
  only_one("context_parallel_size", config.parallel.cp, "context parallel");
  only_one("expert_model_parallel_size", config.parallel.ep, "expert parallel");
  only_one("expert_tensor_parallel_size", config.parallel.etp, "expert tensor parallel");
}

void check_world(const Config& config, int world_size, Violations& violations) {
  if (config.world_size == world_size) return;
  violations.add("train_batch_size", text_of("the configuration was resolved for ", config.world_size,
                                             " ranks and this run has ", world_size, ": ", config.train_batch_size,
                                             " != ", config.micro_batch_size, " * ", config.gradient_accumulation_steps,
                                             " * ", world_size, "; load it for ", world_size, " ranks"));
}

void check_size(const Config& config, const PreflightInputs& inputs, Violations& violations) {
  int64_t parameters = 0;
  if (const auto* gpt2 = std::get_if<Gpt2Spec>(&config.model)) parameters = parameter_count(*gpt2);
  if (const auto* mlp = std::get_if<MlpSpec>(&config.model)) parameters = parameter_count(*mlp);
  const double a_rank = static_cast<double>(parameters) * bytes_a_parameter;
  if (parameters > most_parameters) {
    violations.add("model", text_of("has ", parameters, " parameters, more than the ", most_parameters,
                                    " that are supported while every rank holds all of them; make it smaller"));
  } else if (inputs.host_memory_bytes > 0 &&
             a_rank * inputs.ranks_on_host > static_cast<double>(inputs.host_memory_bytes)) {
    violations.add(
        "model", text_of(parameters, " parameters need ", base::format_bytes(static_cast<int64_t>(a_rank)), " a rank, ",
                         inputs.ranks_on_host, " ranks are on this host and it has ",
                         base::format_bytes(inputs.host_memory_bytes), "; make the model smaller or use fewer ranks"));
  }
}

}  // namespace

void preflight(const Config& config, int world_size, const PreflightInputs& inputs, Violations& violations) {
  check_world(config, world_size, violations);
  check_degrees(config, violations);
  if (config.zero.stage != 0) {
    violations.add("zero_optimization.stage",
                   text_of(config.zero.stage, " is not supported yet; only stage 0 is built"));
  }
  check_size(config, inputs, violations);
  if (inputs.needs_steps && config.training.steps == 0)
    violations.add("training.steps", "is not given; use --steps N or set it");
  if (inputs.needs_model && std::holds_alternative<std::monostate>(config.model) && config.model_block.is_null()) {
    violations.add("model",
                   "is not given; for example {\"model_type\": \"gpt2\", \"n_layer\": 6, \"n_embd\": 192, \"n_head\": "
                   "6, \"n_positions\": 128}");
  }
}

}  // namespace trireme::spec

#include "trireme/data_parallel/distributed_data_parallel.h"

#include <ATen/ATen.h>

#include <exception>
#include <map>

#include "trireme/base/error.h"
#include "trireme/data_parallel/replicate.h"

namespace trireme::data_parallel {
namespace {

// a tensor registered under two names is one parameter
std::vector<layers::Parameter> parameters_of(const torch::nn::Module& module) {
  std::vector<layers::Parameter> parameters;
  std::map<const void*, bool> seen;
  for (const auto& item : module.named_parameters())
    if (!std::exchange(seen[item.value().unsafeGetTensorImpl()], true))
      parameters.push_back({item.key(), {item.value()}, 0});
  return parameters;
}

void check_options(const std::vector<layers::Parameter>& parameters, const DistributedDataParallelOptions& options) {
  bool trainable = false;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensors[0];
    trainable = trainable || tensor.requires_grad();
    if (!tensor.device().is_cpu())
      throw base::ConfigError(
          "parameter " + parameter.name + " is on " + tensor.device().str() +
          ", the backend serves cpu; move the module to the cpu, device backends are not built yet");
    if (tensor.layout() != at::kStrided)
      throw base::ConfigError("parameter " + parameter.name + " is sparse; only dense parameters can be data parallel");
  }
  if (!trainable)
    throw base::ConfigError(
        "the module has no parameter that requires a gradient; data parallel has nothing to do for it");
  if (!options.device_ids.empty())
    throw base::ConfigError(
        base::text_of("device_ids {", options.device_ids[0], "} is given for a CPU module; leave it empty"));
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(torch::nn::Module& module, comm::Group group,
                                                 DistributedDataParallelOptions options)
    : module_(module), group_(std::move(group)), options_(std::move(options)), parameters_(parameters_of(module)) {
  for (const auto& item : module.named_buffers()) buffers_.push_back({item.key(), item.value()});
  check_options(parameters_, options_);
  compare_models(group_, parameters_, buffers_);
  auto flat = layers::flat_parameters(parameters_);
  const auto elements =
      options_.bucket_elements ? options_.bucket_elements : layers::bucket_elements_for(flat, group_.size());
  auto layout = layers::flat_layout(flat, {.ranks = group_.size(), .bucket_elements = elements});
  auto gradients = std::make_shared<layers::FlatGradients>(parameters_, std::move(layout), group_);
  reducer_ = std::make_unique<Reducer>(gradients, group_, ReducerOptions{.overlap = options_.overlap});
  reducer_->set_events({[this] { pass_begun(); }, [this] { pass_finished(); }});
  broadcast_values(group_, tensors_of(parameters_));
  broadcast_values(group_, tensors_of(buffers_));
}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::pass_begun() {
  if (joining_) count_active(true);
}

void DistributedDataParallel::pass_finished() {
  if (joining_ && divisor_ == JoinDivisor::ActiveRanks && active_ > 0) {
    at::NoGradGuard no_grad;
    const auto& gradients = reducer_->gradients();
    for (size_t s = 0; s < gradients.layout().spaces.size(); ++s)
      if (gradients.flat(static_cast<int>(s)).defined())
        gradients.flat(static_cast<int>(s)).mul_(group_.size() / active_);
  }
  if (options_.broadcast_buffers && !buffers_.empty())
    broadcast_values(group_, tensors_of(buffers_), joining_ ? last_active_rank_ : 0);
}

void DistributedDataParallel::count_active(bool active) {
  auto flags = at::zeros({group_.size()}, at::kDouble);
  if (active) flags[group_.rank()] = 1.0;
  group_.all_reduce(flags).wait();
  active_ = 0;
  for (int r = 0; r < group_.size(); ++r)
    if (flags[r].item<double>() > 0) {
      ++active_;
      last_active_rank_ = r;
    }
}

void DistributedDataParallel::answer_until_all_have_joined() {
  for (;;) {
    const int last_active = last_active_rank_;
    count_active(false);
    if (active_ == 0) {
      broadcast_values(group_, tensors_of(parameters_), last_active);
      broadcast_values(group_, tensors_of(buffers_), last_active);
      return;
    }
    joining_ = false;  // counted already
    reducer_->begin();
    for (const auto& parameter : parameters_) parameter.tensors[0].mutable_grad().reset();
    joining_ = true;
    reducer_->finish();
  }
}

DistributedDataParallel::Join::Join(DistributedDataParallel& ddp, JoinDivisor divisor)
    : ddp_(ddp), exceptions_(std::uncaught_exceptions()) {
  if (ddp.joining_) throw base::CommError("join() is active already on this DistributedDataParallel");
  ddp.joining_ = true;
  ddp.divisor_ = divisor;
}

DistributedDataParallel::Join::~Join() noexcept(false) {
  // a loop that threw has nothing to answer: the launcher ends the others
  if (std::uncaught_exceptions() == exceptions_) ddp_.answer_until_all_have_joined();
  ddp_.joining_ = false;
}

}  // namespace trireme::data_parallel

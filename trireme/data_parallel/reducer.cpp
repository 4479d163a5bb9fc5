#include "trireme/data_parallel/reducer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::data_parallel {
namespace {

// Sixteen elements of each parameter: enough to see that an optimizer stepped. (Versions are not: torch::optim::SGD
// writes through data().)
std::vector<uint64_t> fingerprints(const std::vector<layers::Parameter>& parameters) {
  std::vector<uint64_t> hashes;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensors[0];
    uint64_t hash = static_cast<uint64_t>(tensor._version());
    const auto items =
        static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size()) - tensor.storage_offset();
    const auto stride = std::max<int64_t>(1, tensor.numel() / 16);
    for (int64_t i = 0; i < std::min(tensor.numel(), items); i += stride) {
      uint64_t bits = 0;
      std::memcpy(&bits,
                  static_cast<const char*>(tensor.const_data_ptr()) + i * static_cast<int64_t>(tensor.element_size()),
                  std::min<size_t>(sizeof bits, tensor.element_size()));
      hash = (hash ^ bits) * 0x9E3779B97F4A7C15ull;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

Reducer::Reducer(std::shared_ptr<layers::FlatGradients> gradients, comm::Group group, ReducerOptions options)
    : gradients_(std::move(gradients)), group_(std::move(group)), options_(options) {
  const auto& parameters = gradients_->parameters();
  const auto& spaces = gradients_->layout().spaces;
  bucket_index_.resize(spaces.size());
  for (size_t s = 0; s < spaces.size(); ++s) {
    if (!spaces[s].trainable) continue;
    for (size_t b = 0; b < spaces[s].buckets.size(); ++b) {
      bucket_index_[s].push_back(static_cast<int>(buckets_.size()));
      Bucket bucket;
      bucket.space = static_cast<int>(s);
      bucket.index = static_cast<int>(b);
      bucket.parameters = spaces[s].buckets[b].parameters;
      buckets_.push_back(std::move(bucket));
    }
  }
  for (const auto& parameter : parameters) fired_.emplace_back(parameter.tensors.size(), 0);
  used_here_.assign(parameters.size(), 0);
  used_anywhere_.assign(parameters.size(), 0);
  hooks_.emplace(parameters, static_cast<GradientListener&>(*this));
}

Reducer::~Reducer() {
  comm::leave_backward(this);
}

Reducer::Bucket& Reducer::bucket_of(int parameter) {
  const auto& slot = gradients_->layout().slots[parameter];
  return buckets_[bucket_index_[slot.space][slot.bucket]];
}

void Reducer::begin() {
  TRIREME_CHECK(!in_pass_);
  ++counters_.passes;
  if (events_.begun) events_.begun();
  for (auto& bucket : buckets_) {
    bucket.launched = false;
    bucket.pending = 0;
    for (int p : bucket.parameters) bucket.pending += static_cast<int>(gradients_->parameters()[p].tensors.size());
  }
  for (auto& users : fired_) std::fill(users.begin(), users.end(), 0);
  next_ = 0;
  in_pass_ = true;
}

void Reducer::gradient_coming(int parameter, int user) {
  if (!in_pass_) return;
  auto& bucket = bucket_of(parameter);
  if (!bucket.launched) return;
  // the bucket is on its way: this gradient is added to a second buffer
  if (!bucket.late.defined()) {
    const auto whole = gradients_->bucket(bucket.space, bucket.index);
    bucket.late = group_.allocate(whole.sizes(), whole.scalar_type());
  }
  bucket.late_used = true;
  const auto& range = gradients_->layout().spaces[bucket.space].buckets[bucket.index];
  gradients_->parameters()[parameter].tensors[user].mutable_grad() =
      gradients_->alias(parameter, bucket.late, range.begin);
}

void Reducer::gradient_accumulated(int parameter, int user, bool arrived) {
  const auto& tensor = gradients_->parameters()[parameter].tensors[user];
  if (arrived) used_here_[parameter] = 1;
  if (!in_pass_ && !accumulating_) {
    // the first gradient of a backward that no trainer announced
    check_stepped_unreduced();
    if (synchronised_) {
      begin();
      engine_ends_pass_ = true;
    } else {
      accumulating_ = true;
      if (before_step_.empty()) before_step_ = fingerprints(gradients_->parameters());
    }
    comm::join_backward(this);
  }
  if (in_pass_ && bucket_of(parameter).launched) return;  // it went to the second buffer
  if (arrived) adopt(parameter, tensor);
  if (!in_pass_) return;
  // what comes from inside a nested backward may come again from the outer one: complete at the end only
  if (comm::backward_depth() <= 1) user_ready(parameter, user);
}

void Reducer::adopt(int parameter, const at::Tensor& tensor) {
  if (!tensor.grad().defined() || gradients_->installed(parameter, tensor)) return;
  at::NoGradGuard no_grad;
  auto slot = gradients_->alias(parameter);
  if (tensor.grad().scalar_type() != slot.scalar_type() || tensor.grad().sizes() != slot.sizes())
    throw base::ConfigError(base::text_of("the gradient of ", gradients_->parameters()[parameter].name, " is ",
                                          tensor.grad().scalar_type(), " ", tensor.grad().sizes(), " now, it was ",
                                          slot.scalar_type(), " ", slot.sizes(),
                                          " when the module was made data parallel; convert the module first"));
  const auto dense = tensor.grad().is_sparse() ? tensor.grad().to_dense() : tensor.grad();
  const auto& users = gradients_->parameters()[parameter].tensors;
  const bool live =
      std::any_of(users.begin(), users.end(), [&](const at::Tensor& t) { return gradients_->installed(parameter, t); });
  if (live)  // another user of a tied parameter was first
    slot.add_(dense);
  else
    slot.copy_(dense);
  tensor.mutable_grad() = slot;
}

void Reducer::ready(int parameter) {
  TRIREME_CHECK(in_pass_);
  used_here_[parameter] = 1;
  for (size_t user = 0; user < fired_[parameter].size(); ++user) user_ready(parameter, static_cast<int>(user));
}

void Reducer::user_ready(int parameter, int user) {
  if (std::exchange(fired_[parameter][user], 1)) return;
  --bucket_of(parameter).pending;
  if (!options_.overlap) return;
  const base::Stopwatch stopwatch(counters_.seconds);
  launch_ready_buckets(false);
  group_.progress();
}

void Reducer::launch_ready_buckets(bool all) {
  for (; next_ < buckets_.size() && (all || buckets_[next_].pending == 0); ++next_) launch(buckets_[next_]);
}

void Reducer::launch(Bucket& bucket) {
  at::NoGradGuard no_grad;
  for (int p : bucket.parameters) {
    const auto& tensors = gradients_->parameters()[p].tensors;
    // no gradient at all on this rank: the slot may hold an old one
    const bool none =
        std::none_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.grad().defined(); });
    if (none)
      gradients_->alias(p).zero_();
    else
      for (const auto& tensor : tensors) adopt(p, tensor);
  }
  const auto whole = gradients_->bucket(bucket.space, bucket.index);
  bucket.work = reduce(whole);
  bucket.launched = true;
  ++counters_.collectives;
  counters_.bytes += static_cast<int64_t>(whole.nbytes());
}

comm::Work Reducer::reduce(const at::Tensor& whole) const {
  if (!options_.shard_gradients) return group_.all_reduce(whole, comm::ReduceOp::Average);
  const auto share = whole.numel() / group_.size();
  return group_.reduce_scatter_tensor(whole.narrow(0, group_.rank() * share, share), whole, comm::ReduceOp::Average);
}

void Reducer::finish() {
  TRIREME_CHECK(in_pass_);
  const base::Stopwatch stopwatch(counters_.seconds);
  in_pass_ = false;
  try {
    launch_ready_buckets(true);
    exchange_control(false);
  } catch (const base::DeadlineError& error) {
    if (!synchronised_) throw;  // a trainer counts for its user
    // all completed the previous pass together, so whoever is missing has not begun this one
    throw base::DeadlineError(base::text_of(error.what(), "; it has made ", counters_.passes - 1,
                                            " synchronised backwards, this rank ", counters_.passes,
                                            "; use join() or no_sync()"));
  }
  before_step_.clear();
  if (events_.finished) events_.finished();
}

// [failed, late a bucket, used a parameter, the caller's numbers], summed
void Reducer::exchange_control(bool failed) {
  const size_t own = contribution_.size();
  const auto length = static_cast<int64_t>(1 + buckets_.size() + used_here_.size() + own);
  if (!control_.defined() || control_.numel() != length) control_ = group_.allocate({length}, at::kDouble);
  auto* out = control_.data_ptr<double>();
  *out++ = failed;
  for (const auto& bucket : buckets_) *out++ = bucket.late_used;
  for (char used : used_here_) *out++ = used;
  std::copy(contribution_.begin(), contribution_.end(), out);
  group_.all_reduce(control_).wait();
  for (auto& bucket : buckets_) bucket.work.wait();
  const auto* in = control_.data_ptr<double>();
  if (*in++ > 0) {
    drop_late();
    forget();
    if (failed) return;
    throw base::PeerLostError("the step failed on another rank; the gradients of this one are worthless");
  }
  reduce_late(std::vector<double>(in, in + buckets_.size()));
  in += buckets_.size();
  for (size_t p = 0; p < used_here_.size(); ++p) {
    used_anywhere_[p] = *in++ > 0;
    // used elsewhere only: this rank must step with the average too
    if (used_anywhere_[p] && gradients_->trainable(static_cast<int>(p)))
      for (const auto& tensor : gradients_->parameters()[p].tensors)
        if (!tensor.grad().defined()) gradients_->install(static_cast<int>(p));
  }
  totals_.assign(in, in + own);
  std::fill(used_here_.begin(), used_here_.end(), 0);
}

void Reducer::forget() {
  before_step_.clear();
  std::fill(used_here_.begin(), used_here_.end(), 0);
}

// Gradients come back from the second buffers, whose contents are lost.
void Reducer::drop_late() {
  at::NoGradGuard no_grad;
  for (auto& bucket : buckets_) {
    if (!std::exchange(bucket.late_used, false)) continue;
    bucket.late.zero_();
    for (int p : bucket.parameters)
      for (const auto& tensor : gradients_->parameters()[p].tensors)
        if (tensor.grad().defined() && !gradients_->installed(p, tensor)) tensor.mutable_grad() = gradients_->alias(p);
  }
}

void Reducer::reduce_late(const std::vector<double>& late) {
  at::NoGradGuard no_grad;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (late[b] == 0) continue;
    auto& bucket = buckets_[b];
    auto whole = gradients_->bucket(bucket.space, bucket.index);
    if (!bucket.late.defined()) bucket.late = group_.allocate(whole.sizes(), whole.scalar_type());
    reduce(bucket.late).wait();
    whole.add_(bucket.late);
    bucket.late_used = true;  // another rank's too
  }
  drop_late();
}

void Reducer::discard() noexcept {
  if (!in_pass_) return;
  in_pass_ = false;
  try {
    launch_ready_buckets(true);
    exchange_control(true);
  } catch (const std::exception&) {
    // the communicator keeps its first error and throws it at the next operation
  }
}

void Reducer::backward_ended() {
  accumulating_ = false;
  if (std::exchange(engine_ends_pass_, false)) finish();
}

void Reducer::backward_failed() noexcept {
  accumulating_ = false;
  if (std::exchange(engine_ends_pass_, false)) discard();
}

void Reducer::check_stepped_unreduced() {
  if (before_step_.empty()) return;
  const auto now = fingerprints(gradients_->parameters());
  for (size_t p = 0; p < now.size(); ++p)
    if (now[p] != before_step_[p])
      throw base::CommError(
          "the optimizer stepped on gradients that were not reduced: " + gradients_->parameters()[p].name +
          " changed after a backward under no_sync(); run the last backward of a step outside the guard");
}

}  // namespace trireme::data_parallel

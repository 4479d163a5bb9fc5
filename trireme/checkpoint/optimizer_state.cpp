#include "trireme/checkpoint/optimizer_state.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <memory>
#include <typeinfo>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::checkpoint {
namespace {

using base::DataError;
using base::Json;
using base::text_of;
using base::UsageError;
using Names = std::unordered_map<const void*, std::string>;  // by TensorImpl, as torch keys its state

Json options_json(const torch::optim::SGDOptions& options) {
  return {{"lr", options.lr()},
          {"momentum", options.momentum()},
          {"dampening", options.dampening()},
          {"weight_decay", options.weight_decay()},
          {"nesterov", options.nesterov()}};
}

void set_options(torch::optim::SGDOptions& options, const Json& saved) {
  options.lr(saved.at("lr").get<double>());
  options.momentum(saved.at("momentum").get<double>());
  options.dampening(saved.at("dampening").get<double>());
  options.weight_decay(saved.at("weight_decay").get<double>());
  options.nesterov(saved.at("nesterov").get<bool>());
}

template <class AdamLike>
Json options_json(const AdamLike& options) {
  return {{"lr", options.lr()},
          {"betas", {std::get<0>(options.betas()), std::get<1>(options.betas())}},
          {"eps", options.eps()},
          {"weight_decay", options.weight_decay()},
          {"amsgrad", options.amsgrad()}};
}

template <class AdamLike>
void set_options(AdamLike& options, const Json& saved) {
  options.lr(saved.at("lr").get<double>());
  options.betas(std::make_tuple(saved.at("betas").at(0).get<double>(), saved.at("betas").at(1).get<double>()));
  options.eps(saved.at("eps").get<double>());
  options.weight_decay(saved.at("weight_decay").get<double>());
  options.amsgrad(saved.at("amsgrad").get<bool>());
}

/// Calls use(name of the moment, tensor by reference) for each moment.
template <class Use>
void each_moment(torch::optim::SGDParamState& state, const Use& use) {
  at::Tensor buffer = state.momentum_buffer();
  use("momentum_buffer", buffer);
  state.momentum_buffer(buffer);
}

template <class AdamLike, class Use>
void each_moment(AdamLike& state, const Use& use) {
  at::Tensor first = state.exp_avg(), second = state.exp_avg_sq(), largest = state.max_exp_avg_sq();
  use("exp_avg", first);
  use("exp_avg_sq", second);
  use("max_exp_avg_sq", largest);
  state.exp_avg(first);
  state.exp_avg_sq(second);
  state.max_exp_avg_sq(largest);
}

int64_t step_of(const torch::optim::SGDParamState&) {
  return 0;
}
template <class AdamLike>
int64_t step_of(const AdamLike& state) {
  return state.step();
}

void set_step(torch::optim::SGDParamState&, int64_t) {}
template <class AdamLike>
void set_step(AdamLike& state, int64_t step) {
  state.step(step);
}

/// Calls use<Options, State>("AdamW") for the optimizer's type.
template <class Use>
auto dispatch(const torch::optim::Optimizer& optimizer, const Use& use) {
  using namespace torch::optim;
  if (typeid(optimizer) == typeid(SGD)) return use.template operator()<SGDOptions, SGDParamState>("SGD");
  if (typeid(optimizer) == typeid(Adam)) return use.template operator()<AdamOptions, AdamParamState>("Adam");
  if (typeid(optimizer) == typeid(AdamW)) return use.template operator()<AdamWOptions, AdamWParamState>("AdamW");
  throw UsageError(text_of("the state of the optimizer ", c10::demangle(typeid(optimizer).name()),
                           " cannot be saved; use torch::optim::SGD, Adam or AdamW"));
}

Names names_of(const std::vector<NamedTensor>& parameters) {
  Names names;
  for (const NamedTensor& parameter : parameters) names.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.name);
  return names;
}

const std::string& name_of(const at::Tensor& parameter, const Names& names, size_t group) {
  const auto found = names.find(parameter.unsafeGetTensorImpl());
  if (found == names.end())
    throw UsageError(
        text_of("a parameter of the optimizer's group ", group, " is not among the named parameters of the module"));
  return found->second;
}

std::string moment_name(const char* moment, const std::string& parameter) {
  return text_of("optimizer/", moment, "/", parameter);
}

template <class Options, class State>
std::pair<Json, std::vector<NamedTensor>> save_as(const char* type, torch::optim::Optimizer& optimizer,
                                                  const Names& names) {
  Json json = {{"type", type}, {"groups", Json::array()}, {"state", Json::object()}};
  std::vector<NamedTensor> tensors;
  const auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    Json members = Json::array();
    for (const at::Tensor& parameter : groups[g].params()) {
      const std::string& name = name_of(parameter, names, g);
      members.push_back(name);
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;  // it has had no gradient yet
      auto& state = static_cast<State&>(*found->second);
      Json moments = Json::array();
      each_moment(state, [&](const char* moment, const at::Tensor& tensor) {
        if (!tensor.defined()) return;
        moments.push_back(moment);
        tensors.push_back({moment_name(moment, name), tensor});
      });
      json["state"][name] = {{"step", step_of(state)}, {"moments", moments}};
    }
    const auto& options = static_cast<const Options&>(groups[g].options());
    json["groups"].push_back({{"parameters", members}, {"options", options_json(options)}});
  }
  return {json, tensors};
}

/// The first difference between the groups of the optimizer and the saved ones is an error.
void compare_groups(const char* type, torch::optim::Optimizer& optimizer, const Json& saved, const Names& names) {
  if (saved.at("type") != type)
    throw DataError(
        text_of("the checkpoint holds the state of ", saved.at("type").get<std::string>(), ", not of ", type));
  const auto& groups = optimizer.param_groups();
  const Json& saved_groups = saved.at("groups");
  if (groups.size() != saved_groups.size())
    throw DataError(text_of("the checkpoint's optimizer has ", saved_groups.size(), " parameter groups, this one has ",
                            groups.size()));
  for (size_t g = 0; g < groups.size(); ++g) {
    const Json& members = saved_groups[g].at("parameters");
    const auto& parameters = groups[g].params();
    for (size_t i = 0; i < std::max(parameters.size(), members.size()); ++i) {
      const std::string here = i < parameters.size() ? name_of(parameters[i], names, g) : "nothing";
      const std::string there = i < members.size() ? members[i].get<std::string>() : "nothing";
      if (here != there)
        throw DataError(text_of("parameter ", i, " of the optimizer's group ", g, " is ", there,
                                " in the checkpoint and ", here, " here"));
    }
  }
}

template <class Options, class State>
void load_as(const char* type, torch::optim::Optimizer& optimizer, const Json& saved, const Names& names,
             const ReadTensor& read) {
  compare_groups(type, optimizer, saved, names);
  auto& groups = optimizer.param_groups();
  std::vector<Options> options;
  std::vector<std::pair<void*, std::unique_ptr<State>>> states;
  for (size_t g = 0; g < groups.size(); ++g) {
    options.push_back(static_cast<const Options&>(groups[g].options()));
    set_options(options.back(), saved.at("groups")[g].at("options"));
    for (const at::Tensor& parameter : groups[g].params()) {
      const std::string& name = name_of(parameter, names, g);
      const auto found = saved.at("state").find(name);
      if (found == saved.at("state").end()) continue;
      auto state = std::make_unique<State>();
      set_step(*state, found->at("step").template get<int64_t>());
      const auto moments = found->at("moments").template get<std::vector<std::string>>();
      each_moment(*state, [&](const char* moment, at::Tensor& tensor) {
        if (std::find(moments.begin(), moments.end(), moment) == moments.end()) return;
        tensor = at::zeros(parameter.sizes(), parameter.options().requires_grad(false));
        read({moment_name(moment, name), tensor});
      });
      states.emplace_back(parameter.unsafeGetTensorImpl(), std::move(state));
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) static_cast<Options&>(groups[g].options()) = options[g];
  optimizer.state().clear();
  for (auto& [parameter, state] : states) optimizer.state()[parameter] = std::move(state);
}

}  // namespace

std::pair<Json, std::vector<NamedTensor>> optimizer_state(torch::optim::Optimizer& optimizer,
                                                          const std::vector<NamedTensor>& parameters) {
  const Names names = names_of(parameters);
  return dispatch(optimizer, [&]<class Options, class State>(const char* type) {
    return save_as<Options, State>(type, optimizer, names);
  });
}

void load_optimizer_state(torch::optim::Optimizer& optimizer, const Json& saved,
                          const std::vector<NamedTensor>& parameters, const ReadTensor& read) {
  const Names names = names_of(parameters);
  try {
    dispatch(optimizer, [&]<class Options, class State>(const char* type) {
      load_as<Options, State>(type, optimizer, saved, names, read);
    });
  } catch (const Json::exception& error) {
    throw DataError(text_of("the optimizer's state in the checkpoint is not readable: ", error.what()));
  }
}

std::vector<NamedTensor> named_parameters(torch::nn::Module& module) {
  std::vector<NamedTensor> named;
  for (const auto& item : module.named_parameters()) named.push_back({item.key(), item.value()});
  return named;
}

}  // namespace trireme::checkpoint

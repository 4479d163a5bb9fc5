#include "trireme/train/metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>

#include "trireme/train/process_figures.h"

namespace trireme::train {
namespace {

constexpr int fields = 6;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

base::Json by_rank(const RankFigures& figures, double StepSeconds::*part) {
  auto list = base::Json::array();
  for (const auto& seconds : figures.seconds) list.push_back(seconds.*part);
  return list;
}

}  // namespace

RankFigures gather_figures(const comm::Group& group, const StepSeconds& s) {
  auto own = at::empty({fields}, at::kDouble);
  const double values[fields] = {
      s.data, s.forward, s.backward, s.exposed_communication, s.optimizer, static_cast<double>(peak_rss_bytes())};
  std::copy(values, values + fields, own.data_ptr<double>());
  auto all = at::empty({group.size() * fields}, at::kDouble);
  group.all_gather_into_tensor(all, own).wait();
  RankFigures figures;
  const auto* in = all.data_ptr<double>();
  for (int r = 0; r < group.size(); ++r, in += fields) {
    figures.seconds.push_back({in[0], in[1], in[2], in[3], in[4]});
    const auto& seconds = figures.seconds.back();
    figures.busy.push_back(seconds.total() > 0 ? 1 - (seconds.data + seconds.exposed_communication) / seconds.total()
                                               : 0);
    figures.peak_rss_bytes.push_back(static_cast<int64_t>(in[5]));
  }
  return figures;
}

base::Json step_line(const StepResult& result, double tokens_per_second, const RankFigures& figures) {
  base::Json line{{"step", result.step}};
  if (result.skipped) {  // no loss, no update
    line["skipped"] = true;
    return line;
  }
  line.update({{"loss", result.loss},
               {"grad_norm", result.grad_norm},
               {"lr", result.learning_rate},
               {"items", result.items},
               {"tokens_per_second", tokens_per_second},
               {"seconds",
                {{"data", by_rank(figures, &StepSeconds::data)},
                 {"forward", by_rank(figures, &StepSeconds::forward)},
                 {"backward", by_rank(figures, &StepSeconds::backward)},
                 {"exposed_communication", by_rank(figures, &StepSeconds::exposed_communication)},
                 {"optimizer", by_rank(figures, &StepSeconds::optimizer)}}},
               {"busy", figures.busy},
               {"peak_rss_bytes", figures.peak_rss_bytes}});
  return line;
}

base::Json evaluation_line(int64_t step, const Evaluation& evaluation) {
  return {{"step", step}, {"validation_loss", evaluation.loss()}, {"validation_items", evaluation.items}};
}

LossHistory read_history(const std::string& run_folder) {
  LossHistory history;
  std::ifstream lines(run_folder + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto json = base::Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto number = [&](const char* key) { return json.contains(key) && json[key].is_number(); };
    if (!number("step")) continue;
    const auto step = json["step"].get<double>();
    if (number("loss")) history.training.push_back({step, json["loss"].get<double>()});
    if (number("validation_loss")) history.validation.push_back({step, json["validation_loss"].get<double>()});
  }
  return history;
}

// A rank that takes twice as long by itself as the middle one of the others, and a tenth of a second more. What it
// waits for peers is not its own.
void Summary::find_straggler(int64_t step, const RankFigures& figures) {
  std::vector<double> own;
  for (const auto& seconds : figures.seconds) own.push_back(seconds.total() - seconds.exposed_communication);
  const auto slowest = static_cast<size_t>(std::max_element(own.begin(), own.end()) - own.begin());
  std::vector<double> others = own;
  others.erase(others.begin() + static_cast<int64_t>(slowest));
  if (others.empty()) return;
  const double usual = median(others);
  const double lost = own[slowest] - usual;
  if (own[slowest] < 2 * usual || lost < 0.1) return;
  auto& straggler = stragglers_[slowest];
  ++straggler.steps;
  straggler.seconds += lost;
  if (lost > straggler.worst_seconds) {
    straggler.worst_step = step;
    straggler.worst_seconds = lost;
  }
}

void Summary::add(int64_t step, double tokens_per_second, const RankFigures& figures) {
  find_straggler(step, figures);
  rates_.push_back(tokens_per_second);
  peak_rss_bytes_ = figures.peak_rss_bytes;
  ranks_ = figures.seconds.size();
  for (size_t r = 0; r < ranks_; ++r) {
    const auto total = figures.seconds[r].total();
    exposed_seconds_ += figures.seconds[r].exposed_communication;
    total_seconds_ += total;
    busy_seconds_ += figures.busy[r] * total;
  }
}

base::Json Summary::json() const {
  base::Json json;
  if (rates_.empty()) return json;  // resumed at the last step: nothing was trained
  const int64_t warm = rates_.size() > 4 ? 4 : 0;
  json["tokens_per_second"] = median({rates_.begin() + warm, rates_.end()});
  json["peak_rss_bytes"] = peak_rss_bytes_;
  json["exposed_communication_fraction"] = total_seconds_ > 0 ? exposed_seconds_ / total_seconds_ : 0;
  json["stragglers"] = base::Json::array();
  for (const auto& [rank, s] : stragglers_)
    json["stragglers"].push_back({{"rank", rank},
                                  {"steps", s.steps},
                                  {"seconds", s.seconds},
                                  {"worst_step", s.worst_step},
                                  {"worst_seconds", s.worst_seconds}});
  if (total_seconds_ > 0) json["speed_up"] = static_cast<double>(ranks_) * busy_seconds_ / total_seconds_;
  return json;
}

}  // namespace trireme::train

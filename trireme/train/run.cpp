#include "trireme/train/run.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/base/log.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/export.h"
#include "trireme/checkpoint/save.h"
#include "trireme/checkpoint/torch_tensor.h"
#include "trireme/comm/objects.h"
#include "trireme/train/metrics.h"
#include "trireme/train/process_figures.h"
#include "trireme/train/progress.h"
#include "trireme/train/sample.h"
#include "trireme/train/stop_signal.h"
#include "trireme/train/trainer.h"

namespace trireme::train {
namespace {

int64_t parameter_elements(const Composition& parts) {
  int64_t elements = 0;
  for (const auto& parameter : parts.model->parameters()) elements += parameter.tensors[0].numel();
  return elements;
}

std::string in_words(std::chrono::nanoseconds time) {
  return base::format_duration(std::chrono::duration<double>(time).count());
}

void print_table(const Trainer& trainer, const RunFolder& folder) {
  const auto& config = trainer.config();
  const auto row = [](const char* name, const std::string& value) { std::printf("  %-12s %s\n", name, value.c_str()); };
  std::printf("trireme train\n");
  row("model", base::text_of(parameter_elements(trainer.parts()), " parameters, seed ", config.training.seed));
  if (trainer.job().training)
    row("data", base::text_of(trainer.job().training->size(), " training samples, ",
                              trainer.job().validation ? trainer.job().validation->size() : 0, " for validation"));
  row("ranks", base::text_of(trainer.world().size(), ", backend ", trainer.world().backend(), ", ",
                             at::get_num_threads(), at::get_num_threads() == 1 ? " thread" : " threads", " each"));
  row("batch",
      base::text_of(config.train_batch_size, " = ", config.micro_batch_size, " x ", config.gradient_accumulation_steps,
                    " x ", trainer.parts().data_ranks.size(), " (micro-batch x accumulation x ranks)"));
  row("steps", base::text_of(config.training.steps));
  if (trainer.world().size() > 1)
    row("deadlines", base::text_of(in_words(config.communication.timeout), " a wait, ",
                                   in_words(config.communication.first_step_timeout), " until the first step is done"));
  row("folder", folder.path);
  for (const auto& note : config.notes) row("note", note);
  for (const auto& note : trainer.notes()) row("note", note);
  if (folder.checkpoint) std::printf("resuming at step %lld\n", static_cast<long long>(trainer.updates()));
  std::fflush(stdout);
}

// The folder, opened by rank 0 for all.
RunFolder shared_folder(const comm::Group& group, const RunFolderRequest& request) {
  RunFolder folder;
  comm::together(group, [&] {
    if (group.rank() == 0) folder = open_run_folder(request);
  });
  folder.path = comm::broadcast_string(group, folder.path);
  const auto checkpoint = comm::broadcast_string(group, folder.checkpoint.value_or(""));
  if (!checkpoint.empty()) folder.checkpoint = checkpoint;
  return folder;
}

void write_export(const Trainer& trainer, const std::string& folder) {
  std::vector<checkpoint::ExportTensor> tensors;
  std::vector<at::Tensor> kept;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const auto local = checkpoint::whole_tensor(name, tensor.detach(), kept.emplace_back());
    tensors.push_back({local.name, local.global_shape, local.dtype, local.data});
  };
  const auto& model = *trainer.parts().model;
  kept.reserve(model.parameters().size() + model.buffers().size());
  for (const auto& parameter : model.parameters()) add(parameter.name, parameter.tensors[0]);
  for (const auto& buffer : model.buffers()) add(buffer.name, buffer.tensor);
  checkpoint::export_huggingface(folder + "/export", trainer.job().export_config, tensors);
}

// Of a new run: data that cannot be read makes the start fail.
std::optional<data::StepBatches> first_batches(const RunRequest& request, Trainer& trainer) {
  std::optional<data::StepBatches> batches;
  if (request.folder.resume) return batches;
  comm::together(trainer.world().all(), [&] { batches = trainer.next_batches(); });
  return batches;
}

class Run {
 public:
  Run(layers::Job job, const spec::Config& config, const RunRequest& request, const comm::World& world)
      : request_(request),
        world_(world),
        trainer_(std::move(job), config, world),
        first_batches_(first_batches(request, trainer_)),
        // last: whatever makes the start fail leaves an old run as it was and no new folder
        folder_(shared_folder(world.all(), request.folder)) {
    comm::together(world_.all(), [&] {
      if (folder_.checkpoint) load(*folder_.checkpoint);
    });
    comm::together(world_.all(), [&] {
      if (!first()) return;
      metrics_ = std::make_unique<MetricsFile>(folder_.path, trainer_.updates());
      base::write_file_atomically(folder_.path + "/config.json", spec::resolved(trainer_.config()).dump(2) + "\n");
      print_table(trainer_, folder_);
      // parameters, two moments, and as much again while the old one is kept
      if (const auto warning = checkpoint::space_warning(folder_.path, 2 * 12 * parameter_elements(trainer_.parts())))
        base::log_warning(*warning);
    });
    steps_ = trainer_.config().training.steps;
    progress_ = std::make_unique<Progress>(trainer_.updates(), steps_, trainer_.config().steps_per_print,
                                           request_.terminal_columns);
  }

  int execute() {
    const auto& config = trainer_.config();
    if (trainer_.updates() >= steps_) {
      if (first())
        progress_->line(base::text_of("the checkpoint is at step ", trainer_.updates(), " already, of ", steps_));
      if (already_finished()) return 0;
    }
    bool stop = false;
    int64_t saved_at = folder_.checkpoint ? trainer_.updates() : -1;
    for (int64_t skipped = 0; trainer_.updates() < steps_ && !stop;) {
      const auto result = one_step(signal_.requested());
      stop = result.stop;
      skipped = result.skipped ? skipped + 1 : 0;
      if (skipped > 1000) throw base::DataError("1000 steps in a row had no valid item; check the data's targets");
      if (result.skipped) continue;
      if (startup_seconds_ == 0) {
        startup_seconds_ = seconds_since_start_of(request_.launcher);
        world_.set_timeout(std::chrono::duration_cast<std::chrono::milliseconds>(config.communication.timeout));
      }
      const bool last = result.step == steps_ || stop;
      const auto due = [&](int64_t every) { return every > 0 && result.step % every == 0; };
      if (!last && due(config.training.evaluate_every)) evaluate(config.training.evaluate_batches);
      if (last || due(config.checkpoint.every)) {
        trainer_.save(folder_.path);
        saved_at = result.step;
      }
    }
    if (saved_at != trainer_.updates()) trainer_.save(folder_.path);
    if (stop && trainer_.updates() < steps_) return interrupted(signal_.received());
    finish();
    return 0;
  }

 private:
  bool first() const { return world_.rank() == 0; }

  void load(const std::string& checkpoint) {
    try {
      trainer_.load(checkpoint);
    } catch (const base::DataError& error) {
      const std::string text = error.what();
      if (text.find(';') != std::string::npos) throw;
      throw base::DataError(text + "; move " + checkpoint + " away to go on from the one before it");
    }
  }

  StepResult one_step(bool stop) {
    const auto start = base::seconds_now();
    const auto batches = first_batches_ ? *std::exchange(first_batches_, {}) : trainer_.next_batches();
    const auto result = trainer_.step(batches, stop);
    const auto figures = gather_figures(world_.all(), result.seconds);
    const auto seconds = base::seconds_now() - start;
    if (first()) {
      const auto rate = static_cast<double>(result.items) / seconds;
      metrics_->write(step_line(result, rate, figures));
      if (!result.skipped) {
        summary_.add(result.step, rate, figures);
        progress_->step(result, rate, seconds);
      }
    }
    return result;
  }

  void evaluate(int64_t batches) {
    const auto evaluation = trainer_.evaluate(batches);
    if (!first() || evaluation.items == 0) return;
    metrics_->write(evaluation_line(trainer_.updates(), evaluation));
    progress_->line(base::text_of("step ", trainer_.updates(), "  validation loss ", evaluation.loss(), " over ",
                                  evaluation.items, " items"));
  }

  // Whether the summary, written last, is of this checkpoint and not of a shorter run that went on from it.
  bool already_finished() const {
    std::string finished;
    comm::together(world_.all(), [&] {
      const auto path = folder_.path + "/summary.json";
      if (!first() || !std::filesystem::exists(path)) return;
      const auto summary = base::Json::parse(base::read_file(path), nullptr, false);
      if (summary.is_object() && summary.value("steps", base::Json()) == trainer_.updates()) finished = "yes";
    });
    return !comm::broadcast_string(world_.all(), finished).empty();
  }

  int interrupted(int signal) {
    // another rank may have got the signal first
    const int code = 128 + (signal ? signal : 2);
    if (first())
      progress_->line(base::text_of("stopped after step ", trainer_.updates(), ", saved; go on ",
                                    world_.size() > 1 && request_.launcher == 0 ? "under the same launcher " : "",
                                    "with: ", request_.resume_command, " --out ", folder_.path, " --resume"));
    return code;
  }

  void finish() {
    const auto pss = comm::all_gather_strings(world_.all(), std::to_string(pss_bytes()));
    evaluate(0);
    const auto phase = world_.phase("export", true);
    comm::together(world_.all(), [&] {
      if (!first()) return;
      write_export(trainer_, folder_.path);
      const auto history = read_history(folder_.path);
      auto json = summary_.json();
      if (!history.training.empty()) json["loss"] = history.training.back().loss;
      if (!history.validation.empty()) json["validation_loss"] = history.validation.back().loss;
      if (startup_seconds_ > 0) json["startup_seconds"] = startup_seconds_;
      json["steps"] = trainer_.updates();
      json["ranks"] = world_.size();
      json["threads"] = at::get_num_threads();
      json["backend"] = world_.backend();
      json["pss_bytes"] = base::Json::array();
      for (const auto& bytes : pss) json["pss_bytes"].push_back(std::stoll(bytes));
      base::write_file_atomically(folder_.path + "/summary.json", json.dump(2) + "\n");
      base::write_file_atomically(folder_.path + "/loss.svg",
                                  loss_plot(folder_.path, history.training, history.validation));
      print_sample();
      print_summary(json);
    });
  }

  void print_sample() {
    const auto length = trainer_.config().training.sample_length;
    const auto* gpt2 = std::get_if<spec::Gpt2Spec>(&trainer_.config().model);
    if (length == 0 || !gpt2 || !request_.decode) return;
    const SampleRequest sampled{.prompt = {'\n'},
                                .length = length,
                                .context = gpt2->n_positions,
                                .temperature = 0.5,
                                .seed = static_cast<uint64_t>(trainer_.config().training.seed)};
    const auto text = request_.decode(sample(trainer_.model(), sampled));
    base::write_file_atomically(folder_.path + "/sample.txt", text);
    progress_->line("--- sample\n" + text + "\n---");
  }

  void print_summary(const base::Json& json) {
    std::string losses;
    if (json.contains("loss")) losses += base::text_of("  loss ", json["loss"].get<double>());
    if (json.contains("validation_loss"))
      losses += base::text_of("  validation loss ", json["validation_loss"].get<double>());
    std::string rate;
    if (json.contains("tokens_per_second"))
      rate = base::text_of("  ", static_cast<int64_t>(json["tokens_per_second"].get<double>()), " items/s");
    progress_->line(base::text_of("done: step ", trainer_.updates(), losses, rate, "\nexport ", folder_.path,
                                  "/export  summary ", folder_.path, "/summary.json  loss plot ", folder_.path,
                                  "/loss.svg"));
  }

  const StopSignal signal_;  // first: who stops the start gets one step, saved
  const RunRequest& request_;
  comm::World world_;
  Trainer trainer_;
  std::optional<data::StepBatches> first_batches_;
  RunFolder folder_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  Summary summary_;
  int64_t steps_ = 0;
  double startup_seconds_ = 0;
};

}  // namespace

int run_training(layers::Job job, const spec::Config& config, const RunRequest& request, const comm::World& world) {
  if (config.training.steps <= 0)
    throw base::ConfigError("the number of steps is not given; use --steps N or \"training\": {\"steps\": N}");
  return Run(std::move(job), config, request, world).execute();
}

}  // namespace trireme::train

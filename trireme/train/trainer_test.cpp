#include "trireme/train/trainer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/folders.h"
#include "trireme/model/models.h"
#include "trireme/train/prove.h"

namespace trireme::train {
namespace {

using test::errors_of_ranks;
using test::run_ranks;

spec::Config config_of(base::Json json, int ranks) {
  return spec::config_from_json(json, ranks, json.contains("model") ? spec::reference_models() : spec::own_model());
}

base::Json mlp_json(int64_t global, int64_t micro) {
  return {{"model", {{"model_type", "mlp"}}},
          {"train_batch_size", global},
          {"train_micro_batch_size_per_gpu", micro},
          {"data", {{"samples", 40}}},
          {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.01}, {"weight_decay", 0.1}}}}}};
}

struct Trace {
  std::vector<double> losses, norms;
  std::vector<at::Tensor> weights;
};

Trace trace_of(const base::Json& json, int ranks, int steps, const std::string& backend = "shm") {
  Trace trace;
  run_ranks(ranks, backend, [&](comm::World& world) {
    const auto config = config_of(json, ranks);
    Trainer trainer(model::job_for(config), config, world, {.probe = true});
    for (int i = 0; i < steps; ++i) {
      const auto result = trainer.step(trainer.next_batches());
      if (world.rank() > 0) continue;
      trace.losses.push_back(result.loss);
      trace.norms.push_back(result.grad_norm);
    }
    if (world.rank() == 0)
      for (const auto& p : trainer.model().parameters()) trace.weights.push_back(p.tensors[0].detach().clone());
  });
  return trace;
}

// plain gradient steps: Adam's first ones turn rounding of near-zero gradients into whole steps of lr
base::Json mlp_sgd_json(int64_t global, int64_t micro) {
  auto json = mlp_json(global, micro);
  json["optimizer"] = {{"type", "SGD"}, {"params", {{"lr", 0.05}, {"momentum", 0.9}}}};
  return json;
}

void expect_near(const Trace& a, const Trace& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * a.losses[i]) << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 5 * tolerance * a.norms[i]) << i;
  }
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(at::allclose(a.weights[i], b.weights[i], 1e-5, 1e-6)) << i;
}

// 40 samples in batches of 12: the fourth batch of an epoch has 4, so some ranks and micro-batches are empty
TEST(Trainer, any_split_of_the_global_batch_gives_one_process) {
  const auto reference = trace_of(mlp_sgd_json(12, 12), 1, 9);
  for (const auto& [ranks, micro] : {std::pair{1, 3}, {2, 6}, {2, 2}, {3, 4}, {3, 1}, {4, 3}})
    expect_near(reference, trace_of(mlp_sgd_json(12, micro), ranks, 9), 2e-6);
}

TEST(Trainer, the_same_layout_repeats_bit_for_bit_on_every_backend) {
  const auto first = trace_of(mlp_json(12, 3), 2, 6), again = trace_of(mlp_json(12, 3), 2, 6),
             gloo = trace_of(mlp_json(12, 3), 2, 6, "gloo");
  EXPECT_EQ(first.losses, again.losses);
  EXPECT_EQ(first.losses, gloo.losses);
  for (size_t i = 0; i < first.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(first.weights[i], again.weights[i]));
    EXPECT_TRUE(at::equal(first.weights[i], gloo.weights[i]));
  }
}

// w, loss of a sample = w * x; a target of 0 masks it
struct SlopeData : data::Dataset {
  explicit SlopeData(std::vector<double> slopes, std::vector<double> mask)
      : x(std::move(slopes)), valid(std::move(mask)) {}
  int64_t size() const override { return static_cast<int64_t>(x.size()); }
  data::Batch batch(std::span<const int64_t> samples) const override {
    data::Batch b{{at::zeros({static_cast<int64_t>(samples.size())})},
                  {at::zeros({static_cast<int64_t>(samples.size())})},
                  static_cast<int64_t>(samples.size())};
    for (size_t i = 0; i < samples.size(); ++i) {
      b.inputs[0][static_cast<int64_t>(i)] = x[samples[i]];
      b.targets[0][static_cast<int64_t>(i)] = valid[samples[i]];
    }
    return b;
  }
  std::vector<double> x, valid;
};

struct Scalar : layers::Layer {
  Scalar() : w(register_parameter("w", at::ones({1}))) {}
  layers::Tensors forward(const layers::Tensors& inputs) override { return {inputs[0] * w}; }
  at::Tensor w;
};

layers::Job slope_job(std::vector<double> x, std::vector<double> valid) {
  layers::Job job;
  job.layers.add("", [] { return std::make_shared<Scalar>(); });
  job.training = std::make_shared<SlopeData>(std::move(x), std::move(valid));
  job.loss = [](const layers::Tensors& outputs, const data::Batch& batch) {
    return layers::LossSum{(outputs[0] * batch.targets[0]).sum(), batch.targets[0].sum().item<int64_t>()};
  };
  return job;
}

base::Json sgd_json(int64_t global, int64_t micro) {
  return {{"train_batch_size", global},
          {"train_micro_batch_size_per_gpu", micro},
          {"gradient_clipping", 0.0},
          {"data", {{"shuffle", false}}},
          {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.125}}}}}};
}

TEST(Trainer, B002_a_rank_without_valid_items_and_a_step_without_any) {
  run_ranks(2, "shm", [](comm::World& world) {
    // step 1: rank 0 has 1..4, rank 1 is masked; step 2: all masked
    Trainer trainer(
        slope_job({1, 2, 3, 4, 9, 9, 9, 9, 5, 5, 5, 5, 5, 5, 5, 5}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
        config_of(sgd_json(8, 4), 2), world, {.probe = true});
    const auto first = trainer.step(trainer.next_batches());
    EXPECT_EQ(first.items, 4);
    EXPECT_EQ(first.grad_norm, 2.5);
    EXPECT_EQ(first.loss, 2.5);
    auto& w = trainer.model().parameters()[0].tensors[0];
    EXPECT_EQ(w.item<double>(), 1 - 0.125 * 2.5);
    const auto second = trainer.step(trainer.next_batches());
    EXPECT_TRUE(second.skipped);
    EXPECT_EQ(second.loss, 0);
    EXPECT_EQ(second.grad_norm, 0);
    EXPECT_EQ(second.step, 1);
    EXPECT_EQ(w.item<double>(), 1 - 0.125 * 2.5);
  });
}

TEST(Trainer, unequal_micro_batches_weigh_by_items) {
  for (const auto& [ranks, micro] : {std::pair{1, 4}, {2, 2}, {2, 1}, {4, 1}})
    run_ranks(ranks, "shm", [&, micro = micro, ranks = ranks](comm::World& world) {
      Trainer trainer(slope_job({1, 2, 3, 10}, {1, 1, 1, 0}), config_of(sgd_json(4, micro), ranks), world,
                      {.probe = true});
      EXPECT_EQ(trainer.step(trainer.next_batches()).grad_norm, 2.0);
    });
}

TEST(Trainer, a_loss_that_is_not_finite_names_rank_and_micro_batch) {
  const auto errors = errors_of_ranks(2, "shm", [](comm::World& world) {
    Trainer trainer(slope_job({1, 2, 3, std::nan("")}, {1, 1, 1, 1}), config_of(sgd_json(4, 1), 2), world);
    data::StepBatches batches;  // rank 1's second sample is the bad one
    for (int64_t i : {0, 1}) {
      const int64_t sample = world.rank() * 2 + i;
      batches.micro_batches.push_back(trainer.job().training->batch(std::span(&sample, 1)));
    }
    batches.global_samples = 4;
    (void)trainer.step(batches);
  });
  for (const auto& text : errors)
    EXPECT_NE(text.find("the loss of step 1 is not finite on rank 1, micro-batch 1"), std::string::npos) << text;
}

// forward is finite, the derivative of sqrt at 0 is not
struct Root : layers::Layer {
  Root() : w(register_parameter("w", at::ones({1}))), v(register_parameter("v", at::ones({1}))) {}
  layers::Tensors forward(const layers::Tensors& inputs) override { return {at::sqrt(inputs[0] * w) + inputs[0] * v}; }
  at::Tensor w, v;
};

TEST(Trainer, a_gradient_that_is_not_finite_names_rank_and_parameter) {
  const auto errors = errors_of_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job({1, 0}, {1, 1});
    job.layers = {};
    job.layers.add("", [] { return std::make_shared<Root>(); });
    Trainer trainer(job, config_of(sgd_json(2, 1), 2), world);
    (void)trainer.step(trainer.next_batches());
  });
  for (const auto& text : errors)
    EXPECT_NE(text.find("on rank 1, micro-batch 0, first in w"), std::string::npos) << text;
}

TEST(Trainer, evaluation_counts_each_sample_once_on_any_number_of_ranks) {
  for (int ranks : {1, 3, 4})
    run_ranks(ranks, "shm", [&](comm::World& world) {
      auto job = slope_job({1, 2, 3, 4}, {1, 1, 1, 1});
      // B102: 10 samples, sample 0 wrong (loss 1), the others right
      job.validation =
          std::make_shared<SlopeData>(std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, std::vector<double>(10, 1));
      Trainer trainer(job, config_of(sgd_json(12, 1), ranks), world);
      const auto evaluation = trainer.evaluate();
      EXPECT_EQ(evaluation.items, 10);
      EXPECT_NEAR(evaluation.loss(), 0.1, 1e-7);
    });
}

// B096: a decision (early stop, best checkpoint) that is taken on the evaluation is taken on the same number everywhere
TEST(Trainer, B096_an_evaluation_is_the_same_on_every_rank) {
  run_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job({1, 1}, {1, 1});
    job.validation = std::make_shared<SlopeData>(std::vector<double>{1, 3}, std::vector<double>(2, 1));
    Trainer trainer(job, config_of(sgd_json(2, 1), 2), world);
    EXPECT_EQ(trainer.evaluate().loss(), 2.0);
  });
}

TEST(Trainer, B061_frozen_layers_beside_trainable_ones) {
  run_ranks(2, "shm", [](comm::World& world) {
    layers::Job job;
    for (int i = 0; i < 4; ++i)
      job.layers.add("l" + std::to_string(i), [i] {
        torch::nn::Linear linear(6, 6);
        if (i % 2 == 0)
          for (auto& p : linear->parameters()) p.requires_grad_(false);
        return linear;
      });
    job.training = std::make_shared<SlopeData>(std::vector<double>(24, 0.5), std::vector<double>(24, 1));
    job.loss = [](const layers::Tensors& outputs, const data::Batch& batch) {
      return layers::LossSum{outputs[0].pow(2).sum(), batch.samples};
    };
    auto json = sgd_json(4, 2);
    json["optimizer"] = {{"type", "Adam"}, {"params", {{"lr", 0.01}}}};
    Trainer trainer(job, config_of(json, 2), world, {.probe = true});
    std::vector<at::Tensor> before;
    for (const auto& p : trainer.model().parameters()) before.push_back(p.tensors[0].detach().clone());
    for (int step = 0; step < 3; ++step) {
      data::Batch batch{{at::full({2, 6}, 0.5 + world.rank())}, {at::ones({2})}, 2};
      (void)trainer.step(data::StepBatches{{batch}, 4, 0, 0});
    }
    int64_t state = 0;
    for (const auto& range : trainer.parts().ranges)
      for (const auto& s : range.optimizer->state()) state += s.value.numel();
    for (size_t p = 0; p < before.size(); ++p) {
      const auto& parameter = trainer.model().parameters()[p];
      EXPECT_EQ(at::equal(before[p], parameter.tensors[0]), !parameter.tensors[0].requires_grad()) << parameter.name;
      EXPECT_EQ(parameter.tensors[0].grad().defined(), parameter.tensors[0].requires_grad()) << parameter.name;
    }
    // two moments of 2 x 42 trainable elements, padded to whole pages of each of 2 ranks
    EXPECT_LE(state, 2 * 2 * 2048);
  });
}

TEST(Trainer, groups_have_their_own_decay_and_rate) {
  run_ranks(1, "shm", [](comm::World& world) {
    layers::Job job = slope_job({0, 0}, {1, 1});  // no gradient: decay alone moves the weights
    job.layers.add("plain", [] { return std::make_shared<Scalar>(); });
    job.layers.add("slow", [] { return std::make_shared<Scalar>(); });
    job.parameter_group = [](const std::string& name) {
      return layers::ParameterGroup{.weight_decay = name != "w", .learning_rate_scale = name == "slow.w" ? 0.5 : 1.0};
    };
    auto json = sgd_json(2, 2);
    json["optimizer"] = {{"type", "AdamW"}, {"params", {{"lr", 0.1}, {"weight_decay", 0.1}}}};
    Trainer trainer(job, config_of(json, 1), world);
    (void)trainer.step(trainer.next_batches());
    const auto weight = [&](int p) { return trainer.model().parameters()[p].tensors[0].item<float>(); };
    EXPECT_FLOAT_EQ(weight(0), 1.0f);
    EXPECT_FLOAT_EQ(weight(1), 0.99f);
    EXPECT_FLOAT_EQ(weight(2), 0.995f);
  });
}

TEST(Trainer, tied_parameters_are_one_weight) {
  run_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job({1, 2}, {1, 1});
    job.layers.add("again", [] { return std::make_shared<Scalar>(); }, {.tied = {{"again.w", "w"}}});
    Trainer trainer(job, config_of(sgd_json(2, 1), 2), world, {.probe = true});
    ASSERT_EQ(trainer.model().parameters().size(), 1u);
    // y = w * w * x: gradient 2 x, mean 3
    EXPECT_EQ(trainer.step(trainer.next_batches()).grad_norm, 3.0);
    const auto& tensors = trainer.model().parameters()[0].tensors;
    EXPECT_EQ(tensors[0].item<float>(), 1 - 0.125 * 3);
    EXPECT_EQ(tensors[0].data_ptr(), tensors[1].data_ptr());
  });
}

TEST(Trainer, a_loss_that_throws_on_one_rank_ends_the_step_on_all) {
  run_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job(std::vector<double>(16, 1), std::vector<double>(16, 1));
    bool broken = false;
    job.loss = [&, loss = job.loss](const layers::Tensors& outputs, const data::Batch& batch) {
      if (broken) throw base::DataError("a label is torn");
      return loss(outputs, batch);
    };
    Trainer trainer(job, config_of(sgd_json(4, 1), 2), world);  // two micro-batches a rank
    (void)trainer.step(trainer.next_batches());
    broken = world.rank() == 1;
    if (world.rank() == 1)
      EXPECT_THROW((void)trainer.step(trainer.next_batches()), base::DataError);
    else
      EXPECT_THROW((void)trainer.step(trainer.next_batches()), base::PeerLostError);
    // the weight is that after one step, and the ranks can go on together
    EXPECT_EQ(trainer.model().parameters()[0].tensors[0].item<float>(), 1 - 0.125);
    broken = false;
    EXPECT_EQ(trainer.step(trainer.next_batches()).grad_norm, 1.0);
    EXPECT_EQ(trainer.model().parameters()[0].tensors[0].item<float>(), 1 - 0.25);
  });
}

TEST(Trainer, goes_on_after_a_gradient_that_was_not_finite) {
  run_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job(std::vector<double>(16, 1), std::vector<double>(16, 1));
    double slope = 1;
    job.loss = [&](const layers::Tensors& outputs, const data::Batch& batch) {
      // the loss is finite, its slope is not
      return layers::LossSum{(outputs[0].detach() * 0 + (outputs[0] - outputs[0].detach()) * slope).sum(),
                             batch.samples};
    };
    Trainer trainer(job, config_of(sgd_json(4, 1), 2), world);
    slope = INFINITY;
    EXPECT_THROW((void)trainer.step(trainer.next_batches()), base::NonFiniteError);
    slope = 1;
    trainer.model().parameters()[0].tensors[0].detach().fill_(5);  // as if a checkpoint had been loaded
    EXPECT_EQ(trainer.step(trainer.next_batches()).grad_norm, 1.0);
  });
}

TEST(Trainer, refuses_batches_and_configurations_that_do_not_fit) {
  run_ranks(1, "shm", [](comm::World& world) {
    const auto job = slope_job(std::vector<double>(8, 1), std::vector<double>(8, 1));
    auto config = config_of(sgd_json(2, 2), 1);
    Trainer trainer(job, config, world);
    const auto batch = [](int64_t samples) {
      return data::Batch{{at::ones({samples})}, {at::ones({samples})}, samples};
    };
    EXPECT_THROW((void)trainer.step(batch(3)), base::UsageError);
    EXPECT_THROW((void)trainer.step(data::StepBatches{{batch(1), batch(1)}, 2, 0, 0}), base::UsageError);
    EXPECT_EQ(trainer.step(batch(1)).items, 1);
    config.zero.stage = 3;  // in code, behind the reader's back
    EXPECT_THROW(Trainer(job, config, world), base::ConfigError);
    EXPECT_THROW(Trainer(job, config_of(sgd_json(2, 1), 2), world), base::ConfigError);
  });
}

TEST(Trainer, says_where_a_validation_loss_is_not_finite) {
  run_ranks(2, "shm", [](comm::World& world) {
    auto job = slope_job({1, 1}, {1, 1});
    job.validation = std::make_shared<SlopeData>(std::vector<double>{1, 1, 1, NAN}, std::vector<double>(4, 1));
    Trainer trainer(job, config_of(sgd_json(2, 1), 2), world);
    try {
      (void)trainer.evaluate();
      ADD_FAILURE() << "no error";
    } catch (const base::DataError& error) {
      EXPECT_NE(std::string(error.what()).find("3"), std::string::npos) << error.what();
    }
  });
}

TEST(Trainer, a_moved_parameter_is_named) {
  run_ranks(1, "shm", [](comm::World& world) {
    Trainer trainer(slope_job({1, 2}, {1, 1}), config_of(sgd_json(2, 2), 1), world);
    trainer.model().parameters()[0].tensors[0].set_data(at::ones({1}));
    try {
      (void)trainer.step(trainer.next_batches());
      FAIL();
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("parameter w was moved"), std::string::npos) << error.what();
    }
  });
}

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("trireme_trainer_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

TEST(Checkpoint, resume_on_the_same_layout_is_bit_equal_and_on_another_near) {
  const Folder folder;
  const auto json = mlp_json(12, 3);
  const auto whole = trace_of(json, 2, 9);
  run_ranks(2, "shm", [&](comm::World& world) {
    const auto config = config_of(json, 2);
    Trainer trainer(model::job_for(config), config, world);
    for (int i = 0; i < 5; ++i) (void)trainer.step(trainer.next_batches());
    (void)trainer.next_batches();  // prepared ahead, never trained: not consumed
    trainer.save(folder.path.string());
  });
  for (int ranks : {2, 1, 4}) {
    std::vector<double> losses;
    run_ranks(ranks, "shm", [&](comm::World& world) {
      const auto config = config_of(json, ranks);
      Trainer trainer(model::job_for(config), config, world);
      trainer.load(*checkpoint::newest(folder.path.string()));
      EXPECT_EQ(trainer.updates(), 5);
      for (int i = 5; i < 9; ++i) {
        const auto loss = trainer.step(trainer.next_batches()).loss;
        if (world.rank() == 0) losses.push_back(loss);
      }
    });
    for (size_t i = 0; i < losses.size(); ++i) {
      if (ranks == 2) {
        EXPECT_EQ(losses[i], whole.losses[5 + i]) << i;
      }
      EXPECT_NEAR(losses[i], whole.losses[5 + i], 4e-6 * losses[i]) << i;
    }
  }
}

// B118: cosine over 100 steps, stopped at 50; the stored length is used unless the file says another
TEST(Checkpoint, B118_a_schedule_keeps_its_length) {
  const Folder folder;
  auto json = sgd_json(2, 2);
  json["scheduler"] = {{"type", "WarmupCosineLR"}, {"params", {{"warmup_num_steps", 0}, {"cos_min_ratio", 0.0}}}};
  const auto train_to = [&](int64_t total, bool resume, int steps) {
    double lr = 0;
    std::vector<std::string> notes;
    run_ranks(1, "shm", [&](comm::World& world) {
      auto with_total = json;
      with_total["training"] = {{"steps", total}};
      Trainer trainer(slope_job({1, 2}, {1, 1}), config_of(with_total, 1), world);
      if (resume) trainer.load(*checkpoint::newest(folder.path.string()));
      for (int i = 0; i < steps; ++i) lr = trainer.step(trainer.next_batches()).learning_rate;
      if (!resume) trainer.save(folder.path.string());
      notes = trainer.notes();
    });
    return std::pair{lr, notes};
  };
  (void)train_to(100, false, 50);
  for (int64_t total : {60, 200}) {
    const auto [lr, notes] = train_to(total, true, 1);
    EXPECT_NEAR(lr / 0.125, 0.5, 0.03);
    bool said = false;
    for (const auto& note : notes) said = said || note.find("total_num_steps is 100") != std::string::npos;
    EXPECT_TRUE(said);
  }
}

TEST(Prove, equal_and_planted_errors) {
  auto warm_up = mlp_json(12, 3);  // the first step's rate is 0
  warm_up["scheduler"] = {{"type", "WarmupLR"}, {"params", {{"warmup_num_steps", 10}}}};
  for (const auto& json : {mlp_json(12, 3), warm_up})
    run_ranks(2, "shm", [&](comm::World& world) {
      const auto config = config_of(json, 2);
      const auto proof = prove(model::job_for(config), config, world);
      EXPECT_TRUE(proof.equal()) << proof.text();
      EXPECT_GT(proof.rows.size(), 10u);
      for (const auto& row : proof.rows) EXPECT_TRUE(std::isfinite(row.error)) << row.what;
    });
  // a loss that counts one sample too much on rank 1, and one that drops one
  for (int64_t wrong : {1, -1})
    run_ranks(2, "shm", [&](comm::World& world) {
      const auto config = config_of(mlp_json(12, 3), 2);
      auto job = model::job_for(config);
      job.loss = [wrong, loss = job.loss, rank = world.rank(), calls = std::make_shared<int>(0)](
                     const layers::Tensors& outputs, const data::Batch& batch) {
        auto sum = loss(outputs, batch);
        if (rank == 1 && (*calls)++ == 0) sum.count += wrong;
        return sum;
      };
      const auto proof = prove(job, config, world);
      EXPECT_FALSE(proof.equal()) << proof.text();
      EXPECT_NE(proof.text().find("differs: loss"), std::string::npos);
    });
}

TEST(Ledger, factors_multiply_to_one_over_the_count) {
  EXPECT_EQ(nominal_items(1000), 1024);
  EXPECT_EQ(nominal_items(0), 1);
  const ScaleInputs inputs{.nominal = 1024, .loss_scale = 8, .ranks = 3, .global_count = 777};
  EXPECT_NEAR(ledger_of(inputs).product() * 777, 1, 1e-12);
  EXPECT_NO_THROW(check_probe(1.0, inputs));
  EXPECT_THROW(check_probe(1.0 / 3, inputs), base::InternalError);
}

}  // namespace
}  // namespace trireme::train

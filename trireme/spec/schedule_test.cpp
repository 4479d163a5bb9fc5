#include "trireme/spec/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trireme/spec/spec_fixture.h"

namespace trireme::spec {
namespace {

Config scheduled(const std::string& members, int world_size = 1) {
  return config_from_json(base::parse_json("{\"train_micro_batch_size_per_gpu\": 8, " + members + "}", "test"),
                          world_size);
}

void expect_rates(const Config& config, const std::vector<double>& expected) {
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(learning_rate(config, static_cast<int64_t>(k)), expected[k], expected[k] * 1e-14) << "step " << k;
  }
}

// The numbers come from the formulas of deepspeed/runtime/lr_schedules.py, evaluated in Python.
TEST(Schedule, WarmupLR_as_DeepSpeed) {
  const std::string params =
      R"("optimizer": {"params": {"lr": 1e-2}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-5, "warmup_num_steps": 5)";
  expect_rates(scheduled(params + "}}"),
               {1e-05, 0.004312458815153197, 0.006829235882914994, 0.008614917630306394, 0.01, 0.01, 0.01});
  expect_rates(scheduled(params + ", \"warmup_type\": \"linear\"}}"),
               {1e-05, 0.0020080000000000002, 0.004006, 0.006004, 0.008002, 0.01, 0.01});
}

TEST(Schedule, WarmupDecayLR_as_DeepSpeed) {
  const std::string params =
      R"("scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-2, "total_num_steps": 10, "warmup_num_steps": 4)";
  expect_rates(scheduled(params + "}}"), {1e-05, 0.005005, 0.007926887691102176, 0.01, 0.01, 0.008335, 0.00667,
                                          0.005005, 0.00334, 0.001675, 1e-05, 1e-05});
  expect_rates(scheduled(params + ", \"warmup_type\": \"linear\"}}"),
               {1e-05, 0.0025075, 0.005005, 0.0075025000000000005, 0.01, 0.008335, 0.00667, 0.005005, 0.00334, 0.001675,
                1e-05, 1e-05});
}

TEST(Schedule, WarmupCosineLR_as_DeepSpeed) {
  const std::string params =
      R"("optimizer": {"params": {"lr": 6e-4}}, "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_min_ratio": 0.1, "cos_min_ratio": 0.05, "total_num_steps": 10, "warmup_num_steps": 4)";
  expect_rates(scheduled(params + "}}"),
               {5.9999999999999995e-05, 0.00033, 0.0004879398751947121, 0.0006, 0.000561817240078565,
                0.00045749999999999995, 0.00031499999999999996, 0.00017250000000000005, 6.818275992143496e-05,
                2.9999999999999997e-05, 2.9999999999999997e-05, 2.9999999999999997e-05});
  expect_rates(scheduled(params + ", \"warmup_type\": \"linear\"}}"),
               {5.9999999999999995e-05, 0.000195, 0.00033, 0.00046499999999999997, 0.000561817240078565,
                0.00045749999999999995});
}

TEST(Schedule, constant_and_none) {
  EXPECT_EQ(learning_rate(scheduled(R"("optimizer": {"params": {"lr": 0.25}})"), 7), 0.25);
  EXPECT_EQ(learning_rate(scheduled(R"("optimizer": {"params": {"lr": 0.25}}, "scheduler": {"type": "constant"})"), 7),
            0.25);
}

TEST(ScheduleCases, B131_warm_up_of_0_or_1_step) {
  for (const char* type : {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}) {
    for (const char* shape : {"log", "linear"}) {
      for (const int64_t warmup : {0, 1, 2, 10}) {
        for (const int64_t total : {1, 2, 10}) {
          const std::string total_text =
              std::string(type) == "WarmupLR" ? "" : ", \"total_num_steps\": " + std::to_string(total);
          const Config config = scheduled(R"("optimizer": {"params": {"lr": 0.5}}, "scheduler": {"type": ")" +
                                          std::string(type) + R"(", "params": {"warmup_type": ")" + shape +
                                          "\", \"warmup_num_steps\": " + std::to_string(warmup) + total_text + "}}");
          for (int64_t k = 0; k < 15; ++k) {
            const double rate = learning_rate(config, k);
            ASSERT_TRUE(std::isfinite(rate) && rate >= 0 && rate <= 0.5)
                << type << shape << warmup << "/" << total << " step " << k << ": " << rate;
          }
          if (warmup == 0) {
            EXPECT_EQ(learning_rate(config, 0), 0.5) << type << " total " << total;
          }
          if (warmup == 1) {
            EXPECT_EQ(learning_rate(config, 0), 0) << type;
          }
        }
      }
    }
  }
  // a warm-up of 1 is at the peak after one step, whatever its shape
  for (const char* shape : {"log", "linear"}) {
    const std::string text =
        R"("optimizer": {"params": {"lr": 0.5}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1, "warmup_type": ")";
    EXPECT_EQ(learning_rate(scheduled(text + shape + "\"}}"), 1), 0.5);
  }
}

TEST(ScheduleCases, B131_decay_ends_where_it_should) {
  const Config linear = scheduled(
      R"("optimizer": {"params": {"lr": 1}}, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 0, "total_num_steps": 4}})");
  expect_rates(linear, {1, 0.75, 0.5, 0.25});
  EXPECT_EQ(learning_rate(linear, 4), 0);
  EXPECT_EQ(learning_rate(linear, std::numeric_limits<int64_t>::max()), 0);
  const Config cosine = scheduled(
      R"("optimizer": {"params": {"lr": 1}}, "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 0, "total_num_steps": 3, "cos_min_ratio": 0.5}})");
  expect_rates(cosine, {1, 0.75, 0.5, 0.5});
}

TEST(ScheduleCases, B133_warm_up_longer_than_training) {
  const Config config =
      scheduled(R"("training": {"steps": 50}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}})");
  EXPECT_NE(notes(config).find("warning: the warm-up of 100 steps is longer than the 50"), std::string::npos)
      << notes(config);
  const Config decay = scheduled(
      R"("scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100, "total_num_steps": 50}})");
  EXPECT_NE(notes(decay).find("warning: the warm-up of 100 steps is longer than the 50"), std::string::npos)
      << notes(decay);
  const Config derived = scheduled(
      R"("training": {"steps": 300}, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}})");
  EXPECT_EQ(derived.scheduler->total_num_steps, 300);
  EXPECT_EQ(notes(derived).find("warning"), std::string::npos) << notes(derived);
}

TEST(ScheduleCases, B135_scaling_with_the_batch) {
  for (const int world : {1, 2, 4, 8}) {
    const Config off = config_from_json(
        base::parse_json(R"({"train_batch_size": 8, "optimizer": {"params": {"lr": 0.01}}})", "test"), world);
    EXPECT_EQ(learning_rate(off, 0), 0.01);
    const Config linear = scheduled(
        R"("optimizer": {"params": {"lr": 0.01}}, "scheduler": {"scale_lr_with_batch": {"reference_batch": 8, "rule": "linear"}})",
        world);
    EXPECT_DOUBLE_EQ(learning_rate(linear, 0), 0.01 * world);
    EXPECT_NE(notes(linear).find("scale_lr_with_batch linear: train_batch_size " + std::to_string(8 * world) +
                                 ", reference_batch 8"),
              std::string::npos)
        << notes(linear);
    // the resolved file holds the rate before scaling: applied once, also on resume
    EXPECT_DOUBLE_EQ(learning_rate(config_from_json(resolved(linear), world), 0), 0.01 * world);
  }
  // accumulation counts
  const Config sqrt = scheduled(
      R"("gradient_accumulation_steps": 2, "optimizer": {"params": {"lr": 0.01}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}, "scale_lr_with_batch": {"reference_batch": 4, "rule": "sqrt"}})");
  EXPECT_DOUBLE_EQ(learning_rate(sqrt, 3), 0.02);
  EXPECT_DOUBLE_EQ(peak_learning_rate(sqrt), 0.02);
  const Config none = scheduled(
      R"("optimizer": {"params": {"lr": 0.01}}, "scheduler": {"scale_lr_with_batch": {"reference_batch": 4, "rule": "none"}})");
  EXPECT_EQ(learning_rate(none, 3), 0.01);
}

TEST(ScheduleCases, X08_scheduler_default_never_replaces_the_rate) {
  const Config first = scheduled(
      R"("optimizer": {"type": "AdamW", "params": {"lr": 5e-7}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}})");
  EXPECT_NE(notes(first).find("warmup_max_lr not given: optimizer.lr 5e-07"), std::string::npos) << notes(first);
  EXPECT_NE(notes(first).find("learning rate: WarmupLR, peak 5e-07"), std::string::npos) << notes(first);
  EXPECT_EQ(learning_rate(first, 1), 5e-7);
  EXPECT_EQ(learning_rate(first, 100), 5e-7);

  const Config both = scheduled(
      R"("optimizer": {"params": {"lr": 5e-7}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1, "warmup_max_lr": 1e-4}})");
  EXPECT_NE(notes(both).find("warning: optimizer.params.lr is 5e-07 and scheduler.params.warmup_max_lr 0.0001"),
            std::string::npos)
      << notes(both);
  EXPECT_EQ(learning_rate(both, 100), 1e-4);

  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    const Config config =
        scheduled(R"("optimizer": {"params": {"lr": 5e-7}}, "training": {"steps": 100}, "scheduler": {"type": ")" +
                  std::string(type) + R"(", "params": {"warmup_num_steps": 2}})");
    EXPECT_EQ(peak_learning_rate(config), 5e-7);
    EXPECT_LE(learning_rate(config, 2), 5e-7);
    EXPECT_GT(learning_rate(config, 2), 4.9e-7);
  }

  const Config neither = scheduled(R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}})");
  const auto said = notes(neither).find("optimizer.params.lr not given: 0.001");
  EXPECT_NE(said, std::string::npos) << notes(neither);
  EXPECT_EQ(notes(neither).find("optimizer.params.lr not given", said + 1), std::string::npos) << notes(neither);
  EXPECT_NE(notes(neither).find("warmup_max_lr not given: optimizer.lr 0.001"), std::string::npos) << notes(neither);
}

// B070: under fp32 every step is an update; the schedule is a function of the number of updates alone
TEST(ScheduleCases, B070_rate_is_a_function_of_updates) {
  const Config config = scheduled(
      R"("optimizer": {"params": {"lr": 1.0}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}})");
  expect_rates(config, {0, 0.1, 0.2, 0.3});
  EXPECT_EQ(learning_rate(config, 3), learning_rate(config, 3));
}

}  // namespace
}  // namespace trireme::spec

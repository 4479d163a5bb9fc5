// The first slice: one MLP through the same Layers, flat storage, Group and reducer, three ways. Each equals one
// process in the loss and in every gradient.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/harness/ranks.h"
#include "trireme/data/synthetic_dataset.h"
#include "trireme/data_parallel/gather.h"
#include "trireme/data_parallel/reducer.h"
#include "trireme/layers/flat_store.h"
#include "trireme/model/models.h"
#include "trireme/pipeline_parallel/executor.h"

namespace trireme {
namespace {

constexpr int64_t batch_size = 12;
constexpr double backward_scale = 1.0 / 16;  // the rule's 1 / nominal

layers::Job job() {
  return model::model_only(spec::MlpSpec{});
}

data::Batch rows(int64_t begin, int64_t end) {
  const spec::MlpSpec spec;
  const data::SyntheticDataset dataset({.samples = batch_size, .inputs = spec.input_size, .outputs = spec.output_size});
  std::vector<int64_t> samples;
  for (auto i = begin; i < end; ++i) samples.push_back(i);
  return dataset.batch(samples);
}

struct Reference {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;  // of the mean
};

Reference one_process() {
  const auto j = job();
  layers::Model model(j.layers, 7);
  const auto batch = rows(0, batch_size);
  const auto loss = j.loss(model.forward(batch.inputs), batch);
  (loss.sum / static_cast<double>(loss.count)).backward();
  Reference reference;
  reference.loss = loss.sum.item<double>() / static_cast<double>(loss.count);
  for (const auto& p : model.parameters()) reference.gradients[p.name] = p.tensors[0].grad().clone();
  return reference;
}

void expect_gradient(const Reference& reference, const std::string& name, const at::Tensor& gradient) {
  const auto& expected = reference.gradients.at(name);
  const auto error = (gradient - expected).norm().item<double>() / expected.norm().item<double>();
  // fp32 sums of 12 samples; a missing sample would be an error of about 1/12
  EXPECT_LT(error, 2e-6) << name;
}

TEST(FirstSlice, stage_0_equals_one_process) {
  const auto reference = one_process();
  test::run_ranks(2, "shm", [&](comm::World& world) {
    const auto j = job();
    const auto group = world.all();
    layers::Model model(j.layers, 7);
    const auto layout =
        layers::flat_layout(layers::flat_parameters(model.parameters()), {.ranks = 2, .bucket_elements = 1024});
    layers::FlatParameters parameters(model.parameters(), layout);
    auto gradients = std::make_shared<layers::FlatGradients>(model.parameters(), layout, group);
    for (size_t p = 0; p < model.parameters().size(); ++p) gradients->install(static_cast<int>(p));
    data_parallel::Reducer reducer(gradients, group);

    const auto batch = world.rank() == 0 ? rows(0, 8) : rows(8, batch_size);
    const auto loss = j.loss(model.forward(batch.inputs), batch);
    reducer.contribute({static_cast<double>(loss.count), loss.sum.item<double>()});
    (loss.sum * backward_scale).backward();
    const auto count = reducer.totals()[0];
    EXPECT_NEAR(reducer.totals()[1] / count, reference.loss, 1e-6 * reference.loss);
    for (size_t p = 0; p < model.parameters().size(); ++p)
      expect_gradient(reference, model.parameters()[p].name,
                      gradients->alias(static_cast<int>(p)) * (2 / (backward_scale * count)));
  });
}

TEST(FirstSlice, stage_3_equals_one_process) {
  const auto reference = one_process();
  test::run_ranks(2, "shm", [&](comm::World& world) {
    const auto j = job();
    const auto group = world.all();
    layers::Model model(j.layers, 7);
    const auto layout = layers::flat_layout(layers::flat_parameters(model.parameters()),
                                            {.ranks = 2, .bucket_elements = 1024, .whole_layers = true});
    EXPECT_GT(layout.spaces[0].buckets.size(), 1u);
    data_parallel::GatheredParameters gathered(model, layout, group);
    EXPECT_THROW((void)model.parameters()[0].tensors[0].data_ptr(), c10::Error);
    auto gradients = std::make_shared<layers::FlatGradients>(model.parameters(), layout, group);
    for (size_t p = 0; p < model.parameters().size(); ++p) gradients->install(static_cast<int>(p));
    data_parallel::Reducer reducer(gradients, group, {.shard_gradients = true});

    const auto batch = world.rank() == 0 ? rows(0, 8) : rows(8, batch_size);
    const auto loss = j.loss(gathered.forward(model, batch.inputs), batch);
    reducer.contribute({static_cast<double>(loss.count), loss.sum.item<double>()});
    (loss.sum * backward_scale).backward();
    gathered.release_all();
    EXPECT_THROW((void)model.parameters()[0].tensors[0].data_ptr(), c10::Error);
    const auto count = reducer.totals()[0];
    EXPECT_NEAR(reducer.totals()[1] / count, reference.loss, 1e-6 * reference.loss);
    // whole gradients, for the comparison only
    for (size_t b = 0; b < layout.spaces[0].buckets.size(); ++b) {
      auto whole = gradients->bucket(0, static_cast<int>(b));
      const auto share = whole.numel() / 2;
      group.all_gather_into_tensor(whole, whole.narrow(0, group.rank() * share, share)).wait();
    }
    for (size_t p = 0; p < model.parameters().size(); ++p)
      expect_gradient(reference, model.parameters()[p].name,
                      gradients->alias(static_cast<int>(p)) * (2 / (backward_scale * count)));
  });
}

TEST(FirstSlice, two_stage_gpipe_equals_one_process) {
  const auto reference = one_process();
  test::run_ranks(2, "shm", [&](comm::World& world) {
    const auto j = job();
    const auto pipeline = world.all(), alone = world.group({world.rank()});
    const int layers = static_cast<int>(j.layers.entries().size()), half = layers / 2;
    layers::Model stage(j.layers, 7, world.rank() == 0 ? 0 : half, world.rank() == 0 ? half : layers);
    const auto layout =
        layers::flat_layout(layers::flat_parameters(stage.parameters()), {.ranks = 1, .bucket_elements = 1024});
    layers::FlatParameters parameters(stage.parameters(), layout);
    auto gradients = std::make_shared<layers::FlatGradients>(stage.parameters(), layout, alone);
    for (size_t p = 0; p < stage.parameters().size(); ++p) gradients->install(static_cast<int>(p));
    data_parallel::Reducer reducer(gradients, alone);
    reducer.set_synchronised(false);

    const auto schedule = pipeline_parallel::gpipe(2, 3);
    const auto proof = pipeline_parallel::verify(schedule, 3);
    EXPECT_TRUE(proof.complete) << proof.problem;
    EXPECT_EQ(proof.peak_in_flight, (std::vector<int>{3, 3}));
    pipeline_parallel::Executor executor(stage, pipeline, j.loss);
    const auto result = executor.run(schedule, {rows(0, 5), rows(5, 9), rows(9, batch_size)}, backward_scale);
    reducer.begin();
    for (size_t p = 0; p < stage.parameters().size(); ++p) reducer.ready(static_cast<int>(p));
    reducer.finish();

    auto totals = at::tensor({static_cast<double>(result.count), result.loss_sum}, at::kDouble);
    pipeline.all_reduce(totals).wait();
    const auto count = totals[0].item<double>();
    EXPECT_NEAR(totals[1].item<double>() / count, reference.loss, 1e-6 * reference.loss);
    for (size_t p = 0; p < stage.parameters().size(); ++p)
      expect_gradient(reference, stage.parameters()[p].name,
                      gradients->alias(static_cast<int>(p)) / (backward_scale * count));
  });
}

TEST(Schedule, a_schedule_that_waits_in_a_circle_is_found) {
  using pipeline_parallel::ActionKind;
  pipeline_parallel::Schedule schedule{{{ActionKind::F, 0, 0}, {ActionKind::B, 0, 0}},
                                       {{ActionKind::B, 1, 0}, {ActionKind::F, 1, 0}}};
  EXPECT_NE(pipeline_parallel::verify(schedule, 1).problem.find("rank 0 waits"), std::string::npos);
  EXPECT_FALSE(pipeline_parallel::verify(pipeline_parallel::gpipe(2, 2), 3).complete);
}

}  // namespace
}  // namespace trireme

// DistributedDataParallel in loops of a user's own, ranks as threads. Scalar toy models: the gradient of w * x is x.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <torch/csrc/autograd/custom_function.h>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/data_parallel/distributed_data_parallel.h"

namespace trireme::data_parallel {
namespace {

using test::errors_of_ranks;
using test::run_ranks;

// scalars w0, w1, …
struct Scalars : torch::nn::Module {
  explicit Scalars(int count, double start = 1) {
    for (int i = 0; i < count; ++i) w.push_back(register_parameter("w" + std::to_string(i), at::full({}, start)));
  }
  std::vector<at::Tensor> w;
};

double grad(const at::Tensor& tensor) {
  return tensor.grad().defined() ? tensor.grad().item<double>() : std::nan("");
}

const auto overlap_and_not = {true, false};

TEST(Mean, of_two_ranks_with_any_zero_grad) {
  for (bool to_none : {true, false})
    for (bool overlap : overlap_and_not)
      run_ranks(2, "shm", [&](comm::World& world) {
        Scalars model(3);
        DistributedDataParallel ddp(model, world.all(), {.overlap = overlap});
        torch::optim::SGD optimizer(model.parameters(), 0.5);
        double expected = 1;
        for (int step = 0; step < 4; ++step) {
          optimizer.zero_grad(to_none);
          const double x = world.rank() == 0 ? 1 + step : 3 + step;
          (model.w[0] * x + model.w[1] * 2 * x + model.w[2] * 0).backward();
          EXPECT_EQ(grad(model.w[0]), 2.0 + step);
          EXPECT_EQ(grad(model.w[1]), 4.0 + 2 * step);
          EXPECT_EQ(grad(model.w[2]), 0.0);
          optimizer.step();
          expected -= 0.5 * (2.0 + step);
          EXPECT_EQ(model.w[0].item<double>(), expected);
        }
      });
}

// rank0 (1,2), rank1 (3,4): mean over ranks, sum over micro-batches = 5; one all-reduce a bucket
TEST(NoSync, B004_the_guard_counts_when_backward_runs) {
  run_ranks(2, "shm", [](comm::World& world) {
    const double x[2][2] = {{1, 2}, {3, 4}};
    for (const std::string guarded : {"forward and backward", "backward", "forward"}) {
      Scalars model(1);
      DistributedDataParallel ddp(model, world.all());
      const auto before = ddp.counters().collectives;
      at::Tensor loss;
      if (guarded == "forward") {
        {
          const auto guard = ddp.no_sync();
          loss = model.w[0] * x[world.rank()][0];
        }
        (loss + model.w[0] * x[world.rank()][1]).backward();
      } else {
        if (guarded == "backward") loss = model.w[0] * x[world.rank()][0];
        {
          const auto guard = ddp.no_sync();
          if (!loss.defined()) loss = model.w[0] * x[world.rank()][0];
          loss.backward();
        }
        EXPECT_EQ(ddp.counters().collectives, before);
        (model.w[0] * x[world.rank()][1]).backward();
      }
      EXPECT_EQ(grad(model.w[0]), 5.0) << guarded;
      EXPECT_EQ(ddp.counters().collectives - before, 1) << guarded;
    }
  });
}

TEST(Nesting, B006_a_module_is_wrapped_once) {
  const auto errors = errors_of_ranks(2, "shm", [](comm::World& world) {
    Scalars model(2);
    DistributedDataParallel inner(model, world.all());
    DistributedDataParallel outer(model, world.all());
  });
  for (const auto& text : errors)
    EXPECT_NE(text.find("parameter w0 is already data parallel"), std::string::npos) << text;
  // once the first wrapper is gone a new one is fine
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(1);
    { DistributedDataParallel first(model, world.all()); }
    DistributedDataParallel second(model, world.all());
    (model.w[0] * (world.rank() + 1.0)).backward();
    EXPECT_EQ(grad(model.w[0]), 1.5);
  });
}

TEST(Accumulation, B008_different_parameters_in_different_micro_batches) {
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(2);
    DistributedDataParallel ddp(model, world.all());
    for (int step = 0; step < 3; ++step) {
      for (auto& w : model.w) w.mutable_grad().reset();
      const int first = step % 2;
      const double slope[2] = {2, 6};
      {
        const auto guard = ddp.no_sync();
        (model.w[first] * slope[first] / 2).backward();
      }
      (model.w[1 - first] * slope[1 - first] / 2).backward();
      EXPECT_EQ(grad(model.w[0]), 1.0);
      EXPECT_EQ(grad(model.w[1]), 3.0);
    }
  });
}

TEST(Graph, B009_a_parameter_used_twice) {
  run_ranks(2, "shm", [](comm::World& world) {
    struct Twice : torch::nn::Module {
      Twice() : linear(register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)))) {}
      torch::nn::Linear linear;
    } model;
    DistributedDataParallel ddp(model, world.all());
    const auto x1 = at::full({1, 1}, world.rank() == 0 ? 1 : 3, at::kFloat), x2 = x1 + 1;
    (model.linear(x1) + model.linear(x2)).sum().backward();
    EXPECT_EQ(model.linear->weight.grad().item<double>(), 5.0);
  });
}

TEST(Graph, B010_several_forwards_before_one_backward) {
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(3);
    DistributedDataParallel ddp(model, world.all());
    at::Tensor loss = at::zeros({});
    for (int i = 0; i < 3; ++i) loss = loss + model.w[i] * 1.0;
    loss.backward();
    for (const auto& w : model.w) EXPECT_EQ(grad(w), 1.0);
  });
}

TEST(Graph, B012_branches_that_differ_by_rank_and_unused_parameters) {
  for (bool to_none : {true, false})
    run_ranks(2, "shm", [&](comm::World& world) {
      Scalars model(3);  // w0 on rank 0, w1 on rank 1, w2 nowhere
      DistributedDataParallel ddp(model, world.all(), {.bucket_elements = 1});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad(to_none);
        (model.w[world.rank()] * 4.0).backward();
        EXPECT_EQ(grad(model.w[0]), 2.0);
        EXPECT_EQ(grad(model.w[1]), 2.0);
        EXPECT_FALSE(ddp.reducer().used(2));
        EXPECT_TRUE(ddp.reducer().used(0) && ddp.reducer().used(1));
        optimizer.step();
        auto all = at::zeros({2 * 3});
        world.all().all_gather_into_tensor(all, at::stack(model.parameters()).detach().contiguous()).wait();
        EXPECT_TRUE(at::equal(all.narrow(0, 0, 3), all.narrow(0, 3, 3)));
        if (to_none) {
          EXPECT_FALSE(model.w[2].grad().defined());
        }
      }
    });
}

TEST(Join, B013_ranks_with_different_numbers_of_batches) {
  using Divisor = DistributedDataParallel::JoinDivisor;
  for (const auto& [divisor, last_update] :
       {std::pair{Divisor::InitialWorld, 0.5}, std::pair{Divisor::ActiveRanks, 1.0}})
    run_ranks(2, "shm", [&](comm::World& world) {
      Scalars model(1, 10);
      DistributedDataParallel ddp(model, world.all());
      torch::optim::SGD optimizer(model.parameters(), 1.0);
      {
        const auto join = ddp.join(divisor);
        for (int batch = 0; batch < (world.rank() == 0 ? 5 : 4); ++batch) {
          optimizer.zero_grad();
          (model.w[0] * 1.0).backward();
          optimizer.step();
        }
      }
      EXPECT_EQ(model.w[0].item<double>(), 10 - 4 - last_update);
    });
}

TEST(Join, B013_without_it_the_error_says_what_to_do) {
  const auto errors = errors_of_ranks(
      2, "shm",
      [](comm::World& world) {
        Scalars model(1);
        DistributedDataParallel ddp(model, world.all());
        for (int batch = 0; batch < (world.rank() == 0 ? 5 : 4); ++batch) (model.w[0] * 1.0).backward();
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      },
      std::chrono::milliseconds(500));
  EXPECT_NE(errors[0].find("it has made 4 synchronised backwards, this rank 5; use join() or no_sync()"),
            std::string::npos)
      << errors[0];
}

TEST(Buffers, B015_a_module_with_buffers_only_starts_equal) {
  for (bool every_step : {true, false})
    run_ranks(2, "shm", [&](comm::World& world) {
      struct WithBuffer : Scalars {
        explicit WithBuffer(int rank) : Scalars(1) {
          child = register_module("quantiser", std::make_shared<torch::nn::Module>());
          buffer = child->register_buffer("table", at::full({5}, 100.0 + rank));
        }
        std::shared_ptr<torch::nn::Module> child;
        at::Tensor buffer;
      } model(world.rank());
      DistributedDataParallel ddp(model, world.all(), {.broadcast_buffers = every_step});
      EXPECT_TRUE(model.buffer.eq(100).all().item<bool>());
      model.buffer.fill_(7.0 + world.rank());
      (model.w[0] * 1.0).backward();
      EXPECT_EQ(model.buffer[0].item<double>(), every_step ? 7.0 : 7.0 + world.rank());
    });
}

TEST(Buffers, B017_two_forwards_before_backward_with_batch_norm) {
  run_ranks(2, "shm", [](comm::World& world) {
    torch::nn::BatchNorm1d model(3), alone(3);
    const auto x1 = at::arange(12, at::kFloat).view({4, 3}) * (world.rank() + 1), x2 = x1.flip(0) + 1;
    const auto weights = at::arange(12, at::kFloat).view({4, 3});
    DistributedDataParallel ddp(*model, world.all());
    const auto loss = [&](torch::nn::BatchNorm1d& m) {
      return ((m->forward(x1) + m->forward(x2).pow(2)) * weights).sum();
    };
    loss(model).backward();
    loss(alone).backward();
    auto expected = alone->weight.grad().clone();
    world.all().all_reduce(expected, comm::ReduceOp::Average).wait();
    EXPECT_TRUE(at::allclose(model->weight.grad(), expected, 1e-6));
  });
}

TEST(Graph, B018_aliased_gradients_are_scaled_once) {
  run_ranks(2, "shm", [](comm::World& world) {
    struct Sum : torch::nn::Module {
      Sum() : a(register_parameter("a", at::ones({4}))), b(register_parameter("b", at::ones({4}))) {}
      at::Tensor a, b;
    } model;
    DistributedDataParallel ddp(model, world.all());
    (model.a + model.b).sum().backward();
    EXPECT_TRUE(model.a.grad().eq(1).all().item<bool>());
    EXPECT_TRUE(model.b.grad().eq(1).all().item<bool>());
  });
}

TEST(Mean, B019_of_four_ranks_in_one_bucket_and_in_many) {
  for (int64_t elements : {int64_t{1}, int64_t{0}})
    run_ranks(4, "shm", [&](comm::World& world) {
      Scalars model(3);
      DistributedDataParallel ddp(model, world.all(), {.bucket_elements = elements});
      (model.w[0] * (world.rank() + 1.0)).backward();
      EXPECT_EQ(grad(model.w[0]), 2.5);
    });
}

TEST(Start, B090_channels_last_on_one_rank_only) {
  run_ranks(2, "shm", [](comm::World& world) {
    struct Conv : torch::nn::Module {
      explicit Conv(bool last) {
        auto values = at::arange(24, at::kFloat).view({2, 3, 2, 2});
        weight = register_parameter("weight", last ? values.contiguous(at::MemoryFormat::ChannelsLast) : values);
      }
      at::Tensor weight;
    } model(world.rank() == 1);
    const auto values = at::arange(24, at::kFloat).view({2, 3, 2, 2});
    DistributedDataParallel ddp(model, world.all());
    EXPECT_TRUE(at::equal(model.weight, values));
    (model.weight * values).sum().backward();
    EXPECT_TRUE(at::equal(model.weight.grad(), values));
  });
}

TEST(Start, different_models_are_named) {
  const auto errors = errors_of_ranks(2, "shm", [](comm::World& world) {
    Scalars model(world.rank() == 0 ? 2 : 3);
    DistributedDataParallel ddp(model, world.all());
  });
  for (const auto& text : errors)
    EXPECT_NE(text.find("rank 0 has nothing more, rank 1 has parameter w2"), std::string::npos) << text;
}

TEST(Start, misuse_is_refused_with_a_sentence) {
  const auto text = [](const std::function<void(torch::nn::Module&)>& change, DistributedDataParallelOptions options) {
    return errors_of_ranks(1, "shm", [&](comm::World& world) {
      Scalars model(1);
      change(model);
      DistributedDataParallel ddp(model, world.all(), options);
    })[0];
  };
  EXPECT_NE(text([](torch::nn::Module&) {}, {.device_ids = {0}}).find("leave it empty"), std::string::npos);
  EXPECT_NE(text([](torch::nn::Module& m) { m.parameters()[0].requires_grad_(false); }, {})
                .find("no parameter that requires"),
            std::string::npos);
  EXPECT_NE(text([](torch::nn::Module& m) { m.register_parameter("view", m.parameters()[0].detach().view({1})); }, {})
                .find("overlap in memory"),
            std::string::npos);
  EXPECT_EQ(text([](torch::nn::Module&) {}, {}), "");
}

TEST(Failure, a_backward_that_throws_leaves_the_next_one_right) {
  struct Throws : torch::autograd::Function<Throws> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
      throw std::runtime_error("midway");
    }
  };
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(3);
    DistributedDataParallel ddp(model, world.all(), {.bucket_elements = 1});
    for (bool all : {true, false}) {
      // the gradient of w2 is there when the graph below w0 throws
      const bool bad = all || world.rank() == 1;
      const auto loss = model.w[2] * 2.0 + (bad ? Throws::apply(model.w[0] * 1.0) : model.w[0] * 1.0);
      EXPECT_ANY_THROW(loss.backward());
      for (auto& w : model.w) w.mutable_grad().reset();
      (model.w[0] * (1.0 + world.rank()) + model.w[2] * 4.0).backward();
      EXPECT_EQ(grad(model.w[0]), 1.5);
      EXPECT_EQ(grad(model.w[2]), 4.0);
      for (auto& w : model.w) w.mutable_grad().reset();
    }
  });
}

// a checkpointed segment: its backward runs an inner backward, whose gradients may come again from the outer graph
struct Segment : torch::autograd::Function<Segment> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x});
    context->saved_data["w"] = w;
    at::NoGradGuard no_grad;
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    at::AutoGradMode grad_mode(true);
    const auto x = context->get_saved_variables()[0].detach().requires_grad_(true);
    (x * context->saved_data["w"].toTensor()).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

TEST(Graph, re_entrant_segments) {
  for (int64_t elements : {int64_t{1}, int64_t{0}})
    run_ranks(2, "shm", [&](comm::World& world) {
      Scalars model(3);
      DistributedDataParallel ddp(model, world.all(), {.bucket_elements = elements});
      for (int step = 0; step < 3; ++step) {
        for (auto& w : model.w) w.mutable_grad().reset();
        const double x = world.rank() + 1;
        // w1 inside the segment only; w2 inside, and outside where its gradient comes first
        auto y = model.w[0] * x;
        y = Segment::apply(Segment::apply(y, model.w[1]), model.w[2]);
        (y + model.w[2] * x * 10).backward();
        EXPECT_EQ(grad(model.w[0]), 1.5);
        EXPECT_EQ(grad(model.w[1]), 1.5);
        EXPECT_EQ(grad(model.w[2]), 16.5);
      }
    });
}

TEST(Graph, two_backwards_a_step_and_retain_graph) {
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(2);
    DistributedDataParallel ddp(model, world.all());
    const auto shared = model.w[0] * (world.rank() + 1.0);
    shared.backward({}, true);
    EXPECT_EQ(grad(model.w[0]), 1.5);
    (shared * 2 + model.w[1]).backward();
    EXPECT_EQ(grad(model.w[0]), 4.5);
    EXPECT_EQ(grad(model.w[1]), 1.0);
  });
}

TEST(Graph, autograd_grad_is_no_backward) {
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(1);
    DistributedDataParallel ddp(model, world.all());
    const auto before = ddp.counters().collectives;
    const auto gradient = torch::autograd::grad({model.w[0] * 3.0}, {model.w[0]})[0];
    EXPECT_EQ(gradient.item<double>(), 3.0);
    EXPECT_EQ(ddp.counters().collectives, before);
  });
}

TEST(Graph, frozen_parameters_do_not_take_part) {
  run_ranks(2, "shm", [](comm::World& world) {
    Scalars model(2);
    model.w[0].requires_grad_(false);
    DistributedDataParallel ddp(model, world.all());
    (model.w[0] * model.w[1] * (world.rank() + 1.0)).backward();
    EXPECT_FALSE(model.w[0].grad().defined());
    EXPECT_EQ(grad(model.w[1]), 1.5);
  });
}

// micro-batches: rank 0 gradients 1 then 2, rank 1 gradients 3 then 5
TEST(NoSync, X04_the_guard_leaves_out_the_wrong_micro_batch) {
  const double x[2][2] = {{1, 2}, {3, 5}};
  run_ranks(2, "shm", [&](comm::World& world) {
    Scalars model(1);
    DistributedDataParallel ddp(model, world.all());
    const auto before = ddp.counters().collectives;
    {
      const auto guard = ddp.no_sync();
      (model.w[0] * x[world.rank()][0]).backward();
    }
    (model.w[0] * x[world.rank()][1]).backward();
    EXPECT_EQ(grad(model.w[0]), 5.5);
    EXPECT_EQ(ddp.counters().collectives - before, 1);
  });
  for (bool both : {false, true}) {
    const auto errors = errors_of_ranks(2, "shm", [&](comm::World& world) {
      Scalars model(1);
      DistributedDataParallel ddp(model, world.all());
      torch::optim::SGD optimizer(model.parameters(), 1.0);
      for (int step = 0; step < 2; ++step) {
        optimizer.zero_grad();
        for (int micro = 0; micro < 2; ++micro) {
          std::unique_ptr<DistributedDataParallel::NoSync> guard;
          if (both || micro == 1) guard.reset(new DistributedDataParallel::NoSync(ddp.no_sync()));
          (model.w[0] * x[world.rank()][micro]).backward();
        }
        optimizer.step();
      }
    });
    for (const auto& text : errors)
      EXPECT_NE(text.find("the optimizer stepped on gradients that were not reduced: w0"), std::string::npos) << text;
  }
}

// torch's own Adam and a hand-written average, against ours
TEST(Mean, a_loop_equals_a_hand_written_one) {
  for (bool to_none : {true, false})
    run_ranks(3, "shm", [&](comm::World& world) {
      const auto make = [] {
        torch::nn::Sequential net(torch::nn::Linear(5, 7), torch::nn::Tanh(), torch::nn::Linear(7, 2));
        at::NoGradGuard no_grad;
        double value = 0.1;
        for (auto& p : net->parameters()) p.copy_(at::linspace(-value, value, p.numel()).view(p.sizes())), value += 0.1;
        return net;
      };
      auto ours = make(), hand = make();
      DistributedDataParallel ddp(*ours, world.all());
      torch::optim::AdamW a(ours->parameters(), torch::optim::AdamWOptions(1e-2)),
          b(hand->parameters(), torch::optim::AdamWOptions(1e-2));
      for (int step = 0; step < 6; ++step) {
        const auto x = at::linspace(-1, 1, 20).view({4, 5}) * (world.rank() + 1 + step);
        a.zero_grad(to_none);
        ours->forward(x).pow(2).mean().backward();
        a.step();
        b.zero_grad(to_none);
        hand->forward(x).pow(2).mean().backward();
        for (auto& p : hand->parameters()) world.all().all_reduce(p.grad(), comm::ReduceOp::Average).wait();
        b.step();
      }
      for (size_t i = 0; i < ours->parameters().size(); ++i)
        EXPECT_TRUE(at::equal(ours->parameters()[i], hand->parameters()[i])) << i;
    });
}

}  // namespace
}  // namespace trireme::data_parallel

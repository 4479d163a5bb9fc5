// Every backend runs the same suite: ranks as threads, over operation, size, dtype and length.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <filesystem>
#include <thread>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/comm/objects.h"
#include "trireme/comm/store.h"
#include "trireme/launch/master_port.h"

namespace trireme::comm {
namespace {

using test::errors_of_ranks;
using test::run_ranks;

struct Setting {
  std::string backend;
  int size;
};

class Backends : public ::testing::TestWithParam<Setting> {
 protected:
  void ranks(const std::function<void(World&)>& body) { run_ranks(GetParam().size, GetParam().backend, body); }
};

constexpr int64_t lengths[] = {0, 1, 7, 64, 1000, 4099};
constexpr at::ScalarType float_types[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
constexpr at::ScalarType integer_types[] = {at::kInt, at::kLong, at::kByte};

// small whole numbers: exact in every dtype
at::Tensor values(int64_t length, at::ScalarType dtype, int rank) {
  return (at::arange(length, at::kLong) % 5 + rank + 1).to(dtype);
}

TEST_P(Backends, all_reduce_of_every_dtype_and_length) {
  ranks([](World& world) {
    const auto group = world.all();
    for (auto length : lengths)
      for (auto types : {std::vector<at::ScalarType>(float_types, std::end(float_types)),
                         std::vector<at::ScalarType>(integer_types, std::end(integer_types))})
        for (auto dtype : types) {
          auto sum = at::zeros({length}, at::kLong), most = sum.clone(), product = at::ones({length}, at::kLong);
          for (int r = 0; r < group.size(); ++r) {
            sum += values(length, at::kLong, r);
            product *= values(length, at::kLong, r);
            most = at::maximum(most, values(length, at::kLong, r));
          }
          const auto check = [&](ReduceOp op, const at::Tensor& expected) {
            auto tensor = values(length, dtype, group.rank());
            group.all_reduce(tensor, op).wait();
            EXPECT_TRUE(at::equal(tensor, expected.to(dtype)))
                << dtype << " " << length << " op " << static_cast<int>(op);
          };
          check(ReduceOp::Sum, sum);
          check(ReduceOp::Max, most);
          check(ReduceOp::Min, values(length, at::kLong, 0));
          if (product.numel() == 0 || product.max().item<int64_t>() < 256) check(ReduceOp::Product, product);
          if (at::isFloatingType(dtype)) check(ReduceOp::Average, sum.to(at::kDouble) / group.size());
        }
  });
}

TEST_P(Backends, an_average_that_is_done_is_an_average) {
  ranks([](World& world) {
    auto tensor = at::full({1000}, static_cast<double>(world.rank()), at::kDouble);
    auto work = world.all().all_reduce(tensor, ReduceOp::Average);
    while (!work.done()) std::this_thread::yield();
    EXPECT_EQ(tensor[999].item<double>(), (world.size() - 1) / 2.0);
    work.wait();
    EXPECT_EQ(tensor[999].item<double>(), (world.size() - 1) / 2.0);
  });
}

TEST_P(Backends, element_types_without_a_name_are_refused) {
  ranks([](World& world) {
    EXPECT_THROW((void)world.all().all_reduce(at::zeros({2}, at::kComplexFloat)), base::CommError);
  });
}

TEST_P(Backends, gather_scatter_and_exchange) {
  ranks([](World& world) {
    const auto group = world.all();
    const int n = group.size(), me = group.rank();
    for (auto length : lengths) {
      std::vector<at::Tensor> rows;
      for (int r = 0; r < n; ++r) rows.push_back(values(length, at::kFloat, r));
      const auto all = at::cat(rows);
      auto out = at::zeros({n * length});
      group.all_gather_into_tensor(out, rows[me]).wait();
      EXPECT_TRUE(at::equal(out, all));
      auto in_place = at::zeros({n * length});
      auto slice = in_place.narrow(0, me * length, length);
      slice.copy_(rows[me]);
      group.all_gather_into_tensor(in_place, slice).wait();
      EXPECT_TRUE(at::equal(in_place, all));

      auto part = at::zeros({length});
      group.reduce_scatter_tensor(part, all * static_cast<float>(me + 1), ReduceOp::Sum).wait();
      EXPECT_TRUE(at::equal(part, rows[me] * static_cast<float>(n * (n + 1) / 2)));

      for (int root = 0; root < n; ++root) {
        auto sent = rows[me].clone();
        group.broadcast(sent, root).wait();
        EXPECT_TRUE(at::equal(sent, rows[root]));
        auto reduced = rows[me].clone();
        group.reduce(reduced, root, ReduceOp::Sum).wait();
        EXPECT_TRUE(me != root || at::equal(reduced, at::stack(rows).sum(0)));
        auto gathered = me == root ? at::zeros({n * length}) : at::Tensor();
        group.gather(gathered, rows[me], root).wait();
        EXPECT_TRUE(me != root || at::equal(gathered, all));
        auto scattered = at::zeros({length});
        group.scatter(scattered, me == root ? all : at::Tensor(), root).wait();
        EXPECT_TRUE(at::equal(scattered, rows[me]));
      }
      auto exchanged = at::zeros({n * length});
      group.all_to_all_single(exchanged, rows[me].repeat({n})).wait();
      EXPECT_TRUE(at::equal(exchanged, all));
    }
    // rank r gives rank p r + p rows
    std::vector<int64_t> splits;
    int64_t rows = 0;
    for (int p = 0; p < n; ++p) splits.push_back(me + p), rows += me + p;
    auto input = at::full({rows, 3}, me, at::kFloat), output = at::zeros({rows, 3});
    group.all_to_all_single(output, input, splits, splits).wait();
    int64_t row = 0;
    for (int p = 0; p < n; row += splits[p], ++p)
      EXPECT_TRUE(output.narrow(0, row, splits[p]).eq(p).all().item<bool>());
  });
}

TEST_P(Backends, send_receive_and_barrier) {
  ranks([](World& world) {
    const auto group = world.all();
    if (group.size() == 1) return;
    const int n = group.size(), me = group.rank(), next = (me + 1) % n, before = (me + n - 1) % n;
    auto sent = values(1000, at::kFloat, me), got = at::zeros({1000});
    auto sending = group.send(sent, next, 3);
    group.recv(got, before, 3).wait();
    sending.wait();
    EXPECT_TRUE(at::equal(got, values(1000, at::kFloat, before)));
    group.barrier("end").wait();
  });
}

TEST_P(Backends, several_operations_may_be_posted_before_the_first_wait) {
  ranks([](World& world) {
    const auto group = world.all();
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(at::full({i * 13}, i + group.rank(), at::kFloat));
      works.push_back(group.all_reduce(tensors.back()));
    }
    for (auto& work : works) work.wait();
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(tensors[i].eq(group.size() * i + group.size() * (group.size() - 1) / 2).all().item<bool>());
  });
}

TEST_P(Backends, dropped_work_is_legal) {
  ranks([](World& world) {
    const auto group = world.all();
    auto tensor = at::ones({1000});
    { auto dropped = group.all_reduce(tensor); }
    auto other = at::ones({10});
    group.all_reduce(other).wait();
    group.barrier().wait();
    EXPECT_EQ(other[0].item<float>(), group.size());
  });
}

TEST_P(Backends, strings_and_failures_of_one_rank) {
  const int last = GetParam().size - 1;
  ranks([](World& world) {
    const auto texts = all_gather_strings(world.all(), std::string(world.rank() * 5, 'x'));
    for (int r = 0; r < world.size(); ++r) EXPECT_EQ(texts[r], std::string(r * 5, 'x'));
    EXPECT_EQ(broadcast_string(world.all(), world.rank() == 0 ? "hello" : ""), "hello");
  });
  const auto errors = errors_of_ranks(GetParam().size, GetParam().backend, [last](World& world) {
    together(world.all(), [&] {
      if (world.rank() == last) throw base::DataError("the file is gone");
    });
  });
  // the same on every rank, so that it is told once
  const auto who = last == 0 ? "" : base::text_of("rank ", last, ": ");
  for (const auto& error : errors) EXPECT_EQ(error, who + "the file is gone");
}

// case B094: groups are known by their members, in whatever order they are made
TEST_P(Backends, B094_groups_made_in_different_orders) {
  if (GetParam().size != 4) return;
  ranks([](World& world) {
    const std::vector<std::vector<int>> lists = world.rank() % 3 == 0
                                                    ? std::vector<std::vector<int>>{{0, 3}, {0, 1, 2, 3}}
                                                    : std::vector<std::vector<int>>{{1, 2}, {0, 1, 2, 3}};
    auto pair = world.group(lists[0]);
    auto everyone = world.group(lists[1]);
    auto tensor = at::full({4}, world.rank(), at::kFloat);
    pair.all_reduce(tensor).wait();
    EXPECT_EQ(tensor[0].item<float>(), 3);
    everyone.all_reduce(tensor).wait();
    EXPECT_EQ(tensor[0].item<float>(), 12);
  });
}

TEST_P(Backends, misuse_is_refused_with_a_sentence) {
  ranks([](World& world) {
    const auto group = world.all();
    const auto text = [&](const std::function<void()>& action) -> std::string {
      try {
        action();
      } catch (const base::Error& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_NE(text([&] { group.all_reduce(at::zeros({4, 4}).t()).wait(); }).find("contiguous"), std::string::npos);
    EXPECT_NE(text([&] { group.all_reduce(at::Tensor()).wait(); }).find("undefined"), std::string::npos);
    EXPECT_NE(text([&] { group.broadcast(at::zeros({4}), 7).wait(); }).find("rank 7"), std::string::npos);
    EXPECT_NE(text([&] {
                group.all_gather_into_tensor(at::zeros({group.size() * 3 + 1}), at::zeros({3})).wait();
              }).find("elements"),
              std::string::npos);
    EXPECT_NE(text([&] { (void)world.group({0, 0}); }).find("twice"), std::string::npos);
    EXPECT_NE(text([&] { (void)world.group({9}); }).find("rank 9"), std::string::npos);
    if (group.size() > 1) {
      EXPECT_NE(text([&] { group.all_reduce(at::zeros({4}, at::kInt), ReduceOp::Average).wait(); }), "");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Backends,
                         ::testing::Values(Setting{"shm", 1}, Setting{"shm", 2}, Setting{"shm", 3}, Setting{"shm", 4},
                                           Setting{"gloo", 2}, Setting{"gloo", 3}, Setting{"gloo", 4}),
                         [](const auto& info) { return info.param.backend + std::to_string(info.param.size); });

// the sums of both backends are the same bits for two ranks
TEST(Sameness, shm_and_gloo_agree_on_two_ranks) {
  std::vector<at::Tensor> results;
  for (const auto* backend : {"shm", "gloo"}) {
    results.emplace_back();
    run_ranks(2, backend, [&](World& world) {
      auto generator = at::detail::createCPUGenerator(world.rank());
      auto tensor = at::randn({10007}, generator);
      world.all().all_reduce(tensor, ReduceOp::Average).wait();
      if (world.rank() == 0) results.back() = tensor;
    });
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

TEST(Deadlines, B081_the_rank_that_did_not_arrive_is_named) {
  for (const auto* backend : {"shm", "gloo"}) {
    const auto errors = errors_of_ranks(
        3, backend,
        [](World& world) {
          if (world.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            return;
          }
          world.all().all_reduce(at::ones({100})).wait(std::chrono::milliseconds(400));
        },
        std::chrono::milliseconds(400));
    for (int r : {0, 2}) {
      EXPECT_NE(errors[r].find("did not"), std::string::npos) << backend << ": " << errors[r];
      EXPECT_NE(errors[r].find("world"), std::string::npos) << errors[r];
      EXPECT_NE(errors[r].find("1"), std::string::npos) << errors[r];
    }
  }
}

TEST(Deadlines, say_which_barrier_each_rank_passed_last) {
  for (const auto* backend : {"shm", "gloo"}) {
    const auto errors = errors_of_ranks(
        2, backend,
        [](World& world) {
          world.all().barrier("epoch 2").wait();
          if (world.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2500));
            return;
          }
          world.all().all_reduce(at::ones({100})).wait(std::chrono::milliseconds(400));
        },
        std::chrono::milliseconds(400));
    EXPECT_NE(errors[0].find("last barriers passed: rank 0 'epoch 2', rank 1 'epoch 2'"), std::string::npos)
        << backend << ": " << errors[0];
    EXPECT_NE(errors[0].find("alive, computing, not in a collective"), std::string::npos) << errors[0];
  }
}

TEST(Mismatch, B076_B077_both_sides_are_named) {
  const auto operations = errors_of_ranks(2, "shm", [](World& world) {
    auto tensor = at::ones({1000});
    if (world.rank() == 1)
      world.all().broadcast(tensor, 0).wait();
    else
      world.all().all_reduce(tensor).wait();
  });
  for (const auto& text : operations) {
    EXPECT_NE(text.find("all_reduce"), std::string::npos) << text;
    EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
  }
  const auto dtypes = errors_of_ranks(2, "shm", [](World& world) {
    auto tensor = world.rank() == 0 ? at::ones({2}, at::kFloat) : at::ones({4}, at::kHalf);
    world.all().all_reduce(tensor).wait();
  });
  for (const auto& text : dtypes) {
    EXPECT_NE(text.find("F32"), std::string::npos) << text;
    EXPECT_NE(text.find("F16"), std::string::npos) << text;
  }
}

TEST(Start, two_processes_with_one_rank_number) {
  const auto errors = errors_of_ranks(1, "shm", [](World&) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    store->add("present/0", 1);
    (void)World::from_store({0, 2, 0, 2}, store);
  });
  EXPECT_NE(errors[0].find("rank 0 is there twice"), std::string::npos) << errors[0];
}

// a peer that never comes, and one that listens but says nothing
TEST(Start, B082_waiting_for_a_peer_has_an_end) {
  for (const auto* backend : {"shm", "gloo"}) {
    const auto errors = errors_of_ranks(1, "shm", [&](World&) {
      auto store = c10::make_intrusive<c10d::HashStore>();
      (void)World::from_store({0, 2, 0, 2}, store,
                              {.backend = backend, .first_step_timeout = std::chrono::milliseconds(700)});
    });
    EXPECT_NE(errors[0].find("making group 'world'"), std::string::npos) << errors[0];
  }
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  launch::RankVariables silent{.rank = 1,
                               .world_size = 2,
                               .local_rank = 1,
                               .local_world_size = 2,
                               .master_addr = "127.0.0.1",
                               .master_port = ntohs(address.sin_port),
                               .source = "torchrun"};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW((void)meet_at_store(silent, std::chrono::seconds(2)), base::CommError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  close(listener);
}

TEST(Start, a_rank_of_another_run_is_refused) {
  launch::RankVariables variables{.rank = 0,
                                  .world_size = 2,
                                  .local_rank = 0,
                                  .local_world_size = 2,
                                  .master_addr = "127.0.0.1",
                                  .master_port = launch::free_port(),
                                  .source = "torchrun"};
  setenv("TORCHELASTIC_RUN_ID", "monday", 1);
  const auto store = meet_at_store(variables, std::chrono::seconds(10));
  setenv("TORCHELASTIC_RUN_ID", "sunday", 1);
  variables.rank = variables.local_rank = 1;
  std::string text;
  try {
    meet_at_store(variables, std::chrono::seconds(10));
  } catch (const base::UsageError& error) {
    text = error.what();
  }
  unsetenv("TORCHELASTIC_RUN_ID");
  EXPECT_NE(text.find("rank 1 belongs to run 'sunday'"), std::string::npos) << text;
  EXPECT_NE(text.find("to run 'monday'"), std::string::npos) << text;
}

TEST(Start, B084_addresses_that_work_and_that_do_not) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto meet = [](const std::string& address) -> std::string {
    const launch::RankVariables variables{.rank = 0,
                                          .world_size = 2,
                                          .local_rank = 0,
                                          .local_world_size = 2,
                                          .master_addr = address,
                                          .master_port = launch::free_port(),
                                          .source = "torchrun"};
    try {
      meet_at_store(variables, std::chrono::seconds(10))->set("key", std::vector<uint8_t>{1});
      return "";
    } catch (const base::Error& error) {
      return error.what();
    }
  };
  std::vector<std::string> good{"localhost", "127.0.0.1"};
  if (std::filesystem::exists("/proc/net/if_inet6")) good.insert(good.end(), {"::1", "[::1]"});
  addrinfo* found = nullptr;
  if (getaddrinfo(host, nullptr, nullptr, &found) == 0) {
    good.push_back(host);
    freeaddrinfo(found);
  }
  for (const auto& address : good) EXPECT_EQ(meet(address), "") << address;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(meet("0.0.0.0").find("MASTER_ADDR=0.0.0.0"), std::string::npos);
  EXPECT_NE(meet("no.such.host.invalid").find("does not resolve"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace trireme::comm

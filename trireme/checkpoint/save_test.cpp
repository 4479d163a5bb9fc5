#include "trireme/checkpoint/save.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/checkpoint/folders.h"
#include "trireme/checkpoint/load.h"
#include "trireme/checkpoint/retention.h"
#include "trireme/checkpoint/test_ranks.h"

namespace trireme::checkpoint {
namespace {

using test::bytes_of_file;
using test::floats;
using test::Folder;
using test::listing;
using test::on_ranks;
using test::write_bytes;

const std::vector<std::string> no_errors(const int ranks) {
  return std::vector<std::string>(static_cast<size_t>(ranks));
}

/// All ranks hold "w" [rows, 3] = first, first + 1, …; saved as `step` of the run "a".
void save_replicas(const std::string& run_folder, int ranks, int64_t step, float first = 0, int64_t keep = 0,
                   const std::string& run_id = "a", int64_t rows = 100) {
  const auto errors = on_ranks(ranks, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory;
    SaveRequest request{run_folder, step, {floats("w", {rows, 3}, memory, first)}, {{"step", step}}, keep, run_id};
    save(request, rank, gather);
  });
  ASSERT_EQ(errors, no_errors(ranks));
}

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name, std::vector<int64_t> shape) {
  std::vector<float> memory;
  checkpoint.read(floats(name, std::move(shape), memory, -1e9f));
  return memory;
}

std::string load_error(const std::string& folder) {
  try {
    const Checkpoint checkpoint(folder);
    checkpoint.verify();
  } catch (const base::DataError& error) {
    return error.what();
  }
  return "";
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

TEST(Save, EveryNumberOfRanksWritesWhatOneReads) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Folder run;
    save_replicas(run.path(), ranks, 7, 0.5f);
    EXPECT_EQ(listing(run.path()).size(), 2u + 2u + static_cast<size_t>(ranks)) << "nothing but one checkpoint";
    const Checkpoint checkpoint(run / "checkpoints/step_00000007");
    checkpoint.verify();
    EXPECT_EQ(checkpoint.step(), 7);
    EXPECT_EQ(checkpoint.run_id(), "a");
    EXPECT_EQ(checkpoint.state()["step"], 7);
    std::vector<float> expected;
    floats("w", {100, 3}, expected, 0.5f);
    EXPECT_EQ(values_of(checkpoint, "w", {100, 3}), expected);
  }
}

TEST(Save, AnyLayoutLoadsAnyOther) {
  // rank 0 and 1 hold halves of the columns, rank 2 the last row, as fused QKV and ZeRO do
  const Folder run;
  const std::vector<int64_t> shape{5, 8};
  const auto errors = on_ranks(3, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory;
    SaveRequest request{run.path(), 1, {}, base::Json::object(), 0, "a"};
    LocalTensor part{"w", shape, base::DType::F32, {}, 0, 0, nullptr};
    if (rank < 2) part.boxes = {{{0, rank * 2}, {4, rank * 2 + 2}}, {{0, rank * 2 + 4}, {4, rank * 2 + 6}}};
    part.begin = rank < 2 ? 0 : 32;
    part.end = rank < 2 ? 16 : 40;
    for (int64_t block = 0; block < 2 && rank < 2; ++block)
      for (int64_t row = 0; row < 4; ++row)
        for (int64_t column = 0; column < 2; ++column)
          memory.push_back(static_cast<float>(row * 8 + block * 4 + rank * 2 + column));
    for (int64_t i = 32; i < 40 && rank == 2; ++i) memory.push_back(static_cast<float>(i));
    part.data = reinterpret_cast<std::byte*>(memory.data());
    request.tensors = {part};
    save(request, rank, gather);
  });
  ASSERT_EQ(errors, no_errors(3));
  const Checkpoint checkpoint(run / "checkpoints/step_00000001");
  std::vector<float> expected;
  floats("w", shape, expected);
  EXPECT_EQ(values_of(checkpoint, "w", shape), expected);

  // elements 3 to 9 of columns 1 to 3 of the rows 1, 2, 4
  std::vector<float> memory(6, -1);
  checkpoint.read({"w",
                   shape,
                   base::DType::F32,
                   {{{1, 1}, {3, 4}}, {{4, 1}, {5, 4}}},
                   3,
                   9,
                   reinterpret_cast<std::byte*>(memory.data())});
  EXPECT_EQ(memory, (std::vector<float>{17, 18, 19, 33, 34, 35}));
}

TEST(CheckpointCases, B066_other_world_sizes_without_padding) {
  const Folder run;
  std::vector<float> momentum{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  int64_t step = 0;
  for (const int ranks : {4, 3, 5, 4}) {
    ++step;
    const auto errors = on_ranks(ranks, [&](int rank, const GatherStrings& gather) {
      const int64_t share = (10 + ranks - 1) / ranks;
      LocalTensor shard{"momentum",
                        {10},
                        base::DType::F32,
                        {},
                        std::min<int64_t>(10, rank * share),
                        std::min<int64_t>(10, (rank + 1) * share),
                        nullptr};
      std::vector<float> memory(static_cast<size_t>(share), 777);  // 777: padding
      shard.data = reinterpret_cast<std::byte*>(memory.data());
      if (step == 1)
        std::copy(momentum.begin() + shard.begin, momentum.begin() + shard.end, memory.begin());
      else
        Checkpoint(step_folder(run.path(), step - 1)).read(shard);
      save({run.path(), step, {shard}, base::Json::object(), 0, "a"}, rank, gather);
    });
    ASSERT_EQ(errors, no_errors(ranks));
    EXPECT_EQ(values_of(Checkpoint(step_folder(run.path(), step)), "momentum", {10}), momentum);
  }
}

TEST(CheckpointCases, B053_empty_tensors_round_trip) {
  const Folder run;
  const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
    std::vector<float> a, b, c, d;
    SaveRequest request{run.path(), 0, {}, base::Json::object(), 0, "a"};
    request.tensors = {floats("a", {8}, a), floats("b", {0}, b), floats("c", {24}, c), floats("last", {0, 4}, d)};
    save(request, rank, gather);
  });
  ASSERT_EQ(errors, no_errors(2));
  const Checkpoint checkpoint(run / "checkpoints/step_00000000");
  ASSERT_EQ(checkpoint.tensors().size(), 4u);
  EXPECT_EQ(checkpoint.tensors()[1].shape, std::vector<int64_t>{0});
  EXPECT_TRUE(values_of(checkpoint, "b", {0}).empty());
  EXPECT_TRUE(values_of(checkpoint, "last", {0, 4}).empty());
  EXPECT_EQ(values_of(checkpoint, "c", {24})[23], 23);
}

TEST(CheckpointCases, B092_counters_beyond_32_bits) {
  const Folder run;
  for (const int64_t step : {(int64_t{1} << 31) - 1, int64_t{1} << 31, int64_t{1} << 32}) {
    save_replicas(run.path(), 1, step);
    const Checkpoint checkpoint(newest(run.path()).value());
    EXPECT_EQ(checkpoint.step(), step);
    EXPECT_EQ(checkpoint.state()["step"].get<int64_t>(), step);
  }
  EXPECT_EQ(newest(run.path()), run / "checkpoints/step_4294967296");
}

TEST(CheckpointCases, B112_steps_are_numbers) {
  const Folder run;
  for (const int64_t step : {8, 9, 10, 11, 100}) save_replicas(run.path(), 1, step, 0, 2);
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{11, 100}));
  EXPECT_EQ(newest(run.path()), step_folder(run.path(), 100));
  EXPECT_EQ(expired({8, 9, 10, 11, 100}, 100, 2), (std::vector<int64_t>{8, 9, 10}));
  EXPECT_EQ(expired({99999999, 100000000}, 100000000, 1), std::vector<int64_t>{99999999});
  EXPECT_TRUE(expired({1, 2, 3}, 3, 0).empty());
  EXPECT_TRUE(expired({3}, 3, 1).empty());
  EXPECT_EQ(step_of("step_00000010"), 10);
  EXPECT_FALSE(step_of("step_10"));
  EXPECT_FALSE(step_of("step_00000010.partial"));
  EXPECT_FALSE(step_of("step_-0000001"));
  EXPECT_FALSE(step_of("step_99999999999999999999"));
  EXPECT_TRUE(steps(run / "nothing").empty());
  EXPECT_FALSE(newest(run / "nothing"));
}

TEST(CheckpointCases, B121_checkpoints_of_another_run) {
  const Folder run;
  for (int64_t step = 1; step <= 10; ++step) save_replicas(run.path(), 1, step, 0, 0, "A");
  for (int64_t step = 11; step <= 15; ++step) save_replicas(run.path(), 1, step, 0, 2, "B");
  // B deletes its own only, and says whose the others are
  EXPECT_EQ(steps(run.path()), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15}));
  EXPECT_EQ(Checkpoint(step_folder(run.path(), 10)).run_id(), "A");
  EXPECT_EQ(Checkpoint(step_folder(run.path(), 15)).run_id(), "B");
  // a step below stale ones is not taken for an old one
  save_replicas(run.path(), 1, 5, 0, 1, "B");
  EXPECT_EQ(Checkpoint(step_folder(run.path(), 5)).run_id(), "B");
}

TEST(CheckpointCases, B114_damaged_shards_are_refused) {
  const Folder run;
  save_replicas(run.path(), 2, 99, 5);
  save_replicas(run.path(), 2, 100, 0);
  const std::string folder = step_folder(run.path(), 100);
  const std::string shard = folder + "/shard_00001.safetensors";
  const std::string whole = bytes_of_file(shard);
  EXPECT_EQ(load_error(folder), "");

  std::filesystem::remove(shard);
  EXPECT_TRUE(contains(load_error(folder), shard));
  EXPECT_TRUE(contains(load_error(folder), "No such file"));

  write_bytes(shard, bytes_of_file(step_folder(run.path(), 99) + "/shard_00001.safetensors"));
  EXPECT_EQ(load_error(folder), shard + " belongs to step '99' of run 'a', not to step 100 of run 'a'");

  write_bytes(shard, "");
  EXPECT_EQ(load_error(folder), base::text_of(shard, " has 0 bytes instead of ", whole.size(), "; it was truncated"));

  for (size_t i = 0; i < whole.size(); i += i < 300 ? 1 : 17) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    write_bytes(shard, flipped);
    EXPECT_TRUE(contains(load_error(folder), shard)) << "byte " << i;
  }
  // a read of the damaged tensor is refused too
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_bytes(shard, flipped);
  EXPECT_THROW(values_of(Checkpoint(folder), "w", {100, 3}), base::DataError);

  write_bytes(shard, whole);
  EXPECT_EQ(load_error(folder), "");
}

TEST(CheckpointCases, B107_unreadable_state_is_refused) {
  const Folder run;
  save_replicas(run.path(), 1, 3);
  const std::string folder = step_folder(run.path(), 3);
  for (const std::string name : {"/state.json", "/manifest.json"}) {
    const std::string whole = bytes_of_file(folder + name);
    for (const std::string& damaged :
         {std::string(), whole.substr(0, whole.size() / 2), whole + " ", std::string(whole.size(), '\0')}) {
      write_bytes(folder + name, damaged);
      EXPECT_TRUE(contains(load_error(folder), folder + name));
    }
    std::filesystem::remove(folder + name);
    EXPECT_TRUE(contains(load_error(folder), folder + name));
    write_bytes(folder + name, whole);
  }
  EXPECT_EQ(load_error(folder), "");
}

TEST(Load, WhatIsNotStoredThatWayIsRefused) {
  const Folder run;
  save_replicas(run.path(), 1, 3);
  const Checkpoint checkpoint(step_folder(run.path(), 3));
  const auto error_of = [&](LocalTensor tensor) -> std::string {
    try {
      std::vector<std::byte> memory(10000);
      tensor.data = memory.data();
      checkpoint.read(tensor);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(contains(error_of({"v", {100, 3}, base::DType::F32, {}, 0, 300, nullptr}), "holds no tensor 'v'"));
  EXPECT_TRUE(contains(error_of({"w", {3, 100}, base::DType::F32, {}, 0, 300, nullptr}),
                       "tensor 'w' is stored as F32 [100, 3] in " + checkpoint.folder() + ", not as F32 [3, 100]"));
  EXPECT_TRUE(contains(error_of({"w", {100, 3}, base::DType::BF16, {}, 0, 300, nullptr}), "not as BF16 [100, 3]"));
  EXPECT_TRUE(contains(error_of({"w", {100, 3}, base::DType::F32, {}, 0, 301, nullptr}), "has the range [0, 301)"));
}

TEST(CheckpointCases, B115_load_then_save_at_once) {
  const Folder run, copy;
  save_replicas(run.path(), 3, 0, 2);
  const Checkpoint first(step_folder(run.path(), 0));
  const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory(300);
    const LocalTensor tensor = floats("w", {100, 3}, memory);
    first.read(tensor);
    save({copy.path(), first.step(), {tensor}, first.state(), 0, first.run_id()}, rank, gather);
  });
  ASSERT_EQ(errors, no_errors(2));
  const Checkpoint second(step_folder(copy.path(), 0));
  EXPECT_EQ(second.tensors(), first.tensors());
  EXPECT_EQ(second.state(), first.state());
  EXPECT_EQ(values_of(second, "w", {100, 3}), values_of(first, "w", {100, 3}));
}

TEST(Save, AStepThatExistsIsReplaced) {
  const Folder run;
  save_replicas(run.path(), 2, 4, 0);
  save_replicas(run.path(), 3, 4, 1000);
  EXPECT_EQ(values_of(Checkpoint(step_folder(run.path(), 4)), "w", {100, 3})[0], 1000);
  EXPECT_EQ(listing(run.path()).size(), 2u + 2u + 3u);
}

TEST(Save, LeftoversOfAKilledSaveAreRemoved) {
  const Folder run;
  std::filesystem::create_directories(run / "checkpoints.partial/step_00000001");
  write_bytes(run / "checkpoints.partial/step_00000001/shard_00000.safetensors", "half");
  EXPECT_TRUE(steps(run.path()).empty());
  save_replicas(run.path(), 1, 2);
  EXPECT_FALSE(std::filesystem::exists(run / "checkpoints.partial"));
  EXPECT_EQ(steps(run.path()), std::vector<int64_t>{2});
}

TEST(Save, OneRanksFailureIsEverybodys) {
  const Folder run;
  save_replicas(run.path(), 2, 1);
  const auto before = listing(run.path());
  const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory;
    int meetings = 0;
    // once the folder of the save exists, something lies where rank 1 will write
    const GatherStrings sabotage = [&](const std::string& text) {
      auto all = gather(text);
      if (++meetings == 2 && rank == 1)
        std::filesystem::create_directory(run / "checkpoints.partial/step_00000002/shard_00001.safetensors");
      return all;
    };
    save({run.path(), 2, {floats("w", {100, 3}, memory)}, base::Json::object(), 1, "a"}, rank, sabotage);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "saving the checkpoint " + step_folder(run.path(), 2) + " failed on rank 1: cannot create " +
                         (run / "checkpoints.partial/step_00000002/shard_00001.safetensors") + ": File exists");
  EXPECT_EQ(listing(run.path()), before);
  EXPECT_EQ(load_error(step_folder(run.path(), 1)), "");
}

TEST(Save, WrongRequestsAreRefusedOnAllRanks) {
  const Folder run;
  const auto errors_of = [&](const std::function<void(int, SaveRequest&)>& change) {
    return on_ranks(2, [&](int rank, const GatherStrings& gather) {
      std::vector<float> memory;
      SaveRequest request{run.path(), 2, {floats("w", {100, 3}, memory)}, base::Json::object(), 1, "a"};
      change(rank, request);
      save(request, rank, gather);
    });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<std::function<void(int, SaveRequest&)>, std::string> cases[] = {
      {[](int rank, SaveRequest& r) { r.step += rank; }, "step is 2 on rank 0 and 3 on rank 1"},
      {[](int rank, SaveRequest& r) { r.run_id += rank ? "b" : ""; }, "run_id is \"a\" on rank 0 and \"ab\" on rank 1"},
      {[](int, SaveRequest& r) { r.step = -1; }, "failed on rank 0: a checkpoint's step must be from 0 on, not -1"},
      {[nan](int, SaveRequest& r) {
         r.state["loss"] = {1.0, nan};
       },
       "but state.loss[1] is not"},
      {[](int, SaveRequest& r) { r.tensors[0].data = nullptr; }, "tensor 'w' has no memory"},
      {[](int rank, SaveRequest& r) {
         if (rank == 1) r.tensors[0].global_shape = {300};
       },
       "rank 1's tensor 'w' is F32 [300], on rank 0 it is F32 [100, 3]"},
  };
  for (const auto& [change, expected] : cases)
    for (const std::string& error : errors_of(change)) EXPECT_TRUE(contains(error, expected));
  EXPECT_TRUE(listing(run.path()).empty());
}

/// Runs `body` in a child process; its exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(CheckpointCases, B110_a_file_that_may_not_grow) {
  const Folder run;
  save_replicas(run.path(), 1, 1);
  const auto before = listing(run.path());
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2000, 2000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
      // rank 1's share alone is too large
      std::vector<float> memory;
      const LocalTensor tensor = floats(rank ? "large" : "small", {rank ? 1000 : 10}, memory);
      save({run.path(), 2, {tensor}, base::Json::object(), 1, "a"}, rank, gather);
    });
    const std::string expected =
        "saving the checkpoint " + step_folder(run.path(), 2) + " failed on rank 1: cannot write " +
        (run / "checkpoints.partial/step_00000002/shard_00001.safetensors") + ": File too large";
    return errors == std::vector<std::string>{expected, expected} ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(listing(run.path()), before);
  EXPECT_EQ(load_error(step_folder(run.path(), 1)), "");
}

TEST(CheckpointCases, B110_disk_full) {
  const Folder mount_point;
  if (::mount("tmpfs", mount_point.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting a small tmpfs is not permitted here";
  struct Unmount {
    const std::string& path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{mount_point.path()};
  const std::string run_folder = mount_point / "run";
  const int64_t rows = 56'000;  // 672 kB: two do not fit
  save_replicas(run_folder, 2, 1, 0, 0, "a", rows);
  const auto before = listing(run_folder);
  EXPECT_TRUE(space_warning(run_folder, rows * 12));
  const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory;
    save({run_folder, 2, {floats("w", {rows, 3}, memory)}, base::Json::object(), 1, "a"}, rank, gather);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "failed on rank "));
    EXPECT_TRUE(error.ends_with(": No space left on device")) << error;
  }
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_EQ(listing(run_folder), before);
  EXPECT_EQ(load_error(step_folder(run_folder, 1)), "");
}

TEST(CheckpointCases, B110_read_only_folder) {
  // "proc" refuses every new name, even to root
  const auto errors = on_ranks(2, [&](int rank, const GatherStrings& gather) {
    std::vector<float> memory;
    save({"/proc/trireme", 2, {floats("w", {4}, memory)}, base::Json::object(), 1, "a"}, rank, gather);
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "failed on rank 0: cannot create the folder /proc/trireme"));
}

TEST(CheckpointCases, B110_warning_at_the_start) {
  const Folder run;
  EXPECT_FALSE(space_warning(run / "not/yet/there", 1));
  const auto warning = space_warning(run / "not/yet/there", int64_t{1} << 61);
  ASSERT_TRUE(warning);
  EXPECT_TRUE(contains(*warning, "a checkpoint needs 2"));
  EXPECT_TRUE(contains(*warning, " free"));
}

}  // namespace
}  // namespace trireme::checkpoint

#include "trireme/launch/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/launch/cores.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

int threads_of(int cores, int ranks) {
  return rank_threads({cores, ranks, 0, std::nullopt}).threads;
}

TEST(ThreadsCases, X03_two_cores) {
  EXPECT_EQ(threads_of(2, 4), 1);
  EXPECT_EQ(threads_of(2, 2), 1);
  EXPECT_EQ(threads_of(2, 1), 2);
  EXPECT_EQ(threads_of(1, 1), 1);
  EXPECT_EQ(threads_of(1, 4), 1);
}

TEST(ThreadsCases, X03_what_the_user_says_holds_and_is_warned_about) {
  const ThreadChoice by_variable = rank_threads({2, 4, 0, "2"});
  EXPECT_EQ(by_variable.threads, 2);
  EXPECT_EQ(by_variable.warning,
            "OMP_NUM_THREADS=2 gives 4 x 2 threads > 2 cores; expect it to be slower than without");
  const ThreadChoice by_flag = rank_threads({2, 2, 2, "1"});
  EXPECT_EQ(by_flag.threads, 2);
  EXPECT_EQ(by_flag.warning, "--threads 2 gives 2 x 2 threads > 2 cores; expect it to be slower than without");
  EXPECT_EQ(rank_threads({2, 1, 2, std::nullopt}).warning, "");
  EXPECT_EQ(rank_threads({2, 4, 0, "1"}).warning, "");
}

TEST(Threads, never_oversubscribed_without_the_user) {
  for (int cores = 1; cores <= 130; ++cores) {
    for (int ranks = 1; ranks <= 130; ++ranks) {
      const int threads = threads_of(cores, ranks);
      ASSERT_GE(threads, 1);
      if (ranks <= cores) {
        ASSERT_LE(ranks * threads, cores);
        ASSERT_GT(ranks * (threads + 1), cores);
      } else {
        ASSERT_EQ(threads, 1);
      }
    }
  }
}

TEST(Threads, omp_num_threads_is_read_as_openmp_does) {
  EXPECT_EQ(rank_threads({8, 2, 0, "3,2"}).threads, 3);
  EXPECT_EQ(rank_threads({8, 2, 0, ""}).threads, 4);
  for (const char* wrong : {"abc", "0", "-2", "2x", ",2"}) {
    EXPECT_THROW(rank_threads({8, 2, 0, wrong}), base::UsageError) << wrong;
  }
}

TEST(Threads, cpus_are_shared_out_disjoint_and_complete) {
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cpus({0, 1}, 2, 1), (Shares{{0}, {1}}));
  EXPECT_EQ(share_cpus({0, 1}, 1, 2), (Shares{{0, 1}}));
  EXPECT_EQ(share_cpus({4, 0, 5, 1, 6}, 2, 1), (Shares{{4, 0, 5}, {1, 6}}));
  EXPECT_EQ(share_cpus({0, 1}, 4, 1), Shares{}) << "more ranks than CPUs";
  EXPECT_EQ(share_cpus({0, 1, 2, 3}, 2, 3), Shares{}) << "a rank is not bound to fewer CPUs than it has threads";
  std::vector<int> cpus(67);
  for (int i = 0; i < 67; ++i) cpus[static_cast<size_t>(i)] = i;
  for (int ranks = 1; ranks <= 67; ++ranks) {
    std::set<int> seen;
    for (const auto& share : share_cpus(cpus, ranks, 1)) seen.insert(share.begin(), share.end());
    ASSERT_EQ(seen.size(), 67u);
  }
}

TEST(Cores, limit_is_cut_to_whole_cores) {
  EXPECT_EQ(usable_cores(8, std::nullopt), 8);
  EXPECT_EQ(usable_cores(8, 2.5), 2);
  EXPECT_EQ(usable_cores(8, 0.5), 1);
  EXPECT_EQ(usable_cores(2, 16.0), 2);
}

TEST(CoresCases, X03_the_affinity_mask_counts_not_the_machine) {
  const std::vector<int> before = available_cpus();
  const pid_t child = fork();
  if (child == 0) {  // as under taskset -c
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(before.back(), &one);
    sched_setaffinity(0, sizeof one, &one);
    const bool right = available_cpus() == std::vector<int>{before.back()} && usable_cores() == 1 &&
                       (unsetenv("OMP_NUM_THREADS"), rank_threads_here(1, 0).threads) == 1;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

class Cgroup : public testing::Test {
 protected:
  Cgroup() : root_(fs::path(testing::TempDir()) / ("cgroup" + std::to_string(getpid()))) {
    fs::create_directories(root_);
  }
  ~Cgroup() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(Cgroup, v2_takes_the_tightest_level) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 1.5);
  write("sys/fs/cgroup/outer/inner/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 0.5);
}

TEST_F(Cgroup, v2_inside_a_container) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 4.0);
}

TEST_F(Cgroup, v1_with_the_hosts_path) {
  write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 2.0);
}

TEST_F(Cgroup, no_limit) {
  EXPECT_EQ(cgroup_cpu_limit(root_), std::nullopt) << "no cgroup at all";
  write("proc/self/cgroup", "1:cpu:/\n0::/\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), std::nullopt);
}

}  // namespace
}  // namespace trireme::launch

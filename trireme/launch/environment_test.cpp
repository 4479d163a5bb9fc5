#include "trireme/launch/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/launch/slurm.h"

namespace trireme::launch {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<RankVariables> read(const Variables& variables) {
  return rank_variables([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const base::UsageError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no UsageError";
}

Variables torchrun(const std::string& rank, const std::string& world) {
  return {{"RANK", rank}, {"WORLD_SIZE", world}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
}

TEST(RankVariables, none_set_means_no_launcher) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"OMP_NUM_THREADS", "2"}}));
}

TEST(RankVariables, torchrun) {
  Variables variables = torchrun("3", "4");
  variables["LOCAL_RANK"] = "1";
  variables["LOCAL_WORLD_SIZE"] = "2";
  const auto v = read(variables);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->rank, 3);
  EXPECT_EQ(v->world_size, 4);
  EXPECT_EQ(v->local_rank, 1);
  EXPECT_EQ(v->local_world_size, 2);
  EXPECT_EQ(v->master_addr, "127.0.0.1");
  EXPECT_EQ(v->master_port, 29500);
  EXPECT_EQ(v->source, "torchrun");
}

TEST(RankVariables, by_hand_all_ranks_are_on_this_host) {
  const auto v = read(torchrun("1", "2"));
  ASSERT_TRUE(v);
  EXPECT_EQ(v->local_rank, 1);
  EXPECT_EQ(v->local_world_size, 2);
}

TEST(RankVariablesCases, B085_nonsense_names_variable_and_value) {
  EXPECT_EQ(error_of(torchrun("9", "2")), "RANK=9 is not below WORLD_SIZE=2");
  EXPECT_EQ(error_of(torchrun("5", "2")), "RANK=5 is not below WORLD_SIZE=2");
  EXPECT_EQ(error_of(torchrun("-1", "2")), "RANK=-1 is below 0");
  EXPECT_EQ(error_of(torchrun("0", "abc")), "WORLD_SIZE='abc' is not a whole number");
  EXPECT_EQ(error_of(torchrun("0", "0")), "WORLD_SIZE=0 is below 1");
  EXPECT_EQ(error_of(torchrun("0", "99999999999999")), "WORLD_SIZE='99999999999999' is not a whole number");
  EXPECT_EQ(error_of(torchrun("", "2")), "RANK='' is not a whole number");
  EXPECT_EQ(error_of(torchrun("1x", "2")), "RANK='1x' is not a whole number");
  Variables swapped = torchrun("0", "2");
  swapped["MASTER_PORT"] = "127.0.0.1";
  EXPECT_EQ(error_of(swapped), "MASTER_PORT='127.0.0.1' is not a port number, 1 to 65535");
  swapped["MASTER_PORT"] = "65536";
  EXPECT_EQ(error_of(swapped), "MASTER_PORT='65536' is not a port number, 1 to 65535");
  Variables local = torchrun("1", "2");
  local["LOCAL_WORLD_SIZE"] = "3";
  EXPECT_EQ(error_of(local), "LOCAL_WORLD_SIZE=3 is above WORLD_SIZE=2");
  local["LOCAL_WORLD_SIZE"] = "2";
  local["LOCAL_RANK"] = "2";
  EXPECT_EQ(error_of(local), "LOCAL_RANK=2 is not below the 2 ranks of this host");
}

TEST(RankVariablesCases, B085_every_part_of_the_four_is_an_error) {
  const Variables all = torchrun("0", "2");
  for (int mask = 1; mask < 15; ++mask) {
    Variables some;
    std::string missing;
    int bit = 0;
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
      if (mask >> bit++ & 1) {
        some[name] = all.at(name);
      } else if (missing.empty()) {
        missing = name;
      }
    }
    EXPECT_EQ(error_of(some).find(missing + " is not set, but "), 0u) << error_of(some);
  }
  EXPECT_NE(error_of({{"RANK", "0"}}).find("WORLD_SIZE is not set, but RANK=0 is"), std::string::npos);
  EXPECT_NE(error_of({{"LOCAL_RANK", "0"}}).find("LOCAL_RANK=0"), std::string::npos);
}

TEST(RankVariables, openmpi) {
  const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"PMIX_NAMESPACE", "4242@1"},        {"PMIX_RANK", "1"}};
  const auto v = read(variables);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->rank, 1);
  EXPECT_EQ(v->world_size, 2);
  EXPECT_EQ(v->local_rank, 1);
  EXPECT_EQ(v->local_world_size, 2);
  EXPECT_EQ(v->master_addr, "127.0.0.1");
  EXPECT_GE(v->master_port, 20000);
  EXPECT_LT(v->master_port, 32000);
  EXPECT_EQ(v->source, "OpenMPI");
  Variables other_rank = variables;
  other_rank["OMPI_COMM_WORLD_RANK"] = "0";
  other_rank["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  EXPECT_EQ(read(other_rank)->master_port, v->master_port);
  Variables other_job = variables;
  other_job["PMIX_NAMESPACE"] = "4243@1";
  EXPECT_NE(read(other_job)->master_port, v->master_port);
}

TEST(RankVariables, several_hosts_need_an_address) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(
      error_of(variables),
      "OpenMPI started 4 ranks on several hosts (2 here) and MASTER_ADDR is not set; set it to the host of rank 0");
  variables["MASTER_ADDR"] = "node0";
  variables["MASTER_PORT"] = "29400";
  EXPECT_EQ(read(variables)->master_addr, "node0");
  EXPECT_EQ(read(variables)->master_port, 29400);
  variables["MASTER_PORT"] = "x";
  EXPECT_EQ(error_of(variables), "MASTER_PORT='x' is not a port number, 1 to 65535");
}

TEST(RankVariables, mpich) {
  const auto v = read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(v);
  EXPECT_EQ(v->world_size, 2);
  EXPECT_EQ(v->local_world_size, 2);
  EXPECT_EQ(v->source, "MPICH");
  EXPECT_EQ(error_of({{"PMI_RANK", "0"}}), "PMI_SIZE is not set, but PMI_RANK=0 is");
  EXPECT_EQ(error_of({{"PMI_RANK", "3"}, {"PMI_SIZE", "2"}}), "PMI_RANK=3 is not below PMI_SIZE=2");
}

Variables slurm_step(const std::string& procid, const std::string& localid) {
  return {{"SLURM_JOB_ID", "77"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_NTASKS_PER_NODE", "4"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "2"},
          {"SLURM_STEP_NUM_NODES", "1"},
          {"SLURM_PROCID", procid},
          {"SLURM_LOCALID", localid}};
}

TEST(RankVariablesCases, X01_the_step_counts_not_the_allocation) {
  for (int rank : {0, 1}) {
    const auto v = read(slurm_step(std::to_string(rank), std::to_string(rank)));
    ASSERT_TRUE(v);
    EXPECT_EQ(v->rank, rank);
    EXPECT_EQ(v->world_size, 2);
    EXPECT_EQ(v->local_rank, rank);
    EXPECT_EQ(v->local_world_size, 2);
    EXPECT_EQ(v->master_addr, "127.0.0.1");
    EXPECT_EQ(v->source, "Slurm");
  }
  EXPECT_EQ(read(slurm_step("0", "0"))->master_port, read(slurm_step("1", "1"))->master_port);
}

TEST(RankVariablesCases, X01_torchruns_win_inside_a_step) {
  Variables variables = slurm_step("1", "1");
  variables.merge(torchrun("5", "8"));
  variables["LOCAL_RANK"] = "1";
  variables["LOCAL_WORLD_SIZE"] = "4";
  const auto v = read(variables);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->rank, 5);
  EXPECT_EQ(v->world_size, 8);
  EXPECT_EQ(v->local_world_size, 4);
  EXPECT_EQ(v->source, "torchrun");
}

TEST(RankVariablesCases, X01_an_allocation_shell_is_no_launcher) {
  EXPECT_FALSE(read({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(read({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
  // srun --pty bash
  EXPECT_FALSE(read({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
}

TEST(RankVariablesCases, X01_two_nodes_with_2_and_1_tasks) {
  for (bool with_node_id : {false, true}) {
    const int node_of[] = {0, 0, 1};
    const int local_of[] = {0, 1, 0};
    const int size_of[] = {2, 2, 1};
    for (int rank : {0, 1, 2}) {
      Variables variables = slurm_step(std::to_string(rank), std::to_string(local_of[rank]));
      variables["SLURM_STEP_NUM_TASKS"] = "3";
      variables["SLURM_STEP_NUM_NODES"] = "2";
      variables["SLURM_STEP_TASKS_PER_NODE"] = "2,1";
      variables["SLURM_STEP_NODELIST"] = "node[07,09]";
      if (with_node_id) variables["SLURM_NODEID"] = std::to_string(node_of[rank]);
      const auto v = read(variables);
      ASSERT_TRUE(v);
      EXPECT_EQ(v->world_size, 3);
      EXPECT_EQ(v->local_rank, local_of[rank]);
      EXPECT_EQ(v->local_world_size, size_of[rank]);
      EXPECT_EQ(v->master_addr, "node07");
    }
  }
}

TEST(RankVariables, slurm_numbers_that_disagree_are_refused) {
  Variables variables = slurm_step("0", "0");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "3";
  EXPECT_EQ(error_of(variables), "SLURM_STEP_TASKS_PER_NODE=3 has 3 tasks, SLURM_STEP_NUM_TASKS=2");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "1,1";
  variables["SLURM_LOCALID"] = "1";
  EXPECT_NE(error_of(variables), "no UsageError");
  variables["SLURM_STEP_TASKS_PER_NODE"] = "2(x";
  EXPECT_EQ(error_of(variables), "SLURM_STEP_TASKS_PER_NODE='2(x' is not a list of tasks per node like 2(x3),1");
  variables.erase("SLURM_STEP_TASKS_PER_NODE");
  variables["SLURM_STEP_NUM_NODES"] = "2";
  EXPECT_EQ(error_of(variables), "SLURM_STEP_TASKS_PER_NODE is not set, but SLURM_STEP_NUM_NODES=2 is above 1");
}

TEST(RankVariables, srun_with_pmi_is_slurms_and_hydra_under_slurm_is_hydras) {
  Variables variables = slurm_step("1", "1");
  variables["PMI_RANK"] = "1";
  variables["PMI_SIZE"] = "2";
  EXPECT_EQ(read(variables)->source, "Slurm");
  variables["PMI_RANK"] = "5";
  variables["PMI_SIZE"] = "8";
  variables["MPI_LOCALRANKID"] = "1";
  variables["MPI_LOCALNRANKS"] = "4";
  variables["MASTER_ADDR"] = "node0";
  EXPECT_EQ(read(variables)->source, "MPICH");
  EXPECT_EQ(read(variables)->rank, 5);
}

TEST(RankVariablesCases, X01_tasks_per_node_lists) {
  EXPECT_EQ(parse_tasks_per_node("2,1", "V"), (std::vector<int>{2, 1}));
  EXPECT_EQ(parse_tasks_per_node("2(x3),1", "V"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_tasks_per_node("4", "V"), (std::vector<int>{4}));
  for (const char* wrong : {"", ",", "2,", "a", "0", "-1", "2(x0)", "2(x3", "2(3)", "2x3", "1(x99999999)"}) {
    EXPECT_THROW(parse_tasks_per_node(wrong, "V"), base::UsageError) << wrong;
  }
}

TEST(Slurm, first_host_of_a_node_list) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[07-09,12],login"), "node07");
  EXPECT_EQ(first_host("rack1-[3,5]-ib"), "rack1-3-ib");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace trireme::launch

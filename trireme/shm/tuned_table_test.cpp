#include "trireme/shm/tuned_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "trireme/base/file.h"
#include "trireme/shm/rank_threads.h"

namespace trireme::shm {
namespace {

/// A user's empty cache folder.
class TunedTables : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-cache-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

  /// Of three ranks, which must agree.
  TunedTable tune(const std::string& given = "", size_t capacity = size_t{1} << 30) {
    RankThreads ranks(3, {}, capacity);
    std::vector<TunedTable> tuned(3);
    errors_ = ranks.run([&](int rank, Communicator& c) { tuned[rank] = tuned_table(c, given); });
    for (const TunedTable& other : tuned) {
      EXPECT_EQ(other.table, tuned[0].table);
      EXPECT_EQ(other.origin, tuned[0].origin);
    }
    return tuned[0];
  }

  std::string kept_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/trireme")) return entry.path().string();
    return "";
  }

  std::string folder_;
  std::vector<std::string> errors_;
};

TEST_F(TunedTables, MeasuredOnceAndThenKept) {
  const TunedTable measured = tune();
  EXPECT_EQ(measured.origin, "measured now, kept in " + kept_file());
  for (Operation operation : {Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::Reduce,
                              Operation::Broadcast, Operation::Gather, Operation::Scatter, Operation::AllToAll}) {
    ASSERT_TRUE(measured.table.methods.contains(operation)) << name_of(operation);
    EXPECT_EQ(measured.table.methods.at(operation).back().up_to_bytes, UINT64_MAX);
  }
  // a table that measuring would not find shows that nothing was measured
  AlgorithmTable odd = measured.table;
  odd.copied_up_to_bytes = 12345;
  std::ofstream(kept_file()) << to_json(odd).dump();
  const TunedTable again = tune();
  EXPECT_EQ(again.table, odd);
  EXPECT_EQ(again.origin, "kept in " + kept_file());
}

TEST_F(TunedTables, AKeptFileThatIsNoTableIsMeasuredAgain) {
  tune();
  const std::string file = kept_file();
  for (const char* content : {"", "{\"all_reduce\": 7}", "[1, 2", "\xff\xfe"}) {
    std::ofstream(file) << content;
    EXPECT_EQ(tune().origin, "measured now, kept in " + file) << content;
    EXPECT_EQ(tune().origin, "kept in " + file) << content;
  }
}

TEST_F(TunedTables, AGivenFileCountsAndItsMistakesReachEveryRank) {
  const std::string file = folder_ + "/given.json";
  AlgorithmTable table = default_table();
  table.copied_up_to_bytes = 77;
  std::ofstream(file) << to_json(table).dump();
  const TunedTable given = tune(file);
  EXPECT_EQ(given.table, table);
  EXPECT_EQ(given.origin, "given by " + file);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/trireme")) << "a given table is not kept for other runs";

  std::ofstream(file) << R"({"all_reduce": [{"algorithm": "puhs"}]})";
  tune(file);
  for (const std::string& error : errors_) {
    EXPECT_EQ(error.rfind(file + ": all_reduce[0].algorithm", 0), 0u) << error;
  }
  tune(folder_ + "/absent.json");
  for (const std::string& error : errors_) EXPECT_NE(error.find("absent.json"), std::string::npos) << error;
}

TEST_F(TunedTables, AHomeThatTakesNothingChangesNothingElse) {
  // root may write where permissions forbid it, but nobody makes a folder inside a file
  std::ofstream(folder_ + "/trireme") << "in the way";
  const TunedTable tuned = tune();
  EXPECT_EQ(errors_, std::vector<std::string>(3));
  EXPECT_EQ(tuned.origin.rfind("measured now and not kept: ", 0), 0u) << tuned.origin;
  EXPECT_FALSE(tuned.table.methods.empty());
}

TEST_F(TunedTables, LittleMemoryMeasuresSmallerSizes) {
  const TunedTable tuned = tune("", 2 << 20);
  EXPECT_EQ(errors_, std::vector<std::string>(3));
  EXPECT_FALSE(tuned.table.methods.empty());
}

}  // namespace
}  // namespace trireme::shm

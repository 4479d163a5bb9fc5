#include "trireme/shm/algorithm.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/shm/ways_fixture.h"

namespace trireme::shm {
namespace {

TEST(AlgorithmTable, JsonKeepsEveryWay) {
  for (const Way& way : ways()) {
    if (way.table.copied_up_to_bytes == UINT64_MAX) continue;  // says "always", which a file need not
    EXPECT_EQ(table_from_json(base::parse_json(to_json(way.table).dump(), "file"), "file"), way.table) << way.name;
  }
}

TEST(AlgorithmTable, TheFirstMethodThatReachesTheSizeServesIt) {
  AlgorithmTable table;
  table.methods[Operation::AllReduce] = {{.up_to_bytes = 100, .algorithm = Algorithm::Inline},
                                         {.up_to_bytes = 1000, .algorithm = Algorithm::Push},
                                         {.piece_bytes = 4096}};
  EXPECT_EQ(table.choose(Operation::AllReduce, 100).algorithm, Algorithm::Inline);
  EXPECT_EQ(table.choose(Operation::AllReduce, 101).algorithm, Algorithm::Push);
  EXPECT_EQ(table.choose(Operation::AllReduce, 1001).piece_bytes, 4096u);
  EXPECT_EQ(table.choose(Operation::Gather, 5), Method{});
  // what does not fit into a control block never travels in one
  table.methods[Operation::Reduce] = {{.algorithm = Algorithm::Inline}};
  EXPECT_EQ(table.choose(Operation::Reduce, kInlineBytes + 1).algorithm, Algorithm::Pull);
}

std::string error_of(const std::string& json) {
  try {
    table_from_json(base::parse_json(json, "t.json"), "t.json");
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(AlgorithmTable, EveryMistakeIsNamed) {
  base::Json json = to_json(default_table());
  EXPECT_EQ(error_of(json.dump()), "");
  json["all_reduce"][0]["algorithm"] = "puhs";
  json["all_gather"][1]["algorithm"] = "push";
  json["broadcast"][0]["up_to_bytes"] = 1 << 20;
  json["gather"][1]["up_to_bytes"] = 5;
  json["reduce"] = 3;
  json["scatter"][0]["piece_bytse"] = 3;
  const std::string error = error_of(json.dump());
  for (const char* part : {"t.json: all_reduce[0].algorithm", "all_gather[1].algorithm", "broadcast[0].up_to_bytes",
                           "gather[1].up_to_bytes", "reduce: needs a list", "scatter[0]: unknown key 'piece_bytse'"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " in " << error;
  }
}

}  // namespace
}  // namespace trireme::shm

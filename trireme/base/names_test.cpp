#include "trireme/base/names.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::base {
namespace {

const std::vector<std::string> kKnown{
    "gradient_clipping", "gradient_accumulation_steps", "optimizer", "lr", "tp", "dp"};

TEST(Names, nearest) {
  EXPECT_EQ(nearest_name("gradient_clipp1ng", kKnown), "gradient_clipping");
  EXPECT_EQ(nearest_name("gradiant_cliping", kKnown), "gradient_clipping");
  EXPECT_EQ(nearest_name("OPTIMIZER", kKnown), "optimizer");
  EXPECT_EQ(nearest_name("optimizre", kKnown), "optimizer");
  EXPECT_EQ(nearest_name("l", kKnown), "lr");
  EXPECT_EQ(nearest_name("rl", kKnown), "lr");
  EXPECT_EQ(nearest_name("xp", kKnown), "tp") << "ties go to the first";
}

TEST(Names, nothing_is_near) {
  EXPECT_EQ(nearest_name("checkpoint", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("z", std::vector<std::string>{"a"}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1'000'000, 'x'), kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
}

TEST(Names, did_you_mean_is_ready_to_append) {
  EXPECT_EQ(did_you_mean("optimiser", kKnown), "; did you mean 'optimizer'?");
  EXPECT_EQ(did_you_mean("checkpoint", kKnown), "");
}

TEST(Names, quoted_is_one_short_line) {
  EXPECT_EQ(base::quoted("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_EQ(base::quoted("12345", 4), "'1234…'");
  EXPECT_EQ(base::quoted("äöü", 3), "'äö…'") << "no letter is cut in two";
  EXPECT_LT(base::quoted(std::string(1000, '\x80'), 10).size(), 30U);
  EXPECT_EQ(joined(kKnown, "|"), "gradient_clipping|gradient_accumulation_steps|optimizer|lr|tp|dp");
}

}  // namespace
}  // namespace trireme::base

#include "trireme/launch/line_buffer.h"

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

TEST(LineBuffer, every_line_gets_the_prefix_however_it_arrives) {
  const std::string text = "one\n\ntwo\rthree\r\nfour";
  const std::string expected = "[0] one\n[0] \n[0] two\r[0] three\r\n[0] four\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    LineBuffer lines("[0] ");
    std::string out;
    for (size_t i = 0; i < text.size(); i += step) lines.add(std::string_view(text).substr(i, step), out);
    lines.finish(out);
    EXPECT_EQ(out, expected) << step;
  }
}

TEST(LineBuffer, unfinished_lines_wait) {
  LineBuffer lines("> ");
  std::string out;
  lines.add("abc", out);
  EXPECT_EQ(out, "");
  lines.add("def\nx", out);
  EXPECT_EQ(out, "> abcdef\n");
  lines.finish(out);
  EXPECT_EQ(out, "> abcdef\n> x\n");
  lines.finish(out);
  EXPECT_EQ(out, "> abcdef\n> x\n");
}

TEST(LineBuffer, carriage_return_is_passed_on_at_once) {
  LineBuffer lines("> ");
  std::string out;
  lines.add("50%\r", out);
  EXPECT_EQ(out, "> 50%\r");
  lines.add("\n", out);
  EXPECT_EQ(out, "> 50%\r\n");
  lines.add("60%\r", out);
  lines.finish(out);
  EXPECT_EQ(out, "> 50%\r\n> 60%\r\n");
}

TEST(LineBuffer, binary_bytes_are_untouched) {
  LineBuffer lines("> ");
  std::string out;
  const std::string bytes("\0\xff\x01", 3);
  lines.add(bytes + "\n", out);
  EXPECT_EQ(out, "> " + bytes + "\n");
}

TEST(LineBuffer, long_lines_use_bounded_memory) {
  LineBuffer lines("> ");
  std::string out;
  const std::string part(100000, 'x');
  for (int i = 0; i < 30; ++i) lines.add(part, out);
  EXPECT_GE(out.size(), 2000000u) << "passed on before the end of the line";
  lines.add("\nnext\n", out);
  EXPECT_EQ(out.size(), 2 + 3000000 + 1 + 7u);
  EXPECT_EQ(out.substr(0, 4), "> xx");
  EXPECT_EQ(out.substr(out.size() - 9), "x\n> next\n");
}

TEST(LineBuffer, what_every_rank_says_of_an_error_is_told_once) {
  SaidLines said;
  LineBuffer first("[0] ", &said), second("[1] ", &said);
  std::string out;
  second.add("error: the loss is not finite\nstep 1\n", out);
  first.add("error: the loss is not finite\nstep 1\nwarning: slow\n", out);
  second.add("warning: slow\nerror: another\n", out);
  first.add("warning: slow\n", out);  // again: not an echo
  EXPECT_EQ(out,
            "[1] error: the loss is not finite\n[1] step 1\n[0] step 1\n[0] warning: slow\n[1] error: another\n"
            "[0] warning: slow\n");
}

TEST(LineBuffer, without_prefix_everything_passes) {
  LineBuffer lines("");
  std::string out;
  lines.add("par", out);
  EXPECT_EQ(out, "par");
  lines.finish(out);
  EXPECT_EQ(out, "par");
}

}  // namespace
}  // namespace trireme::launch

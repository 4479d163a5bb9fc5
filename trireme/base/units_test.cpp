#include "trireme/base/units.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::base {
namespace {

using namespace std::chrono_literals;

template <class Parse>
std::string unit_error(Parse parse, const char* text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Units, bytes) {
  EXPECT_EQ(parse_bytes("25MB"), 25'000'000);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(parse_bytes(" 64 kib "), 65'536);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("123B"), 123);
  EXPECT_EQ(parse_bytes("0.1GB"), 100'000'000);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
}

TEST(Units, wrong_bytes_are_named) {
  EXPECT_EQ(unit_error(parse_bytes, "25MX"), "'25MX' is not a size: its unit is unknown; write it as 25MB or 1.5GiB");
  EXPECT_EQ(unit_error(parse_bytes, "-1MB"), "'-1MB' is not a size: it is negative; write it as 25MB or 1.5GiB");
  EXPECT_EQ(unit_error(parse_bytes, ""), "'' is not a size: it starts with no number; write it as 25MB or 1.5GiB");
  for (const char* text : {"9223372036854775808", "10000000000GiB", "9999999999.5GiB", "99999999999999999999"})
    EXPECT_NE(unit_error(parse_bytes, text).find("beyond 64 bits"), std::string::npos) << text;
  for (const char* text : {"MB", "1.2.3MB", ".", "nan", "1e3", "0x10"})
    EXPECT_NE(unit_error(parse_bytes, text), "accepted");
}

TEST(Units, durations) {
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("10min"), 10min);
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("1h"), 1h);
  EXPECT_EQ(parse_duration("1.5 h"), 90min);
  EXPECT_NE(unit_error(parse_duration, "5").find("it has no unit"), std::string::npos);
  EXPECT_EQ(parse_duration("7us"), 7us);
  EXPECT_EQ(unit_error(parse_duration, "10m"),
            "'10m' is not a time: its unit is unknown; write it as 250ms, 30s, 10min or 1.5h");
}

TEST(Units, printed_bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1'610'612'736), "1.50 GiB");
  EXPECT_EQ(format_bytes(123'456'789), "118 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(parse_bytes(format_bytes(int64_t{3} << 29)), int64_t{3} << 29);
}

TEST(Units, printed_durations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(5e-8), "50 ns");
  EXPECT_EQ(format_duration(0.00025), "250 us");
  EXPECT_EQ(format_duration(0.0421), "42.1 ms");
  EXPECT_EQ(format_duration(3.2), "3.20 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(185), "3 min 05 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(7620), "2 h 07 min");
  EXPECT_EQ(format_duration(-3.2), "-3.20 s");
  EXPECT_EQ(format_duration(1.0 / 0.0), "inf s");
}

}  // namespace
}  // namespace trireme::base

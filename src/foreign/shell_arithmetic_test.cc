#include <string>

#include "gtest/gtest.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

std::optional<std::int64_t> Value(const std::string& text) {
  return ShellArithmetic(text, [](const std::string& name) -> std::optional<std::int64_t> {
    if (name == "TP") return 4;
    if (name == "1") return 7;
    return std::nullopt;
  });
}

TEST(ShellArithmetic, FollowsPrecedence) {
  EXPECT_EQ(Value("2 + 3 * 4"), 14);
  EXPECT_EQ(Value("(2+3)*4 - 1"), 19);
  EXPECT_EQ(Value("17 / 5 % 2"), 1);
  EXPECT_EQ(Value("-3 + 1"), -2);
}

TEST(ShellArithmetic, TakesVariablesWithAndWithoutTheirSign) {
  EXPECT_EQ(Value("$TP * 2"), 8);
  EXPECT_EQ(Value("${TP} * TP"), 16);
  EXPECT_EQ(Value("$1 + 1"), 8);
}

TEST(ShellArithmetic, Compares) {
  EXPECT_EQ(Value("($TP > 1) ? 1 : 0"), 1);
  EXPECT_EQ(Value("TP == 3"), 0);
}

TEST(ShellArithmetic, HasNoValueWhereItIsNotKnown) {
  EXPECT_EQ(Value("PP * 2"), std::nullopt);
  EXPECT_EQ(Value("2 +"), std::nullopt);
  EXPECT_EQ(Value("1 / 0"), std::nullopt);
  EXPECT_EQ(Value("9223372036854775807 + 1"), std::nullopt);
  EXPECT_EQ(Value(std::string(100'000, '(')), std::nullopt);
  EXPECT_EQ(Value(""), std::nullopt);
}

}  // namespace
}  // namespace stepcast::foreign

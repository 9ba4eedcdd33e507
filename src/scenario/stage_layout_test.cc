#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "src/scenario/plan_sections.h"

namespace stepcast::scenario {
namespace {

std::vector<std::int64_t> Blocks(std::string_view layout) {
  const auto blocks = ParseStageLayout(layout);
  EXPECT_TRUE(blocks.has_value()) << layout << ": " << blocks.error();
  return blocks.value_or(std::vector<std::int64_t>());
}

TEST(StageLayout, CountsBlocks) {
  EXPECT_EQ(Blocks("Ettt|ttt|tt|L"), (std::vector<std::int64_t>{3, 3, 2, 0}));
  EXPECT_EQ(Blocks("Et*3|(tt|)*3,L"), (std::vector<std::int64_t>{3, 2, 2, 2, 0}));
  EXPECT_EQ(Blocks("E|(t*2|t|)*2t*10L"), (std::vector<std::int64_t>{0, 2, 1, 2, 1, 10}));
  EXPECT_EQ(Blocks("EL"), (std::vector<std::int64_t>{0}));
  // The module for further tokens is not a block.
  EXPECT_EQ(Blocks("Et|(tt|)*2tmL"), (std::vector<std::int64_t>{1, 2, 2, 1}));
}

TEST(StageLayout, SaysWhatIsWrong) {
  const auto fault = [](std::string_view layout) { return ParseStageLayout(layout).error(); };
  EXPECT_EQ(fault("tt|ttL"), "the layout must begin with E and end with L");
  EXPECT_EQ(fault(""), "the layout must begin with E and end with L");
  EXPECT_EQ(fault("Et|Et|tL"),
            "E must be the first letter, L must be the last letter, and both can occur only once");
  EXPECT_EQ(fault("Et|tm|L"), "'m' can occur only once, directly before 'L'");
  EXPECT_EQ(fault("Et|tmmL"), "'m' can occur only once, directly before 'L'");
  EXPECT_EQ(fault("Et|tx|L"), "only E, t, m, L and | are allowed, not 'x'");
  EXPECT_EQ(fault("E(t|tL"), "a '(' has no matching ')'");
  EXPECT_EQ(fault("Et)|tL"), "a ')' has no matching '('");
  EXPECT_EQ(fault("Et*|tL"), "a number of 1 or more must follow each *");
  EXPECT_EQ(fault("Et*0|tL"), "a number of 1 or more must follow each *");
  EXPECT_EQ(fault("E((((t*999)*999)*999)*999)L"), "the layout has more than 100000 layers");
}

}  // namespace
}  // namespace stepcast::scenario

#include "gtest/gtest.h"
#include "src/foreign/draft.h"

namespace stepcast::foreign {
namespace {

Draft Example() {
  Draft draft;
  draft.State("data_parallel.deepspeed.sub_group_size", "1000000000", {"ds.json", 9, 3});
  draft.State("data_parallel.zero_stage", "3", {"ds.json", 2, 5});
  draft.State("training.precision", "bf16", {"ds.json", 4, 5});
  draft.Assume("model", "llama3.1-8b", "assumed");
  return draft;
}

TEST(WriteScenario, PutsKeysInTheirSectionsAndSaysWhereTheyAreFrom) {
  const ScenarioText text = WriteScenario(Example(), "A title.");
  EXPECT_EQ(text.text,
            "# A title.\n"
            "# The comment after each value names its source.\n"
            "stepcast: 1\n"
            "model: llama3.1-8b                            # assumed\n"
            "training:\n"
            "  precision: bf16                             # ds.json:4\n"
            "data_parallel:\n"
            "  zero_stage: 3                               # ds.json:2\n"
            "  deepspeed:\n"
            "    sub_group_size: 1000000000                # ds.json:9\n");
}

TEST(WriteScenario, ListsWhatItDoesNotCarry) {
  Draft draft = Example();
  draft.Omit({"ds.json", 12, 1}, "a.b = 1", "time is too short");
  draft.Omit({"ds.json", 13, 1}, "c = 2", "");
  const std::string text = WriteScenario(draft, "A title.").text;
  EXPECT_NE(text.find("#   ds.json:12 a.b = 1\n#       time is too short\n"), std::string::npos);
  EXPECT_NE(text.find("#   ds.json:13 c = 2\n"), std::string::npos);
}

TEST(AtOrigins, MovesMistakesToTheFileThatTheUserWrote) {
  const ScenarioText text = WriteScenario(Example(), "A title.");
  const Diagnostics moved =
      AtOrigins({{"a", {"s", 6, 14}, "m", "h"}, {"b", {"s", 4, 1}, "m", "h"}}, "s", text);
  EXPECT_EQ(moved[0].location.file, "ds.json");
  EXPECT_EQ(moved[0].location.line, 4);
  EXPECT_EQ(moved[1].location.file, "s");
}

}  // namespace
}  // namespace stepcast::foreign

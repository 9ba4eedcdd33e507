#include "src/report/command_text.h"

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

TEST(CommandTextTest, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(CommandLine({{"stepcast", "simulate", "my plan.yaml"}, {"a.b=25 MiB", "c={d: it's}"}}),
            "stepcast simulate 'my plan.yaml' --set 'a.b=25 MiB' --set 'c={d: it'\\''s}'");
}

TEST(CommandTextTest, OnlyTheLastSettingOfAKeyIsWritten) {
  EXPECT_EQ(CommandLine({{"stepcast", "simulate"}, {"a.b=1", "a.bc=2", "a.b=3"}}),
            "stepcast simulate --set a.bc=2 --set a.b=3");
}

TEST(CommandTextTest, LongOnesGoOnInFurtherLines) {
  const std::string key = "data_parallel.framework";
  const CommandWords command{{"stepcast", "simulate", "scenarios/gpt2-ddp/scenario.yaml"}, {}};
  EXPECT_EQ(CommandText(command.With({{key, "fsdp2"}, {"data_parallel.zero_stage", "3"}})),
            "  stepcast simulate scenarios/gpt2-ddp/scenario.yaml \\\n"
            "      --set data_parallel.framework=fsdp2 --set data_parallel.zero_stage=3\n");
}

}  // namespace
}  // namespace stepcast::report

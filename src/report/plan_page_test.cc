#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/report/pages.h"

namespace stepcast::report {
namespace {

using testing::HasSubstr;
using testing::Not;

SearchView Sample() {
  SearchView view;
  view.title = "a model";
  view.goal = "the shortest step";
  view.space = 1200;
  view.plans = {{.name = "zero_stage = 3",
                 .gpus = 8,
                 .step_time = stepcast::Milliseconds(100),
                 .peak = GiB(10),
                 .tokens_per_second_per_gpu = 50,
                 .on_front = true},
                {.name = "zero_stage = 1",
                 .gpus = 8,
                 .step_time = stepcast::Milliseconds(110),
                 .peak = GiB(20),
                 .tokens_per_second_per_gpu = 45}};
  view.best = {0, 1};
  view.became = {{"does not fit", 1000}, {"simulated", 200}};
  view.sensitivity = {{"links 10 % faster", stepcast::Milliseconds(95)}};
  return view;
}

TEST(PlanPageTest, SaysWhatIsBestAndWhatBecameOfOthers) {
  const std::string page = PlanPage(Sample());
  EXPECT_THAT(page, HasSubstr("<b>100 ms</b><span class=\"more\">zero_stage = 3</span>"));
  EXPECT_THAT(page, HasSubstr("<b>1,200</b>"));
  EXPECT_THAT(page, HasSubstr("does not fit</th><td>1,000</td>"));
  EXPECT_THAT(page, HasSubstr("all</th><td>1,200</td>"));
  // 95 of 100 ms.
  EXPECT_THAT(page, HasSubstr("links 10 % faster</th><td>95.000</td><td>-5.0</td>"));
}

TEST(PlanPageTest, SaysHowManyPlansMayBeBetterWhereTheSearchWasEnded) {
  SearchView view = Sample();
  EXPECT_THAT(PlanPage(view), HasSubstr("2 simulated; no other plan is better"));
  view.open = 327;
  EXPECT_THAT(PlanPage(view), HasSubstr("2 simulated; 327 more may be better"));
}

// Plans are columns. Common settings are stated once, and differences from the first plan are
// highlighted.
TEST(PlanPageTest, ComparesTheBestPlansSettingBySetting) {
  SearchView view = Sample();
  view.ranked = {{{{"data_parallel.framework", "fsdp2"}, {"data_parallel.zero_stage", "3"}},
                  "  stepcast simulate a.yaml --set data_parallel.zero_stage=3\n"},
                 {{{"data_parallel.framework", "fsdp2"}, {"data_parallel.zero_stage", "null"}},
                  "  stepcast simulate a.yaml\n"}};
  const std::string page = PlanPage(view);
  EXPECT_THAT(page, HasSubstr("GPUs 8, needs GiB "));
  EXPECT_THAT(page, HasSubstr("data_parallel.framework fsdp2."));
  EXPECT_THAT(page, HasSubstr("data_parallel.zero_stage</th><td>3</td>"
                              "<td class=\"other\">default</td>"));
  EXPECT_THAT(page, HasSubstr("The command that forecasts plan 2</summary>"));
  EXPECT_THAT(page, HasSubstr("stepcast simulate a.yaml --set data_parallel.zero_stage=3"));
  // If capacities differ, none is drawn.
  EXPECT_THAT(page, Not(HasSubstr("capacity ")));
  for (SearchedPlan& plan : view.plans) plan.capacity = GiB(80);
  EXPECT_THAT(PlanPage(view), HasSubstr("capacity 80 GiB"));
}

// If the search did not look for the front, only plans that may be the best are on it. A plan that
// leaves too little memory free is not, however fast.
TEST(PlanPageTest, TheFrontIsOfPlansThatMayBeTheBest) {
  SearchView view = Sample();
  for (SearchedPlan& plan : view.plans) plan.on_front = false;
  view.plans.push_back({.name = "leaves too little",
                        .gpus = 8,
                        .step_time = stepcast::Milliseconds(90),
                        .peak = GiB(9),
                        .eligible = false});
  const std::string page = PlanPage(view);
  EXPECT_THAT(page, HasSubstr("too large (including memory that must stay free) or too slow"));
  const std::size_t front = page.find("The front");
  ASSERT_NE(front, std::string::npos);
  EXPECT_NE(page.find("zero_stage = 3</th><td>100.000", front), std::string::npos);
  EXPECT_EQ(page.find("leaves too little</th>", front), std::string::npos);
}

TEST(PlanPageTest, NamesWhatTheScenarioHolds) {
  SearchView view = Sample();
  EXPECT_THAT(PlanPage(view), Not(HasSubstr("held by the scenario")));
  view.held = "training.blocks_per_checkpoint (where activation_checkpointing is full)";
  EXPECT_THAT(PlanPage(view), HasSubstr("held by the scenario, other values not tried"));
  EXPECT_THAT(PlanPage(view), HasSubstr("training.blocks_per_checkpoint (where"));
}

TEST(PlanPageTest, WithoutAPlanItSaysSo) {
  SearchView view = Sample();
  view.best.clear();
  const std::string page = PlanPage(view);
  EXPECT_THAT(page, HasSubstr("no plan in the search meets the goal"));
  EXPECT_THAT(page, Not(HasSubstr("The best plans")));
}

}  // namespace
}  // namespace stepcast::report

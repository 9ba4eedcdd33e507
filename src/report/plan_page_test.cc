#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/report/plan_report.h"

namespace stepcast::report {
namespace {

using planner::Verdict;
using testing::HasSubstr;
using testing::Not;

std::string NameOf(std::int64_t plan) { return plan == 0 ? "zero_stage = 3" : "zero_stage = 1"; }

// A search of 1200 plans, of which the first two, or more, were simulated.
class PlanPageTest : public testing::Test {
 protected:
  PlanPageTest() {
    result_.states = planner::PlanStates(1200, {0, 1, 2, 3});
    for (std::size_t family = 0; family < 4; ++family) {
      result_.states.At(family).facts.gpus = 8;
      result_.states.At(family).whole.verdict =
          family < 2 ? Verdict::kSimulated : Verdict::kDoesNotFit;
    }
    AddPlan(0, stepcast::Milliseconds(100), GiB(10), 50);
    AddPlan(1, stepcast::Milliseconds(110), GiB(20), 45);
    result_.pareto = {0};
    report_.name = "a model";
    report_.space = 1200;
    report_.result = &result_;
    for (const std::int64_t plan : {0, 1}) {
      result_.best.push_back(plan);
      PlanRow& row = report_.best.emplace_back();
      row.plan = plan;
      row.facts.gpus = 8;
      row.outcome = result_.outcomes.at(plan);
    }
    report_.sensitivity.emplace().faster = {
        {forecast::MachineResource::kScaleUp, stepcast::Milliseconds(95)}};
  }

  void AddPlan(std::int64_t plan, Time step_time, Bytes memory, double tokens) {
    planner::Outcome& outcome = result_.outcomes[plan];
    outcome.step_time = step_time;
    outcome.tokens_per_second_per_gpu = tokens;
    outcome.memory = outcome.reserved = memory;
    outcome.fits = true;
  }

  std::string Page() const { return PlanPage(report_, {}, NameOf); }

  planner::SearchResult result_;
  PlanReport report_;
};

TEST_F(PlanPageTest, MarksYourOwnPlanAmongTheKinds) {
  KindRow& kind = report_.kinds.emplace_back();
  kind.fits = true;
  kind.row = report_.best.front();
  report_.own = report_.best.back();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("The best plan of each kind</h2>"));
  EXPECT_THAT(page, HasSubstr(R"("part":["best of its kind","your plan"])"));
}

TEST_F(PlanPageTest, SaysWhatIsBestAndWhatBecameOfOthers) {
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("<b>100 ms</b><span class=\"more\">zero_stage = 3</span>"));
  EXPECT_THAT(page, HasSubstr("<b>1,200</b>"));
  EXPECT_THAT(page,
              HasSubstr("cannot fit, according to a lower bound of the memory</th><td>1,198</td>"));
  EXPECT_THAT(page, HasSubstr("all</th><td>1,200</td>"));
  // 95 of 100 ms.
  EXPECT_THAT(page, HasSubstr(" 10 % faster</th><td>95.000</td><td>-5.0</td>"));
}

TEST_F(PlanPageTest, SaysHowManyPlansMayBeBetterWhereTheSearchWasEnded) {
  EXPECT_THAT(Page(), HasSubstr("2 simulated; no other plan is better"));
  result_.open = 327;
  EXPECT_THAT(Page(), HasSubstr("2 simulated; 327 other plans may be better"));
}

// Plans are columns. Common settings are stated once, and differences from the first plan are
// highlighted.
TEST_F(PlanPageTest, ComparesTheBestPlansSettingBySetting) {
  report_.file = "a.yaml";
  report_.best[0].settings = {{"data_parallel.framework", "fsdp2"},
                              {"data_parallel.zero_stage", "3"}};
  report_.best[1].settings = {{"data_parallel.framework", "fsdp2"},
                              {"data_parallel.zero_stage", "null"}};
  EXPECT_THAT(Page(), HasSubstr("GPUs 8, left GiB "));
  EXPECT_THAT(Page(), HasSubstr("data_parallel.framework fsdp2."));
  EXPECT_THAT(Page(), HasSubstr("data_parallel.zero_stage</th><td>3</td>"
                                "<td class=\"other\">default</td>"));
  EXPECT_THAT(Page(), HasSubstr("The command that forecasts plan 2</summary>"));
  EXPECT_THAT(Page(), HasSubstr("--set data_parallel.zero_stage=3"));
  // Without a capacity, none is drawn.
  EXPECT_THAT(Page(), Not(HasSubstr("capacity ")));
  for (PlanRow& row : report_.best) row.facts.capacity = GiB(80);
  EXPECT_THAT(Page(), HasSubstr("capacity 80 GiB"));
}

// If the search did not look for the front, only plans that may be the best are on it. A plan that
// does not fit is not, however fast.
TEST_F(PlanPageTest, TheFrontIsOfPlansThatMayBeTheBest) {
  result_.pareto.clear();
  AddPlan(2, stepcast::Milliseconds(90), GiB(9), 55);
  result_.outcomes[2].fits = false;
  result_.outcomes[2].over = GiB(1);
  const std::string page = PlanPage(report_, {}, [](std::int64_t plan) {
    return plan == 2 ? std::string("does not fit") : NameOf(plan);
  });
  EXPECT_THAT(page, HasSubstr("does not fit, or is too slow"));
  const std::size_t front = page.find("Plans on the front");
  ASSERT_NE(front, std::string::npos);
  EXPECT_NE(page.find("zero_stage = 3</th><td>100.000", front), std::string::npos);
  EXPECT_EQ(page.find("does not fit</th>", front), std::string::npos);
}

TEST_F(PlanPageTest, NamesWhatTheScenarioHolds) {
  EXPECT_THAT(Page(), Not(HasSubstr("set by the scenario")));
  report_.held = {{.key = "training.blocks_per_checkpoint",
                   .of = "training.activation_checkpointing",
                   .at = {"full"}}};
  EXPECT_THAT(Page(), HasSubstr("set by the scenario; other values were not tried"));
  EXPECT_THAT(Page(), HasSubstr("training.blocks_per_checkpoint (where"));
}

TEST_F(PlanPageTest, WithoutAPlanItSaysSo) {
  report_.best.clear();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("no plan in the search meets the goal"));
  EXPECT_THAT(page, Not(HasSubstr("The best plans")));
}

}  // namespace
}  // namespace stepcast::report

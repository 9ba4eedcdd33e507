// If sibling groups share a card, the best plan of the search is also best in flow mode.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/planner/search.h"
#include "src/planner/search_problem.h"
#include "src/scenario/load.h"

namespace stepcast::planner {
namespace {

// Three nodes of four GPUs behind one card.
constexpr const char* kSharedCard = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/l40s-4x25g.yaml, nodes: 3}
training: {sequence_length: 1024, micro_batch_size: 1, global_batch_size: 48, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

TEST(SharedLinksSearch, FindsThePlanThatIsBestByFlow) {
  std::vector<std::vector<std::string>> plans;
  for (const int shard : {2, 4, 12}) {
    for (const char* framework : {"fsdp1", "fsdp2"}) {
      for (const int micro_batch : {1, 4}) {
        plans.push_back({fmt::format("data_parallel.shard_group_size={}", shard),
                         fmt::format("data_parallel.framework={}", framework),
                         fmt::format("training.micro_batch_size={}", micro_batch)});
      }
    }
  }
  scenario::InputCache cache;
  const auto loaded = [&](std::size_t plan, const char* network) {
    std::vector<std::string> set = plans[plan];
    set.push_back(fmt::format("cluster.network={}", network));
    auto scenario = scenario::LoadText(kSharedCard, "test", set, cache);
    EXPECT_TRUE(scenario) << (scenario ? "" : Format(scenario.error()));
    return scenario;
  };
  std::vector<Result<scenario::Scenario>> scenarios;
  for (std::size_t plan = 0; plan < plans.size(); ++plan) {
    scenarios.push_back(loaded(plan, "analytic"));
    ASSERT_TRUE(scenarios.back());
  }
  const PlanSource source{
      .plans = static_cast<std::int64_t>(plans.size()),
      .load =
          [&](std::int64_t plan) {
            return LoadedPlan{.scenario = &*scenarios[static_cast<std::size_t>(plan)]};
          },
      .has_twin = [](std::int64_t) { return false; }};
  const SearchProblem problem = ProblemOf(source);
  const SearchResult found = Search(problem, Goal(), {.best = 1, .threads = 2});
  ASSERT_EQ(found.best.size(), 1U);

  std::size_t best = 0;
  Time shortest = Time::Max();
  for (std::size_t plan = 0; plan < plans.size(); ++plan) {
    const auto run = forecast::Simulate(*loaded(plan, "flow"));
    ASSERT_TRUE(run) << Format(run.error());
    if (run->forecast.step_time >= shortest) continue;
    shortest = run->forecast.step_time;
    best = plan;
  }
  EXPECT_EQ(found.best.front(), static_cast<std::int64_t>(best));
  EXPECT_NEAR(found.outcomes.at(found.best.front()).step_time.seconds() / shortest.seconds(), 1,
              0.001);
}

}  // namespace
}  // namespace stepcast::planner

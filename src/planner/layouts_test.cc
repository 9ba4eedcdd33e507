#include "src/planner/layouts.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/scenario/load.h"
#include "src/scenario/scenario_checks.h"

namespace stepcast::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kDense = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, global_batch_size: 64, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: megatron}
)";

constexpr const char* kMixture = R"(
stepcast: 1
model: models/mixtral-8x7b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 4096, micro_batch_size: 1, global_batch_size: 64, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 1, framework: megatron}
)";

class LayoutsTest : public testing::Test {
 protected:
  // The legal layouts of the text's framework and stage; `given`: values that are asked for.
  std::vector<Layout> Legal(const std::string& text,
                            std::map<std::string, std::vector<std::string>, std::less<>> given = {},
                            std::vector<std::string_view> kinds = {std::begin(kParallelKinds),
                                                                   std::end(kParallelKinds)}) {
    const auto scenario = scenario::LoadText(text, "test", {}, cache_);
    EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
    const plan::Facts facts = scenario::LegalityFactsOf(*scenario);
    const LayoutRules rules({.scenario = *scenario,
                             .facts = facts,
                             .framework = scenario->plan.data_parallel.framework,
                             .stage = scenario->plan.data_parallel.zero_stage,
                             .devices = scenario->cluster->devices(),
                             .kinds = kinds,
                             .given = &given});
    return rules.Legal();
  }
  static std::string TextOf(const Layout& layout) {
    std::string text;
    for (const LayoutKey& row : LayoutKeys()) {
      if (row.IsUsed(layout)) text += fmt::format("{}={} ", row.key, row.Text(layout));
    }
    return text;
  }
  template <typename Get>
  static std::set<std::int64_t> Values(const std::vector<Layout>& layouts, const Get& get) {
    std::set<std::int64_t> values;
    for (const Layout& layout : layouts) values.insert(get(layout));
    return values;
  }

  scenario::InputCache cache_;
};

// All loadable layouts are listed, and no others: the rules of layouts are those of scenarios.
TEST_F(LayoutsTest, AreThoseThatScenariosCanHave) {
  std::set<std::string> legal;
  for (const Layout& layout : Legal(kDense, {{"parallelism.context", {"1"}}})) {
    EXPECT_TRUE(legal.insert(TextOf(layout)).second) << TextOf(layout);
    EXPECT_EQ(layout.ranks_per_replica() * layout.data, 8) << TextOf(layout);
  }
  std::set<std::string> loaded;
  for (const std::int64_t tensor : {1, 2, 3, 4, 8}) {
    for (const bool sequence : {false, true}) {
      for (const std::int64_t pipeline : {1, 2, 3, 4, 8}) {
        for (std::int64_t chunks = 1; chunks <= 7; ++chunks) {
          for (const int counted : {0, 1, 2, 3}) {
            Layout layout{.tensor = tensor,
                          .pipeline = pipeline,
                          .sequence_parallel = sequence,
                          .schedule = chunks > 1 ? "interleaved_1f1b" : "1f1b",
                          .virtual_stages = chunks,
                          .account_for_embedding_in_pipeline_split = counted % 2 == 1,
                          .account_for_loss_in_pipeline_split = counted / 2 == 1};
            if (tensor == 1 && sequence) continue;
            if (pipeline == 1 && (chunks > 1 || counted > 0)) continue;
            std::vector<std::string> set;
            for (const LayoutKey& row : LayoutKeys()) {
              const bool experts = row.kind == "expert";
              if (row.IsUsed(layout) && !experts) {
                set.push_back(fmt::format("{}={}", row.key, row.Text(layout)));
              }
            }
            if (scenario::LoadText(kDense, "test", set, cache_)) loaded.insert(TextOf(layout));
          }
        }
      }
    }
  }
  EXPECT_EQ(legal, loaded);
}

TEST_F(LayoutsTest, ShareExpertsOutAmongWhatTheOtherAxesLeave) {
  const std::vector<Layout> layouts = Legal(kMixture, {{"parallelism.context", {"1"}}});
  EXPECT_THAT(Values(layouts, [](const Layout& layout) { return layout.expert; }),
              ElementsAre(1, 2, 4, 8));
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.tensor * layout.data % (layout.expert * layout.expert_tensor), 0)
        << TextOf(layout);
    // Ranks that share layers route their own part of the tokens.
    EXPECT_EQ(layout.sequence_parallel, layout.tensor > 1) << TextOf(layout);
  }
  EXPECT_THAT(Values(layouts, [](const Layout& layout) { return layout.expert_tensor; }),
              ElementsAre(1, 2, 4, 8));
}

TEST_F(LayoutsTest, DivideSequencesIntoPartsOfAThousandTokens) {
  const std::vector<Layout> layouts =
      Legal(kMixture, {{"parallelism.tensor", {"1"}}, {"parallelism.pipeline", {"1"}}});
  EXPECT_THAT(Values(layouts, [](const Layout& layout) { return layout.context; }),
              ElementsAre(1, 2, 4));
  EXPECT_THAT(Values(layouts, [](const Layout& layout) { return layout.context_inner; }),
              ElementsAre(1, 2));
  const std::vector<Layout> asked = Legal(kMixture, {{"parallelism.tensor", {"1"}},
                                                     {"parallelism.pipeline", {"1"}},
                                                     {"parallelism.context", {"8"}},
                                                     {"parallelism.context_method", {"ring"}}});
  EXPECT_THAT(Values(asked, [](const Layout& layout) { return layout.context; }), ElementsAre(8));
}

TEST_F(LayoutsTest, OfNoOtherKindThanIsAsked) {
  for (const Layout& layout : Legal(kDense, {}, {"tensor"})) {
    EXPECT_EQ(layout.pipeline, 1);
    EXPECT_EQ(layout.context, 1);
  }
  EXPECT_EQ(Legal(kDense, {}, {}).size(), 1U);
}

TEST_F(LayoutsTest, MicroBatchesAreThoseThatSomePlanCanHave) {
  const auto scenario = scenario::LoadText(kDense, "test", {}, cache_);
  const plan::Facts facts = scenario::LegalityFactsOf(*scenario);
  const std::map<std::string, std::vector<std::string>, std::less<>> nothing;
  const LayoutRules rules({.scenario = *scenario,
                           .facts = facts,
                           .framework = plan::Framework::kMegatron,
                           .devices = 8,
                           .given = &nothing});
  // 64 sequences on four pipelines: 16 micro-batches and fewer, of which interleaved stages take
  // as many as they are, or more.
  const Layout layout{
      .data = 4, .pipeline = 2, .schedule = "interleaved_1f1b", .virtual_stages = 2};
  EXPECT_THAT(rules.MicroBatches(layout, {1, 2, 4, 8, 16}), ElementsAre(1, 2, 4, 8));
  const Layout wrong{.tensor = 5};
  EXPECT_THAT(rules.WhyNot(wrong)->code, "plan.tensor-division");
}

}  // namespace
}  // namespace stepcast::planner

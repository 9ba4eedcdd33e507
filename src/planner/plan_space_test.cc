#include "src/planner/plan_space.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/scenario/load.h"

namespace stepcast::planner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 4}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 4, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2, reshard_after_forward: true}
)";

class PlanSpaceTest : public testing::Test {
 protected:
  // Data parallelism alone, unless a test says more.
  PlanSpaceTest() {
    options_.kinds = {};
    Give(
        {{"training.gradient_accumulation", "4"}, {"data_parallel.reshard_after_forward", "true"}});
  }
  // Sets the values that the scenario states.
  void Give(std::map<std::string, std::string> given) {
    options_.value_of = [given](const std::string& key) -> std::optional<std::string> {
      const auto found = given.find(key);
      if (found == given.end()) return std::nullopt;
      return found->second;
    };
  }
  scenario::Scenario Base() { return *scenario::LoadText(kScenario, "test", {}, cache_); }
  Result<PlanSpace> Space() { return PlanSpace::Around(Base(), options_); }

  scenario::InputCache cache_;
  SpaceOptions options_;
};

// 32 ranks and 8 sequences each: micro-batches 1, 2, 4, 8; four kinds of recomputation; prefetch 0
// to 4; accumulation; shards over 8, 16 and 32 ranks. Stage 3 also keeps shards over a node.
TEST_F(PlanSpaceTest, IsTheProductOfWhatDoesSomething) {
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(space->parts().size(), 2U);
  const std::int64_t stage2 = 4 * 4 * 5 * 2 * 3;
  EXPECT_EQ(space->size(), stage2 + 2 * stage2);
}

// Layer times are given, so a larger micro-batch or another tensor degree would have the same
// times.
TEST_F(PlanSpaceTest, LayerListsKeepWhatTheirTimesHoldFor) {
  const auto base = scenario::LoadText(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: a, repeat: 4, parameters: [1000], forward: 1 ms, backward: 2 ms,
       communication: {forward: [[all_reduce, tensor, 8 KiB]]}}
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1, micro_batch_size: 3, global_batch_size: 96, precision: bf16,
           optimizer: adamw}
parallelism: {tensor: 2}
data_parallel: {zero_stage: 0, framework: megatron}
)",
                                       "test", {}, cache_);
  ASSERT_TRUE(base.has_value()) << Format(base.error());
  for (const bool pipelines : {false, true}) {
    options_.kinds.clear();
    if (pipelines) options_.kinds = {"pipeline"};
    const auto space = PlanSpace::Around(*base, options_);
    ASSERT_TRUE(space.has_value());
    EXPECT_GT(space->size(), 1);
    for (std::int64_t plan = 0; plan < space->size(); ++plan) {
      for (const auto& [key, value] : space->Settings(plan)) {
        if (key == "training.micro_batch_size") {
          EXPECT_EQ(value, "3");
        } else if (key == "parallelism.tensor") {
          EXPECT_EQ(value, "2");
        }
      }
    }
  }
}

TEST_F(PlanSpaceTest, EverySettingLoadsOrIsAnIllegalPlanAndNoneTwice) {
  options_.frameworks = {plan::Framework::kDdp,      plan::Framework::kFsdp1,
                         plan::Framework::kFsdp2,    plan::Framework::kDeepSpeed,
                         plan::Framework::kMegatron, plan::Framework::kReference};
  options_.nodes = true;
  options_.kinds = {std::begin(kParallelKinds), std::end(kParallelKinds)};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  std::set<std::string> seen;
  const auto text = [](const std::vector<std::pair<std::string, std::string>>& settings,
                       std::vector<std::string>& set) {
    std::string all;
    for (const auto& [key, value] : settings) {
      set.push_back(fmt::format("{}={}", key, value));
      all += set.back() + "\n";
    }
    return all;
  };
  constexpr std::int64_t kLooks = 3000;
  const std::int64_t stride = space->size() / kLooks + 1;
  std::int64_t legal = 0, looks = 0;
  for (std::int64_t plan = 0; plan < space->size(); plan += stride + plan % 7, ++looks) {
    std::vector<std::string> set, of_family;
    const std::string all = text(space->Settings(plan), set);
    EXPECT_TRUE(seen.insert(all).second) << all;
    const auto scenario = scenario::LoadText(kScenario, "test", set, cache_);
    if (scenario) {
      ++legal;
      EXPECT_EQ(scenario->plan.training.global_batch_size, 256) << all;
      // Frameworks have their stages on one rank, too.
      std::vector<std::string> warnings = scenario->warnings;
      std::erase_if(warnings, [](const std::string& warning) {
        return warning.starts_with("data_parallel.zero_stage ");
      });
      EXPECT_THAT(warnings, IsEmpty()) << all;
    } else {
      EXPECT_TRUE(scenario.error().front().code.starts_with("plan."))
          << all << Format(scenario.error());
    }
    // A family stands for its plans.
    const std::string family = text(space->FamilySettings(plan), of_family);
    const auto head = scenario::LoadText(kScenario, "test", of_family, cache_);
    const bool by_group = !head && head.error().front().code == "plan.schedule";
    EXPECT_TRUE(head.has_value() || by_group || !scenario.has_value()) << family;
    const auto next = std::upper_bound(space->families().begin(), space->families().end(), plan);
    EXPECT_EQ(space->FamilySettings(*std::prev(next)), space->FamilySettings(plan)) << family;
  }
  EXPECT_GT(legal, looks / 2);
}

// Mixtral's eight experts on 32 ranks; with eight stages, each has four ranks.
TEST_F(PlanSpaceTest, SharesTheExpertsOfAMixtureOut) {
  options_.kinds = {"expert"};
  options_.fix = {"parallelism.pipeline"};
  const auto degrees = [&](const char* parallelism) {
    const auto scenario = scenario::LoadText(
        fmt::format("stepcast: 1\nmodel: models/mixtral-8x7b.yaml\n"
                    "cluster: {{topology: topologies/dgx-h100.yaml, nodes: 4}}\n"
                    "training: {{sequence_length: 4096, micro_batch_size: 1, "
                    "gradient_accumulation: 8, precision: bf16, optimizer: adamw}}\n"
                    "parallelism: {{{}}}\n"
                    "data_parallel: {{zero_stage: 1, framework: megatron}}\n",
                    parallelism),
        "test", {}, cache_);
    std::set<std::int64_t> values;
    const auto space = PlanSpace::Around(*scenario, options_);
    for (const PlanPart& part : space->parts()) values.insert(part.layout.expert);
    return values;
  };
  EXPECT_THAT(degrees("pipeline: 1"), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(degrees("pipeline: 8"), ElementsAre(1, 2, 4));
}

TEST_F(PlanSpaceTest, VaryReplacesAndFixRemoves) {
  options_.vary = {{"training.micro_batch_size", {"2"}},
                   {"training.sequence_length", {"512", "1024"}}};
  options_.fix = {"training.activation_checkpointing", "data_parallel.zero_stage",
                  "data_parallel.prefetch", "data_parallel.shard_group_size",
                  "data_parallel.accumulate_unsharded"};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(space->size(), 2 * 2);  // resharding, sequence length
  EXPECT_THAT(
      space->Settings(3),
      ElementsAre(Pair("training.gradient_accumulation", "null"),
                  Pair("training.global_batch_size", "256"),
                  Pair("data_parallel.framework", "fsdp2"), Pair("data_parallel.zero_stage", "3"),
                  Pair("training.micro_batch_size", "2"), Pair("training.compile", "true"),
                  Pair("training.loss", "fused"), Pair("training.sequence_length", "1024"),
                  Pair("data_parallel.reshard_after_forward", "8")));
}

TEST_F(PlanSpaceTest, NeighboursDifferInOneStep) {
  options_.vary = {{"training.micro_batch_size", {"1", "2", "4"}}};
  options_.fix = {"data_parallel.zero_stage", "training.activation_checkpointing",
                  "data_parallel.reshard_after_forward", "data_parallel.shard_group_size",
                  "data_parallel.accumulate_unsharded"};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  ASSERT_EQ(space->size(), 3 * 5);
  // Plan 7: micro-batch 2, prefetch 2.
  std::vector<std::int64_t> plans;
  for (const PlanSpace::Neighbour& neighbour : space->NeighboursOf(7)) {
    plans.push_back(neighbour.plan);
    EXPECT_THAT(space->Settings(neighbour.plan), Contains(Pair(neighbour.key, neighbour.value)));
  }
  EXPECT_THAT(plans, ElementsAre(2, 12, 6, 8));
}

// Parts of a node of eight are separate sizes, before whole nodes.
TEST_F(PlanSpaceTest, FewerGpusAreAPartOfANodeOrWholeNodes) {
  options_.nodes = true;
  options_.fix = {"data_parallel.zero_stage"};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  std::vector<std::string> sizes;
  for (const PlanPart& part : space->parts()) {
    for (const auto& [key, value] : part.choices->first) {
      if (key.starts_with("cluster.")) sizes.push_back(key + "=" + value);
    }
  }
  EXPECT_THAT(sizes, ElementsAre("cluster.devices=1", "cluster.devices=2", "cluster.devices=4",
                                 "cluster.nodes=1", "cluster.nodes=2", "cluster.nodes=4"));
}

// 32 GPUs: plans of 8 and 16 ranks leave some idle and set cluster.devices; those of 32 do not.
TEST_F(PlanSpaceTest, PlansOfFewerDataParallelRanksLeaveGpusIdle) {
  options_.vary = {{"parallelism.data", {"8", "16", "32"}}};
  options_.fix = {"data_parallel.zero_stage"};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  std::set<std::string> data;
  for (std::int64_t plan = 0; plan < space->size(); ++plan) {
    const auto settings = space->Settings(plan);
    const bool all =
        std::find(settings.begin(), settings.end(),
                  std::pair<std::string, std::string>("parallelism.data", "32")) != settings.end();
    EXPECT_THAT(settings,
                testing::Conditional(all, Not(Contains(Pair("cluster.devices", testing::_))),
                                     Contains(Pair("cluster.devices", "plan"))));
    for (const auto& [key, value] : settings) {
      if (key == "parallelism.data") data.insert(value);
    }
  }
  EXPECT_THAT(data, ElementsAre("16", "32", "8"));
}

// 32 ranks: one part for each grid, with the micro-batches and shards of its data-parallel degree,
// and with pipeline settings if it has a pipeline.
TEST_F(PlanSpaceTest, DegreesHaveSpacesOfTheirOwn) {
  options_.frameworks = {plan::Framework::kMegatron};
  options_.vary = {{"parallelism.tensor", {"1", "2"}},
                   {"parallelism.virtual_stages", {"1", "2"}},
                   {"parallelism.pipeline", {"1", "2"}}};
  options_.fix = {"training.activation_checkpointing", "data_parallel.overlap_param_gather",
                  "parallelism.sequence_parallel",
                  "parallelism.account_for_embedding_in_pipeline_split",
                  "parallelism.account_for_loss_in_pipeline_split"};
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  // One stage, two, and two of two chunks each.
  ASSERT_EQ(space->parts().size(), 2U * 3 * 2);
  std::set<std::string> shards, micro_batches;
  std::int64_t whole = 0;
  for (std::int64_t plan = 0; plan < space->size(); ++plan) {
    std::vector<std::string> set;
    for (const auto& [key, value] : space->Settings(plan)) {
      set.push_back(fmt::format("{}={}", key, value));
    }
    const auto scenario = scenario::LoadText(kScenario, "test", set, cache_);
    if (!scenario) {  // one micro-batch does not interleave
      EXPECT_EQ(scenario.error().front().code, "plan.schedule") << Format(scenario.error());
      continue;
    }
    EXPECT_THAT(scenario->warnings, IsEmpty()) << fmt::format("{}", fmt::join(set, "\n"));
    const plan::Plan& found = scenario->plan;
    EXPECT_EQ(found.training.global_batch_size, 256);
    whole += found.data_parallel.shard_group_size == found.parallelism.data;
    if (found.parallelism.tensor == 2 && found.parallelism.pipeline == 2) {
      shards.insert(fmt::format("{}", found.data_parallel.shard_group_size));
      micro_batches.insert(fmt::format("{}", found.training.micro_batch_size));
    }
  }
  EXPECT_GE(whole, space->size() / 4);
  // Eight replicas, of which a node has four columns: its own and all; 32 sequences each.
  EXPECT_THAT(shards, testing::UnorderedElementsAre("4", "8"));
  EXPECT_THAT(micro_batches, testing::UnorderedElementsAre("1", "2", "4", "8", "16", "32"));

  // Settings that the grids share have neighbours in the next grid.
  const auto neighbours = space->NeighboursOf(0);
  ASSERT_GE(neighbours.size(), 2U);
  EXPECT_EQ(neighbours[0].key, "parallelism.tensor");
  EXPECT_EQ(neighbours[1].key, "parallelism.pipeline");
  for (const auto& neighbour : neighbours) {
    EXPECT_THAT(space->Settings(neighbour.plan), Contains(Pair(neighbour.key, neighbour.value)));
  }
}

// Neighboring ranks share states if layers are not divided. With context parallelism, a node also
// has eight of them.
TEST_F(PlanSpaceTest, KeepsPartsAmongNeighboursThatShareStates) {
  options_.fix = {"parallelism.tensor", "parallelism.context"};
  const auto kept = [&](const std::vector<std::string>& axes) {
    scenario::Scenario base = *scenario::LoadText(kScenario, "test", axes, cache_);
    const auto space = PlanSpace::Around(base, options_);
    std::set<std::string> values;
    for (std::int64_t plan = 0; plan < space->size(); ++plan) {
      for (const auto& [key, value] : space->Settings(plan)) {
        if (key == "data_parallel.reshard_after_forward") values.insert(value);
      }
    }
    return values;
  };
  EXPECT_THAT(kept({}), ElementsAre("8", "true"));
  EXPECT_THAT(kept({"parallelism.context=2"}), ElementsAre("8", "true"));
  EXPECT_THAT(kept({"parallelism.tensor=2"}), IsEmpty());
}

// Stage 2's axes end with accumulation and three shard groups: plan 3 accumulates, plan 0 does not.
TEST_F(PlanSpaceTest, KnowsWhichPlansDifferInOneSetting) {
  const auto space = Space();
  ASSERT_TRUE(space.has_value());
  const std::string key = "data_parallel.accumulate_unsharded";
  ASSERT_THAT(space->Settings(3), Contains(Pair(key, "true")));
  EXPECT_TRUE(space->HasBefore(3, key, "false"));
  EXPECT_FALSE(space->HasBefore(0, key, "false"));
  EXPECT_FALSE(space->HasBefore(3, key, "true"));
  options_.vary = {{key, {"true"}}};
  EXPECT_FALSE(Space()->HasBefore(3, key, "false"));
}

TEST_F(PlanSpaceTest, MistakesAreNamed) {
  options_.fix = {"data_parallel.prefetsh"};
  auto space = Space();
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error()[0].code, "planner.fix");
  EXPECT_EQ(space.error()[0].hint, "did you mean 'data_parallel.prefetch'?");

  options_.fix = {"data_parallel.prefetch"};
  options_.vary = {{"data_parallel.prefetch", {"1"}}};
  space = Space();
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error()[0].code, "planner.vary");

  options_.fix = {};
  options_.vary = {{"training.global_batch_size", {"256", "512"}}};
  EXPECT_EQ(Space().error()[0].code, "planner.vary");

  options_.vary = {{"data_parallel.framework", {"ddp", "zdp"}}};
  EXPECT_EQ(Space().error()[0].message, "this framework does not exist: 'zdp'");
  EXPECT_EQ(Space().error()[0].hint,
            "choose from reference, ddp, fsdp1, fsdp2, deepspeed, megatron, nanotron");

  options_.vary = {{"data_parallel.zero_stage", {"0", "3"}}};
  space = Space();
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error()[0].message, "no framework in the search supports ZeRO stage 0");
  EXPECT_EQ(space.error()[0].hint,
            "remove the option, or search a framework that supports the option: --framework "
            "reference,ddp,deepspeed,megatron,nanotron");

  options_.vary = {{"training.micro_batch_size", {}}};
  for (int i = 1; i <= 300'000; ++i) options_.vary[0].values.push_back(fmt::format("{}", i));
  EXPECT_EQ(
      Space().error()[0].message,
      "the search space has 2400000 combinations of layout and training settings, but a search can "
      "have at most 2000000");
}

// FSDP's types: other frameworks take those that they support, and plans state the difference.
TEST_F(PlanSpaceTest, TypesFollowTheFramework) {
  scenario::Scenario base = *scenario::LoadText(
      kScenario, "test", {"training.parameter_dtype=fp32", "training.reduce_dtype=bf16"}, cache_);
  Give({{"training.parameter_dtype", "fp32"},
        {"training.reduce_dtype", "bf16"},
        {"training.gradient_accumulation", "4"}});
  options_.frameworks = {plan::Framework::kDdp, plan::Framework::kFsdp2,
                         plan::Framework::kDeepSpeed, plan::Framework::kMegatron};
  const auto space = PlanSpace::Around(base, options_);
  ASSERT_TRUE(space.has_value());
  EXPECT_THAT(space->notes(),
              ElementsAre("deepspeed, megatron cannot use training.parameter_dtype: fp32, so the "
                          "affected plans use the default of each framework",
                          "ddp, megatron cannot use training.reduce_dtype: bf16, so the affected "
                          "plans use the default of each framework"));
  for (const PlanPart& part : space->parts()) {
    std::vector<std::string> set = {"training.parameter_dtype=fp32", "training.reduce_dtype=bf16"};
    for (const auto& [key, value] : space->Settings(part.first)) set.push_back(key + "=" + value);
    const auto scenario = scenario::LoadText(kScenario, "test", set, cache_);
    EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  }
}

// A setting of only some frameworks is noted; one of none is an error.
TEST_F(PlanSpaceTest, SaysWhichFrameworksLackWhatVaries) {
  options_.vary = {{"data_parallel.prefetch", {"1", "2"}}, {"training.micro_batch_size", {"1"}}};
  options_.frameworks = {plan::Framework::kDdp, plan::Framework::kFsdp2};
  auto space = Space();
  ASSERT_TRUE(space.has_value());
  EXPECT_THAT(space->notes(),
              ElementsAre("--vary data_parallel.prefetch: ddp does not support this setting, so "
                          "the search includes its plans without the setting"));

  options_.frameworks = {plan::Framework::kDdp, plan::Framework::kMegatron};
  space = Space();
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error()[0].message,
            "no framework in the search supports this setting: 'data_parallel.prefetch'");
  EXPECT_EQ(space.error()[0].hint,
            "remove the option, or search a framework that supports the option: --framework "
            "reference,fsdp2");

  // Stage 3 is the scenario's.
  options_.vary = {};
  options_.fix = {"data_parallel.zero_stage"};
  options_.frameworks = {plan::Framework::kDdp, plan::Framework::kMegatron,
                         plan::Framework::kFsdp2};
  space = Space();
  ASSERT_TRUE(space.has_value());
  EXPECT_THAT(space->notes(), ElementsAre("--fix data_parallel.zero_stage: ddp, megatron do not "
                                          "support this stage, so the search omits their plans"));

  options_.frameworks = {plan::Framework::kFsdp2, plan::Framework::kFsdp2};
  space = Space();
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error()[0].message, "--framework lists the same framework twice: 'fsdp2'");

  options_.frameworks = {plan::Framework::kFsdp2};
  options_.fix = {};
  options_.vary = {{"data_parallel.framework", {"fsdp1"}}};
  EXPECT_EQ(Space().error()[0].code, "planner.framework");
}

// Checkpoints of several blocks require full recomputation; plans that recompute less drop them.
TEST_F(PlanSpaceTest, SettingsOfOneValueGoWithIt) {
  const std::vector<std::string> given = {
      "training.activation_checkpointing=full", "training.blocks_per_checkpoint=3",
      "parallelism.tensor=2", "data_parallel={framework: megatron, zero_stage: 1}"};
  Give({{"training.gradient_accumulation", "4"},
        {"training.blocks_per_checkpoint", "3"},
        {"training.activation_checkpointing", "full"},
        {"parallelism.tensor", "2"}});
  options_.fix = {"parallelism.tensor"};
  const scenario::Scenario base = *scenario::LoadText(kScenario, "test", given, cache_);
  const auto load = [&](const PlanSpace& space, std::int64_t plan) {
    std::vector<std::string> set = given;
    for (const auto& [key, value] : space.Settings(plan)) set.push_back(key + "=" + value);
    return scenario::LoadText(kScenario, "test", set, cache_);
  };
  auto space = PlanSpace::Around(base, options_);
  ASSERT_TRUE(space.has_value());
  std::set<std::string> seen;
  for (std::int64_t plan = 0; plan < space->size(); ++plan) {
    const auto scenario = load(*space, plan);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    const plan::Training& training = scenario->plan.training;
    seen.insert(fmt::format("{} {}", model::Name(training.activation_checkpointing),
                            training.blocks_per_checkpoint));
  }
  EXPECT_THAT(seen, ElementsAre("full 3", "none 1", "selective 1"));
  // Both are held, the blocks where they do something.
  ASSERT_EQ(space->held().size(), 2U);
  EXPECT_EQ(space->held()[0].key, "parallelism.tensor");
  EXPECT_EQ(space->held()[0].of, "");
  EXPECT_EQ(space->held()[1].key, "training.blocks_per_checkpoint");
  EXPECT_EQ(space->held()[1].of, "training.activation_checkpointing");
  EXPECT_THAT(space->held()[1].at, ElementsAre("full"));

  // Settings that vary are not held, nor are those that belong to values that are not tried.
  options_.fix = {};
  options_.vary = {{"parallelism.tensor", {"1", "2"}},
                   {"training.activation_checkpointing", {"none", "selective"}}};
  space = PlanSpace::Around(base, options_);
  ASSERT_TRUE(space.has_value());
  EXPECT_THAT(space->held(), IsEmpty());

  // A framework without the setting is searched without it.
  options_.vary = {};
  options_.fix = {"training.activation_checkpointing", "parallelism.tensor"};
  options_.frameworks = {plan::Framework::kFsdp2};
  space = PlanSpace::Around(base, options_);
  ASSERT_TRUE(space.has_value());
  EXPECT_THAT(space->notes(),
              ElementsAre("fsdp2 does not support training.blocks_per_checkpoint, so "
                          "the search includes its plans without this setting"));
  EXPECT_TRUE(load(*space, 0).has_value());
}

}  // namespace
}  // namespace stepcast::planner

#include "src/planner/plan_axes.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/framework_policy.h"
#include "src/plan/framework_style.h"
#include "src/plan/legality.h"
#include "src/plan/parallelism_settings.h"
#include "src/plan/request.h"
#include "src/plan/training.h"

namespace stepcast::planner {
namespace {

using plan::Framework;

std::string Key(std::string_view name) { return fmt::format("data_parallel.{}", name); }

SweepAxis Axis(std::string key, const std::vector<std::int64_t>& numbers) {
  SweepAxis axis{std::move(key), {}};
  for (const std::int64_t number : numbers) axis.values.push_back(fmt::format("{}", number));
  return axis;
}

// The values that the table of settings has for the framework.
SweepAxis Tried(Framework framework, int stage, std::string_view key) {
  const auto values =
      plan::FindSetting(plan::DataParallelSettings(), key)->uses.Tried(framework, stage);
  STEPCAST_CHECK(!values.empty(), "the table has values to try");
  return {Key(key), {values.begin(), values.end()}};
}

// Of interleaved pipelines, beside the default, which is the stages: divisors of the micro-batches
// of one sequence each.
SweepAxis GroupSizes(const Surroundings& around) {
  SweepAxis axis{"parallelism.microbatch_group_size_per_vp_stage", {kDefaultValue}};
  const std::int64_t most = around.scenario.plan.training.global_batch_size /
                            std::max<std::int64_t>(around.layout.data, 1);
  for (std::int64_t group = around.layout.pipeline + 1; group <= most; ++group) {
    if (most % group == 0) axis.values.push_back(fmt::format("{}", group));
  }
  return axis;
}

// Buckets up to the first that holds all gradients: beyond it, all sizes are one plan.
SweepAxis BucketSizes(const Surroundings& around, std::int64_t bytes_per_element) {
  const std::int64_t all = around.scenario.model->parameter_count() * bytes_per_element;
  SweepAxis axis{Key("bucket_size"), {}};
  for (const int mib : {1, 5, 10, 25, 50, 100, 200, 400}) {
    axis.values.push_back(fmt::format("{} MiB", mib));
    if (MiB(mib).count() >= all) break;
  }
  return axis;
}

// A node, powers of two of nodes, and all ranks, which is the default.
SweepAxis ShardGroups(const Surroundings& around) {
  SweepAxis axis{Key("shard_group_size"), {}};
  for (std::int64_t ranks = std::max<std::int64_t>(around.data_per_node, 2);
       ranks < around.layout.data; ranks *= 2) {
    if (around.layout.data % ranks == 0) axis.values.push_back(fmt::format("{}", ranks));
  }
  axis.values.emplace_back(kDefaultValue);
  return axis;
}

// Of a setting that the framework's policy names.
SweepAxis AxisOf(const plan::SearchedSetting& setting, const Surroundings& around,
                 Framework framework, int stage) {
  switch (setting.source) {
    case plan::SearchedSetting::Source::kTable:
      return Tried(framework, stage, setting.key);
    case plan::SearchedSetting::Source::kSaid:
      return {Key(setting.key), setting.values};
    case plan::SearchedSetting::Source::kBucketSizes:
      return BucketSizes(around, setting.element_bytes);
    case plan::SearchedSetting::Source::kShardGroups:
      return ShardGroups(around);
  }
  return {};
}

// What depends on model and cluster, and its order: the first plans win ties.
std::vector<SweepAxis> DerivedAxes(const Surroundings& around, Framework framework, int stage) {
  const plan::Training& training = around.scenario.plan.training;
  const topology::NodeType* node = around.scenario.cluster->node_type();
  const plan::SearchFacts facts{.data = around.layout.data,
                                .data_per_node = around.data_per_node,
                                .context = around.layout.context,
                                .tensor = around.layout.tensor > 1,
                                .pipeline = around.layout.pipeline > 1,
                                .accumulates = training.global_batch_size > around.layout.data,
                                .host = node != nullptr && node->host.has_value()};
  std::vector<SweepAxis> axes;
  for (const plan::SearchedSetting& setting :
       plan::PolicyOf(framework).Searched(facts, training, stage)) {
    axes.push_back(AxisOf(setting, around, framework, stage));
  }
  return axes;
}

// torchtitan's policy is its own; backward in two parts leaves no place for recomputation.
std::vector<std::string> Recomputations(const Surroundings& around, Framework framework) {
  const parallel::NamedSchedule* const schedule = parallel::FindSchedule(around.layout.schedule);
  if (schedule != nullptr && schedule->splits_backward) return {"none"};
  const bool torchtitan = plan::StyleOf(framework).stage_split == plan::StageSplit::kWithEnds;
  if (torchtitan) return {"none", "selective", "selective_op", "full"};
  return {"none", "selective", "full"};
}

// TriedSettings::inner. Where states are kept changes what is never released.
bool IsInner(std::string_view key) {
  return key.starts_with("data_parallel.") && !key.starts_with("data_parallel.deepspeed.offload") &&
         !key.ends_with("cpu_offload");
}

}  // namespace

std::vector<std::int64_t> MicroBatchesOf(const scenario::Scenario& scenario, std::int64_t data) {
  const plan::Training& training = scenario.plan.training;
  if (training.global_batch_size % data != 0 || scenario.model->is_layer_list()) {
    return {training.micro_batch_size};
  }
  const std::int64_t each = training.global_batch_size / data;
  std::set<std::int64_t> values;
  for (std::int64_t d = 1; d * d <= each; ++d) {
    if (each % d != 0) continue;
    values.insert(d);
    values.insert(each / d);
  }
  std::erase_if(values, [&](std::int64_t value) {
    return value > plan::kMostTokens / training.sequence_length;
  });
  return {values.begin(), values.end()};
}

TriedSettings TriedIn(const Surroundings& around, Framework framework, int stage) {
  TriedSettings tried;
  tried.outer = {Axis("training.micro_batch_size", around.micro_batches)};
  if (!around.scenario.model->is_layer_list()) {
    tried.outer.push_back({"training.activation_checkpointing", Recomputations(around, framework)});
  }
  if (around.overlaps) {
    const model::TensorOverlap own = plan::StyleOf(framework).layers.tensor_overlap;
    tried.outer.push_back({"training.tensor_overlap", {"none", model::Name(own)}});
  }
  const plan::ParallelismSetting* const group =
      plan::FindSetting(plan::ParallelismSettings(), "microbatch_group_size_per_vp_stage");
  if (around.layout.schedule == plan::kInterleaved && group->uses.Has(framework)) {
    tried.inner.push_back(GroupSizes(around));
  }
  const auto add = [&](SweepAxis axis) {
    (IsInner(axis.key) ? tried.inner : tried.outer).push_back(std::move(axis));
  };
  const std::vector<SweepAxis> derived = DerivedAxes(around, framework, stage);
  for (const SweepAxis& axis : derived) add(axis);
  // And every other setting of which the table has values to try.
  for (const plan::DataParallelSetting& setting : plan::DataParallelSettings()) {
    if (setting.uses.Tried(framework, stage).empty()) continue;
    const bool there = std::any_of(derived.begin(), derived.end(), [&](const SweepAxis& axis) {
      return axis.key == Key(setting.key);
    });
    if (!there) add(Tried(framework, stage, setting.key));
  }
  return tried;
}

}  // namespace stepcast::planner

#include "src/planner/plan_axes.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/framework_policy.h"
#include "src/plan/legality.h"
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

// Micro-batches of which every rank gets a whole number.
std::vector<std::int64_t> MicroBatches(const Surroundings& around) {
  const plan::Training& training = around.scenario.plan.training;
  if (training.global_batch_size % around.data != 0) return {training.micro_batch_size};
  const std::int64_t each = training.global_batch_size / around.data;
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

// Of a mixture: powers of two that divide both its experts and the ranks of a pipeline stage among
// which they can be shared out.
std::vector<std::int64_t> ExpertDegrees(const Surroundings& around, Framework framework) {
  const auto* architecture = std::get_if<model::Architecture>(&around.scenario.model->source);
  std::vector<std::int64_t> degrees{1};
  if (architecture == nullptr || !architecture->experts.exist() ||
      !plan::TraitsOf(framework).expert_parallel) {
    return degrees;
  }
  const std::int64_t ranks = around.data * around.context;
  for (std::int64_t degree = 2; architecture->experts.count % degree == 0 && ranks % degree == 0;
       degree *= 2) {
    degrees.push_back(degree);
  }
  return degrees;
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
  for (std::int64_t ranks = std::max<std::int64_t>(around.data_per_node, 2); ranks < around.data;
       ranks *= 2) {
    if (around.data % ranks == 0) axis.values.push_back(fmt::format("{}", ranks));
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
  const plan::SearchFacts facts{.data = around.data,
                                .data_per_node = around.data_per_node,
                                .context = around.context,
                                .tensor = around.tensor,
                                .pipeline = around.pipeline,
                                .accumulates = training.global_batch_size > around.data,
                                .host = node != nullptr && node->host.has_value()};
  std::vector<SweepAxis> axes;
  for (const plan::SearchedSetting& setting :
       plan::PolicyOf(framework).Searched(facts, training, stage)) {
    axes.push_back(AxisOf(setting, around, framework, stage));
  }
  return axes;
}

}  // namespace

std::vector<SweepAxis> TriedAxes(const Surroundings& around, Framework framework, int stage) {
  std::vector<SweepAxis> axes = {Axis("training.micro_batch_size", MicroBatches(around))};
  if (const std::vector<std::int64_t> experts = ExpertDegrees(around, framework);
      experts.size() > 1) {
    axes.push_back(Axis("parallelism.expert", experts));
  }
  if (!around.scenario.model->is_layer_list()) {
    axes.push_back({"training.activation_checkpointing", {"none", "selective", "full"}});
  }
  for (SweepAxis& axis : DerivedAxes(around, framework, stage)) axes.push_back(std::move(axis));
  // And every other setting of which the table has values to try.
  for (const plan::DataParallelSetting& setting : plan::DataParallelSettings()) {
    if (setting.uses.Tried(framework, stage).empty()) continue;
    const bool there = std::any_of(axes.begin(), axes.end(), [&](const SweepAxis& axis) {
      return axis.key == Key(setting.key);
    });
    if (!there) axes.push_back(Tried(framework, stage, setting.key));
  }
  return axes;
}

}  // namespace stepcast::planner

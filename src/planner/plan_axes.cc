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
#include "src/plan/legality.h"
#include "src/plan/training.h"

namespace stepcast::planner {
namespace {

using plan::Framework;

std::string Key(std::string_view name) { return fmt::format("data_parallel.{}", name); }
std::string DeepSpeedKey(std::string_view name) {
  return fmt::format("data_parallel.deepspeed.{}", name);
}

SweepAxis Axis(std::string key, const std::vector<std::int64_t>& numbers) {
  SweepAxis axis{std::move(key), {}};
  for (const std::int64_t number : numbers) axis.values.push_back(fmt::format("{}", number));
  return axis;
}

SweepAxis Switch(std::string key) { return {std::move(key), {"false", "true"}}; }

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

// Only where there may be something to accumulate.
bool MayAccumulate(const Surroundings& around) {
  return around.scenario.plan.training.global_batch_size > around.data;
}

std::vector<SweepAxis> ReferenceAxes(const Surroundings& around, int stage) {
  std::vector<SweepAxis> axes;
  if (stage < 3) {
    axes.push_back(
        BucketSizes(around, SizeOf(plan::WrittenGradientType(around.scenario.plan.training))));
  } else {
    axes.push_back(Tried(Framework::kReference, stage, "prefetch"));
    axes.push_back(Tried(Framework::kReference, stage, "reshard_after_forward"));
  }
  if (stage >= 2 && MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  if (stage >= 1) axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> Fsdp1Axes(const Surroundings& around, int stage) {
  std::vector<SweepAxis> axes = {Tried(Framework::kFsdp1, stage, "backward_prefetch"),
                                 Tried(Framework::kFsdp1, stage, "forward_prefetch"),
                                 Tried(Framework::kFsdp1, stage, "limit_all_gathers")};
  if (MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> Fsdp2Axes(const Surroundings& around, int stage) {
  std::vector<SweepAxis> axes = {Tried(Framework::kFsdp2, stage, "prefetch")};
  if (around.pipeline) {
    // Gradients are put off there, and no parts of parameters are kept.
    axes.push_back(ShardGroups(around));
    return axes;
  }
  // Over the ranks of a node that share states. Where layers are divided a rule refuses it.
  const std::int64_t near = around.data_per_node * around.context;
  if (stage == 3 && !around.tensor && near > 1 && near < around.data * around.context) {
    axes.push_back({Key("reshard_after_forward"), {"true", fmt::format("{}", near)}});
  }
  if (MayAccumulate(around)) axes.push_back(Switch(Key("accumulate_unsharded")));
  axes.push_back(ShardGroups(around));
  return axes;
}

std::vector<SweepAxis> DeepSpeedAxes(const Surroundings& around, int stage) {
  if (stage == 0) return {};
  std::vector<SweepAxis> axes = {
      Axis(DeepSpeedKey("reduce_bucket_size"), {200'000'000, 500'000'000, 1'000'000'000})};
  const topology::NodeType* node = around.scenario.cluster->node_type();
  const bool host = node != nullptr && node->host.has_value();
  if (host) axes.push_back({DeepSpeedKey("offload_optimizer"), {"none", "cpu"}});
  if (stage < 3) {
    axes.push_back(Switch(Key("overlap")));
    return axes;
  }
  axes.push_back(
      Axis(DeepSpeedKey("stage3_prefetch_bucket_size"), {10'000'000, 50'000'000, 200'000'000}));
  axes.push_back(Axis(DeepSpeedKey("stage3_param_persistence_threshold"), {100'000, 1'000'000}));
  if (around.data_per_node > 1 && around.data_per_node < around.data) {
    axes.push_back(Axis(DeepSpeedKey("zero_hpz_partition_size"), {1, around.data_per_node}));
  }
  if (host) axes.push_back({DeepSpeedKey("offload_param"), {"none", "cpu"}});
  return axes;
}

std::vector<SweepAxis> MegatronAxes(const Surroundings& around, int stage) {
  SweepAxis buckets{Key("bucket_size"), {kDefaultValue}};
  for (const int mib : {25, 50, 100, 200, 400})
    buckets.values.push_back(fmt::format("{} MiB", mib));
  std::vector<SweepAxis> axes = {std::move(buckets)};
  if (stage == 1) {
    axes.push_back(Tried(Framework::kMegatron, stage, "overlap_param_gather"));
    axes.push_back(ShardGroups(around));
  }
  return axes;
}

// What depends on model and cluster, and its order: the first plans win ties.
std::vector<SweepAxis> DerivedAxes(const Surroundings& around, Framework framework, int stage) {
  switch (framework) {
    case Framework::kReference:
      return ReferenceAxes(around, stage);
    case Framework::kDdp:
      return {BucketSizes(around, SizeOf(around.scenario.plan.training.gradient_dtype)),
              Tried(Framework::kDdp, stage, "gradient_as_bucket_view")};
    case Framework::kFsdp1:
      return Fsdp1Axes(around, stage);
    case Framework::kFsdp2:
      return Fsdp2Axes(around, stage);
    case Framework::kDeepSpeed:
      return DeepSpeedAxes(around, stage);
    case Framework::kMegatron:
      return MegatronAxes(around, stage);
    case Framework::kNanotron:
      if (stage > 0) return {};
      return {
          BucketSizes(around, SizeOf(plan::ComputeType(around.scenario.plan.training.precision)))};
  }
  return {};
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

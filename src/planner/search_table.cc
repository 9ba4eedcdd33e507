#include "src/planner/search_table.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_policy.h"
#include "src/plan/framework_style.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/plan/training.h"
#include "src/planner/sweep_grid.h"
#include "src/topology/cluster.h"

namespace stepcast::planner {
namespace {

using plan::At;
using plan::Framework;
using plan::Of;
using Values = std::vector<std::string>;
using enum Framework;

constexpr const char* kOne = "1";

std::string Text(std::int64_t number) { return fmt::format("{}", number); }

// Ascending.
Values DivisorsUpTo(std::int64_t of, std::int64_t most) {
  Values divisors;
  for (std::int64_t d = 1; d <= std::min(of, most); ++d) {
    if (of % d == 0) divisors.push_back(Text(d));
  }
  return divisors;
}

// The scenario's own value is always included.
Values WithOwn(Values values, std::int64_t own) {
  if (std::find(values.begin(), values.end(), Text(own)) == values.end()) {
    values.push_back(Text(own));
  }
  return values;
}

Values Both(const SearchPoint& /*point*/) { return {"false", "true"}; }

// A layer list's times hold only for its own layout.
bool HasGivenTimes(const SearchPoint& point) { return !point.facts.has_ends; }

// Only degrees within a node: links between nodes are much slower.
Values Tensor(const SearchPoint& point) {
  if (HasGivenTimes(point)) return {Text(point.own().tensor)};
  const topology::Cluster& cluster = *point.scenario.cluster;
  const std::int64_t most = cluster.flat()
                                ? point.devices
                                : std::min<std::int64_t>(point.devices, cluster.gpus_per_node());
  return WithOwn(DivisorsUpTo(point.devices, most), point.own().tensor);
}

std::int64_t StageBlocks(const SearchPoint& point) {
  return point.facts.blocks.value_or(1) + (point.facts.has_ends ? 2 : 0);
}

Values Pipeline(const SearchPoint& point) {
  return WithOwn(DivisorsUpTo(point.devices, StageBlocks(point)), point.own().pipeline);
}

Values Schedule(const SearchPoint& point) {
  Values names;
  for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
    names.emplace_back(named.name);
  }
  const bool listed = point.own().listed != nullptr;
  if (listed && point.layout.pipeline == point.own().pipeline) {
    names.push_back(point.own().schedule);
  }
  return names;
}

bool HasEqualStages(const SearchPoint& point) {
  return plan::StyleOf(point.framework).stage_split == plan::StageSplit::kEqual;
}

Values VirtualStages(const SearchPoint& point) {
  const Layout& layout = point.layout;
  const parallel::NamedSchedule* const named = parallel::FindSchedule(
      layout.schedule.empty() ? plan::kInterleaved : std::string_view(layout.schedule));
  if (named == nullptr) return {Text(point.own().virtual_stages)};
  if (named->chunks > 0) return {Text(named->chunks)};
  Values values;
  if (layout.schedule.empty()) values.emplace_back(kOne);
  constexpr std::int64_t kMost = 64;
  const std::int64_t blocks = StageBlocks(point);
  // If stages may be unequal, every number is legal; take those with equal stages, and powers of
  // two.
  for (std::int64_t chunks = 2; chunks <= std::min(blocks / layout.pipeline, kMost); ++chunks) {
    const bool even = blocks % (layout.pipeline * chunks) == 0;
    const bool power = (chunks & (chunks - 1)) == 0;
    if (HasEqualStages(point) || even || power || chunks == point.own().virtual_stages) {
      values.push_back(Text(chunks));
    }
  }
  return values;
}

Values CountedEnds(const SearchPoint& point) {
  if (!HasEqualStages(point) || HasGivenTimes(point)) return {"false"};
  return {"false", "true"};
}

Values Context(const SearchPoint& point) {
  if (HasGivenTimes(point)) return {Text(point.own().context)};
  const std::int64_t left = point.devices / (point.layout.tensor * point.layout.pipeline);
  const std::int64_t parts = point.scenario.plan.training.sequence_length / kLeastContextTokens;
  return WithOwn(DivisorsUpTo(left, std::max<std::int64_t>(parts, 1)), point.own().context);
}

Values ContextMethods(const SearchPoint& /*point*/) {
  using Words = plan::WordSetting<plan::ParallelismRequest, plan::Parallelism>;
  const auto* setting = plan::FindSetting(plan::ParallelismSettings(), "context_method");
  const Words& methods = std::get<Words>(setting->type);
  return {methods.words.begin(), methods.words.end()};
}

Values ContextInner(const SearchPoint& point) {
  Values values = DivisorsUpTo(point.layout.context, point.layout.context / 2);
  std::erase(values, kOne);
  return values;
}

Values Expert(const SearchPoint& point) {
  if (!plan::TraitsOf(point.framework).expert_parallel) return {kOne};
  return WithOwn(DivisorsUpTo(point.facts.experts, point.facts.experts), point.own().expert);
}

// Divided like the other layers, or not at all.
Values ExpertTensor(const SearchPoint& point) {
  Values values{kOne};
  if (point.layout.tensor > 1) values.push_back(Text(point.layout.tensor));
  return WithOwn(std::move(values),
                 point.layout.tensor == point.own().tensor ? point.own().expert_tensor : 1);
}

Values MicroBatches(const SearchPoint& point) {
  Values values;
  for (const std::int64_t size : point.micro_batches) values.push_back(Text(size));
  return values;
}

// torchtitan has its own policy; a two-part backward does not support recomputation.
Values Recomputations(const SearchPoint& point) {
  if (point.scenario.model->is_layer_list()) return {};
  const parallel::NamedSchedule* const schedule = parallel::FindSchedule(point.layout.schedule);
  if (schedule != nullptr && schedule->splits_backward) return {"none"};
  const bool torchtitan = plan::StyleOf(point.framework).stage_split == plan::StageSplit::kWithEnds;
  if (torchtitan) return {"none", "selective", "selective_op", "full"};
  return {"none", "selective", "full"};
}

// Plans of all frameworks are compared with the same kind of kernels; Megatron-LM's layers are
// always fused. Values given in the scenario are kept.
Values Unless(const SearchPoint& point, const char* key, const char* value) {
  if (point.scenario.model->is_layer_list() || (point.written && point.written(key))) return {};
  return {value};
}
Values Compile(const SearchPoint& point) { return Unless(point, "training.compile", "true"); }
Values Loss(const SearchPoint& point) { return Unless(point, "training.loss", "fused"); }

Values TensorOverlaps(const SearchPoint& point) {
  if (!point.overlaps) return {};
  return {"none", model::Name(plan::StyleOf(point.framework).layers.tensor_overlap)};
}

// The default (the number of stages) and divisors of the micro-batches of one sequence each.
Values GroupSizes(const SearchPoint& point) {
  if (point.layout.schedule != plan::kInterleaved) return {};
  Values values{kDefaultValue};
  const std::int64_t most =
      point.scenario.plan.training.global_batch_size / std::max<std::int64_t>(point.layout.data, 1);
  for (std::int64_t group = point.layout.pipeline + 1; group <= most; ++group) {
    if (most % group == 0) values.push_back(Text(group));
  }
  const std::int64_t own = point.own().microbatch_group_size_per_vp_stage;
  return own > point.layout.pipeline ? WithOwn(std::move(values), own) : values;
}

// Buckets up to the first that holds all gradients; larger sizes give the same plan.
Values BucketSizes(const SearchPoint& point, DataType gradients) {
  const std::int64_t all = point.scenario.model->parameter_count() * SizeOf(gradients);
  Values values;
  for (const int mib : {1, 5, 10, 25, 50, 100, 200, 400}) {
    values.push_back(fmt::format("{} MiB", mib));
    if (MiB(mib).count() >= all) break;
  }
  return values;
}

// A node, powers of two of nodes, and all ranks (the default).
Values ShardGroups(const SearchPoint& point) {
  Values values;
  for (std::int64_t ranks = std::max<std::int64_t>(point.data_per_node, 2);
       ranks < point.layout.data; ranks *= 2) {
    if (point.layout.data % ranks == 0) values.push_back(Text(ranks));
  }
  values.emplace_back(kDefaultValue);
  return values;
}

// Only if some plans have several micro-batches.
Values PutOff(const SearchPoint& point) {
  if (point.scenario.plan.training.global_batch_size <= point.layout.data) return {};
  return {"false", "true"};
}

// Over the ranks of a node that share states.
Values ReshardOverNode(const SearchPoint& point) {
  if (point.layout.pipeline > 1 || point.layout.tensor > 1) return {};  // a rule refuses it
  const std::int64_t near = point.data_per_node * point.layout.context;
  if (near <= 1 || near >= point.layout.data * point.layout.context) return {};
  return {"true", Text(near)};
}

// Only if the memory of hosts is described.
Values Offload(const SearchPoint& point) {
  const topology::NodeType* const node = point.scenario.cluster->node_type();
  if (node == nullptr || !node->host.has_value()) return {};
  return {"none", "cpu"};
}

Values ShardsOverNode(const SearchPoint& point) {
  if (point.data_per_node <= 1 || point.data_per_node >= point.layout.data) return {};
  return {kOne, Text(point.data_per_node)};
}

const std::vector<SearchRow>& Rows() {
  using enum SearchLevel;
  static const std::vector<SearchRow> kRows = {
      {"parallelism.tensor", kLayout, {}, Tensor},
      {"parallelism.sequence_parallel", kLayout, {}, Both},
      {"parallelism.pipeline", kLayout, {}, Pipeline},
      {"parallelism.schedule", kLayout, {}, Schedule},
      {"parallelism.virtual_stages", kLayout, {}, VirtualStages},
      {"parallelism.account_for_embedding_in_pipeline_split", kLayout, {}, CountedEnds},
      {"parallelism.account_for_loss_in_pipeline_split", kLayout, {}, CountedEnds},
      {"parallelism.context", kLayout, {}, Context},
      {"parallelism.context_method", kLayout, {}, ContextMethods},
      {"parallelism.context_inner", kLayout, {}, ContextInner},
      {"parallelism.expert", kLayout, {}, Expert},
      {"parallelism.expert_tensor", kLayout, {Of(kMegatron)}, ExpertTensor},
      {"training.micro_batch_size", kKernels, {}, MicroBatches},
      {"training.activation_checkpointing", kKernels, {}, Recomputations},
      {"training.compile", kKernels, {Of(kDdp), Of(kFsdp1), Of(kFsdp2), Of(kDeepSpeed)}, Compile},
      {"training.loss",
       kKernels,
       {Of(kDdp), Of(kFsdp1), Of(kFsdp2), Of(kDeepSpeed), Of(kMegatron)},
       Loss},
      {"training.tensor_overlap", kKernels, {Of(kMegatron), Of(kFsdp2)}, TensorOverlaps},
      {"data_parallel.deepspeed.offload_optimizer", kKernels, {At(kDeepSpeed, 1, 3)}, Offload},
      {"data_parallel.deepspeed.offload_param", kKernels, {At(kDeepSpeed, 3, 3)}, Offload},
      {"parallelism.microbatch_group_size_per_vp_stage",
       kCommunication,
       {Of(kMegatron), Of(kReference)},
       GroupSizes},
      {"data_parallel.bucket_size",
       kCommunication,
       {Of(kDdp)},
       // By default the first bucket is smaller than the others (torch/nn/parallel/distributed.py).
       [](const SearchPoint& point) {
         Values sizes = BucketSizes(point, point.scenario.plan.training.gradient_dtype);
         sizes.emplace_back(kDefaultValue);
         return sizes;
       }},
      {"data_parallel.bucket_size",
       kCommunication,
       {At(kReference, 0, 2)},
       [](const SearchPoint& point) {
         return BucketSizes(point, plan::WrittenGradientType(point.scenario.plan.training));
       }},
      {"data_parallel.bucket_size",
       kCommunication,
       {At(kNanotron, 0, 0)},
       [](const SearchPoint& point) {
         return BucketSizes(point, plan::ComputeType(point.scenario.plan.training.precision));
       }},
      {"data_parallel.bucket_size",
       kCommunication,
       {Of(kMegatron)},
       [](const SearchPoint&) {
         return Values{kDefaultValue, "25 MiB", "50 MiB", "100 MiB", "200 MiB", "400 MiB"};
       }},
      {"data_parallel.gradient_as_bucket_view", kCommunication, {Of(kDdp)}, Both},
      {"data_parallel.backward_prefetch",
       kCommunication,
       {Of(kFsdp1)},
       [](const SearchPoint&) {
         return Values{"pre", "post", "none"};
       }},
      {"data_parallel.forward_prefetch", kCommunication, {Of(kFsdp1)}, Both},
      {"data_parallel.limit_all_gathers", kCommunication, {Of(kFsdp1)}, Both},
      {"data_parallel.prefetch",
       kCommunication,
       {At(kReference, 3, 3)},
       [](const SearchPoint&) {
         return Values{"0", "1", "2", "4"};
       }},
      {"data_parallel.prefetch",
       kCommunication,
       {Of(kFsdp2)},
       [](const SearchPoint&) {
         return Values{"0", "1", "2", "3", "4"};
       }},
      {"data_parallel.reshard_after_forward", kCommunication, {At(kReference, 3, 3)}, Both},
      {"data_parallel.reshard_after_forward", kCommunication, {At(kFsdp2, 3, 3)}, ReshardOverNode},
      {"data_parallel.accumulate_unsharded",
       kCommunication,
       {Of(kFsdp1), At(kReference, 2, 3)},
       PutOff},
      {"data_parallel.accumulate_unsharded",
       kCommunication,
       {Of(kFsdp2)},
       [](const SearchPoint& point) {
         return point.layout.pipeline > 1 ? Values() : PutOff(point);  // put off in any case
       }},
      {"data_parallel.deepspeed.reduce_bucket_size",
       kCommunication,
       {At(kDeepSpeed, 1, 3)},
       [](const SearchPoint&) {
         return Values{"200000000", "500000000", "1000000000"};
       }},
      {"data_parallel.overlap", kCommunication, {At(kDeepSpeed, 1, 2)}, Both},
      {"data_parallel.deepspeed.stage3_prefetch_bucket_size",
       kCommunication,
       {At(kDeepSpeed, 3, 3)},
       [](const SearchPoint&) {
         return Values{"10000000", "50000000", "200000000"};
       }},
      {"data_parallel.deepspeed.stage3_param_persistence_threshold",
       kCommunication,
       {At(kDeepSpeed, 3, 3)},
       [](const SearchPoint&) {
         return Values{"100000", "1000000"};
       }},
      {"data_parallel.deepspeed.zero_hpz_partition_size",
       kCommunication,
       {At(kDeepSpeed, 3, 3)},
       ShardsOverNode},
      {"data_parallel.overlap_param_gather", kCommunication, {At(kMegatron, 1, 1)}, Both},
      {"data_parallel.shard_group_size",
       kCommunication,
       {Of(kFsdp1), Of(kFsdp2), At(kMegatron, 1, 1), At(kReference, 1, 3)},
       ShardGroups},
  };
  return kRows;
}

}  // namespace

std::span<const SearchRow> SearchTable() { return Rows(); }

const SearchRow* FindSearchRow(std::string_view key, Framework framework, int stage) {
  const auto found = std::find_if(Rows().begin(), Rows().end(), [&](const SearchRow& row) {
    return key == row.key && row.uses.HasEffect(framework, stage);
  });
  return found == Rows().end() ? nullptr : &*found;
}

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

}  // namespace stepcast::planner

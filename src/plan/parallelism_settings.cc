#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/check.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

using Given = ParallelismRequest;
using Switch = SwitchSetting<Given, Parallelism>;
using Count = CountSetting<Given, Parallelism>;

// A generous limit: no machine is larger. The product of all five degrees fits in 64 bits.
constexpr std::int64_t kMostRanks = 10'000'000;
constexpr std::int64_t kMostOfAnAxis = 10'000;
constexpr std::int64_t kMostVirtualStages = 64;
constexpr std::int64_t kMostMicroBatchGroup = 1'000'000;

bool IsDivided(const Parallelism& axes) { return axes.tensor > 1; }
bool HasContext(const Parallelism& axes) { return axes.context > 1; }
bool IsPipeline(const Parallelism& axes) { return axes.pipeline > 1; }
bool IsInStageLayers(const Parallelism& /*axes*/) { return false; }  // not shown separately

std::vector<ParallelismSetting> Rows() {
  return {
      {.key = "data",
       .type = Count{&Given::data, &Parallelism::data, 1, kMostRanks},
       .of_task = true,  // it follows from the others
       .uses = {}},
      {.key = "tensor",
       .type = Count{&Given::tensor, &Parallelism::tensor, 1, kMostOfAnAxis},
       .uses = {}},
      {.key = "pipeline",
       .type = Count{&Given::pipeline, &Parallelism::pipeline, 1, kMostOfAnAxis},
       .uses = {}},
      {.key = "context",
       .type = Count{&Given::context, &Parallelism::context, 1, kMostOfAnAxis},
       .uses = {}},
      {.key = "context_method",
       .type = Words<&Given::context_method, &Parallelism::context_method,
                     model::ContextMethod::kRing, model::ContextMethod::kAllGather,
                     model::ContextMethod::kAllToAll, model::ContextMethod::kHierarchical>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron),
                Of(Framework::kFsdp2, "`ring` and `all_gather`")},
       .without = "context",
       .shown = HasContext},
      {.key = "context_inner",
       .type = Count{&Given::context_inner, &Parallelism::context_inner, 2, kMostOfAnAxis},
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .without = "context",
       .shown = [](const Parallelism& axes) { return axes.context_inner > 1; }},
      {.key = "expert",
       .type = Count{&Given::expert, &Parallelism::expert, 1, kMostOfAnAxis},
       .uses = {}},
      {.key = "expert_tensor",
       .type = Count{&Given::expert_tensor, &Parallelism::expert_tensor, 1, kMostOfAnAxis},
       .uses = {Of(Framework::kMegatron)},
       // Shown even if 1, where the default would be the tensor-parallel degree.
       .shown =
           [](const Parallelism& axes) {
             return axes.expert > 1 || axes.expert_tensor > 1 || axes.tensor > 1;
           }},
      {.key = "sequence_parallel",
       .type = Switch{&Given::sequence_parallel, &Parallelism::sequence_parallel},
       .uses = {},
       .without = "tensor",
       .shown = IsDivided},
      {.key = "schedule",
       .type = OwnNotation<&Given::schedule>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline},
      {.key = "virtual_stages",
       .type = Count{&Given::virtual_stages, &Parallelism::virtual_stages, 1, kMostVirtualStages},
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline},
      {.key = "microbatch_group_size_per_vp_stage",
       .type = Count{&Given::microbatch_group_size_per_vp_stage,
                     &Parallelism::microbatch_group_size_per_vp_stage, 1, kMostMicroBatchGroup},
       .uses = {Of(Framework::kMegatron), Of(Framework::kReference)},
       .without = "pipeline",
       .shown =
           [](const Parallelism& axes) {
             return axes.microbatch_group_size_per_vp_stage != 0 &&
                    axes.microbatch_group_size_per_vp_stage != axes.pipeline;
           }},
      {.key = "stage_layers",
       .type = OwnNotation<&Given::stage_layers>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline},
      {.key = "account_for_embedding_in_pipeline_split",
       .type = Switch{&Given::account_for_embedding_in_pipeline_split,
                      &Parallelism::account_for_embedding_in_pipeline_split},
       .uses = {},
       .without = "pipeline",
       .shown = IsInStageLayers},
      {.key = "account_for_loss_in_pipeline_split",
       .type = Switch{&Given::account_for_loss_in_pipeline_split,
                      &Parallelism::account_for_loss_in_pipeline_split},
       .uses = {},
       .without = "pipeline",
       .shown = IsInStageLayers},
  };
}

const Count& FindAxis(std::string_view axis) {
  const ParallelismSetting* const setting = FindSetting(ParallelismSettings(), axis);
  STEPCAST_CHECK(setting != nullptr && std::holds_alternative<Count>(setting->type),
                 "the table of settings must have the axis, and the degree of the axis must be a "
                 "number");
  return std::get<Count>(setting->type);
}

}  // namespace

std::span<const ParallelismSetting> ParallelismSettings() {
  static const std::vector<ParallelismSetting> kRows = Rows();
  return kRows;
}

std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis) {
  return axes.*FindAxis(axis).kept;
}
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis) {
  return (request.*FindAxis(axis).given).value_or(1);
}

}  // namespace stepcast::plan

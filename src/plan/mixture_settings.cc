#include "src/plan/mixture_settings.h"

#include <vector>

#include "src/model/architecture.h"

namespace stepcast::plan {
namespace {

using Given = MixtureRequest;
using Switch = SwitchSetting<Given, Mixture>;

bool IsMixture(const model::Architecture& architecture) { return architecture.experts.exist(); }
constexpr const char* kNeeded = "experts";

std::vector<MixtureSetting> Rows() {
  return {
      {.key = "dispatcher",
       .type = Words<&Given::dispatcher, &Mixture::dispatcher, model::Dispatcher::kAllToAll,
                     model::Dispatcher::kAllGather>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kFsdp2, "`all_to_all`")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values =
           "how tokens come to the ranks of their experts: `all_to_all` (each rank sends each "
           "row to its expert's rank; the host waits for the counts), `all_gather` (all ranks "
           "get all tokens)",
       .default_value = "`all_to_all`, as recipes have it; Megatron-Core's own default is "
                        "`allgather`"},
      {.key = "products",
       .type = Words<&Given::expert_products, &Mixture::products, model::ExpertProducts::kGrouped,
                     model::ExpertProducts::kStreams, model::ExpertProducts::kLooped>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "how the products of a rank's experts are launched: `grouped` (one kernel), "
                 "`streams` (one each, on four streams; Transformer Engine's GroupedLinear), "
                 "`looped` (one each, in turn; Megatron-Core without `moe_grouped_gemm`)",
       .default_value = "`grouped`; megatron: `streams`, as recipes have it; Megatron-Core's own "
                        "default is `looped`"},
      {.key = "router_dtype",
       .type =
           Words<&Given::router_dtype, &Mixture::router_dtype, DataType::kBf16, DataType::kFp32>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "the type of the router's logits (Megatron-Core's `moe_router_dtype`)",
       .default_value = "bf16; fsdp2: fp32 (torchtitan)"},
      {.key = "fused_router",
       .type = Switch{&Given::fused_router, &Mixture::fused_router},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "scores and the choice of experts are one kernel (`moe_router_fusion`)",
       .default_value = "true, as NVIDIA's guide asks for; Megatron-Core's own default is false"},
      {.key = "fused_permutation",
       .type = Switch{&Given::fused_permutation, &Mixture::fused_permutation},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "the map of a permutation takes three kernels in the place of a sort "
                 "(`moe_permute_fusion`)",
       .default_value = "true, as NVIDIA's guide asks for; Megatron-Core's own default is false"},
      {.key = "imbalance",
       .type = OwnNotation<&Given::imbalance>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values =
           "rows of the rank whose experts get most of them, over the mean of all ranks, from "
           "1 to the number of ranks that share the experts out. The forecast is that rank's: "
           "its products, messages and memory, in every layer",
       .default_value = "1: the router balances perfectly, as runs with forced balance do"}};
}

}  // namespace

std::span<const MixtureSetting> MixtureSettings() {
  static const std::vector<MixtureSetting> kRows = Rows();
  return kRows;
}

}  // namespace stepcast::plan

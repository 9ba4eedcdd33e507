#include <vector>

#include "src/model/architecture.h"
#include "src/plan/plan.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

using Given = MixtureRequest;
using Switch = SwitchSetting<Given, Mixture>;
using Count = CountSetting<Given, Mixture>;

constexpr std::int64_t kMostNodes = 10'000, kMostRows = 1'000'000;

bool IsMixture(const model::Architecture& architecture) { return architecture.experts.exist(); }
constexpr const char* kNeeded = "experts";
bool HasSharedExperts(const model::Architecture& architecture) {
  return architecture.experts.shared_feed_forward > 0;
}

std::vector<MixtureSetting> Rows() {
  return {
      {.key = "dispatcher",
       .type = Words<&Given::dispatcher, &Mixture::dispatcher, model::Dispatcher::kAllToAll,
                     model::Dispatcher::kAllGather, model::Dispatcher::kDeepEp,
                     model::Dispatcher::kHybridEp>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kFsdp2, "`all_to_all`")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values =
           "how tokens come to the ranks of their experts: `all_to_all` (each rank sends each "
           "row to its expert's rank; the host waits for the counts), `all_gather` (all ranks "
           "get all tokens), `deepep` and `hybridep` (a token goes once to each node that has "
           "some of its experts, and there once to each rank)",
       .default_value = "`all_to_all`, as recipes have it; Megatron-Core's own default is "
                        "`allgather`"},
      {.key = "implementation",
       .type =
           Words<&Given::expert_implementation, &Mixture::implementation,
                 model::ExpertImplementation::kTorchtitan,
                 model::ExpertImplementation::kTransformers,
                 model::ExpertImplementation::kDeepSpeed, model::ExpertImplementation::kAutoEp>(),
       .uses = {Of(Framework::kFsdp2), Of(Framework::kDeepSpeed)},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown =
           [](const Mixture& mixture) {
             return mixture.implementation != model::ExpertImplementation::kMegatron &&
                    mixture.implementation != model::ExpertImplementation::kTorchtitan;
           },
       .values = "whose layers these are: `torchtitan` (fsdp2), `transformers` (Hugging Face's, as "
                 "accelerate and its trainers have them, whose ranks have all experts; fsdp2, "
                 "deepspeed), `deepspeed` (its `deepspeed.moe.layer.MoE`) or `autoep` (what its "
                 "`expert_parallel` makes of transformers' layers)",
       .default_value = "fsdp2: `torchtitan`; deepspeed: `transformers` where `expert` is 1, else "
                        "`deepspeed`; ddp and fsdp1 have transformers' layers, megatron its own"},
      {.key = "products",
       .type = Words<&Given::expert_products, &Mixture::products, model::ExpertProducts::kGrouped,
                     model::ExpertProducts::kStreams, model::ExpertProducts::kLooped>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "how the products of a rank's experts are launched: `grouped` (one kernel), "
                 "`streams` (one each, on four streams; Transformer Engine's GroupedLinear), "
                 "`looped` (one each, in turn; Megatron-Core without `moe_grouped_gemm`; of "
                 "transformers before 5, where the host waits for each expert's tokens)",
       .default_value =
           "`grouped`; transformers' layers and AutoEP before torch 2.9, and DeepSpeed's "
           "own layer: `looped`; megatron: `streams`, as recipes have it; "
           "Megatron-Core's own default is `looped`"},
      {.key = "dispatch_dtype",
       .type = Words<&Given::dispatch_dtype, &Mixture::dispatch_dtype, DataType::kBf16,
                     DataType::kFp8>(),
       .uses = {Of(Framework::kMegatron, "with `deepep`")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.dispatch_dtype != DataType::kBf16; },
       .values = "what rows are sent to their experts in: `bf16`, or `fp8` with an FP32 scale for "
                 "128 numbers, beside products in `fp8` (DeepEP's own option, as DeepSeek-V3 was "
                 "trained; Megatron-Core's dispatchers send 16 bits). They come back in 16 bits",
       .default_value = "`bf16`"},
      {.key = "router_dtype",
       .type =
           Words<&Given::router_dtype, &Mixture::router_dtype, DataType::kBf16, DataType::kFp32>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "the type of the router's logits (Megatron-Core's `moe_router_dtype`)",
       .default_value = "bf16; torchtitan's and DeepSpeed's layers: fp32"},
      {.key = "node_limit",
       .type = Count{&Given::node_limit, &Mixture::node_limit, 1, kMostNodes},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         if (!model::SendsTokensOnce(plan.mixture.dispatcher)) {
           return "with this dispatcher, which sends a token to each of its experts; take deepep "
                  "or "
                  "hybridep";
         }
         return plan.mixture.node_limit == 0 ? "beyond the nodes that share experts out" : "";
       },
       .shown = [](const Mixture& mixture) { return mixture.node_limit > 0; },
       .values = "a token's experts are on so many nodes at most, with `deepep` and `hybridep` "
                 "(Megatron-Core's `moe_router_group_topk`, with a group of experts a node)",
       .default_value =
           "the model's groups a token where as many groups as nodes share the experts "
           "out, else no limit"},
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
      {.key = "fused_rows",
       .type = Switch{&Given::fused_rows, &Mixture::fused_rows},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.dispatcher == model::Dispatcher::kHybridEp
                    ? ""
                    : "but with dispatcher: hybridep";
       },
       .shown = [](const Mixture& mixture) { return mixture.fused_rows; },
       .values = "no kernels of their own permute rows, pad them for 8-bit products or cast them: "
                 "HybridEP's exchange, the router and Transformer Engine's fused grouped MLP do "
                 "(Megatron-Bridge's recipes from container 26.06 on)",
       .default_value = "false"},
      {.key = "imbalance",
       .type = OwnNotation<&Given::imbalance>(),
       .uses = {},
       .of_architectures = false,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values =
           "rows of the rank whose experts get most of them, over the mean of all ranks, from "
           "1 to the number of ranks that share the experts out. The forecast is that rank's: "
           "its products, messages and memory, in every layer; of a layer list, whose times and "
           "memory are given, its all-to-alls along the expert axis",
       .default_value = "1: the router balances perfectly, as runs with forced balance do"},
      {.key = "capacity_factor",
       .type = OwnNotation<&Given::capacity_factor>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kDeepSpeed, "of its own layer"),
                TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         const Mixture& mixture = plan.mixture;
         const bool drops = *mixture.capacity_factor < mixture.imbalance;
         return drops || mixture.pad_to_capacity
                    ? ""
                    : "at experts.imbalance or above: no expert has more rows than that";
       },
       .values =
           "rows that an expert takes at most, over the mean of all experts; tokens beyond are "
           "dropped, and cost nothing (Megatron-Core's `moe_expert_capacity_factor`); with "
           "DeepSpeed's layer rows that it always has room for, empty or not",
       .default_value = "none: no token is dropped; DeepSpeed's layer: 1"},
      {.key = "min_capacity",
       .type = Count{&Given::min_capacity, &Mixture::min_capacity, 0, kMostRows},
       .uses = {Of(Framework::kDeepSpeed, "of its own layer")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.implementation == model::ExpertImplementation::kDeepSpeed
                    ? ""
                    : "but with DeepSpeed's own layer";
       },
       .shown =
           [](const Mixture& mixture) {
             return mixture.implementation == model::ExpertImplementation::kDeepSpeed;
           },
       .values = "rows of each rank that an expert has room for, at least (DeepSpeed's "
                 "`min_capacity`)",
       .default_value = "4"},
      {.key = "pad_to_capacity",
       .type = Switch{&Given::pad_to_capacity, &Mixture::pad_to_capacity},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "every expert computes as many rows as its capacity, empty ones too, so that no "
                 "counts are exchanged and the host does not wait "
                 "(`moe_pad_expert_input_to_capacity`)",
       .default_value = "false"},
      {.key = "overlap_communication",
       .type = Switch{&Given::overlap_communication, &Mixture::overlap_communication},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.overlap_communication; },
       .values =
           "a forward and a backward of two micro-batches run layer by layer in turns, so that "
           "one computes while the other exchanges rows of experts (Megatron-Core's "
           "`overlap_moe_expert_parallel_comm`, combined 1F1B); a pipeline needs virtual_stages",
       .default_value = "false"},
      {.key = "delay_weight_gradients",
       .type = Switch{&Given::delay_weight_gradients, &Mixture::delay_weight_gradients},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.delay_weight_gradients; },
       .values = "with `overlap_communication`: products of weights' gradients run behind the "
                 "exchange that does not need them (`delay_wgrad_compute`)",
       .default_value = "false"},
      {.key = "overlap_shared_experts",
       .type = Switch{&Given::overlap_shared_experts, &Mixture::overlap_shared_experts},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = HasSharedExperts,
       .needed = "shared experts",
       .shown = [](const Mixture& mixture) { return mixture.overlap_shared_experts; },
       .values = "shared experts run on a stream of their own, beside the exchanges of rows, with "
                 "`all_to_all` (`moe_shared_expert_overlap`); else before the router",
       .default_value = "false"}};
}

}  // namespace

std::span<const MixtureSetting> MixtureSettings() {
  static const std::vector<MixtureSetting> kRows = Rows();
  return kRows;
}

}  // namespace stepcast::plan

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
       .values = "how tokens are sent to the ranks that have their experts. `all_to_all`: each "
                 "rank sends each row to the rank with the row's expert, and the host waits for "
                 "the numbers of rows. `all_gather`: all ranks receive all tokens. `deepep` and "
                 "`hybridep`: a token is sent once to each node that has experts of the token. "
                 "Within a node, the token is sent once to each rank that has experts of the token",
       .default_value =
           "`all_to_all`, as in NVIDIA's recipes. Megatron-Core's own default is `allgather`"},
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
       .values =
           "the library that implements the layers of experts. `torchtitan` (fsdp2): torchtitan's "
           "layers. `transformers` (fsdp2, deepspeed): Hugging Face's layers; each rank has all "
           "experts. `deepspeed` (deepspeed): `deepspeed.moe.layer.MoE`. `autoep` (deepspeed): "
           "DeepSpeed's `expert_parallel` with transformers' layers. ddp and fsdp1 always use "
           "transformers' layers, and megatron always uses Megatron-Core's layers",
       .default_value = "fsdp2: `torchtitan`. deepspeed: `transformers` if `expert` is 1, "
                        "otherwise `deepspeed`"},
      {.key = "products",
       .type = Words<&Given::expert_products, &Mixture::products, model::ExpertProducts::kGrouped,
                     model::ExpertProducts::kStreams, model::ExpertProducts::kLooped>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "how a rank launches the matrix multiplications of its experts. `grouped`: one "
                 "kernel for all experts. `streams`: one kernel per expert, on four streams "
                 "(Transformer Engine's GroupedLinear). `looped`: one kernel per expert, one after "
                 "the other (Megatron-Core without `moe_grouped_gemm`). With `looped` in "
                 "transformers before 5, the host also waits for the number of tokens of each "
                 "expert",
       .default_value = "megatron: `streams`, as in NVIDIA's recipes (Megatron-Core's own default "
                        "is `looped`). `implementation: deepspeed`: `looped`. `implementation: "
                        "transformers` or `autoep`, with torch before 2.9: `looped`. Otherwise: "
                        "`grouped`"},
      {.key = "dispatch_dtype",
       .type = Words<&Given::dispatch_dtype, &Mixture::dispatch_dtype, DataType::kBf16,
                     DataType::kFp8>(),
       .uses = {Of(Framework::kMegatron, "with `deepep`")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.dispatch_dtype != DataType::kBf16; },
       .values = "the data type in which rows are sent to their experts: `bf16`, or `fp8` with an "
                 "FP32 scale for every 128 numbers. `fp8` is an option of DeepEP and needs "
                 "`precision: fp8`. Rows always return in 16 bits",
       .default_value = "`bf16`"},
      {.key = "router_dtype",
       .type =
           Words<&Given::router_dtype, &Mixture::router_dtype, DataType::kBf16, DataType::kFp32>(),
       .uses = {},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "the data type of the router's logits (Megatron-Core's `moe_router_dtype`)",
       .default_value = "fp32 for the layers of torchtitan and DeepSpeed; otherwise bf16"},
      {.key = "node_limit",
       .type = Count{&Given::node_limit, &Mixture::node_limit, 1, kMostNodes},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         if (!model::SendsTokensOnce(plan.mixture.dispatcher)) {
           return "has no effect with this dispatcher, which sends a row to each expert of a "
                  "token; "
                  "write dispatcher: deepep or hybridep";
         }
         return plan.mixture.node_limit == 0 ? "has no effect, because the experts are divided "
                                               "among at most this number of nodes"
                                             : "";
       },
       .shown = [](const Mixture& mixture) { return mixture.node_limit > 0; },
       .values =
           "with `deepep` and `hybridep`: the maximum number of nodes to which one token is sent "
           "(Megatron-Core's `moe_router_group_topk`, with one group of experts per node)",
       .default_value =
           "the model's number of groups per token, if the experts are divided among as many nodes "
           "as the model has groups. Otherwise: no limit"},
      {.key = "fused_router",
       .type = Switch{&Given::fused_router, &Mixture::fused_router},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "`true`: one kernel computes the scores and chooses the experts "
                 "(`moe_router_fusion`)",
       .default_value = "true, as NVIDIA's guide recommends. Megatron-Core's own default is false"},
      {.key = "fused_permutation",
       .type = Switch{&Given::fused_permutation, &Mixture::fused_permutation},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "`true`: three kernels replace the sort that computes the map of a permutation "
                 "(`moe_permute_fusion`)",
       .default_value = "true, as NVIDIA's guide recommends. Megatron-Core's own default is false"},
      {.key = "fused_rows",
       .type = Switch{&Given::fused_rows, &Mixture::fused_rows},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.dispatcher == model::Dispatcher::kHybridEp
                    ? ""
                    : "has an effect only with dispatcher: hybridep";
       },
       .shown = [](const Mixture& mixture) { return mixture.fused_rows; },
       .values = "`true`: rows are permuted, cast, and padded for 8-bit multiplications without "
                 "separate kernels. HybridEP's exchange, the router and Transformer Engine's fused "
                 "grouped MLP do this work. Values that the backward of experts needs are copied "
                 "into pages and back (`moe_paged_stash`). Megatron-Bridge's recipes use `true` "
                 "from container 26.06 on",
       .default_value = "false"},
      {.key = "imbalance",
       .type = OwnNotation<&Given::imbalance>(),
       .uses = {},
       .of_architectures = false,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values =
           "the number of rows of the rank with the most rows, divided by the mean number of rows "
           "of all ranks. The value is from 1 to the number of ranks that divide the experts. In "
           "every layer, the forecast uses the time, messages and memory of the rank with the most "
           "rows. A layer list has fixed times and memory, so the imbalance affects only its "
           "all-to-alls along the expert axis",
       .default_value =
           "1: all ranks receive the same number of rows, as in runs with forced balance"},
      {.key = "capacity_factor",
       .type = OwnNotation<&Given::capacity_factor>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kDeepSpeed, "its own layer"),
                TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         const Mixture& mixture = plan.mixture;
         const bool drops = *mixture.capacity_factor < mixture.imbalance;
         return drops || mixture.pad_to_capacity
                    ? ""
                    : "has no effect if its value is at least experts.imbalance, because no expert "
                      "then exceeds its capacity";
       },
       .values = "the maximum number of rows of an expert, divided by the mean number of rows of "
                 "all experts. Tokens above the maximum are dropped and need no time "
                 "(Megatron-Core's `moe_expert_capacity_factor`). With `implementation: "
                 "deepspeed`, each expert always allocates and computes the maximum number of rows",
       .default_value = "`implementation: deepspeed`: 1. Otherwise: none (no token is dropped)"},
      {.key = "min_capacity",
       .type = Count{&Given::min_capacity, &Mixture::min_capacity, 0, kMostRows},
       .uses = {Of(Framework::kDeepSpeed, "its own layer")},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.implementation == model::ExpertImplementation::kDeepSpeed
                    ? ""
                    : "has an effect only with DeepSpeed's own layer of experts";
       },
       .shown =
           [](const Mixture& mixture) {
             return mixture.implementation == model::ExpertImplementation::kDeepSpeed;
           },
       .values =
           "the minimum capacity of an expert, as the number of rows from each rank (DeepSpeed's "
           "`min_capacity`)",
       .default_value = "4"},
      {.key = "pad_to_capacity",
       .type = Switch{&Given::pad_to_capacity, &Mixture::pad_to_capacity},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .values = "`true`: every expert computes the maximum number of rows that `capacity_factor` "
                 "allows, including empty rows. The ranks do not exchange numbers of rows, and the "
                 "host does not wait (`moe_pad_expert_input_to_capacity`)",
       .default_value = "false"},
      {.key = "overlap_communication",
       .type = Switch{&Given::overlap_communication, &Mixture::overlap_communication},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.overlap_communication; },
       .values = "`true`: the forward of one micro-batch and the backward of another micro-batch "
                 "alternate layer by layer. One micro-batch computes while the ranks exchange rows "
                 "of the other micro-batch (Megatron-Core's `overlap_moe_expert_parallel_comm`, "
                 "combined 1F1B). In a pipeline, `true` requires `virtual_stages`",
       .default_value = "false"},
      {.key = "delay_weight_gradients",
       .type = Switch{&Given::delay_weight_gradients, &Mixture::delay_weight_gradients},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = IsMixture,
       .needed = kNeeded,
       .shown = [](const Mixture& mixture) { return mixture.delay_weight_gradients; },
       .values =
           "`true`: weight gradients are computed later, so that the exchange of rows does not "
           "wait for weight gradients (`delay_wgrad_compute`). `true` requires "
           "`overlap_communication`",
       .default_value = "false"},
      {.key = "overlap_shared_experts",
       .type = Switch{&Given::overlap_shared_experts, &Mixture::overlap_shared_experts},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = HasSharedExperts,
       .needed = "shared experts",
       .shown = [](const Mixture& mixture) { return mixture.overlap_shared_experts; },
       .values = "`true`: shared experts run on a separate stream while rows are exchanged "
                 "(`moe_shared_expert_overlap`). `true` requires `dispatcher: all_to_all`. "
                 "`false`: shared experts run before the router",
       .default_value = "false"}};
}

}  // namespace

std::span<const MixtureSetting> MixtureSettings() {
  static const std::vector<MixtureSetting> kRows = Rows();
  return kRows;
}

}  // namespace stepcast::plan

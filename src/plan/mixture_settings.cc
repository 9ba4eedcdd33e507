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
       .of_architectures = true},
      {.key = "implementation",
       .type =
           Words<&Given::expert_implementation, &Mixture::implementation,
                 model::ExpertImplementation::kTorchtitan,
                 model::ExpertImplementation::kTransformers,
                 model::ExpertImplementation::kDeepSpeed, model::ExpertImplementation::kAutoEp>(),
       .uses = {Of(Framework::kFsdp2), Of(Framework::kDeepSpeed)},
       .of_architectures = true,
       .shown =
           [](const Mixture& mixture) {
             return mixture.implementation != model::ExpertImplementation::kMegatron &&
                    mixture.implementation != model::ExpertImplementation::kTorchtitan;
           }},
      {.key = "products",
       .type = Words<&Given::expert_products, &Mixture::products, model::ExpertProducts::kGrouped,
                     model::ExpertProducts::kStreams, model::ExpertProducts::kLooped>(),
       .uses = {},
       .of_architectures = true},
      {.key = "dispatch_dtype",
       .type = Words<&Given::dispatch_dtype, &Mixture::dispatch_dtype, DataType::kBf16,
                     DataType::kFp8>(),
       .uses = {Of(Framework::kMegatron, "with `deepep`")},
       .of_architectures = true,
       .shown = [](const Mixture& mixture) { return mixture.dispatch_dtype != DataType::kBf16; }},
      {.key = "router_dtype",
       .type =
           Words<&Given::router_dtype, &Mixture::router_dtype, DataType::kBf16, DataType::kFp32>(),
       .uses = {},
       .of_architectures = true},
      {.key = "node_limit",
       .type = Count{&Given::node_limit, &Mixture::node_limit, 1, kMostNodes},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .idle = [](const Plan& plan) -> std::string_view {
         if (!model::SendsTokensOnce(plan.mixture.dispatcher)) {
           return "has no effect if the dispatcher sends one row to each expert of a token; write "
                  "dispatcher: deepep or hybridep";
         }
         return plan.mixture.node_limit == 0 ? "has no effect, because the experts are divided "
                                               "among at most this number of nodes"
                                             : "";
       },
       .shown = [](const Mixture& mixture) { return mixture.node_limit > 0; }},
      {.key = "fused_router",
       .type = Switch{&Given::fused_router, &Mixture::fused_router},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true},
      {.key = "fused_permutation",
       .type = Switch{&Given::fused_permutation, &Mixture::fused_permutation},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true},
      {.key = "fused_rows",
       .type = Switch{&Given::fused_rows, &Mixture::fused_rows},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.dispatcher == model::Dispatcher::kHybridEp
                    ? ""
                    : "has an effect only with dispatcher: hybridep";
       },
       .shown = [](const Mixture& mixture) { return mixture.fused_rows; }},
      {.key = "imbalance",
       .type = OwnNotation<&Given::imbalance>(),
       .uses = {},
       .of_architectures = false},
      {.key = "capacity_factor",
       .type = OwnNotation<&Given::capacity_factor>(),
       .uses = {Of(Framework::kMegatron),
                Of(Framework::kDeepSpeed, "with `implementation: deepspeed`"), TakenByReference()},
       .of_architectures = true,
       .idle = [](const Plan& plan) -> std::string_view {
         const Mixture& mixture = plan.mixture;
         const bool drops = *mixture.capacity_factor < mixture.imbalance;
         return drops || mixture.pad_to_capacity
                    ? ""
                    : "has no effect if its value is at least experts.imbalance, because no expert "
                      "then exceeds its capacity";
       }},
      {.key = "min_capacity",
       .type = Count{&Given::min_capacity, &Mixture::min_capacity, 0, kMostRows},
       .uses = {Of(Framework::kDeepSpeed, "with `implementation: deepspeed`")},
       .of_architectures = true,
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.mixture.implementation == model::ExpertImplementation::kDeepSpeed
                    ? ""
                    : "has an effect only with DeepSpeed's MoE layer";
       },
       .shown =
           [](const Mixture& mixture) {
             return mixture.implementation == model::ExpertImplementation::kDeepSpeed;
           }},
      {.key = "pad_to_capacity",
       .type = Switch{&Given::pad_to_capacity, &Mixture::pad_to_capacity},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true},
      {.key = "overlap_communication",
       .type = Switch{&Given::overlap_communication, &Mixture::overlap_communication},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = [](const Mixture& mixture) { return mixture.overlap_communication; }},
      {.key = "delay_weight_gradients",
       .type = Switch{&Given::delay_weight_gradients, &Mixture::delay_weight_gradients},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = [](const Mixture& mixture) { return mixture.delay_weight_gradients; }},
      {.key = "overlap_shared_experts",
       .type = Switch{&Given::overlap_shared_experts, &Mixture::overlap_shared_experts},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .had_by = HasSharedExperts,
       .needed = "shared experts",
       .shown = [](const Mixture& mixture) { return mixture.overlap_shared_experts; }}};
}

}  // namespace

std::span<const MixtureSetting> MixtureSettings() {
  static const std::vector<MixtureSetting> kRows = [] {
    std::vector<MixtureSetting> rows = Rows();
    for (MixtureSetting& row : rows) {
      if (row.had_by != nullptr) continue;
      row.had_by = IsMixture;
      row.needed = "experts";
    }
    return rows;
  }();
  return kRows;
}

}  // namespace stepcast::plan

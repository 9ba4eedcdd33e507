#pragma once

#include <compare>
#include <cstdint>

#include "src/base/all_to_all_loads.h"
#include "src/base/data_type.h"

// How the experts of a mixture are divided among ranks, and how a framework runs them.
namespace stepcast::model {

// How a rank's tokens reach the ranks that have their experts:
//   kAllToAll: each rank sends the row of each of its tokens to the expert's rank. First, the ranks
//     exchange the numbers of rows, and the host waits for these counts (`alltoall` in
//     Megatron-Core, `standard` in torchtitan).
//   kAllGather: all ranks get all tokens, and the experts' outputs are summed and scattered
//     (`allgather` in Megatron-Core).
//   kDeepEp: each token is sent once to each node that has some of its experts, between GPUs with
//     the same position in their nodes. From there, it is sent once to each rank (DeepEP; `flex` in
//     Megatron-Core). The host waits for the counts.
//   kHybridEp: as kDeepEp, with NVIDIA's kernels, which permute rows while they dispatch them.
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
const char* Name(Dispatcher dispatcher);  // "all_to_all", "all_gather", "deepep", "hybridep"
// Returns whether a token crosses each link only once, even if several of its experts are behind
// the link.
constexpr bool SendsTokensOnce(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}
// The number of multiprocessors that dispatch and combine use with DeepEP and with HybridEP
// (megatron/core/transformer/transformer_config.py, moe_flex_dispatcher_num_sms; HybridEP's own
// default).
inline constexpr int kDeepEpMultiprocessors = 20, kHybridEpMultiprocessors = 16;

// How the products of a rank's experts are launched:
//   kGrouped: all experts of the rank in one kernel (torch._grouped_mm, CUTLASS, cuBLASLt 13).
//   kStreams: one product per expert, on four alternating streams (Transformer Engine's
//     GroupedLinear).
//   kLooped: one product and one activation kernel per expert, one after the other (Megatron-Core's
//     SequentialMLP, transformers before 5).
enum class ExpertProducts : std::uint8_t { kGrouped, kStreams, kLooped };
const char* Name(ExpertProducts products);  // "grouped", "streams", "looped"
// transformer_engine/common/util/multi_stream.cpp.
inline constexpr int kStreamsOfExperts = 4;

// The implementation of a mixture layer. Implementations differ in the kernels that they launch and
// the values that they keep:
//   kMegatron: Megatron-Core's MoELayer, also used by the textbook framework. The weights of a
//     token's experts travel with the token's rows and are applied in the activation.
//   kTorchtitan: torchtitan/models/common/moe. The weights are applied to the returned rows, in
//     FP32.
//   kTransformers: Hugging Face's layer, in which each rank has all experts. Before transformers 5,
//     a loop runs over the experts (ExpertProducts::kLooped), and the host waits for each expert's
//     tokens. Since transformers 5, torch._grouped_mm runs over sorted rows.
//   kDeepSpeed: DeepSpeed's deepspeed.moe.layer.MoE. Every expert has the same number of slots for
//     the tokens of each rank. Products with masks fill and empty the slots, and a loop runs over
//     the rank's experts.
//   kAutoEp: DeepSpeed's AutoEP, which replaces the layer of transformers with torchtitan's layer.
enum class ExpertImplementation : std::uint8_t {
  kMegatron,
  kTorchtitan,
  kTransformers,
  kDeepSpeed,
  kAutoEp,
};
// Returns "megatron", "torchtitan", "transformers", "deepspeed" or "autoep".
const char* Name(ExpertImplementation implementation);

struct ExpertParallel {
  std::int64_t ranks = 1;   // ranks with different experts
  std::int64_t tensor = 1;  // ranks that each have a part of every expert
  // The number of neighboring expert ranks on one node if tokens are sent once (SendsTokensOnce),
  // otherwise 1.
  std::int64_t near = 1;
  // The largest number of nodes among which one token's experts may be spread. 0: no limit
  // (experts.node_limit).
  std::int64_t node_limit = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  ExpertProducts products = ExpertProducts::kGrouped;
  ExpertImplementation implementation = ExpertImplementation::kMegatron;
  // Whether rows are sent to experts in 8 bits, with one FP32 scale per 128 numbers. Experts return
  // rows in 16 bits (DeepEP, as DeepSeek-V3 was trained: arXiv 2412.19437, section 3.3.3).
  bool dispatches_fp8 = false;
  // `fused_router`: one kernel does all routing after the router's product. `fused_permutation`:
  // three kernels compute the map of a permutation. Transformer Engine has both. If a member is
  // false, PyTorch's operators run one by one instead.
  bool fused_router = true;
  bool fused_permutation = true;
  // Whether no separate kernels permute, pad or cast rows. In this case, the exchange lays out rows
  // (HybridEP), the router's map pads experts, and grouped products cast their inputs.
  bool fused_rows = false;
  DataType router_type = DataType::kBf16;  // type of the router's logits
  // The number of rows of this rank's experts, relative to the mean over all ranks.
  double load = 1;
  // Whether every expert receives the same number of rows from every rank. Some of these rows are
  // empty. No counts are exchanged, so the host does not wait.
  bool fixed_rows = false;
  // For kDeepSpeed: the smallest number of slots that an expert has for the rows of one sending
  // rank.
  std::int64_t min_capacity = 0;
  // Whether the forward of one micro-batch and the backward of another are issued alternately. If
  // so, backward sends all rows before it copies received rows.
  bool overlaps_passes = false;
  // Whether a block's weight-gradient products are delayed within the block. The experts' products
  // run after the exchange of rows that follows their input gradients. All other products run at
  // the end of the block.
  bool delays_weight_gradients = false;
  // Whether shared experts run on a separate stream while rows are exchanged. Allowed only with
  // Dispatcher::kAllToAll and for layers that are not divided by tensor parallelism.
  bool shared_beside = false;
  // Returns how evenly `ranks` ranks are loaded when all of them exchange rows.
  AllToAllLoads LoadsOf(AllToAllLoads::First first) const {
    return fixed_rows ? AllToAllLoads() : AllToAllLoads::Of(load, ranks, first);
  }
  bool weighs_in_activation() const { return implementation == ExpertImplementation::kMegatron; }
  friend auto operator<=>(const ExpertParallel&, const ExpertParallel&) = default;
};

// Returns the average number of groups that have at least one of a token's experts, if all choices
// are equally likely. Experts form `groups` equal groups, and each token uses `chosen` of `experts`
// experts. If `limit` is not 0, the token first chooses `limit` groups, and then its experts from
// these groups.
double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit);

}  // namespace stepcast::model

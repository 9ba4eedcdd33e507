#pragma once

#include <compare>
#include <cstdint>

#include "src/base/all_to_all_loads.h"
#include "src/base/data_type.h"

// How the experts of a mixture are divided among ranks, and how a framework runs them.
namespace stepcast::model {

// How a rank's tokens reach the ranks that have their experts:
//  kAllToAll   each rank sends each of its tokens' rows to the rank of the expert. The ranks first
//              exchange the numbers of rows, and the host waits for these counts
//              (Megatron-Core's `alltoall`, torchtitan's `standard`)
//  kAllGather  all ranks get all tokens, and the experts' outputs are summed and scattered
//              (Megatron-Core's `allgather`)
//  kDeepEp     each token is sent once to each node that has some of its experts, between GPUs with
//              the same position in their nodes, and from there once to each rank (DeepEP;
//              Megatron-Core's `flex`). The host waits for the counts
//  kHybridEp   the same with NVIDIA's kernels, which permute the rows as they dispatch them
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
const char* Name(Dispatcher dispatcher);  // "all_to_all", "all_gather", "deepep", "hybridep"
// Returns whether a token crosses each link only once, even if several of its experts are behind
// the link.
constexpr bool SendsTokensOnce(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}
// The number of multiprocessors that dispatch and combine use
// (megatron/core/transformer/transformer_config.py, moe_flex_dispatcher_num_sms; HybridEP's own
// defaults).
inline constexpr int kDeepEpMultiprocessors = 20, kHybridEpMultiprocessors = 16;

// How the products of a rank's experts are launched:
//  kGrouped  all experts of the rank in one kernel (torch._grouped_mm, CUTLASS, cuBLASLt 13)
//  kStreams  one product per expert, on four streams in turn (Transformer Engine's GroupedLinear)
//  kLooped   one product per expert, one after the other, and the activation likewise
//            (Megatron-Core's SequentialMLP, transformers before 5)
enum class ExpertProducts : std::uint8_t { kGrouped, kStreams, kLooped };
const char* Name(ExpertProducts products);  // "grouped", "streams", "looped"
// transformer_engine/common/util/multi_stream.cpp.
inline constexpr int kStreamsOfExperts = 4;

// The implementation of a mixture layer. Implementations differ in what they launch and keep:
//  kMegatron      Megatron-Core's MoELayer, also used for the textbook: the weights of a token's
//                 experts are applied in the activation, and travel with the tokens' rows
//  kTorchtitan    torchtitan/models/common/moe: the weights are applied to the returned rows, in
//                 FP32
//  kTransformers  Hugging Face's; each rank has all experts. Before transformers 5, a loop over the
//                 experts (ExpertProducts::kLooped), in which the host waits for the tokens of
//                 each; since then torch._grouped_mm over sorted rows
//  kDeepSpeed     DeepSpeed's own (deepspeed.moe.layer.MoE): every expert has the same number of
//                 slots for the tokens of each rank, which products with masks fill and empty; a
//                 loop over the rank's experts
//  kAutoEp        DeepSpeed's AutoEP: torchtitan's layer replaces that of transformers
enum class ExpertImplementation : std::uint8_t {
  kMegatron,
  kTorchtitan,
  kTransformers,
  kDeepSpeed,
  kAutoEp,
};
// "megatron", "torchtitan", "transformers", "deepspeed", "autoep"
const char* Name(ExpertImplementation implementation);

struct ExpertParallel {
  std::int64_t ranks = 1;   // ranks with different experts
  std::int64_t tensor = 1;  // ranks that each have a part of every expert
  // The number of neighboring expert ranks on one node. Known only if tokens are sent once
  // (SendsTokensOnce), otherwise 1.
  std::int64_t near = 1;
  // The largest number of nodes among which one token's experts may be spread. 0: no limit
  // (experts.node_limit).
  std::int64_t node_limit = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  ExpertProducts products = ExpertProducts::kGrouped;
  ExpertImplementation implementation = ExpertImplementation::kMegatron;
  // Rows are sent to experts in 8 bits, with one FP32 scale per 128 numbers. Experts return rows in
  // 16 bits (DeepEP, as DeepSeek-V3 was trained: arXiv 2412.19437, section 3.3.3).
  bool dispatches_fp8 = false;
  // `fused_router`: after the router's product, one kernel does the rest of the routing.
  // `fused_permutation`: three kernels compute a permutation's map. Both are in Transformer Engine.
  // If false, PyTorch's operators run one by one.
  bool fused_router = true;
  bool fused_permutation = true;
  // No separate kernels permute, pad or cast rows: the exchange lays out rows (HybridEP), the
  // router's map pads experts, and grouped products cast their inputs.
  bool fused_rows = false;
  DataType router_type = DataType::kBf16;  // type of the router's logits
  // The number of rows of this rank's experts, relative to the mean over all ranks.
  double load = 1;
  // Every expert receives the same number of rows from every rank, and some of these rows are
  // empty. No counts are exchanged, so the host does not wait.
  bool fixed_rows = false;
  // For kDeepSpeed: the smallest number of rows per expert and sending rank.
  std::int64_t min_capacity = 0;
  // The forward of one micro-batch and the backward of another are issued in turns. Backward then
  // sends all rows before it copies received rows.
  bool overlaps_passes = false;
  // Weight-gradient products of a block are delayed within the block. The experts' products run
  // after the exchange of rows that follows their input gradients; all other products run at the
  // end of the block.
  bool delays_weight_gradients = false;
  // Shared experts run on a separate stream while rows are exchanged. Only with
  // Dispatcher::kAllToAll and layers that are not divided by tensor parallelism.
  bool shared_beside = false;
  // Returns the loads of an exchange of rows among all `ranks` ranks.
  AllToAllLoads LoadsOf(AllToAllLoads::First first) const {
    return fixed_rows ? AllToAllLoads() : AllToAllLoads::Of(load, ranks, first);
  }
  bool weighs_in_activation() const { return implementation == ExpertImplementation::kMegatron; }
  friend auto operator<=>(const ExpertParallel&, const ExpertParallel&) = default;
};

// Experts form `groups` equal groups, and each token uses `chosen` of `experts` experts. Returns
// the average number of groups with at least one of a token's experts, if all choices are equally
// likely. With a `limit`, the token first chooses that many groups, then its experts from these
// groups. 0: no limit.
double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit);

}  // namespace stepcast::model

#pragma once

#include <compare>
#include <cstdint>

#include "src/base/all_to_all_loads.h"
#include "src/base/data_type.h"

// How the experts of a mixture are divided among ranks, and how a framework runs them.
namespace stepcast::model {

// How a rank's tokens are sent to the ranks of their experts:
//   kAllToAll: each rank sends each token's row to the expert's rank. The ranks first exchange the
//     numbers of rows, for which the host waits (`alltoall` in Megatron-Core, `standard` in
//     torchtitan).
//   kAllGather: all ranks receive all tokens, and the experts' outputs are reduce-scattered
//     (`allgather` in Megatron-Core).
//   kDeepEp: each token is sent once to each node with some of its experts, to the GPU with the
//     same position in that node. The receiving GPU forwards the token once to each rank with some
//     of its experts (DeepEP; `flex` in Megatron-Core). The host waits for the numbers of rows.
//   kHybridEp: like kDeepEp, but NVIDIA's kernels also permute rows during the dispatch.
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
const char* Name(Dispatcher dispatcher);  // "all_to_all", "all_gather", "deepep", "hybridep"
// Returns whether a token is sent only once to a node or rank that has several of its experts.
constexpr bool SendsTokensOnce(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}
// The number of multiprocessors that dispatch and combine use, for DeepEP
// (megatron/core/transformer/transformer_config.py, moe_flex_dispatcher_num_sms) and for HybridEP
// (its default).
inline constexpr int kDeepEpMultiprocessors = 20, kHybridEpMultiprocessors = 16;

// How the GEMMs of a rank's experts are launched:
//   kGrouped: all experts of the rank in one kernel (torch._grouped_mm, CUTLASS, cuBLASLt 13).
//   kStreams: one GEMM per expert, on four alternating streams (Transformer Engine's
//     GroupedLinear).
//   kLooped: one GEMM and one activation kernel per expert, one after the other (Megatron-Core's
//     SequentialMLP, transformers before 5).
enum class ExpertProducts : std::uint8_t { kGrouped, kStreams, kLooped };
const char* Name(ExpertProducts products);  // "grouped", "streams", "looped"
// The number of streams (transformer_engine/common/util/multi_stream.cpp).
inline constexpr int kStreamsOfExperts = 4;

// The implementation of a mixture-of-experts layer, which determines its kernels and kept values:
//   kMegatron: Megatron-Core's MoELayer, also used by the textbook framework. The weights of a
//     token's experts are sent with the token's rows and applied in the activation function.
//   kTorchtitan: torchtitan/models/common/moe. The weights are applied in FP32 to the rows that
//     experts return.
//   kTransformers: Hugging Face transformers, in which each rank has all experts. Before version 5,
//     the host loops over the experts and waits for each expert's tokens
//     (ExpertProducts::kLooped). Since version 5, torch._grouped_mm runs over sorted rows.
//   kDeepSpeed: DeepSpeed's deepspeed.moe.layer.MoE. Every expert has the same number of slots for
//     the tokens of each rank. GEMMs with masks copy tokens into the slots and back, and a loop
//     runs over the rank's experts.
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
  // The number of neighboring expert-parallel ranks on one node if tokens are sent once
  // (SendsTokensOnce), otherwise 1.
  std::int64_t near = 1;
  // The largest number of nodes to which one token may be routed (experts.node_limit). 0: no limit.
  std::int64_t node_limit = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  ExpertProducts products = ExpertProducts::kGrouped;
  ExpertImplementation implementation = ExpertImplementation::kMegatron;
  // Whether dispatch sends rows in 8 bits, with one FP32 scale per 128 elements. Experts return
  // rows in 16 bits (DeepEP; DeepSeek-V3, arXiv 2412.19437, section 3.3.3).
  bool dispatches_fp8 = false;
  // Whether Transformer Engine's fused kernels replace PyTorch's separate operators.
  // `fused_router`: one kernel does all routing after the router's GEMM. `fused_permutation`: three
  // kernels compute the map of a permutation.
  bool fused_router = true;
  bool fused_permutation = true;
  // Whether no separate kernels permute, pad or cast rows. The dispatch then permutes rows
  // (HybridEP), the router's map pads experts, and grouped GEMMs cast their inputs.
  bool fused_rows = false;
  DataType router_type = DataType::kBf16;  // type of the router's logits
  // The number of rows of this rank's experts divided by the mean over all ranks.
  double load = 1;
  // Whether every expert receives the same number of rows from every rank, some of which are
  // padding. The ranks then do not exchange the numbers of rows, and the host does not wait.
  bool fixed_rows = false;
  // For kDeepSpeed: the minimum number of slots that an expert has for one sending rank's rows.
  std::int64_t min_capacity = 0;
  // Whether the forward of one micro-batch and the backward of another are issued alternately,
  // operation by operation. Backward then sends all rows before it copies received rows.
  bool overlaps_passes = false;
  // Whether weight-gradient GEMMs are delayed within their block. The experts' GEMMs run after the
  // exchange of rows that follows the experts' input gradients. All other GEMMs run at the end of
  // the block's backward.
  bool delays_weight_gradients = false;
  // Whether shared experts run on a separate stream while rows are exchanged. Requires
  // Dispatcher::kAllToAll and layers that tensor parallelism does not divide.
  bool shared_beside = false;
  // Returns the loads of the ranks in an exchange of rows among all of them.
  AllToAllLoads LoadsOf(AllToAllLoads::First first) const {
    return fixed_rows ? AllToAllLoads() : AllToAllLoads::Of(load, ranks, first);
  }
  bool weighs_in_activation() const { return implementation == ExpertImplementation::kMegatron; }
  friend auto operator<=>(const ExpertParallel&, const ExpertParallel&) = default;
};

// Returns the average number of groups with at least one of a token's experts, if all choices are
// equally likely. There are `groups` equal groups, and each token uses `chosen` of `experts`
// experts. If `limit` is not 0, the router first chooses `limit` groups and then experts within
// these groups.
double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit);

}  // namespace stepcast::model

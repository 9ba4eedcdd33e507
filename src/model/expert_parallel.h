#pragma once

#include <compare>
#include <cstdint>

#include "src/base/all_to_all_loads.h"
#include "src/base/data_type.h"

// How the experts of a mixture are divided among ranks, and how a framework runs them.
namespace stepcast::model {

// How a rank's tokens are sent to the ranks that have the tokens' experts:
//   kAllToAll: each rank sends the row of each of its tokens to the expert's rank. Before that, the
//     ranks exchange the numbers of rows, and the host waits for these numbers (`alltoall` in
//     Megatron-Core, `standard` in torchtitan).
//   kAllGather: all ranks get all tokens, and the experts' outputs are summed and scattered
//     (`allgather` in Megatron-Core).
//   kDeepEp: each token is sent once to each node that has some of its experts, to the GPU with the
//     same position in that node. That GPU forwards the token once to each rank that needs it
//     (DeepEP; `flex` in Megatron-Core). The host waits for the numbers of rows.
//   kHybridEp: like kDeepEp, but with NVIDIA's kernels, which permute rows while they dispatch
//   them.
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
const char* Name(Dispatcher dispatcher);  // "all_to_all", "all_gather", "deepep", "hybridep"
// Returns whether a token crosses each link only once, even if several of its experts are behind
// the link.
constexpr bool SendsTokensOnce(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}
// The number of multiprocessors that dispatch and combine use with DeepEP and with HybridEP
// (megatron/core/transformer/transformer_config.py, moe_flex_dispatcher_num_sms; the default of
// HybridEP).
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

// The implementation of a mixture layer. Implementations differ in the kernels that they launch and
// the values that they keep:
//   kMegatron: Megatron-Core's MoELayer, also used by the textbook framework. The weights of a
//     token's experts are sent with the token's rows and applied in the activation function.
//   kTorchtitan: torchtitan/models/common/moe. The weights are applied to the returned rows, in
//     FP32.
//   kTransformers: the layer of Hugging Face transformers, in which each rank has all experts.
//     Before transformers 5, a loop runs over the experts (ExpertProducts::kLooped), and the host
//     waits for each expert's tokens. Since transformers 5, torch._grouped_mm runs over sorted
//     rows.
//   kDeepSpeed: DeepSpeed's deepspeed.moe.layer.MoE. Every expert has the same number of slots for
//     the tokens of each rank. GEMMs with masks copy tokens into the slots and back, and a loop
//     runs over the rank's experts.
//   kAutoEp: DeepSpeed's AutoEP, which replaces the layer of Hugging Face transformers with
//   torchtitan's layer.
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
  // The largest number of nodes that may have experts of one token (experts.node_limit). 0: no
  // limit.
  std::int64_t node_limit = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  ExpertProducts products = ExpertProducts::kGrouped;
  ExpertImplementation implementation = ExpertImplementation::kMegatron;
  // Whether rows are sent to experts in 8 bits, with one FP32 scale per 128 numbers. Experts return
  // rows in 16 bits (DeepEP; DeepSeek-V3, arXiv 2412.19437, section 3.3.3).
  bool dispatches_fp8 = false;
  // `fused_router`: one kernel does all routing after the router's GEMM. `fused_permutation`: three
  // kernels compute the map of a permutation. Transformer Engine has these kernels. If a member is
  // false, several operators of PyTorch do the same work.
  bool fused_router = true;
  bool fused_permutation = true;
  // Whether no separate kernels permute, pad or cast rows: the exchange permutes rows (HybridEP),
  // the router's map pads experts, and grouped GEMMs cast their inputs.
  bool fused_rows = false;
  DataType router_type = DataType::kBf16;  // type of the router's logits
  // The number of rows of this rank's experts, relative to the mean over all ranks.
  double load = 1;
  // Whether every expert receives the same number of rows from every rank. Some of these rows are
  // empty. The ranks do not exchange the numbers of rows, so the host does not wait.
  bool fixed_rows = false;
  // For kDeepSpeed: the minimum number of slots of an expert for the rows of one sending rank.
  std::int64_t min_capacity = 0;
  // Whether operations of one micro-batch's forward and of another's backward are issued
  // alternately. If so, backward sends all rows before it copies received rows.
  bool overlaps_passes = false;
  // Whether a block's weight-gradient GEMMs are delayed within the block. The experts' weight
  // gradients run after the exchange of rows that follows their input gradients. All other weight
  // gradients run at the end of the block's backward.
  bool delays_weight_gradients = false;
  // Whether shared experts run on a separate stream while rows are exchanged. Requires
  // Dispatcher::kAllToAll and layers that tensor parallelism does not divide.
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
// experts. If `limit` is not 0, the router first chooses `limit` groups and then experts from only
// these groups.
double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit);

}  // namespace stepcast::model

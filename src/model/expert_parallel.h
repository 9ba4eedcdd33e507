#pragma once

#include <compare>
#include <cstdint>

#include "src/base/all_to_all_loads.h"
#include "src/base/data_type.h"

// How the experts of a mixture are shared out among ranks, and how a framework runs them.
namespace stepcast::model {

// How the tokens of a rank come to the ranks that have their experts:
//   kAllToAll   each rank sends each of its tokens' rows to the rank of the expert. The ranks tell
//               one another first how many rows come, and the host waits for these counts
//               (Megatron-Core's `alltoall`, torchtitan's `standard`)
//   kAllGather  all ranks get all tokens, and what the experts make of them is added up and
//               scattered (Megatron-Core's `allgather`)
//   kDeepEp     each token goes once to each node that has some of its experts, between GPUs of the
//               same place in their nodes, and there once to each rank (DeepEP; Megatron-Core's
//               `flex`). The host waits until the counts are there
//   kHybridEp   the same by NVIDIA's kernels, which permute the rows as they dispatch them
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
const char* Name(Dispatcher dispatcher);  // "all_to_all", "all_gather", "deepep", "hybridep"
// Whether a token is sent once for all of its experts behind one link.
constexpr bool SendsTokensOnce(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}
// Multiprocessors that dispatch and combine run on (megatron/core/transformer/
// transformer_config.py, moe_flex_dispatcher_num_sms; HybridEP's own defaults).
inline constexpr int kDeepEpMultiprocessors = 20, kHybridEpMultiprocessors = 16;

// How the products of a rank's experts are launched:
//   kGrouped  all experts of the rank in one kernel (torch._grouped_mm, CUTLASS, cuBLASLt 13)
//   kStreams  a product each, on four streams in turn (Transformer Engine's GroupedLinear)
//   kLooped   a product each, one behind the other, and the activation likewise (Megatron-Core's
//             SequentialMLP, transformers before 5)
enum class ExpertProducts : std::uint8_t { kGrouped, kStreams, kLooped };
const char* Name(ExpertProducts products);  // "grouped", "streams", "looped"
// transformer_engine/common/util/multi_stream.cpp.
inline constexpr int kStreamsOfExperts = 4;

// Whose layer a mixture's is. They differ in what they launch and keep:
//   kMegatron      Megatron-Core's MoELayer, and the textbook's: the weights of a token's experts are
//                  multiplied where the activation is computed, and travel with the tokens' rows
//   kTorchtitan    torchtitan's, of torchtitan/models/common/moe: what comes back is multiplied, in
//                  FP32
//   kTransformers  Hugging Face's, whose ranks have all experts: before transformers 5 a loop over
//                  the experts (ExpertProducts::kLooped), in which the host waits for the tokens of
//                  each, since then torch._grouped_mm over sorted rows
//   kDeepSpeed     DeepSpeed's own (deepspeed.moe.layer.MoE): every expert has as many slots for the
//                  tokens of each rank, which products with masks fill and empty; a loop over the
//                  rank's experts
//   kAutoEp        DeepSpeed's AutoEP, torchtitan's layer in the place of transformers'
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
  std::int64_t ranks = 1;   // that have different experts
  std::int64_t tensor = 1;  // that have a part of each expert
  // Of the ranks that have different experts, so many neighbours are on one node; known where
  // tokens are sent once (SendsTokensOnce), else 1.
  std::int64_t near = 1;
  // A token's experts are on so many nodes at most; 0: on any (experts.node_limit).
  std::int64_t node_limit = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  ExpertProducts products = ExpertProducts::kGrouped;
  ExpertImplementation implementation = ExpertImplementation::kMegatron;
  // Rows go to their experts' ranks in 8 bits, with an FP32 scale for each 128 numbers, and come
  // back in 16 (DeepEP, as DeepSeek-V3 was trained: arXiv 2412.19437, section 3.3.3).
  bool dispatches_fp8 = false;
  // What follows the router's product is one kernel, and a permutation computes its map in three
  // (Transformer Engine's fused router and permutation). Else PyTorch's operators do it one by one.
  bool fused_router = true;
  bool fused_permutation = true;
  // Rows are laid out inside the exchange (HybridEP), the router's map fills experts up, and grouped
  // products cast what they read: no kernels of their own permute, pad or cast.
  bool fused_rows = false;
  DataType router_type = DataType::kBf16;  // of the router's logits
  // Rows of the rank's experts over the mean of all ranks.
  double load = 1;
  // Every expert gets as many rows of every rank, some of them empty: no counts are exchanged, and
  // the host waits for none.
  bool fixed_rows = false;
  // With kDeepSpeed an expert has so many rows of every rank at least.
  std::int64_t min_capacity = 0;
  // Forward and backward of two micro-batches are issued in turns: a backward, too, sends all rows
  // off before it copies what comes.
  bool overlaps_passes = false;
  // Products of weights' gradients of a block run as late as the turn allows: the experts' behind
  // the exchange of rows that their gradients of inputs begin, the others at the end of the block.
  bool delays_weight_gradients = false;
  // Shared experts run on a stream beside the compute stream, while rows are exchanged; with
  // Dispatcher::kAllToAll, where layers are not divided.
  bool shared_beside = false;
  // Of an exchange of rows among all of `ranks`.
  AllToAllLoads LoadsOf(AllToAllLoads::First first) const {
    return fixed_rows ? AllToAllLoads() : AllToAllLoads::Of(load, ranks, first);
  }
  bool weighs_in_activation() const { return implementation == ExpertImplementation::kMegatron; }
  friend auto operator<=>(const ExpertParallel&, const ExpertParallel&) = default;
};

// How many of `groups` equal groups of experts have some of the `chosen` ones of a token, on
// average, if all choices among `experts` are equally likely. With a `limit` the choice is among as
// many groups, which are chosen first; 0: there is none.
double GroupsOfToken(std::int64_t experts, std::int64_t groups, std::int64_t chosen,
                     std::int64_t limit);

}  // namespace stepcast::model

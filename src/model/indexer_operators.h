#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/block_operators.h"

// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556). For each query, small heads
// score all previous keys, and the indexer chooses the best keys. Every tensor-parallel rank has
// the full indexer (Megatron-Core,
// megatron/core/transformer/experimental_attention_variant/dsa.py). With context parallelism, a
// rank scores the keys of all ranks for its own queries.
//
// Backward keeps the indices of the chosen keys, and the scores if no fused kernel computes them.
// The indexer's loss uses the attention weights of the chosen keys, summed over attention's heads.
// A second multiplication of queries and keys computes these weights (DSAIndexerLossAutoScaler,
// with the loss over chosen keys). Forecasts include the input gradients of the indexer's GEMMs,
// which frameworks skip, so forecasts are slightly too long.
namespace stepcast::model {

class IndexerOperators : public BlockOperators {
 public:
  using BlockOperators::BlockOperators;

  // Adds the kernels that choose keys. `x` is the block's normalized input; `query_source` is the
  // input of the indexer's query projection. `x` and `query_source` cover the rank's part of the
  // tokens. `attention` is the shape of the attention core that reads the chosen keys.
  void Choose(const Operand& x, const Operand& query_source, const AttentionShape& attention);
  // Adds the kernels that score keys and choose among them. Each key represents `compressed`
  // tokens. `operands` starts with the queries, followed by the other inputs of the scores.
  void ChooseAmong(const std::vector<Operand>& operands, std::int64_t compressed,
                   const AttentionShape& attention);
  // For an indexer that does not run: adds only the gradients of its parameters, which are zero.
  void Idle();

 private:
  Operand KeysOfAllRanks(const Operand& key);
  // Returns the part of `block` for the rank's queries and the keys of all ranks. Each rank has the
  // same number of query-key pairs.
  LayerOperators::Block OfRank(LayerOperators::Block block) const;
};

}  // namespace stepcast::model

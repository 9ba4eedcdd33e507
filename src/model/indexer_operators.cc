#include "src/model/indexer_operators.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/parallel/axis.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kScoreSize = 4, kChoiceSize = 4;  // bytes

}  // namespace

void IndexerOperators::Idle() {
  std::vector<int> positions;
  for (const std::string_view module : {names_.index_query, names_.index_key, names_.index_key_norm,
                                        names_.index_weights, names_.index_query_norm}) {
    for (const int position : find_(module).all()) positions.push_back(position);
  }
  if (positions.empty()) return;
  tape_.OnBackward([=, this] {
    tape_.RunBackward(operators_.Memory("self_attn.indexer.zeros", 0, Bytes(), Bytes()), {}, {},
                      positions, positions);
  });
}

Operand IndexerOperators::KeysOfAllRanks(const Operand& key) {
  const std::int64_t ranks = operators_.options_.context.ranks;
  if (ranks == 1) return key;
  const auto collective = [this](CollectiveKind kind) {
    return LayerTape::Collective{
        .kind = kind, .axes = parallel::kContext, .type = operators_.element_};
  };
  const Operand all =
      operators_.Make("self_attn.indexer.key of all ranks", key.width, key.tokens * ranks);
  tape_.Communicate(collective(CollectiveKind::kAllGather), key.value, all.value);
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.MakeGradient(key.value);
    tape_.CommunicateBackward(collective(CollectiveKind::kReduceScatter),
                              tape_.GradientOf(all.value), gradient);
    tape_.Deliver(key.value, gradient);
  });
  return all;
}

LayerOperators::Block IndexerOperators::OfRank(LayerOperators::Block block) const {
  const std::int64_t ranks = operators_.options_.context.ranks;
  if (ranks == 1) return block;
  block.visible = std::max<std::int64_t>(1, block.seen_twice / (2 * block.rows));
  block.causal = false;
  block.queries /= ranks;
  block.rows /= ranks;
  block.seen_twice /= ranks;
  return block;
}

void IndexerOperators::Choose(const Operand& x, const Operand& query_source,
                              const AttentionShape& attention) {
  const Indexer& index = a_.indexer;
  const std::int64_t width = index.heads * index.head;
  const Operand whole = operators_.EnterColumns(x, "indexer", true);
  const Operand source = query_source.value == x.value
                             ? whole
                             : operators_.EnterColumns(query_source, "indexer_query", true);
  Operand query = operators_.Linear(source, names_.index_query, width, find_(names_.index_query));
  if (!index.weighs_heads) {
    query = operators_.NormOfHeads(query, names_.index_query_norm, index.head,
                                   find_(names_.index_query_norm));
  }
  Operand key = operators_.Linear(whole, names_.index_key, index.head, find_(names_.index_key));
  key = operators_.Norm(key, names_.index_key_norm,
                        index.weighs_heads ? Normalization::kLayerNorm : Normalization::kRmsNorm,
                        find_(names_.index_key_norm));
  if (a_.position == Position::kRotary) {
    query = operators_.Rotary(query, "self_attn.indexer.rotary_query", index.head);
    key = operators_.Rotary(key, "self_attn.indexer.rotary_key", index.head);
  }
  key = KeysOfAllRanks(key);
  std::vector<Operand> operands{query, key};
  if (index.weighs_heads) {
    operands.push_back(
        operators_.Linear(whole, names_.index_weights, index.heads, find_(names_.index_weights)));
  }
  ChooseAmong(operands, 1, attention);
}

void IndexerOperators::ChooseAmong(const std::vector<Operand>& operands, std::int64_t compressed,
                                   const AttentionShape& attention) {
  const Indexer& index = a_.indexer;
  const AttentionShape all{
      .heads = index.heads, .kv_heads = 1, .head_size = index.head, .value_size = index.head};
  AttentionShape chosen = all;
  chosen.window = index.top * compressed;
  const LayerOperators::Block scored = OfRank(operators_.WholeDocuments(all));
  const LayerOperators::Block learned = OfRank(operators_.WholeDocuments(chosen));
  Kernel scores = operators_.Scores("self_attn.indexer.scores", all, scored, compressed);
  const Bytes written(scored.seen_twice / (2 * compressed) * kScoreSize / index.block);
  const std::int64_t choices = operands.front().tokens * index.top / index.block;
  const Value choice = tape_.Make("self_attn.indexer choice", Bytes(choices * kChoiceSize));
  tape_.Keep(choice);
  std::vector<LayerTape::Piece> reads;
  for (const Operand& operand : operands) {
    tape_.Keep(operand.value);
    reads.emplace_back(operand.value);
  }
  const Value made = operators_.MakeScores(scores);
  scores.written += written;
  tape_.Run(std::move(scores), reads, {made});
  tape_.Run(operators_.Memory("self_attn.indexer.top_k", 0, written, Bytes(choices * kChoiceSize)),
            {made}, {choice});
  // What attention's heads together give to each chosen key. The model does not need it.
  const Bytes shares(choices * kScoreSize);
  const Value target = tape_.Make("self_attn.indexer.target output", shares);
  Kernel of_heads = operators_.Scores("self_attn.indexer.target", attention,
                                      OfRank(operators_.WholeDocuments(attention)));
  of_heads.model_flops = 0;
  of_heads.written += shares;
  tape_.Keep(target);
  tape_.Run(std::move(of_heads), {choice}, {target});
  tape_.OnBackward([=, this] {
    std::vector<LayerTape::Piece> gradients;
    for (const Operand& operand : operands) {
      gradients.emplace_back(tape_.MakeGradient(operand.value));
    }
    tape_.RunBackward(
        operators_.ScoresGradient("self_attn.indexer.scores.dgrad", chosen, learned, compressed),
        {choice, target}, gradients);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      tape_.Deliver(operands[i].value, gradients[i].value);
    }
  });
}

}  // namespace stepcast::model

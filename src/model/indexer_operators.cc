#include "src/model/indexer_operators.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stepcast::model {
namespace {

constexpr std::int64_t kScoreSize = 4, kChoiceSize = 4;  // bytes

}  // namespace

IndexerOperators::IndexerOperators(LayerOperators& operators, const Architecture& architecture,
                                   const ModuleNames& names, Find find)
    : operators_(operators),
      tape_(*operators.tape_),
      a_(architecture),
      names_(names),
      find_(std::move(find)) {}

ModulePositions IndexerOperators::Whole(std::string_view module) const { return find_(module); }

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

void IndexerOperators::Choose(const Operand& x, const Operand& query_source) {
  const Indexer& index = a_.indexer;
  const std::int64_t width = index.heads * index.head;
  const Operand whole = operators_.EnterColumns(x, "indexer", true);
  const Operand source = query_source.value == x.value
                             ? whole
                             : operators_.EnterColumns(query_source, "indexer_query", true);
  Operand query = operators_.Linear(source, names_.index_query, width, Whole(names_.index_query));
  if (!index.weighs_heads) {
    query = operators_.NormOfHeads(query, names_.index_query_norm, index.head,
                                   Whole(names_.index_query_norm));
  }
  Operand key = operators_.Linear(whole, names_.index_key, index.head, Whole(names_.index_key));
  key = operators_.Norm(key, names_.index_key_norm,
                        index.weighs_heads ? Normalization::kLayerNorm : Normalization::kRmsNorm,
                        Whole(names_.index_key_norm));
  if (a_.position == Position::kRotary) {
    query = operators_.Rotary(query, "self_attn.indexer.rotary_query", index.head);
    key = operators_.Rotary(key, "self_attn.indexer.rotary_key", index.head);
  }
  std::vector<Operand> operands{query, key};
  if (index.weighs_heads) {
    operands.push_back(
        operators_.Linear(whole, names_.index_weights, index.heads, Whole(names_.index_weights)));
  }
  const AttentionShape all{
      .heads = index.heads, .kv_heads = 1, .head_size = index.head, .value_size = index.head};
  AttentionShape chosen = all;
  chosen.window = index.top;
  const LayerOperators::Block scored = operators_.WholeDocuments(all);
  const LayerOperators::Block learned = operators_.WholeDocuments(chosen);
  // A score is one product per pair, whereas attention has two.
  Kernel scores = operators_.FlashKernel("self_attn.indexer.scores", all, scored);
  scores.flops /= 2;
  scores.model_flops = scores.flops;
  const Bytes written(scored.seen_twice / 2 * kScoreSize / index.block);
  scores.written = written;
  const Value choice = tape_.Make("self_attn.indexer choice",
                                  Bytes(query.tokens * index.top / index.block * kChoiceSize));
  tape_.Keep(choice);
  std::vector<LayerTape::Piece> reads;
  for (const Operand& operand : operands) {
    tape_.Keep(operand.value);
    reads.emplace_back(operand.value);
  }
  const Value made = tape_.Make("self_attn.indexer scores of some queries", Bytes(kScoreSize));
  tape_.Run(std::move(scores), reads, {made});
  tape_.Run(operators_.Memory("self_attn.indexer.top_k", 0, written,
                              Bytes(query.tokens * index.top / index.block * kChoiceSize)),
            {made}, {choice});
  tape_.OnBackward([=, this] {
    Kernel gradient = operators_.FlashKernel("self_attn.indexer.scores.dgrad", chosen, learned);
    gradient.kind = KernelKind::kAttentionGradient;
    gradient.model_flops = gradient.flops;
    gradient.written = gradient.read;
    std::vector<LayerTape::Piece> gradients;
    for (const Operand& operand : operands) {
      gradients.emplace_back(tape_.MakeGradient(operand.value));
    }
    tape_.RunBackward(std::move(gradient), {choice}, gradients);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      tape_.Deliver(operands[i].value, gradients[i].value);
    }
  });
}

}  // namespace stepcast::model

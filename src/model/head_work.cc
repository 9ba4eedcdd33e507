#include "src/model/head_work.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/end_work.h"
#include "src/model/family.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/module_positions.h"
#include "src/model/stream_operators.h"
#include "src/model/transformer_block.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// Two losses: of masked tokens, and of whether the second segment follows the first, predicted from
// the first token of each sequence (transformers/models/bert/modeling_bert.py,
// BertPreTrainingHeads; megatron/core/models/bert/bert_model.py). Every rank of a tensor-parallel
// group has everything before the vocabulary. Finishes the tape while the operators that backward
// refers to still exist.
LayerWork EncoderHead(const Architecture& a, const WorkOptions& options,
                      const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                      Operand x, LayerTape& tape) {
  const ModuleNames& names = NamesOf(a);
  const auto find = [&](std::string_view module) { return Find(parameters, module); };
  if (!TraitsOf(a).post_norm) {
    x = operators.Norm(x, names.final_norm, a.normalization, find(names.final_norm));
  }
  WorkOptions of_sequences = options;
  of_sequences.sequence_length = 1;
  of_sequences.tensor = 1;
  LayerOperators pooled_operators(of_sequences, tape);
  std::optional<Operand> pooled;
  if (a.next_sentence) {
    const Operand first = pooled_operators.TakeTokens(x, "first_token", options.micro_batch_size);
    pooled = pooled_operators.Tanh(
        pooled_operators.Linear(first, names.pooler, a.hidden, find(names.pooler)),
        "bert.pooler.activation");
  }
  WorkOptions of_masked = options;
  if (options.masked_tokens > 0) of_masked.sequence_length = options.masked_tokens;
  LayerOperators masked(of_masked, tape);
  if (options.masked_tokens > 0) {
    x = masked.TakeTokens(x, "masked_tokens", options.micro_batch_size * options.masked_tokens);
  }
  const Operand transformed =
      masked.Norm(masked.Gelu(masked.Linear(x, names.head_dense, a.hidden, find(names.head_dense)),
                              "cls.predictions.transform.transform_act_fn"),
                  names.head_norm, a.normalization, find(names.head_norm));
  ModulePositions decoder = find(a.tie_embeddings ? names.embedding : names.head);
  decoder.bias = FindBias(parameters, names.predictions);
  const Operand logits = masked.Linear(masked.EnterColumns(transformed, names.head), names.head,
                                       VocabularyOfRank(a, options), decoder);
  std::optional<Operand> follows;
  if (pooled) {
    follows = pooled_operators.Linear(*pooled, names.next_sentence, kSentenceClasses,
                                      find(names.next_sentence));
  }
  masked.CrossEntropy(logits, "masked_lm_loss");
  if (follows) pooled_operators.CrossEntropy(*follows, "next_sentence_loss");
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
}

// A module that predicts one more token, and its loss, which Megatron-Core runs before the head
// (megatron/core/transformer/multi_token_prediction.py @ d98e8a64ddf3). The next tokens' embeddings
// and the output of the blocks, or of the module before, are normalized and projected to the input
// of a block. A norm and the head's product follow it. With residual streams, all streams are
// projected, and the tokens' embeddings are added to each (deepseek-ai/DeepSeek-V4-Flash,
// inference/model.py, MTPBlock).
class FurtherTokens {
 public:
  // `number`: of the module, from 1.
  FurtherTokens(const Architecture& a, std::int64_t number, const WorkOptions& options,
                std::vector<ModuleParameter> parameters, LayerTape& tape,
                LayerOperators& head_operators)
      : a_(a),
        number_(number),
        options_(options),
        names_(NamesOf(a)),
        parameters_(OfModule(a.further_repeated ? 1 : number, std::move(parameters))),
        tape_(tape),
        head_operators_(head_operators),
        operators_(options, tape),
        of_block_(OfKind(a, KindOfBlock(a, a.layers))),
        block_(of_block_, options_,
               {.experts = HasExperts(a, a.layers), .full_attention = AttendsInFull(a, a.layers)},
               parameters_, tape, operators_),
        streams_(operators_, std::max<std::int64_t>(a.streams, 1)) {
    operators_.AddUpParts();
  }

  // `hidden`: the output of the blocks or of the module before; without streams, normalized.
  // Returns this module's.
  Operand Run(const Operand& hidden) {
    // The first module's backward, which is the last, completes the gradients of shared weights.
    if (number_ > 1) tape_.BeginShared();
    Operand words = head_operators_.LeaveRows(
        head_operators_.Lookup(names_.embedding, VocabularyOfRank(a_, options_), a_.hidden,
                               Of(names_.embedding).weight, number_ < a_.further_tokens),
        names_.embedding, {});
    if (!a_.further_repeated) tape_.EndShared();
    words = Norm(words, names_.further_embedding_norm);
    Operand x = a_.streams > 0 ? AddToStreams(words, hidden) : Joined(words, hidden);
    const bool whole = options_.checkpointing == Checkpointing::kFull;
    if (whole) tape_.BeginWhole(Module::kFurtherBlock);
    x = block_.Run(x);
    if (whole) tape_.EndWhole();
    const Operand streams = x;
    if (a_.streams > 0) {
      x = streams_.Take(x, names_.further_streams_head, a_.streams,
                        Of(names_.further_streams_head));
    }
    x = Norm(x, names_.further_norm);
    if (number_ > 1) tape_.BeginShared();
    ModulePositions head = Of(names_.head);
    head.gradient_later = !options_.main_gradients.has_value();
    if (head.gradient_later) {
      head_operators_.AddUpWeightGradients(names_.head, VocabularyOfRank(a_, options_) * a_.hidden,
                                           head);
    }
    head_operators_.LossOfProduct(head_operators_.EnterColumns(x, names_.further_norm),
                                  {.module = "shared_head.head",
                                   .words = VocabularyOfRank(a_, options_),
                                   .parameters = head,
                                   .loss = "further_loss"});
    tape_.EndShared();
    return a_.streams > 0 ? streams : x;
  }

  // The recomputation in the further block, if blocks recompute.
  LayerTape::Keeping Keeping() const {
    if (options_.checkpointing == Checkpointing::kSelective) {
      return {.checkpointing = Checkpointing::kSelective, .modules = options_.recomputed_modules};
    }
    if (options_.checkpointing != Checkpointing::kFull) return {};
    return {.checkpointing = Checkpointing::kSelective,
            .modules = {.core_attn = false, .further_block = true}};
  }

 private:
  // The parameters, at their positions, without those of the other modules.
  static std::vector<ModuleParameter> OfModule(std::int64_t number,
                                               std::vector<ModuleParameter> parameters) {
    for (ModuleParameter& parameter : parameters) {
      if (parameter.further != 0 && parameter.further != number) parameter.module = {};
    }
    return parameters;
  }
  ModulePositions Of(std::string_view module) const { return Find(parameters_, module); }
  Operand Joined(const Operand& words, const Operand& hidden) {
    const Operand both =
        operators_.Join(words, Norm(hidden, names_.further_hidden_norm), "eh_join");
    const Operand x = operators_.Linear(operators_.EnterColumns(both, names_.further_projection),
                                        names_.further_projection, a_.hidden / options_.tensor,
                                        Of(names_.further_projection));
    return operators_.PartOfTokens(operators_.GatherFeatures(x, names_.further_projection),
                                   names_.further_projection);
  }
  // Each rank of a tensor-parallel group has both products whole.
  Operand AddToStreams(const Operand& words, Operand hidden) {
    const auto project = [this](const Operand& x, std::string_view module) {
      ModulePositions positions = Of(module);
      positions.of_part = options_.sequence_parallel;
      return operators_.Linear(x, module, a_.hidden, positions);
    };
    hidden.tokens *= a_.streams;
    hidden.width /= a_.streams;
    Operand x = project(Norm(hidden, names_.further_hidden_norm), names_.further_streams);
    x.tokens /= a_.streams;
    x.width *= a_.streams;
    return operators_.Add(
        x, streams_.Spread(project(words, names_.further_words), "further_spread"), "further_add");
  }
  Operand Norm(const Operand& x, std::string_view module) {
    return operators_.Norm(x, module, a_.normalization, Of(module));
  }

  const Architecture& a_;
  const std::int64_t number_;
  const WorkOptions options_;
  const ModuleNames& names_;
  const std::vector<ModuleParameter> parameters_;
  LayerTape& tape_;
  LayerOperators& head_operators_;
  LayerOperators operators_;
  const Architecture of_block_;
  TransformerBlock block_;
  StreamOperators streams_;
};

}  // namespace

// 8 and 4 bits apply to the blocks only: Transformer Engine's layers and torchao's filter leave the
// head in 16 bits.
LayerWork HeadWork(const Architecture& a, const WorkOptions& block_options) {
  WorkOptions options = WithoutQuantization(block_options);
  options.tensor_overlap = TensorOverlap::kNone;  // of blocks, too
  const ModuleNames& names = NamesOf(a);
  const std::vector<ModuleParameter> parameters = HeadParameters(a);
  if (a.modulation.exists()) return ModulatedHeadWork(a, options, parameters);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  operators.AddUpParts();
  StreamOperators streams(operators, std::max<std::int64_t>(a.streams, 1));
  Operand x = operators.Input(a.hidden * std::max<std::int64_t>(a.streams, 1));
  const Operand rows = x;
  if (a.streams > 0) {
    x = streams.Take(x, names.streams_head, a.streams, Find(parameters, names.streams_head));
  }
  if (a.residual_bank > 0) {
    x = operators.MeanOfRows(x, names.bank_head, 1 + a.layers / a.residual_bank,
                             Find(parameters, names.bank_head));
  }
  if (TraitsOf(a).encoder) {
    return EncoderHead(a, options, parameters, operators, x, tape);
  }
  const Operand normalized =
      operators.Norm(x, names.final_norm, a.normalization, FindIfAny(parameters, names.final_norm));
  if (a.prediction.target != Target::kWords) {
    return PredictionWork(a, options, parameters, operators, normalized, tape);
  }
  ModulePositions head = Find(parameters, a.tie_embeddings ? names.embedding : names.head);
  LayerTape::Keeping keeping;
  std::deque<FurtherTokens> further;  // backward refers to them
  Operand hidden = a.streams > 0 ? rows : normalized;
  for (std::int64_t i = 1; i <= a.further_tokens; ++i) {
    hidden = further.emplace_back(a, i, block_options, parameters, tape, operators).Run(hidden);
    keeping = further.back().Keeping();
    head.gradient_later = true;
  }
  operators.LossOfProduct(operators.EnterColumns(normalized, names.head),
                          {.module = names.head,
                           .words = VocabularyOfRank(a, options),
                           .parameters = head,
                           .capped = a.logit_cap > 0,
                           .loss = "loss"});
  keeping.splits_backward = options.splits_backward;
  return tape.Finish(std::nullopt, keeping);
}

}  // namespace stepcast::model

#include "src/model/transformer_work.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/end_tensors.h"
#include "src/model/end_work.h"
#include "src/model/family.h"
#include "src/model/head_work.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/module_positions.h"
#include "src/model/operator_name.h"
#include "src/model/stream_operators.h"
#include "src/model/tower_work.h"
#include "src/model/transformer_block.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// The attention core treats chunks as documents, if they divide the document.
WorkOptions WithinChunks(const Architecture& a, WorkOptions options, const LayerVariant& variant) {
  const std::int64_t chunk = a.attention_chunk;
  if (chunk <= 0 || variant.full_attention) return options;
  SampleLengths of_chunks;
  double chunks = 0;
  const auto add = [&](const SampleLength& document) {
    if (document.tokens >= chunk && document.tokens % chunk == 0) {
      chunks += document.weight * static_cast<double>(document.tokens / chunk);
    } else {
      of_chunks.push_back(document);
    }
  };
  for (const SampleLength& document : options.documents) add(document);
  if (options.documents.empty()) add({options.sequence_length, 1});
  if (chunks == 0) return options;
  const auto longer =
      std::find_if(of_chunks.begin(), of_chunks.end(),
                   [chunk](const SampleLength& document) { return document.tokens > chunk; });
  of_chunks.insert(longer, {chunk, chunks});
  options.documents = std::move(of_chunks);
  return options;
}

// The encoder's output stays for the decoder's blocks, whether or not they are recomputed.
void KeepContext(LayerWork& work) {
  std::vector<LayerValue>& saved = work.Of(Lifetime::kSaved);
  work.forward.back().begins.push_back({Lifetime::kSaved, static_cast<int>(saved.size())});
  saved.push_back({"cross_attn.context", work.output});
}

// The sums of the gradients of what all blocks read, the context and the numbers that are added to
// scores, exist during the backward of each of them.
void HoldSharedGradients(const Architecture& a, const WorkOptions& options, LayerWork& work) {
  const auto hold = [&](std::int64_t elements) {
    if (elements == 0) return;
    const DataType type = ActivationType(options.compute);
    const std::int64_t most = kMostScoreBytes / SizeOf(type);
    const Bytes sum = BytesOf(Capped(options.micro_batch_size, elements, most), type);
    work.backward_temporaries.push_back(sum);
    work.backward_transient += sum;
  };
  hold(a.cross.tokens * a.cross.width);
  const std::int64_t s = options.sequence_length;
  hold(a.distance_buckets > 0 ? Capped(a.heads / options.tensor, s * s, kMostScoreBytes) : 0);
}

LayerWork BlockWork(const Architecture& whole, const WorkOptions& of_all,
                    const LayerVariant& variant) {
  const Architecture a = OfKind(whole, variant.block_kind);
  const WorkOptions options =
      WithinChunks(a, OfLength(of_all, a.own_length, a.joined_rows), variant);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  std::vector<ModuleParameter> parameters = BlockParameters(a, variant.experts);
  if (variant.ends_encoder) {
    const std::vector<ModuleParameter> norm = EncoderNorm(whole);
    parameters.insert(parameters.end(), norm.begin(), norm.end());
  }
  TransformerBlock block(a, options, variant, parameters, tape, operators);
  operators.AddUpParts();
  Operand y = block.Run(operators.Input(a.hidden * std::max<std::int64_t>(a.streams, 1)));
  if (variant.ends_encoder) {
    const std::string_view norm = NamesOf(whole).encoder_norm;
    y = operators.Norm(y, norm, whole.normalization, Find(parameters, norm));
  }
  LayerWork work =
      tape.Finish(y.value, {.checkpointing = options.checkpointing,
                            .stops_early = options.recompute_stops_early,
                            .modules = options.recomputed_modules,
                            .continues_checkpoint = variant.continues_checkpoint,
                            .splits_backward = options.splits_backward,
                            .delays_weight_gradients = options.experts.delays_weight_gradients,
                            .input_has_gradient = !variant.ends_backward});
  if (variant.ends_encoder) KeepContext(work);
  HoldSharedGradients(a, options, work);
  return work;
}

// Per-layer inputs: rows of a table plus a product of the embedding, normalized and summed. Blocks
// read them for as long as the step needs their gradient.
void AppendLayerRows(const Architecture& a, const WorkOptions& options,
                     const std::vector<ModuleParameter>& parameters, const Operand& x,
                     LayerOperators& operators, LayerTape& tape) {
  const ModuleNames& names = NamesOf(a);
  const std::int64_t width = a.layers * a.layer_input;
  Operand rows = operators.Lookup(names.layer_table, VocabularyOfRank(a, options), width,
                                  Find(parameters, names.layer_table).weight, false);
  rows = operators.LeaveRows(rows, names.layer_table, {});
  ModulePositions projection = Find(parameters, names.layer_projection);
  projection.of_part = options.sequence_parallel;
  const Operand projected = operators.NormOfHeads(
      operators.Linear(x, names.layer_projection, width, projection), names.layer_projection_norm,
      a.layer_input, Find(parameters, names.layer_projection_norm));
  rows = operators.Add(rows, projected, "layer_rows.add");
  tape.Keep(rows.value);
  tape.OnBackward([&tape, rows] { tape.Deliver(rows.value, tape.MakeGradient(rows.value)); });
}

LayerWork EmbeddingWork(const Architecture& a, const WorkOptions& options) {
  if (a.encoder.exists()) return EncoderInputWork(a, options);
  if (a.input.exists()) return ValueInputWork(a, options);
  const ModuleNames& names = NamesOf(a);
  const std::vector<ModuleParameter> parameters = EmbeddingParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  AppendDistances(a, false, parameters, operators, options);
  Operand x = operators.Lookup(names.embedding, VocabularyOfRank(a, options), a.hidden,
                               Find(parameters, names.embedding).weight,
                               a.tie_embeddings || a.further_tokens > 0);
  if (a.position == Position::kLearned) {
    x = operators.AddUp(x);
    x = operators.AddPositions(x, names.positions, a.max_positions,
                               Find(parameters, names.positions).weight);
    if (a.token_types > 0) {
      x = operators.AddTokenTypes(x, names.token_types, a.token_types,
                                  Find(parameters, names.token_types).weight);
    }
    x = operators.PartOfTokens(x, names.positions);
  } else {
    x = operators.LeaveRows(x, names.embedding, {});
  }
  if (a.scales_embeddings) x = operators.Scale(x, "embed_scale");
  if (!names.embedding_norm.empty()) {
    x = operators.Norm(x, names.embedding_norm, a.normalization,
                       Find(parameters, names.embedding_norm));
  }
  std::vector<std::unique_ptr<TowerWork>> towers;  // backward refers to them
  for (const Tower& tower : a.towers) {
    towers.push_back(std::make_unique<TowerWork>(a, tower, options, parameters, tape));
    x = operators.ReplaceRows(x, towers.back()->Run(), "visual.join");
  }
  StreamOperators streams(operators, std::max<std::int64_t>(a.streams, 1));
  if (a.streams > 0) x = streams.Spread(x, "embedding_streams");
  if (a.layer_input > 0) AppendLayerRows(a, options, parameters, x, operators, tape);
  if (a.dropout) x = operators.Dropout(x, "embedding_dropout");
  return tape.Finish(x.value, {.splits_backward = options.splits_backward,
                               .input_has_gradient = !a.lora.adapts()});
}

}  // namespace

std::vector<LayerWork> TransformerWork(const Architecture& architecture, WorkOptions options) {
  // Weights kept in FP8 are not cast.
  if (architecture.lora.frozen_dtype == DataType::kFp8) options.casts_weights = false;
  WorkOptions unchecked = options;
  unchecked.checkpointing = Checkpointing::kNone;
  std::vector<LayerWork> works;
  for (const LayerVariant& variant : VariantsOf(architecture, options)) {
    switch (variant.kind) {
      case LayerKind::kEmbedding:
        works.push_back(EmbeddingWork(architecture, options));
        break;
      case LayerKind::kBlock:
        works.push_back(
            BlockWork(architecture, variant.uncheckpointed ? unchecked : options, variant));
        break;
      case LayerKind::kHead:
        works.push_back(HeadWork(architecture, options));
        break;
    }
  }
  return works;
}

}  // namespace stepcast::model

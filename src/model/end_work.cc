#include "src/model/end_work.h"

#include <algorithm>
#include <optional>

#include "src/model/module_positions.h"

namespace stepcast::model {
namespace {

// Rows of numbers at the hidden width, one for each token of the options' sequences.
Operand ReadValues(const Architecture& a, const ValueInput& input, const InputNames& names,
                   const WorkOptions& options, const std::vector<ModuleParameter>& parameters,
                   LayerOperators& operators) {
  const std::int64_t of_sequence = std::max<std::int64_t>(
      options.sequence_length - input.class_rows, 1);
  std::int64_t rows = options.micro_batch_size * of_sequence;
  for (std::int64_t i = 0; i < input.halvings; ++i) rows *= 2;
  Operand x = operators.Convolution(operators.Values("input", input.values, rows), names.product,
                                    a.hidden, input.taps, rows, Find(parameters, names.product));
  for (std::int64_t i = 0; i < input.halvings; ++i) {
    ModulePositions positions = Find(parameters, names.halving);
    if (i > 0) {
      // One tensor holds all of these convolutions. The first one's backward completes its gradient.
      positions = {.weight = positions.weight,
                   .gradient_later = true,
                   .frozen = positions.frozen,
                   .frozen_bias = positions.biased()};
    }
    rows /= 2;
    x = operators.Convolution(operators.Gelu(x, "input.act_fn"), names.halving, a.hidden,
                              input.taps, rows, positions);
  }
  if (input.halvings > 0) x = operators.Gelu(x, "input.act_fn");
  if (input.class_rows > 0) {
    x = operators.PutRowsBefore(x, names.class_rows, input.class_rows,
                                Find(parameters, names.class_rows).weight);
  }
  if (input.positions == 0) return x;
  return operators.AddPositions(x, names.positions, input.positions,
                                Find(parameters, names.positions).weight);
}

}  // namespace

std::int64_t VocabularyOfRank(const Architecture& a, const WorkOptions& options) {
  const std::int64_t words = (a.vocabulary + options.tensor - 1) / options.tensor;
  const std::int64_t multiple = options.vocabulary_multiple;
  return (words + multiple - 1) / multiple * multiple;
}

WorkOptions OfLength(WorkOptions options, std::int64_t tokens) {
  if (tokens == 0) return options;
  options.sequence_length = tokens;
  options.documents.clear();
  return options;
}

void AppendDistances(const Architecture& a, bool of_encoder,
                     const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                     const WorkOptions& options) {
  const Architecture* const kind = BiasedByDistance(a, of_encoder);
  if (kind == nullptr) return;
  const ModuleNames& names = NamesOf(a);
  const std::string_view module = of_encoder ? names.encoder_distances : names.distances;
  operators.Distances(module, kind->heads / options.tensor, kind->distance_buckets,
                      Find(parameters, module).weight);
}

LayerWork ValueInputWork(const Architecture& a, const WorkOptions& options) {
  const std::vector<ModuleParameter> parameters = EmbeddingParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  AppendDistances(a, false, parameters, operators, options);
  Operand x = ReadValues(a, a.input, InputNamesOf(NamesOf(a), false), options, parameters, operators);
  if (a.dropout) x = operators.Dropout(x, "embedding_dropout");
  // Numbers of images and sounds have no gradients.
  return tape.Finish(x.value,
                     {.splits_backward = options.splits_backward, .input_has_gradient = false});
}

LayerWork EncoderInputWork(const Architecture& a, const WorkOptions& options) {
  const ModuleNames& names = NamesOf(a);
  const std::vector<ModuleParameter> parameters = EmbeddingParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  const WorkOptions of_encoder = OfLength(options, a.encoder.tokens);
  LayerOperators encoder(of_encoder, tape), decoder(options, tape);
  WorkOptions of_both = options;
  of_both.sequence_length += a.encoder.input.exists() ? 0 : a.encoder.tokens;
  LayerOperators both(of_both, tape);
  AppendDistances(a, true, parameters, encoder, of_encoder);
  AppendDistances(a, false, parameters, decoder, options);
  Operand words = both.Lookup(names.embedding, VocabularyOfRank(a, options), a.hidden,
                              Find(parameters, names.embedding).weight, a.tie_embeddings);
  Operand rows;
  if (a.encoder.input.exists()) {
    rows = ReadValues(a, a.encoder.input, InputNamesOf(names, true), of_encoder, parameters, encoder);
  } else {
    const std::array<Operand, 2> parts =
        both.DivideRows(words, "words", options.micro_batch_size * a.encoder.tokens);
    rows = parts[0];
    words = parts[1];
  }
  if (a.position == Position::kLearned) {
    words = decoder.AddPositions(words, names.positions, a.max_positions,
                                 Find(parameters, names.positions).weight);
  }
  if (a.dropout) {
    rows = encoder.Dropout(rows, "encoder.dropout");
    words = decoder.Dropout(words, "embedding_dropout");
  }
  tape.OnBackward([&tape, words] { tape.Deliver(words.value, tape.MakeGradient(words.value)); });
  return tape.Finish(rows.value,
                     {.splits_backward = options.splits_backward, .input_has_gradient = false});
}

LayerWork PredictionWork(const Architecture& a, const WorkOptions& options,
                         const std::vector<ModuleParameter>& parameters, LayerOperators& operators,
                         const Operand& normalized, LayerTape& tape) {
  const ModuleNames& names = NamesOf(a);
  const Prediction& prediction = a.prediction;
  // One row for each sequence, which every rank of a tensor-parallel group has.
  WorkOptions of_sequences = OfLength(options, 1);
  of_sequences.tensor = 1;
  LayerOperators pooled(of_sequences, tape);
  if (prediction.target == Target::kClasses) {
    const std::int64_t sequences = options.micro_batch_size;
    const Operand one = prediction.means
                            ? operators.MeanOfTokens(normalized, "head.mean", sequences)
                            : operators.TakeTokens(normalized, "head.first_row", sequences);
    pooled.CrossEntropy(
        pooled.Linear(one, names.head, prediction.count, Find(parameters, names.head)), "loss");
  } else if (prediction.count > 0) {
    operators.SquaredError(operators.Linear(normalized, names.head, prediction.count,
                                            Find(parameters, names.head)),
                           "loss");
  } else {
    operators.SquaredError(normalized, "loss");
  }
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
}

}  // namespace stepcast::model

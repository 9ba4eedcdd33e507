#include "src/model/end_work.h"

#include <algorithm>
#include <optional>

#include "src/model/end_tensors.h"
#include "src/model/module_positions.h"

namespace stepcast::model {
namespace {

// Rows of numbers at the hidden width, one for each token of the options' sequences.
Operand ReadValues(const Architecture& a, const ValueInput& input, const InputNames& names,
                   const WorkOptions& options, const std::vector<ModuleParameter>& parameters,
                   LayerOperators& operators) {
  const std::int64_t of_sequence =
      std::max<std::int64_t>(options.sequence_length - input.class_rows, 1);
  std::int64_t rows = options.micro_batch_size * of_sequence;
  for (std::int64_t i = 0; i < input.halvings; ++i) rows *= 2;
  Operand x = operators.Convolution(operators.Values("input", input.values, rows), names.product,
                                    a.hidden, input.taps, rows, Find(parameters, names.product));
  for (std::int64_t i = 0; i < input.halvings; ++i) {
    ModulePositions positions = Find(parameters, names.halving);
    if (i > 0) {
      // One tensor holds all of these convolutions. The first one's backward completes its
      // gradient.
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

WorkOptions OfLength(WorkOptions options, std::int64_t tokens, std::int64_t more) {
  if (tokens == 0) {
    options.sequence_length += more;
    return options;
  }
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

namespace {

// The condition's vectors, which all blocks and the head read, and their gradients' sums.
class ConditionWork {
 public:
  ConditionWork(const Architecture& a, const WorkOptions& options,
                const std::vector<ModuleParameter>& parameters, LayerTape& tape)
      : a_(a),
        names_(NamesOf(a)),
        samples_(options.micro_batch_size),
        parameters_(parameters),
        tape_(tape),
        operators_(OfLength(options, 1), tape) {}

  void Run() {
    const Condition& condition = a_.condition;
    Operand sum = Vector("timesteps", condition.time, names_.time_in, names_.time_out);
    const auto add = [&](const Operand& more) { sum = operators_.Add(sum, more, "condition.add"); };
    if (condition.guidance) {
      add(Vector("guidance", condition.time, names_.guidance_in, names_.guidance_out));
    }
    if (condition.classes > 0) {
      add(operators_.Lookup(names_.classes, condition.classes, a_.hidden,
                            Find(parameters_, names_.classes).weight, false));
    }
    if (condition.text_width > 0) {
      add(Vector("text_vector", condition.text_width, names_.text_vector_in,
                 names_.text_vector_out));
    }
    KeepForBlocks(tape_, sum);
    if (condition.shared_vectors == 0) return;
    KeepForBlocks(tape_, Linear(operators_.Silu(sum, "condition.act_fn"), names_.shared_modulation,
                                condition.shared_vectors * a_.hidden));
  }

  // Rows of this layer that blocks read, and the gradient that they leave for them.
  static void KeepForBlocks(LayerTape& tape, const Operand& rows) {
    tape.KeepForOthers(rows.value);
    tape.OnBackward([&tape, rows] { tape.Deliver(rows.value, tape.MakeGradient(rows.value)); });
  }

 private:
  Operand Linear(const Operand& x, std::string_view module, std::int64_t out) {
    return operators_.Linear(x, module, out, Find(parameters_, module));
  }
  Operand Vector(std::string_view name, std::int64_t width, std::string_view in,
                 std::string_view out) {
    const Operand inside = Linear(operators_.Values(name, width, samples_), in, a_.hidden);
    return Linear(operators_.Silu(inside, "condition.act_fn"), out, a_.hidden);
  }

  const Architecture& a_;
  const ModuleNames& names_;
  const std::int64_t samples_;
  const std::vector<ModuleParameter>& parameters_;
  LayerTape& tape_;
  LayerOperators operators_;
};

// Rows of the text at the hidden width.
Operand ReadText(const Architecture& a, const WorkOptions& options,
                 const std::vector<ModuleParameter>& parameters, LayerOperators& operators) {
  const ModuleNames& names = NamesOf(a);
  const Operand given =
      operators.Values("text", a.text.values, options.micro_batch_size * a.text.tokens);
  const Operand rows =
      operators.Linear(given, names.text_in, a.hidden, Find(parameters, names.text_in));
  if (a.text.products == 1) return rows;
  return operators.Linear(operators.Gelu(rows, "text.act_fn"), names.text_out, a.hidden,
                          Find(parameters, names.text_out));
}

}  // namespace

LayerWork ValueInputWork(const Architecture& a, const WorkOptions& options) {
  const std::vector<ModuleParameter> parameters = EmbeddingParameters(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  LayerOperators operators(options, tape);
  AppendDistances(a, false, parameters, operators, options);
  Operand x =
      ReadValues(a, a.input, InputNamesOf(NamesOf(a), false), options, parameters, operators);
  std::optional<ConditionWork> condition;  // backward refers to it
  if (a.condition.exists()) condition.emplace(a, options, parameters, tape).Run();
  if (a.text.exists()) {
    const Operand text = ReadText(a, options, parameters, operators);
    if (a.text.joined) {
      x = operators.JoinRows({text, x}, "text.join", !a.kinds.front().two_streams);
    } else {
      ConditionWork::KeepForBlocks(tape, text);
    }
  }
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
    rows =
        ReadValues(a, a.encoder.input, InputNamesOf(names, true), of_encoder, parameters, encoder);
  } else {
    const std::array<Operand, 2> parts =
        both.DivideRows(words, "words", options.micro_batch_size * a.encoder.tokens, true);
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

LayerWork ModulatedHeadWork(const Architecture& a, const WorkOptions& options,
                            const std::vector<ModuleParameter>& parameters) {
  const ModuleNames& names = NamesOf(a);
  LayerTape tape(ActivationType(options.compute), options.compiled);
  const std::int64_t samples = options.micro_batch_size;
  LayerOperators with_text(OfLength(options, 0, a.joined_rows), tape);
  LayerOperators operators(options, tape), of_samples(OfLength(options, 1), tape);
  Operand x = with_text.Input(a.hidden);
  if (a.joined_rows > 0) {
    const std::array<Operand, 2> parts =
        with_text.DivideRows(x, "text.leave", samples * a.joined_rows, true);
    const Operand text = parts[0];
    tape.OnBackward([&tape, text] { tape.Deliver(text.value, tape.MakeGradient(text.value)); });
    x = parts[1];
  }
  const std::int64_t width = a.modulation.vectors * a.hidden;
  const ModulePositions modulation = Find(parameters, names.head_modulation);
  const Operand condition =
      of_samples.Context("condition", a.modulation.by_product ? a.hidden : width, samples);
  const Operand vectors =
      a.modulation.by_product
          ? of_samples.Linear(of_samples.Silu(condition, "final.act_fn"), names.head_modulation,
                              width, modulation)
          : of_samples.AddPositions(condition, names.head_modulation, 1, modulation.weight);
  const Operand normalized =
      operators.Norm(x, names.final_norm, a.normalization, FindIfAny(parameters, names.final_norm));
  operators.SquaredError(
      operators.Linear(operators.Modulate(normalized, vectors, "final.modulate"), names.head,
                       a.prediction.count, Find(parameters, names.head)),
      "loss");
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
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
    operators.SquaredError(
        operators.Linear(normalized, names.head, prediction.count, Find(parameters, names.head)),
        "loss");
  } else {
    operators.SquaredError(normalized, "loss");
  }
  return tape.Finish(std::nullopt, {.splits_backward = options.splits_backward});
}

}  // namespace stepcast::model

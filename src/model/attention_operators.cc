#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"

// The attention core: the computation from queries, keys and values to the output.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

std::int64_t Flops(std::int64_t a, std::int64_t b) { return Capped(a, b, kMostFlops); }
Bytes ScoreBytes(std::int64_t a, std::int64_t b) { return Bytes(Capped(a, b, kMostScoreBytes)); }

// Whether Megatron-LM's fused softmax accepts this number of heads (over all sequences) and a
// sequence length of s (megatron/model/fused_softmax.py, is_kernel_available). A thread block takes
// four heads, or eight of up to 128 tokens.
bool FusedSoftmaxTakes(std::int64_t heads, std::int64_t s) {
  constexpr std::int64_t kShortest = 16, kLongest = 4096, kTwoInAWarp = 128;
  return s > kShortest && s <= kLongest && s % 4 == 0 && heads % (s <= kTwoInAWarp ? 8 : 4) == 0;
}

}  // namespace

std::int64_t LayerOperators::DocumentLength() const {
  if (options_.documents.empty()) return options_.sequence_length;
  return std::max<std::int64_t>(1, std::llround(MeanLengthOfTokens(options_.documents)));
}

std::int64_t LayerOperators::Documents() const {
  const std::int64_t length = DocumentLength();
  return (options_.micro_batch_size * options_.sequence_length + length - 1) / length;
}

LayerOperators::Block LayerOperators::OfEachDocument(std::int64_t queries, std::int64_t keys,
                                                     std::int64_t visible, std::int64_t seen_twice,
                                                     bool causal) const {
  const std::int64_t documents = Documents();
  return {.queries = queries,
          .visible = visible,
          .causal = causal,
          .rows = documents * queries,
          .key_rows = documents * keys,
          .seen_twice = Flops(documents, seen_twice)};
}

LayerOperators::Block LayerOperators::WholeDocuments(const AttentionShape& shape) const {
  if (shape.context > 0) {
    const std::int64_t queries = options_.sequence_length, sequences = options_.micro_batch_size;
    return {.queries = queries,
            .visible = shape.context,
            .causal = false,
            .rows = sequences * queries,
            .key_rows = sequences * shape.context,
            .seen_twice = Flops(sequences, 2 * queries * shape.context)};
  }
  // The triangle below the diagonal of s x s, minus the triangle before the window. Both are
  // counted as half squares, the usual convention for a causal mask.
  const auto visible = [&](std::int64_t s) {
    return shape.causal && shape.window > 0 && shape.window < s ? shape.window : s;
  };
  const auto seen_twice = [&](std::int64_t s) {
    const std::int64_t hidden = s - visible(s);
    return shape.causal ? s * s - hidden * hidden : 2 * s * s;
  };
  const std::int64_t s = DocumentLength();
  Block block = OfEachDocument(s, s, visible(s), seen_twice(s), shape.causal);
  const SampleLengths& lengths = options_.documents;
  const bool alike = lengths.size() <= 1 && options_.sequence_length % s == 0;
  if (alike) return block;
  // The documents' tokens are the tokens of full sequences.
  const std::int64_t tokens = options_.micro_batch_size * options_.sequence_length;
  double samples = 0, seen = 0;
  for (const SampleLength& length : lengths) {
    samples += length.weight;
    seen += length.weight * static_cast<double>(seen_twice(length.tokens));
  }
  const double documents = static_cast<double>(tokens) / (MeanLength(lengths) * samples);
  block.rows = block.key_rows = tokens;
  block.seen_twice = 2 * std::llround(documents * seen / 2);
  return block;
}

std::int64_t LayerOperators::CountedPairs(const AttentionShape& shape) const {
  const std::int64_t twice = WholeDocuments(shape).seen_twice / options_.micro_batch_size;
  return shape.causal ? twice : twice / 2;
}

Operand LayerOperators::FlashAttention(Operand query, Operand key, Operand value,
                                       std::string_view module, const AttentionShape& shape) {
  return Flash({query.value, key.value, value.value}, module, shape);
}

Operand LayerOperators::FlashAttention(Operand query_key_value, std::string_view module,
                                       const AttentionShape& shape) {
  const Value all = query_key_value.value;
  return Flash({all, all, all, true}, module, shape);
}

Operand LayerOperators::MathAttention(Operand query, Operand key, Operand value,
                                      std::string_view module, const AttentionShape& shape) {
  return Math({query.value, key.value, value.value}, module, shape);
}

Operand LayerOperators::MathAttention(Operand query_key_value, std::string_view module,
                                      const AttentionShape& shape) {
  const Value all = query_key_value.value;
  return Math({all, all, all, true}, module, shape);
}

void LayerOperators::SinkGradients(const AttentionShape& shape, std::string_view module) {
  const std::vector<int> positions = shape.sink_positions.all();
  if (positions.empty()) return;
  tape_->OnBackward([=, this] {
    const std::int64_t rows = tokens_ * shape.heads;
    tape_->RunBackward(Memory(Joined(module, ".grad"), 4 * rows, Bytes(2 * rows * kFp32Size),
                              BytesOfElements(shape.heads)),
                       {}, {}, positions, positions);
  });
}

Operand LayerOperators::RescaleForSinks(const Operand& x, std::string_view module,
                                        const AttentionShape& shape) {
  const std::int64_t rows = x.tokens * shape.heads;
  const Bytes size = Size(x), numbers(rows * kFp32Size), narrow = BytesOfElements(rows);
  const auto name = [module](std::string_view suffix) { return Joined(module, suffix); };
  const Operand y = Make(name(".sinks output"), x.width, x.tokens);
  const Value scale = tape_->Make(name(".sinks.scale"), numbers);
  tape_->Keep(x.value);
  tape_->Keep(scale);
  if (options_.compiled) {
    tape_->Run(Memory(name(".sinks"), 4 * rows + Elements(x), size + numbers, size + numbers),
               {x.value}, {y.value, scale});
  } else {
    const Value cast = tape_->Make(name(".sinks.cast output"), narrow);
    tape_->Keep(cast);
    tape_->Run(Memory(name(".sinks.subtract"), rows, numbers, numbers), {x.value}, {scale});
    tape_->Run(Memory(name(".sinks.sigmoid"), 3 * rows, numbers, numbers), {scale}, {scale});
    tape_->Run(Memory(name(".sinks.cast"), 0, numbers, narrow), {scale}, {cast});
    tape_->Run(Memory(name(".sinks"), Elements(x), size + narrow, size), {x.value, cast},
               {y.value});
  }
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value), dx = tape_->MakeGradient(x.value);
    const Value d_scale = tape_->MakeScratch(numbers);
    if (options_.compiled) {
      tape_->RunBackward(
          Memory(name(".sinks.dgrad"), 3 * Elements(x), 2 * size + numbers, size + numbers),
          {dy, x.value, scale}, {dx, d_scale});
    } else {
      const Value products = tape_->MakeScratch(size);
      tape_->RunBackward(Memory(name(".sinks.dgrad"), Elements(x), size + narrow, size), {dy},
                         {dx});
      tape_->RunBackward(Memory(name(".sinks.scale.product"), Elements(x), 2 * size, size),
                         {dy, x.value}, {products});
      tape_->RunBackward(Memory(name(".sinks.scale.grad"), Elements(x), size, narrow), {products},
                         {d_scale});
      tape_->RunBackward(Memory(name(".sinks.sigmoid.dgrad"), 3 * rows, narrow + numbers, numbers),
                         {d_scale, scale}, {d_scale});
    }
    tape_->Deliver(x.value, dx);
  });
  return y;
}

LayerOperators::BlockSizes LayerOperators::SizesOf(const AttentionShape& shape,
                                                   const Block& block) const {
  const std::int64_t rows = block.rows * shape.heads;
  const std::int64_t key_rows = block.key_rows * shape.kv_heads;
  const Bytes key = BytesOfElements(key_rows * shape.head_size);
  const Bytes value = BytesOfElements(key_rows * shape.values());
  return {.query_elements = rows * shape.head_size,
          .output_elements = rows * shape.values(),
          .queries = BytesOfElements(rows * shape.head_size),
          .output = BytesOfElements(rows * shape.values()),
          .key = key,
          .value = value,
          .keys = key + value,
          .row_numbers = Bytes(rows * kFp32Size)};
}

Kernel LayerOperators::FlashKernel(std::string name, const AttentionShape& shape,
                                   const Block& block) const {
  const int generation = FlashGeneration(options_.attention);
  STEPCAST_CHECK(generation > 0,
                 "a fused attention kernel must have a generation, such as "
                 "FlashAttention-2");
  const BlockSizes sizes = SizesOf(shape, block);
  // Two products over the pairs of tokens that see each other: the scores, and their product with
  // the values.
  const std::int64_t width = shape.heads * (shape.head_size + shape.values());
  const std::int64_t of_model = width - shape.heads * shape.value_filling;
  const std::int64_t documents = shape.context > 0 ? options_.micro_batch_size : Documents();
  return {.name = std::move(name),
          .kind = KernelKind::kAttention,
          .data_type = element_,
          .batch = documents * shape.heads,
          .m = block.queries,
          .n = block.visible,
          // The mean of both widths gives the same number of FLOPs.
          .k = (shape.head_size + shape.values()) / 2,
          .key_heads = documents * shape.kv_heads,
          .flops = Flops(width, block.seen_twice),
          .model_flops =
              Flops(2, Flops(of_model, shape.causal ? block.seen_twice : block.seen_twice / 2)),
          .read = sizes.queries + sizes.keys,
          .written = sizes.output + sizes.row_numbers,
          .flash = static_cast<std::uint8_t>(generation),
          .causal = block.causal,
          .rate = shape.sinks ? options_.attention_rate : 1};
}

Kernel LayerOperators::Scores(std::string name, const AttentionShape& shape, const Block& block,
                              std::int64_t compressed) const {
  Kernel kernel;
  if (FlashGeneration(options_.attention) > 0) {
    kernel = FlashKernel(std::move(name), shape, block);
    kernel.flops = kernel.flops / (shape.head_size + shape.values()) * shape.head_size;
    kernel.written = Bytes();
  } else {
    const std::int64_t s = options_.sequence_length;
    kernel = ScoreProduct(std::move(name), shape, s, std::max<std::int64_t>(1, s / compressed),
                          shape.head_size, ProductLayout::kForward);
  }
  kernel.flops /= compressed;
  kernel.model_flops = kernel.flops;
  return kernel;
}

Kernel LayerOperators::ScoresGradient(std::string name, const AttentionShape& shape,
                                      const Block& block, std::int64_t compressed) const {
  Kernel kernel = Scores(std::move(name), shape, block, compressed);
  kernel.flops *= 2;
  kernel.model_flops *= 2;
  if (kernel.kind == KernelKind::kAttention) {
    kernel.kind = KernelKind::kAttentionGradient;
    kernel.written = kernel.read;
    return kernel;
  }
  kernel.batch *= 2;
  std::swap(kernel.read, kernel.written);
  kernel.read = 2 * kernel.read + kernel.written;
  return kernel;
}

Value LayerOperators::MakeScores(const Kernel& scores) {
  const bool in_memory = scores.kind == KernelKind::kGemm;
  const Value made = tape_->Make(
      in_memory ? Joined(scores.name, " output") : "self_attn.indexer scores of a chunk of queries",
      in_memory ? scores.written : Bytes(kFp32Size));
  if (in_memory) tape_->Keep(made);
  return made;
}

void LayerOperators::RunFlashGradient(std::string_view module, const AttentionShape& shape,
                                      const Block& block, const Pieces& reads,
                                      const std::function<Pieces()>& gradients) {
  const BlockSizes sizes = SizesOf(shape, block);
  // The products of the backward: scores again, gradients of queries and keys, gradients of scores
  // and values.
  const std::int64_t width = shape.heads * (3 * shape.head_size + 2 * shape.values());
  // A kernel of row sums of the output times its gradient, then the main kernel, which adds up the
  // queries' gradient in FP32.
  const Value row_sums =
      tape_->RunToScratch(Memory(Joined(module, ".row_sums"), 2 * sizes.output_elements,
                                 2 * sizes.output, sizes.row_numbers),
                          {reads.front()});
  const Bytes accumulator_size = Bytes(sizes.query_elements * kFp32Size);
  const Value accumulator = tape_->MakeScratch(accumulator_size);
  Kernel backward = FlashKernel(Joined(module, ".dgrad"), shape, block);
  backward.kind = KernelKind::kAttentionGradient;
  backward.flops = Flops(width, block.seen_twice);
  backward.model_flops = Flops(2, backward.model_flops);
  const Bytes operands = sizes.queries + sizes.keys;
  backward.read = operands + 2 * sizes.output + 2 * sizes.row_numbers + accumulator_size;
  backward.written = operands + accumulator_size;
  Pieces read = reads, written = gradients();
  read.emplace_back(row_sums);
  written.emplace_back(accumulator);
  tape_->RunBackward(std::move(backward), read, written);
}

Operand LayerOperators::Flash(const Core& core, std::string_view module,
                              const AttentionShape& shape) {
  if (options_.context.ranks > 1) return FlashOverContext(core, module, shape);
  return FlashOfDocuments(core, module, shape);
}

Operand LayerOperators::FlashOfDocuments(const Core& core, std::string_view module,
                                         const AttentionShape& shape) {
  const Block block = WholeDocuments(shape);
  const BlockSizes sizes = SizesOf(shape, block);
  for (const Value operand : {core.query, core.key, core.value}) tape_->Keep(operand);
  const Operand y = Make(Joined(module, " output"), shape.heads * shape.values(), block.rows);
  tape_->Keep(y.value);
  const Value log_sum_exp = tape_->Make(Joined(module, " log-sum-exp"), sizes.row_numbers);
  tape_->Keep(log_sum_exp);
  tape_->Run(FlashKernel(std::string(module), shape, block), {core.query, core.key, core.value},
             {y.value, log_sum_exp}, shape.sink_positions.all());
  tape_->OnBackward([=, this] {
    Pieces gradients;
    RunFlashGradient(module, shape, block, {tape_->GradientOf(y.value)}, [&] {
      gradients = core.fused
                      ? Pieces{tape_->MakeScratch(sizes.queries + sizes.keys)}
                      : Pieces{tape_->MakeGradient(core.query), tape_->MakeGradient(core.key),
                               tape_->MakeGradient(core.value)};
      return gradients;
    });
    Deliver(core, module, gradients, sizes.queries + sizes.keys);
  });
  return y;
}

void LayerOperators::Deliver(const Core& core, std::string_view module, const Pieces& gradients,
                             Bytes bytes) {
  if (core.fused) {
    const Kernel join = Memory(Joined(module, ".join"), 0, bytes, bytes);
    tape_->Deliver(core.query, tape_->RunToGradient(core.query, join, gradients));
    return;
  }
  tape_->Deliver(core.query, gradients[0].value);
  tape_->Deliver(core.key, gradients[1].value);
  tape_->Deliver(core.value, gradients[2].value);
}

// An m x n product over k for each head: the queries, the keys and the size of the heads, in some
// order.
Kernel LayerOperators::ScoreProduct(std::string name, const AttentionShape& shape, std::int64_t m,
                                    std::int64_t n, std::int64_t k, ProductLayout layout) const {
  const std::int64_t batch = options_.micro_batch_size * shape.heads;
  const std::int64_t queries = options_.sequence_length;
  const std::int64_t keys = shape.context > 0 ? shape.context : queries;
  const std::int64_t size = layout == ProductLayout::kForward ? k : n;
  const std::int64_t pair = Flops(batch, 2 * size);
  return {.name = std::move(name),
          .kind = KernelKind::kGemm,
          .data_type = element_,
          .batch = batch,
          .m = m,
          .n = n,
          .k = k,
          .layout = layout,
          .flops = Flops(pair, queries * keys),
          .model_flops = Flops(pair, CountedPairs(shape)),
          .read = ScoreBytes(batch * element_size_, m * k + k * n),
          .written = ScoreBytes(batch * element_size_, m * n)};
}

LayerOperators::CappedScores LayerOperators::CapScores(std::string_view module, Value raw,
                                                       Bytes matrix, std::int64_t scores) {
  const auto next = [&](std::string_view suffix, std::int64_t flops, Value from) {
    const std::string name = Joined(module, suffix);
    return tape_->RunTo(name + " output", Memory(name, Flops(flops, scores), matrix, matrix),
                        {from});
  };
  const Value tanh = next(".cap", kSoftmaxFlops, next(".cap.divide", 1, raw));
  tape_->Keep(tanh);
  return {.tanh = tanh, .capped = next(".cap.multiply", 1, tanh)};
}

Value LayerOperators::UncappedGradient(std::string_view module, Value gradient,
                                       const CappedScores& caps, Bytes matrix,
                                       std::int64_t scores) {
  const auto next = [&](std::string_view suffix, int operands, const Pieces& reads) {
    return tape_->RunToScratch(
        Memory(Joined(module, suffix), Flops(operands, scores), operands * matrix, matrix), reads);
  };
  const Value d_tanh = next(".cap.multiply.dgrad", 1, {gradient});
  return next(".cap.divide.dgrad", 1, {next(".cap.dgrad", 2, {d_tanh, caps.tanh})});
}

// The core as separate kernels with the score matrix in memory.
class LayerOperators::ScoreMatrixCore {
 public:
  ScoreMatrixCore(LayerOperators& operators, const Core& core, std::string_view module,
                  const AttentionShape& shape);

  // Records the forward and, for backward, the gradients. Call once.
  Operand Record();

 private:
  // A kernel over all scores.
  Kernel OverScores(std::string_view suffix, std::int64_t flops, Bytes read, Bytes written) const {
    return operators_->Memory(Joined(module_, suffix), Flops(flops, scores_), read, written);
  }
  Value MakeValue(std::string_view suffix, Bytes bytes) {
    return tape_->Make(Joined(module_, suffix), bytes);
  }
  Value RunTo(std::string_view suffix, Kernel kernel, LayerTape::Values reads,
              std::vector<int> parameters = {}) {
    return tape_->RunTo(Joined(module_, suffix), std::move(kernel), reads, std::move(parameters));
  }
  bool has_sinks_kernels() const { return shape_.sinks && !compiled_; }
  bool has_dropout_kernel() const { return shape_.dropout && !compiled_; }
  bool drops_in_softmax() const { return shape_.dropout && compiled_; }
  Bytes SoftmaxBytes() const { return fp32_ ? wide_ : matrix_; }
  // Bytes of scores that the softmax reads.
  Bytes ReadBySoftmax() const;

  // Forward, step by step. Each step takes the result of the step before.
  Value RunScores();
  Value Scale(Value scores);
  Value Mask(Value scores);
  Value UpcastScaleMask(Value scores);
  Value AddDistances(Value scores);
  Value AddSinks(Value scores);
  Value Softmax(Value scores);
  Value CastTo16Bits(Value weights);
  Value Drop(Value weights);
  Operand MultiplyValues(Value weights);

  // Backward: the gradients of these steps, from the last to the first.
  void RunBackward() const;
  Value WeightsGradient(Value dy) const;
  Value SoftmaxGradient(Value d_weights) const;
  Value SinksGradient(Value d_scores) const;
  Value UpcastScaleMaskGradient(Value d_scores) const;
  Value RawGradient(Value d_scores) const;
  // One of the gradients of the core's operands: a product with `from` over `k` tokens, for `rows`
  // tokens.
  Value OperandGradient(std::string_view suffix, Value operand, std::int64_t rows,
                        std::int64_t size, std::int64_t k, ProductLayout layout, Value from) const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Core core_;
  std::string_view module_;
  AttentionShape shape_;
  std::int64_t s_ = 0;       // tokens of a sequence
  std::int64_t keys_ = 0;    // that each of them sees
  std::int64_t scores_ = 0;  // of the micro-batch
  // All scores in the activations' type and in FP32, and a dropout's mask of them.
  Bytes matrix_, wide_, mask_bytes_;
  // Megatron-LM's fused softmax applies the mask itself: masked scores are not read, and zeros are
  // written in their place.
  bool fused_ = false;
  // Megatron-LM runs these kernels instead of the fused softmax (forward_torch_softmax): a cast, a
  // scaling and a mask.
  bool stepwise_ = false;
  // The softmax reads 16-bit scores in FP32, and its result is cast.
  bool fp32_ = false;
  bool compiled_ = false;  // one kernel scales, caps, masks, normalises and drops
  bool scales_ = false;    // in a kernel of its own
  std::optional<CappedScores> caps_;
  Value raw_ = -1, masked_ = -1, softmax_ = -1, undropped_ = -1, weights_ = -1;
  Operand y_;
};

LayerOperators::ScoreMatrixCore::ScoreMatrixCore(LayerOperators& operators, const Core& core,
                                                 std::string_view module,
                                                 const AttentionShape& shape)
    : operators_(&operators),
      tape_(operators.tape_),
      core_(core),
      module_(module),
      shape_(shape),
      s_(operators.options_.sequence_length),
      keys_(shape.context > 0 ? shape.context : s_) {
  const WorkOptions& options = operators.options_;
  const std::int64_t heads = options.micro_batch_size * shape.heads;
  const std::int64_t element_size = operators.element_size_;
  scores_ = Flops(heads, s_ * keys_);
  matrix_ = ScoreBytes(scores_, element_size);
  wide_ = ScoreBytes(scores_, kFp32Size);
  mask_bytes_ = ScoreBytes(scores_, kMaskSize);
  const bool asks_fused = options.attention == Attention::kFusedSoftmax;
  fused_ = asks_fused && FusedSoftmaxTakes(heads, s_);
  stepwise_ = asks_fused && !fused_ && element_size < kFp32Size;
  fp32_ = stepwise_ || (element_size < kFp32Size &&
                        (options.attention == Attention::kMathFp32 ||
                         (options.autocast && options.attention == Attention::kMath)));
  compiled_ = options.compiled && !asks_fused && !fp32_;
  scales_ = !shape.causal && !asks_fused && !compiled_ && shape.scaled;
}

Bytes LayerOperators::ScoreMatrixCore::ReadBySoftmax() const {
  if (fused_ && shape_.causal) return ScoreBytes(scores_ / 2, operators_->element_size_);
  return stepwise_ ? wide_ : matrix_;
}

Operand LayerOperators::ScoreMatrixCore::Record() {
  for (const Value operand : {core_.query, core_.key, core_.value}) tape_->Keep(operand);
  raw_ = RunScores();
  Value scores = raw_;
  if (shape_.capped && !compiled_) {
    caps_ = operators_->CapScores(module_, raw_, matrix_, scores_);
    scores = caps_->capped;
  }
  if (scales_) scores = Scale(scores);
  if (shape_.biased) {
    scores = AddDistances(scores);
  } else if (stepwise_) {
    scores = UpcastScaleMask(scores);
  } else if (!fused_ && !compiled_) {
    scores = Mask(scores);
  }
  if (has_sinks_kernels()) scores = AddSinks(scores);
  masked_ = scores;
  Value weights = Softmax(scores);
  if (fp32_) weights = CastTo16Bits(weights);
  undropped_ = weights;
  if (has_dropout_kernel()) weights = Drop(weights);
  weights_ = weights;
  tape_->Keep(weights_);
  y_ = MultiplyValues(weights_);
  tape_->OnBackward([core = *this] { core.RunBackward(); });
  return y_;
}

Value LayerOperators::ScoreMatrixCore::RunScores() {
  const std::int64_t d = shape_.head_size;
  const Value raw = MakeValue(".scores output", matrix_);
  tape_->Run(operators_->ScoreProduct(Joined(module_, ".scores"), shape_, s_, keys_, d,
                                      ProductLayout::kForward),
             {core_.query, core_.key}, {raw});
  return raw;
}

Value LayerOperators::ScoreMatrixCore::Scale(Value scores) {
  return RunTo(".scale output", OverScores(".scale", 1, matrix_, matrix_), {scores});
}

Value LayerOperators::ScoreMatrixCore::Mask(Value scores) {
  return RunTo(".mask output", OverScores(".mask", 1, matrix_, matrix_), {scores});
}

// In place, as `scores += position_bias`, which includes the mask.
Value LayerOperators::ScoreMatrixCore::AddDistances(Value scores) {
  tape_->Run(OverScores(".distances", 1, 2 * matrix_, matrix_), {scores}, {scores});
  return scores;
}

Value LayerOperators::ScoreMatrixCore::UpcastScaleMask(Value scores) {
  const Value upcast =
      RunTo(".scores in FP32", OverScores(".scores.cast", 0, matrix_, wide_), {scores});
  const Value masked = RunTo(".scale output", OverScores(".scale", 1, wide_, wide_), {upcast});
  tape_->Run(OverScores(".mask", 1, wide_, wide_), {masked}, {masked});
  return masked;
}

// Sinks as an additional column, and subtraction of the largest score, in separate kernels
// (transformers, models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward).
Value LayerOperators::ScoreMatrixCore::AddSinks(Value scores) {
  const Value with_sinks = RunTo(".sinks output", OverScores(".sinks", 0, matrix_, matrix_),
                                 {scores}, shape_.sink_positions.all());
  tape_->Run(OverScores(".max", 1, matrix_, Bytes()), {with_sinks}, {});
  return RunTo(".subtract output", OverScores(".subtract", 1, matrix_, matrix_), {with_sinks});
}

// When compiled, one kernel also adds the sinks and applies dropout.
Value LayerOperators::ScoreMatrixCore::Softmax(Value scores) {
  const std::vector<int> sinks = compiled_ ? shape_.sink_positions.all() : std::vector<int>();
  const Bytes read = ReadBySoftmax();
  softmax_ = MakeValue(".softmax output", SoftmaxBytes());
  tape_->Keep(softmax_);
  if (!drops_in_softmax()) {
    tape_->Run(OverScores(".softmax", kSoftmaxFlops + (compiled_ ? 2 : 0), read, SoftmaxBytes()),
               {scores}, {softmax_}, sinks);
    return softmax_;
  }
  const Value mask = MakeValue(".dropout mask", mask_bytes_);
  const Value dropped = MakeValue(".dropout output", matrix_);
  tape_->Keep(mask);
  tape_->Run(OverScores(".softmax", kSoftmaxFlops + 4, read, 2 * matrix_ + mask_bytes_), {scores},
             {softmax_, mask, dropped}, sinks);
  return dropped;
}

Value LayerOperators::ScoreMatrixCore::CastTo16Bits(Value weights) {
  return RunTo(".softmax in 16 bits", OverScores(".softmax.cast", 0, wide_, matrix_), {weights});
}

Value LayerOperators::ScoreMatrixCore::Drop(Value weights) {
  const Value mask = MakeValue(".dropout mask", mask_bytes_);
  const Value dropped = MakeValue(".dropout output", matrix_);
  tape_->Keep(mask);
  tape_->Run(OverScores(".dropout", 2, matrix_, matrix_ + mask_bytes_), {weights}, {mask, dropped});
  return dropped;
}

Operand LayerOperators::ScoreMatrixCore::MultiplyValues(Value weights) {
  const std::int64_t v = shape_.values();
  const Operand y =
      operators_->Make(Joined(module_, " output"), shape_.heads * v, operators_->tokens_);
  tape_->Run(operators_->ScoreProduct(Joined(module_, ".values"), shape_, s_, v, keys_,
                                      ProductLayout::kInputGradient),
             {weights, core_.value}, {y.value});
  return y;
}

void LayerOperators::ScoreMatrixCore::RunBackward() const {
  const std::int64_t d = shape_.head_size;
  const Value dy = tape_->GradientOf(y_.value);
  const Value d_weights = WeightsGradient(dy);
  const Value dv = OperandGradient(".values.dgrad", core_.value, keys_, shape_.values(), s_,
                                   ProductLayout::kWeightGradient, dy);
  const Value d_raw = RawGradient(SoftmaxGradient(d_weights));
  const Value dq = OperandGradient(".scores.dgrad_query", core_.query, s_, d, keys_,
                                   ProductLayout::kInputGradient, d_raw);
  const Value dk = OperandGradient(".scores.dgrad_key", core_.key, keys_, d, s_,
                                   ProductLayout::kWeightGradient, d_raw);
  operators_->Deliver(core_, module_, {dq, dk, dv}, 3 * operators_->Size(y_));
}

Value LayerOperators::ScoreMatrixCore::WeightsGradient(Value dy) const {
  const std::int64_t v = shape_.values();
  return tape_->RunToGradient(
      weights_,
      operators_->ScoreProduct(Joined(module_, ".values.dgrad_weights"), shape_, s_, keys_, v,
                               ProductLayout::kForward),
      {dy});
}

Value LayerOperators::ScoreMatrixCore::SoftmaxGradient(Value d_weights) const {
  if (has_dropout_kernel()) {
    d_weights = tape_->RunToGradient(
        undropped_, OverScores(".dropout.dgrad", 2, matrix_ + mask_bytes_, matrix_), {d_weights});
  }
  if (fp32_) {
    d_weights = tape_->RunToGradient(softmax_, OverScores(".softmax.cast.dgrad", 0, matrix_, wide_),
                                     {d_weights});
  }
  const Bytes read = 2 * (fused_ ? ReadBySoftmax() : SoftmaxBytes());
  return tape_->RunToGradient(
      masked_,
      OverScores(".softmax.dgrad", kSoftmaxFlops + (compiled_ ? 4 : 0),
                 read + (drops_in_softmax() ? mask_bytes_ : Bytes()), stepwise_ ? wide_ : matrix_),
      {d_weights});
}

Value LayerOperators::ScoreMatrixCore::RawGradient(Value d_scores) const {
  if (has_sinks_kernels()) d_scores = SinksGradient(d_scores);
  if (shape_.biased) {
    // Added to the sum of the blocks before.
    tape_->RunBackward(OverScores(".distances.grad.add", 1, 2 * matrix_, matrix_), {d_scores}, {});
  }
  if (scales_) {
    d_scores =
        tape_->RunToGradient(raw_, OverScores(".scale.dgrad", 1, matrix_, matrix_), {d_scores});
  }
  if (stepwise_) d_scores = UpcastScaleMaskGradient(d_scores);
  if (!caps_) return d_scores;
  return operators_->UncappedGradient(module_, d_scores, *caps_, matrix_, scores_);
}

// Gradients through the subtraction of the largest score and the removal of the sinks' column.
Value LayerOperators::ScoreMatrixCore::SinksGradient(Value d_scores) const {
  tape_->RunBackward(OverScores(".subtract.dgrad", 1, matrix_, matrix_), {d_scores}, {d_scores});
  return tape_->RunToScratch(OverScores(".sinks.dgrad", 0, matrix_, matrix_), {d_scores});
}

Value LayerOperators::ScoreMatrixCore::UpcastScaleMaskGradient(Value d_scores) const {
  const Value d_scaled = tape_->MakeScratch(wide_);
  tape_->RunBackward(OverScores(".mask.dgrad", 1, wide_, wide_), {d_scores}, {d_scores});
  tape_->RunBackward(OverScores(".scale.dgrad", 1, wide_, wide_), {d_scores}, {d_scaled});
  const Value d_raw = tape_->MakeGradient(raw_);
  tape_->RunBackward(OverScores(".scores.cast.dgrad", 0, wide_, matrix_), {d_scaled}, {d_raw});
  return d_raw;
}

// With one fused operand, its three gradients have one size, and a copy joins them.
Value LayerOperators::ScoreMatrixCore::OperandGradient(std::string_view suffix, Value operand,
                                                       std::int64_t rows, std::int64_t size,
                                                       std::int64_t k, ProductLayout layout,
                                                       Value from) const {
  const Value gradient =
      core_.fused ? tape_->MakeScratch(operators_->Size(y_)) : tape_->MakeGradient(operand);
  tape_->RunBackward(
      operators_->ScoreProduct(Joined(module_, suffix), shape_, rows, size, k, layout), {from},
      {gradient});
  return gradient;
}

Operand LayerOperators::Math(const Core& core, std::string_view module,
                             const AttentionShape& shape) {
  return ScoreMatrixCore(*this, core, module, shape).Record();
}

}  // namespace stepcast::model

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"

// The core of attention: what lies between queries, keys and values and its output.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

// The counts of a long sequence's score matrix can leave 64 bits. Such a batch fits nowhere, so
// its exact count has no use; these bounds leave room to add up over all layers.
constexpr std::int64_t kMostFlops = std::int64_t{1} << 58;
constexpr std::int64_t kMostScoreBytes = std::int64_t{1} << 47;

std::int64_t Capped(std::int64_t a, std::int64_t b, std::int64_t most) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return most;
  return std::min(product, most);
}

std::int64_t Flops(std::int64_t a, std::int64_t b) { return Capped(a, b, kMostFlops); }
Bytes ScoreBytes(std::int64_t a, std::int64_t b) { return Bytes(Capped(a, b, kMostScoreBytes)); }

// Whether Megatron-LM's fused softmax takes scores of so many heads, those of all sequences
// together, and of a sequence of s (megatron/model/fused_softmax.py, is_kernel_available; a thread
// block takes four heads, or eight of up to 128 tokens).
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
  // The triangle below the diagonal of s x s, less the one that lies before the window; both as
  // half squares, as is usual when a causal mask is said to halve the work.
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
  // The documents' tokens are those of full sequences.
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
  const BlockSizes sizes = SizesOf(shape, block);
  // Scores, and their product with the values: two products over the pairs that see each other.
  const std::int64_t width = shape.heads * (shape.head_size + shape.values());
  return {
      .name = std::move(name),
      .kind = KernelKind::kAttention,
      .data_type = element_,
      .batch = Documents() * shape.heads,
      .m = block.queries,
      .n = block.visible,
      // The mean of both makes as many FLOPs.
      .k = (shape.head_size + shape.values()) / 2,
      .key_heads = Documents() * shape.kv_heads,
      .flops = Flops(width, block.seen_twice),
      .model_flops = Flops(2, Flops(width, shape.causal ? block.seen_twice : block.seen_twice / 2)),
      .read = sizes.queries + sizes.keys,
      .written = sizes.output + sizes.row_numbers,
      .flash = static_cast<std::uint8_t>(FlashGeneration(options_.attention)),
      .causal = block.causal};
}

void LayerOperators::RunFlashGradient(std::string_view module, const AttentionShape& shape,
                                      const Block& block, const Pieces& reads,
                                      const std::function<Pieces()>& gradients) {
  const BlockSizes sizes = SizesOf(shape, block);
  // Scores again, and gradients of queries and of keys; gradients of scores and of values.
  const std::int64_t width = shape.heads * (3 * shape.head_size + 2 * shape.values());
  // Row sums of the output times its gradient, then the main kernel, which adds up the queries'
  // gradient in FP32.
  const Value row_sums = tape_->MakeScratch(sizes.row_numbers);
  tape_->RunBackward(Memory(Joined(module, ".row_sums"), 2 * sizes.output_elements,
                            2 * sizes.output, sizes.row_numbers),
                     {reads.front()}, {row_sums});
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
    const Value whole = tape_->MakeGradient(core.query);
    tape_->RunBackward(Memory(Joined(module, ".join"), 0, bytes, bytes), gradients, {whole});
    tape_->Deliver(core.query, whole);
    return;
  }
  tape_->Deliver(core.query, gradients[0].value);
  tape_->Deliver(core.key, gradients[1].value);
  tape_->Deliver(core.value, gradients[2].value);
}

// Per head an s x n product over k; `n` and `k` are the sequence or the size of the heads.
Kernel LayerOperators::ScoreProduct(std::string name, const AttentionShape& shape,
                                    std::int64_t size, std::int64_t n, std::int64_t k,
                                    ProductLayout layout) const {
  const std::int64_t s = options_.sequence_length;
  const std::int64_t batch = options_.micro_batch_size * shape.heads;
  const std::int64_t pair = Flops(batch, 2 * size);
  return {.name = std::move(name),
          .kind = KernelKind::kGemm,
          .data_type = element_,
          .batch = batch,
          .m = s,
          .n = n,
          .k = k,
          .layout = layout,
          .flops = Flops(pair, s * s),
          .model_flops = Flops(pair, CountedPairs(shape)),
          .read = ScoreBytes(batch * element_size_, s * k + k * n),
          .written = ScoreBytes(batch * element_size_, s * n)};
}

LayerOperators::CappedScores LayerOperators::CapScores(std::string_view module, Value raw,
                                                       Bytes matrix, std::int64_t scores) {
  const auto next = [&](std::string_view suffix, std::int64_t flops, Value from) {
    const std::string name = Joined(module, suffix);
    const Value made = tape_->Make(name + " output", matrix);
    tape_->Run(Memory(name, Flops(flops, scores), matrix, matrix), {from}, {made});
    return made;
  };
  const Value tanh = next(".cap", kSoftmaxFlops, next(".cap.divide", 1, raw));
  tape_->Keep(tanh);
  return {.tanh = tanh, .capped = next(".cap.multiply", 1, tanh)};
}

Value LayerOperators::UncappedGradient(std::string_view module, Value gradient,
                                       const CappedScores& caps, Bytes matrix,
                                       std::int64_t scores) {
  const auto next = [&](std::string_view suffix, int operands, const Pieces& reads) {
    const Value made = tape_->MakeScratch(matrix);
    tape_->RunBackward(
        Memory(Joined(module, suffix), Flops(operands, scores), operands * matrix, matrix), reads,
        {made});
    return made;
  };
  const Value d_tanh = next(".cap.multiply.dgrad", 1, {gradient});
  return next(".cap.divide.dgrad", 1, {next(".cap.dgrad", 2, {d_tanh, caps.tanh})});
}

Operand LayerOperators::Math(const Core& core, std::string_view module,
                             const AttentionShape& shape) {
  const std::int64_t s = options_.sequence_length;
  const std::int64_t d = shape.head_size, v = shape.values();
  const std::int64_t scores = Flops(options_.micro_batch_size * shape.heads, s * s);
  const Bytes matrix = ScoreBytes(scores, element_size_);
  const Bytes mask_size = ScoreBytes(scores, kMaskSize);
  const auto over_scores = [=, this](std::string_view suffix, std::int64_t flops, Bytes read,
                                     Bytes written) {
    return Memory(Joined(module, suffix), Flops(flops, scores), read, written);
  };

  for (const Value operand : {core.query, core.key, core.value}) tape_->Keep(operand);
  const Value raw = tape_->Make(Joined(module, ".scores output"), matrix);
  tape_->Run(ScoreProduct(Joined(module, ".scores"), shape, d, s, d, ProductLayout::kForward),
             {core.query, core.key}, {raw});
  // Fused, the mask is not applied: what it hides is not read, and zeros are written there.
  const bool asked = options_.attention == Attention::kFusedSoftmax;
  const bool fused = asked && FusedSoftmaxTakes(options_.micro_batch_size * shape.heads, s);
  // What Megatron-LM runs in its place (forward_torch_softmax): cast, scale and mask of its own.
  const bool stepwise = asked && !fused && element_size_ < kFp32Size;
  const Bytes wide = ScoreBytes(scores, kFp32Size);
  // In FP32 the softmax reads scores in 16 bits, and its result is cast.
  const bool fp32 = stepwise || (element_size_ < kFp32Size &&
                                 (options_.attention == Attention::kMathFp32 ||
                                  (options_.autocast && options_.attention == Attention::kMath)));
  // One kernel scales, caps, masks, normalises and drops.
  const bool compiled = options_.compiled && !asked && !fp32;
  std::optional<CappedScores> caps;
  if (shape.capped && !compiled) caps = CapScores(module, raw, matrix, scores);
  const Value capped = caps ? caps->capped : raw;
  const bool scales = !shape.causal && !asked && !compiled;
  Value masked = capped, scaled = capped;
  if (scales) {
    scaled = tape_->Make(Joined(module, ".scale output"), matrix);
    tape_->Run(over_scores(".scale", 1, matrix, matrix), {capped}, {scaled});
  }
  if (stepwise) {
    const Value upcast = tape_->Make(Joined(module, ".scores in FP32"), wide);
    tape_->Run(over_scores(".scores.cast", 0, matrix, wide), {capped}, {upcast});
    masked = tape_->Make(Joined(module, ".scale output"), wide);
    tape_->Run(over_scores(".scale", 1, wide, wide), {upcast}, {masked});
    tape_->Run(over_scores(".mask", 1, wide, wide), {masked}, {masked});
  } else if (!fused && !compiled) {
    masked = tape_->Make(Joined(module, ".mask output"), matrix);
    tape_->Run(over_scores(".mask", 1, matrix, matrix), {scaled}, {masked});
  }
  // The sinks as a further column, and the largest score subtracted, by kernels of their own
  // (transformers, models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward).
  if (shape.sinks && !compiled) {
    const Value with = tape_->Make(Joined(module, ".sinks output"), matrix);
    tape_->Run(over_scores(".sinks", 0, matrix, matrix), {masked}, {with},
               shape.sink_positions.all());
    tape_->Run(over_scores(".max", 1, matrix, Bytes()), {with}, {});
    masked = tape_->Make(Joined(module, ".subtract output"), matrix);
    tape_->Run(over_scores(".subtract", 1, matrix, matrix), {with}, {masked});
  }
  const Bytes read = fused && shape.causal ? ScoreBytes(scores / 2, element_size_)
                     : stepwise            ? wide
                                           : matrix;
  const Bytes softmax_size = fp32 ? wide : matrix;
  const Value softmax = tape_->Make(Joined(module, ".softmax output"), softmax_size);
  tape_->Keep(softmax);
  Value weights = softmax;
  const bool drops_at_once = compiled && shape.dropout;
  std::optional<Value> dropped;
  // One kernel has the sinks, too.
  const std::vector<int> sinks = compiled ? shape.sink_positions.all() : std::vector<int>();
  if (drops_at_once) {
    dropped = tape_->Make(Joined(module, ".dropout mask"), mask_size);
    weights = tape_->Make(Joined(module, ".dropout output"), matrix);
    tape_->Keep(*dropped);
    tape_->Run(over_scores(".softmax", kSoftmaxFlops + 4, read, 2 * matrix + mask_size), {masked},
               {softmax, *dropped, weights}, sinks);
  } else {
    tape_->Run(over_scores(".softmax", kSoftmaxFlops + (compiled ? 2 : 0), read, softmax_size),
               {masked}, {softmax}, sinks);
  }
  if (fp32) {
    weights = tape_->Make(Joined(module, ".softmax in 16 bits"), matrix);
    tape_->Run(over_scores(".softmax.cast", 0, softmax_size, matrix), {softmax}, {weights});
  }
  const Value undropped = weights;
  if (shape.dropout && !drops_at_once) {
    const Value mask = tape_->Make(Joined(module, ".dropout mask"), mask_size);
    weights = tape_->Make(Joined(module, ".dropout output"), matrix);
    tape_->Keep(mask);
    tape_->Run(over_scores(".dropout", 2, matrix, matrix + mask_size), {undropped},
               {mask, weights});
  }
  tape_->Keep(weights);
  const Operand y = Make(Joined(module, " output"), shape.heads * v, tokens_);
  tape_->Run(ScoreProduct(Joined(module, ".values"), shape, v, v, s, ProductLayout::kInputGradient),
             {weights, core.value}, {y.value});

  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    // Operand gradients of the size of one of query, key and value.
    const auto part = [&](Value operand) {
      return core.fused ? tape_->MakeScratch(Size(y)) : tape_->MakeGradient(operand);
    };
    Value d_weights = tape_->MakeGradient(weights);
    tape_->RunBackward(ScoreProduct(Joined(module, ".values.dgrad_weights"), shape, v, s, v,
                                    ProductLayout::kForward),
                       {dy}, {d_weights});
    const Value dv = part(core.value);
    tape_->RunBackward(ScoreProduct(Joined(module, ".values.dgrad"), shape, v, v, s,
                                    ProductLayout::kWeightGradient),
                       {dy}, {dv});
    if (shape.dropout && !drops_at_once) {
      const Value d_undropped = tape_->MakeGradient(undropped);
      tape_->RunBackward(over_scores(".dropout.dgrad", 2, matrix + mask_size, matrix), {d_weights},
                         {d_undropped});
      d_weights = d_undropped;
    }
    if (fp32) {
      const Value d_softmax = tape_->MakeGradient(softmax);
      tape_->RunBackward(over_scores(".softmax.cast.dgrad", 0, matrix, softmax_size), {d_weights},
                         {d_softmax});
      d_weights = d_softmax;
    }
    Value d_scores = tape_->MakeGradient(masked);
    tape_->RunBackward(
        over_scores(".softmax.dgrad", kSoftmaxFlops + (compiled ? 4 : 0),
                    2 * (fused ? read : softmax_size) + (drops_at_once ? mask_size : Bytes()),
                    stepwise ? wide : matrix),
        {d_weights}, {d_scores});
    if (shape.sinks && !compiled) {
      // What the largest score was subtracted from, and the scores without the sinks' column.
      tape_->RunBackward(over_scores(".subtract.dgrad", 1, matrix, matrix), {d_scores}, {d_scores});
      const Value d_masked = tape_->MakeScratch(matrix);
      tape_->RunBackward(over_scores(".sinks.dgrad", 0, matrix, matrix), {d_scores}, {d_masked});
      d_scores = d_masked;
    }
    if (scales) {
      const Value d_raw = tape_->MakeGradient(raw);
      tape_->RunBackward(over_scores(".scale.dgrad", 1, matrix, matrix), {d_scores}, {d_raw});
      d_scores = d_raw;
    }
    if (stepwise) {
      const Value d_scaled = tape_->MakeScratch(wide);
      tape_->RunBackward(over_scores(".mask.dgrad", 1, wide, wide), {d_scores}, {d_scores});
      tape_->RunBackward(over_scores(".scale.dgrad", 1, wide, wide), {d_scores}, {d_scaled});
      d_scores = tape_->MakeGradient(raw);
      tape_->RunBackward(over_scores(".scores.cast.dgrad", 0, wide, matrix), {d_scaled},
                         {d_scores});
    }
    if (caps) d_scores = UncappedGradient(module, d_scores, *caps, matrix, scores);
    const Value dq = part(core.query);
    tape_->RunBackward(ScoreProduct(Joined(module, ".scores.dgrad_query"), shape, d, d, s,
                                    ProductLayout::kInputGradient),
                       {d_scores}, {dq});
    const Value dk = part(core.key);
    tape_->RunBackward(ScoreProduct(Joined(module, ".scores.dgrad_key"), shape, d, d, s,
                                    ProductLayout::kWeightGradient),
                       {d_scores}, {dk});
    if (core.fused) {
      const Value whole = tape_->MakeGradient(core.query);
      tape_->RunBackward(Memory(Joined(module, ".join"), 0, 3 * Size(y), 3 * Size(y)), {dq, dk, dv},
                         {whole});
      tape_->Deliver(core.query, whole);
    } else {
      tape_->Deliver(core.query, dq);
      tape_->Deliver(core.key, dk);
      tape_->Deliver(core.value, dv);
    }
  });
  return y;
}

}  // namespace stepcast::model

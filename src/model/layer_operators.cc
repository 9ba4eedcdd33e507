#include "src/model/layer_operators.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/model/operator_name.h"
#include "src/parallel/axis.h"

namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

// Floating-point operations per element of the kernels that memory bounds; they matter only where
// a device has little arithmetic for its bandwidth.
constexpr std::int64_t kNormFlops = 7, kSoftmaxFlops = 5, kRotaryFlops = 3, kGeluFlops = 9,
                       kSiluFlops = 5, kSquaredReluFlops = 2, kTanhFlops = 5;

constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;

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

// The operands of an attention core, and where their gradients go.
struct LayerOperators::Core {
  Value query, key, value;  // the same one three times if they stand side by side
  bool fused = false;
};

DataType ActivationType(DataType compute) {
  if (compute == DataType::kTf32) return DataType::kFp32;
  return compute == DataType::kFp8 ? DataType::kBf16 : compute;
}

LayerOperators::LayerOperators(const WorkOptions& options, LayerTape& tape)
    : options_(options),
      tape_(&tape),
      tokens_(options.micro_batch_size * options.sequence_length),
      element_(ActivationType(options.compute)),
      element_size_(SizeOf(element_)) {}

Operand LayerOperators::Make(std::string name, std::int64_t width, std::int64_t tokens, bool fp32) {
  Operand made{.width = width, .tokens = tokens, .fp32 = fp32};
  made.value = tape_->Make(std::move(name), Size(made));
  return made;
}

Operand LayerOperators::Input(std::int64_t width) {
  Operand input{.width = width,
                .tokens = options_.sequence_parallel ? tokens_ / options_.tensor : tokens_,
                .fp32 = options_.autocast};
  input.value = tape_->Input("input", Size(input));
  return input;
}

Kernel LayerOperators::Gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
                            ProductLayout layout) const {
  const std::int64_t flops = 2 * m * n * k;
  return {.name = std::move(name),
          .kind = KernelKind::kGemm,
          .data_type = options_.compute,
          .m = m,
          .n = n,
          .k = k,
          .layout = layout,
          .flops = flops,
          .model_flops = flops,
          .read = BytesOf(m * k + k * n, options_.compute),
          .written = BytesOfElements(m * n)};
}

Kernel LayerOperators::Memory(std::string name, std::int64_t flops, Bytes read,
                              Bytes written) const {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = element_,
          .flops = flops,
          .read = read,
          .written = written};
}

std::optional<Fp8Copies> LayerOperators::CastToFp8(const Operand& x, std::string_view module,
                                                   bool frozen) {
  if (options_.compute != DataType::kFp8) return std::nullopt;
  if (fp8_copied_ == x.value) return fp8_copies_;
  const Bytes bytes(Elements(x));
  fp8_copied_ = x.value;
  if (frozen) {
    const Value rows = tape_->Make(Joined(module, " input in FP8"), bytes);
    fp8_copies_ = {.rows = rows, .columns = rows};
    tape_->Run(Memory(Joined(module, ".input.cast"), 0, Size(x), bytes), {x.value}, {rows});
    return fp8_copies_;
  }
  fp8_copies_ = {.rows = tape_->Make(Joined(module, " input in FP8"), bytes),
                 .columns = tape_->Make(Joined(module, " input in FP8, transposed"), bytes)};
  tape_->Run(Memory(Joined(module, ".input.cast"), 0, Size(x), 2 * bytes), {x.value},
             {fp8_copies_.rows, fp8_copies_.columns});
  return fp8_copies_;
}

std::optional<Fp8Copies> LayerOperators::CastToFp8InBackward(Value value, const Operand& of,
                                                             std::string name) {
  if (options_.compute != DataType::kFp8) return std::nullopt;
  const Bytes bytes(Elements(of));
  const Fp8Copies copies{.rows = tape_->MakeScratch(bytes), .columns = tape_->MakeScratch(bytes)};
  tape_->RunBackward(Memory(std::move(name), 0, Size(of), 2 * bytes), {value},
                     {copies.rows, copies.columns});
  return copies;
}

Operand LayerOperators::Norm(Operand x, std::string_view module, Normalization normalization,
                             ModulePositions parameters) {
  const bool rms = normalization == Normalization::kRmsNorm;
  if (rms && IsUnfused(options_.norm)) return EagerRmsNorm(x, module, parameters);
  const bool compiled = options_.norm == Implementation::kCompiled;
  const bool staged = options_.norm == Implementation::kApex ||
                      options_.norm == Implementation::kApexFp32 ||
                      options_.norm == Implementation::kTransformerEngine;
  // apex/normalization/fused_layer_norm.py: under autocast inputs are cast. PyTorch's own norms
  // stay in FP32, and a compiled one writes what a matrix product would cast.
  if (staged && x.fp32) x = Cast(x, module);
  // LayerNorm has a mean and a reciprocal deviation per token, RMSNorm only the latter.
  const Bytes statistics = Bytes(x.tokens * kFp32Size * (rms ? 1 : 2));
  if (options_.norm == Implementation::kApexFp32 && ElementSize(x) < kFp32Size) {
    return WidenedNorm(x, module, statistics, parameters);
  }
  const Bytes weights(x.width * (parameters.biased() ? 2 : 1) * ElementSize(x));
  const std::int64_t flops = kNormFlops * Elements(x);
  tape_->Keep(x.value);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32 && !compiled);
  const bool fused = compiled && last_sum_ == x.value;
  Kernel forward = Memory(std::string(module), flops, (fused ? Bytes() : Size(x)) + weights,
                          Size(y) + statistics);
  std::vector<LayerTape::Piece> kept{x.value};
  if (rms) {
    const Value rstd = tape_->Make(Joined(module, " reciprocal deviation"), statistics);
    tape_->Keep(rstd);
    kept.push_back(rstd);
    tape_->Run(std::move(forward), {x.value}, {y.value, rstd}, parameters.all());
  } else {
    tape_->Run(std::move(forward), {x.value}, {y.value}, parameters.all());
  }
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(
        Memory(Joined(module, ".dgrad"), flops, Size(x) + Size(y) + weights + statistics, Size(x)),
        {dy}, {dx}, {}, parameters.all());
    if (parameters.frozen) {
      tape_->Deliver(x.value, dx);
      return;
    }
    std::vector<int> gradients{parameters.weight};
    if (parameters.bias >= 0) gradients.push_back(parameters.bias);
    const Bytes again = compiled ? Bytes() : Size(x) + Size(y) + statistics;
    Kernel sums = Memory(Joined(module, ".wgrad"), 2 * Elements(x), again, weights);
    if (!rms && !compiled && !staged) {
      sums.summed_tokens = x.tokens;
      sums.summed_columns = x.width;
    }
    std::vector<LayerTape::Piece> reads{dy};
    reads.insert(reads.end(), kept.begin(), kept.end());
    RunPartGradients(std::move(sums), reads, std::move(gradients), parameters);
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// x32 = x.float(); y = norm(x32) in 16 bits: 12 bytes an element instead of 4, and once more where
// they run again in backward. Backward reads dy and x32, writes an FP32 gradient and casts it: 16
// bytes instead of 6 (internlm/model/modeling_internlm.py, _dropout_and_norm_attn).
Operand LayerOperators::WidenedNorm(Operand x, std::string_view module, const Bytes& statistics,
                                    ModulePositions parameters) {
  const Bytes narrow = Size(x);
  const Bytes wide(Elements(x) * kFp32Size);
  const Bytes weights(x.width * (parameters.bias >= 0 ? 2 : 1) * ElementSize(x));
  const std::int64_t flops = kNormFlops * Elements(x);
  const Kernel cast = Memory(Joined(module, ".float"), 0, narrow, wide);
  const Kernel norm = Memory(std::string(module), flops, wide + weights, narrow + statistics);
  const bool again = options_.norms_again;
  const Value x32 = tape_->Make(Joined(module, " input in FP32"), wide);
  const Value numbers = tape_->Make(Joined(module, " statistics"), statistics);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Run(cast, {x.value}, {x32});
  tape_->Run(norm, {x32}, {y.value, numbers}, parameters.all());
  if (again) {
    tape_->Keep(x.value);
  } else {
    tape_->Keep(x32);
    tape_->Keep(numbers);
  }
  tape_->OnBackward([=, this] {
    Value input = x32, made = numbers;
    if (again) {
      input = tape_->MakeScratch(wide);
      made = tape_->MakeScratch(statistics);
      tape_->RunBackward(cast, {x.value}, {input});
      tape_->RunBackward(norm, {input}, {tape_->MakeScratch(narrow), made}, {}, parameters.all());
    }
    const Value dy = tape_->GradientOf(y.value);
    const Value d_input = tape_->MakeScratch(wide);
    tape_->RunBackward(
        Memory(Joined(module, ".dgrad"), flops, wide + narrow + weights + statistics, wide),
        {dy, input, made}, {d_input}, {}, parameters.all());
    std::vector<int> gradients{parameters.weight};
    if (parameters.bias >= 0) gradients.push_back(parameters.bias);
    RunPartGradients(
        Memory(Joined(module, ".wgrad"), 2 * Elements(x), wide + narrow + statistics, weights),
        {dy, input, made}, std::move(gradients), parameters);
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".float.dgrad"), 0, wide, narrow), {d_input}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

Operand LayerOperators::Rotary(Operand x, std::string_view module, std::int64_t head_size) {
  if (options_.rotary == Implementation::kEager) return ComplexRotary(x, module, head_size);
  if (options_.rotary == Implementation::kHuggingFace) return HalvesRotary(x, module, head_size);
  const std::int64_t flops = kRotaryFlops * Elements(x);
  // Sines and cosines of every position.
  const Bytes table = BytesOfElements(2 * options_.sequence_length * head_size);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Run(Memory(std::string(module), flops, Size(x) + table, Size(y)), {x.value}, {y.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), flops, Size(y) + table, Size(x)),
                       {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

std::array<Operand, 3> LayerOperators::Split(Operand x, std::string_view module,
                                             const std::array<std::int64_t, 3>& widths) {
  const std::array<Operand, 3> parts = {Make(Joined(module, " query"), widths[0], x.tokens),
                                        Make(Joined(module, " key"), widths[1], x.tokens),
                                        Make(Joined(module, " value"), widths[2], x.tokens)};
  tape_->Run(Memory(Joined(module, ".split"), 0, Size(x), Size(x)), {x.value},
             {parts[0].value, parts[1].value, parts[2].value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".join"), 0, Size(x), Size(x)),
                       {tape_->GradientOf(parts[0].value), tape_->GradientOf(parts[1].value),
                        tape_->GradientOf(parts[2].value)},
                       {dx});
    tape_->Deliver(x.value, dx);
  });
  return parts;
}

Operand LayerOperators::RepeatHeads(Operand x, std::string_view module, std::int64_t times) {
  if (times == 1) return x;
  const Operand y = Make(Joined(module, " output"), x.width * times, x.tokens);
  tape_->Run(Memory(std::string(module), 0, Size(x), Size(y)), {x.value}, {y.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), Elements(y), Size(y), Size(x)),
                       {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

std::int64_t LayerOperators::SeenTwice(const AttentionShape& shape) const {
  // The triangle below the diagonal of s x s, less the one that lies before the window; both as
  // half squares, as is usual when a causal mask is said to halve the work.
  const std::int64_t s = options_.sequence_length;
  if (!shape.causal) return 2 * s * s;
  if (shape.window == 0 || shape.window >= s) return s * s;
  return s * s - (s - shape.window) * (s - shape.window);
}

std::int64_t LayerOperators::CountedPairs(const AttentionShape& shape) const {
  return shape.causal ? SeenTwice(shape) : SeenTwice(shape) / 2;
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

Operand LayerOperators::Flash(const Core& core, std::string_view module,
                              const AttentionShape& shape) {
  const std::int64_t query_width = shape.heads * shape.head_size;
  const std::int64_t key_width = shape.kv_heads * shape.head_size;
  const Bytes operands = BytesOfElements(tokens_ * (query_width + 2 * key_width));
  // One product of queries and keys over the pairs that see each other.
  const std::int64_t product = Flops(options_.micro_batch_size * query_width, SeenTwice(shape));
  const std::int64_t counted = Flops(options_.micro_batch_size * query_width, CountedPairs(shape));
  const Bytes row_numbers = Bytes(tokens_ * shape.heads * kFp32Size);
  const auto generation = static_cast<std::uint8_t>(FlashGeneration(options_.attention));

  for (const Value operand : {core.query, core.key, core.value}) tape_->Keep(operand);
  const Operand y = Make(Joined(module, " output"), query_width, tokens_);
  tape_->Keep(y.value);
  const Value log_sum_exp = tape_->Make(Joined(module, " log-sum-exp"), row_numbers);
  tape_->Keep(log_sum_exp);
  // Scores, and their product with the values.
  const std::int64_t s = options_.sequence_length;
  const Kernel forward{.name = std::string(module),
                       .kind = KernelKind::kAttention,
                       .data_type = element_,
                       .batch = options_.micro_batch_size * shape.heads,
                       .m = s,
                       .n = shape.window == 0 ? s : std::min(s, shape.window),
                       .k = shape.head_size,
                       .key_heads = options_.micro_batch_size * shape.kv_heads,
                       .flops = Flops(2, product),
                       .model_flops = Flops(4, counted),
                       .read = operands,
                       .written = Size(y) + row_numbers,
                       .flash = generation,
                       .causal = shape.causal};
  tape_->Run(forward, {core.query, core.key, core.value}, {y.value, log_sum_exp});
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    // Row sums of the output times its gradient, then the main kernel, which adds up the queries'
    // gradient in FP32.
    const Value row_sums = tape_->MakeScratch(row_numbers);
    tape_->RunBackward(
        Memory(Joined(module, ".row_sums"), 2 * Elements(y), 2 * Size(y), row_numbers), {dy},
        {row_sums});
    const Bytes accumulator_size = Bytes(Elements(y) * kFp32Size);
    const Value accumulator = tape_->MakeScratch(accumulator_size);
    Kernel backward = forward;
    backward.name = Joined(module, ".dgrad");
    backward.kind = KernelKind::kAttentionGradient;
    backward.flops = Flops(5, product);
    backward.model_flops = Flops(8, counted);
    backward.read = operands + 2 * Size(y) + 2 * row_numbers + accumulator_size;
    backward.written = operands + accumulator_size;
    if (core.fused) {
      const Value parts = tape_->MakeScratch(operands);
      tape_->RunBackward(backward, {dy, row_sums}, {parts, accumulator});
      const Value whole = tape_->MakeGradient(core.query);
      tape_->RunBackward(Memory(Joined(module, ".join"), 0, operands, operands), {parts}, {whole});
      tape_->Deliver(core.query, whole);
    } else {
      const Value dq = tape_->MakeGradient(core.query);
      const Value dk = tape_->MakeGradient(core.key);
      const Value dv = tape_->MakeGradient(core.value);
      tape_->RunBackward(backward, {dy, row_sums}, {dq, dk, dv, accumulator});
      tape_->Deliver(core.query, dq);
      tape_->Deliver(core.key, dk);
      tape_->Deliver(core.value, dv);
    }
  });
  return y;
}

// Per head an s x n product over k; `n` and `k` are the sequence or the head size.
Kernel LayerOperators::ScoreProduct(std::string name, const AttentionShape& shape, std::int64_t n,
                                    std::int64_t k, ProductLayout layout) const {
  const std::int64_t s = options_.sequence_length;
  const std::int64_t batch = options_.micro_batch_size * shape.heads;
  const std::int64_t pair = Flops(batch, 2 * shape.head_size);
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

Operand LayerOperators::Math(const Core& core, std::string_view module,
                             const AttentionShape& shape) {
  const std::int64_t s = options_.sequence_length;
  const std::int64_t d = shape.head_size;
  const std::int64_t scores = Flops(options_.micro_batch_size * shape.heads, s * s);
  const Bytes matrix = ScoreBytes(scores, element_size_);
  const Bytes mask_size = ScoreBytes(scores, kMaskSize);
  const auto over_scores = [=, this](std::string_view suffix, std::int64_t flops, Bytes read,
                                     Bytes written) {
    return Memory(Joined(module, suffix), Flops(flops, scores), read, written);
  };

  for (const Value operand : {core.query, core.key, core.value}) tape_->Keep(operand);
  const Value raw = tape_->Make(Joined(module, ".scores output"), matrix);
  tape_->Run(ScoreProduct(Joined(module, ".scores"), shape, s, d, ProductLayout::kForward),
             {core.query, core.key}, {raw});
  // Fused, the mask is not applied: what it hides is not read, and zeros are written there.
  const bool asked = options_.attention == Attention::kFusedSoftmax;
  const bool fused = asked && FusedSoftmaxTakes(options_.micro_batch_size * shape.heads, s);
  // What Megatron-LM runs in its place (forward_torch_softmax): cast, scale and mask of its own.
  const bool stepwise = asked && !fused && element_size_ < kFp32Size;
  const Bytes wide = ScoreBytes(scores, kFp32Size);
  Value masked = raw;
  // In FP32 the softmax reads scores in 16 bits, and its result is cast.
  const bool fp32 = stepwise || (element_size_ < kFp32Size &&
                                 (options_.attention == Attention::kMathFp32 ||
                                  (options_.autocast && options_.attention == Attention::kMath)));
  // One kernel scales, masks, normalises and drops.
  const bool compiled = options_.compiled && !asked && !fp32;
  const bool scales = !shape.causal && !asked && !compiled;
  Value scaled = raw;
  if (scales) {
    scaled = tape_->Make(Joined(module, ".scale output"), matrix);
    tape_->Run(over_scores(".scale", 1, matrix, matrix), {raw}, {scaled});
  }
  if (stepwise) {
    const Value upcast = tape_->Make(Joined(module, ".scores in FP32"), wide);
    tape_->Run(over_scores(".scores.cast", 0, matrix, wide), {raw}, {upcast});
    masked = tape_->Make(Joined(module, ".scale output"), wide);
    tape_->Run(over_scores(".scale", 1, wide, wide), {upcast}, {masked});
    tape_->Run(over_scores(".mask", 1, wide, wide), {masked}, {masked});
  } else if (!fused && !compiled) {
    masked = tape_->Make(Joined(module, ".mask output"), matrix);
    tape_->Run(over_scores(".mask", 1, matrix, matrix), {scaled}, {masked});
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
  if (drops_at_once) {
    dropped = tape_->Make(Joined(module, ".dropout mask"), mask_size);
    weights = tape_->Make(Joined(module, ".dropout output"), matrix);
    tape_->Keep(*dropped);
    tape_->Run(over_scores(".softmax", kSoftmaxFlops + 4, read, 2 * matrix + mask_size), {masked},
               {softmax, *dropped, weights});
  } else {
    tape_->Run(over_scores(".softmax", kSoftmaxFlops + (compiled ? 2 : 0), read, softmax_size),
               {masked}, {softmax});
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
  const Operand y = Make(Joined(module, " output"), shape.heads * d, tokens_);
  tape_->Run(ScoreProduct(Joined(module, ".values"), shape, d, s, ProductLayout::kInputGradient),
             {weights, core.value}, {y.value});

  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    // Operand gradients of the size of one of query, key and value.
    const auto part = [&](Value operand) {
      return core.fused ? tape_->MakeScratch(Size(y)) : tape_->MakeGradient(operand);
    };
    Value d_weights = tape_->MakeGradient(weights);
    tape_->RunBackward(
        ScoreProduct(Joined(module, ".values.dgrad_weights"), shape, s, d, ProductLayout::kForward),
        {dy}, {d_weights});
    const Value dv = part(core.value);
    tape_->RunBackward(
        ScoreProduct(Joined(module, ".values.dgrad"), shape, d, s, ProductLayout::kWeightGradient),
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
    const Value dq = part(core.query);
    tape_->RunBackward(ScoreProduct(Joined(module, ".scores.dgrad_query"), shape, d, s,
                                    ProductLayout::kInputGradient),
                       {d_scores}, {dq});
    const Value dk = part(core.key);
    tape_->RunBackward(ScoreProduct(Joined(module, ".scores.dgrad_key"), shape, d, s,
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

Operand LayerOperators::Add(Operand x, Operand y, std::string_view name) {
  const Operand sum = Make(std::string(name), x.width, x.tokens, x.fp32);
  tape_->Run(Memory(std::string(name), Elements(x), Size(x) + Size(y), Size(sum)),
             {x.value, y.value}, {sum.value});
  last_sum_ = sum.value;
  tape_->OnBackward([=, this] {
    tape_->Pass(sum.value, x.value);
    if (sum.fp32 == y.fp32) {
      tape_->Pass(sum.value, y.value);
      return;
    }
    // The kernel that made the sum's gradient may write the copy, too.
    const Value dy = tape_->MakeGradient(y.value);
    tape_->RunBackward(
        Memory(Joined(name, ".cast"), 0, options_.compiled ? Bytes() : Size(sum), Size(y)),
        {tape_->GradientOf(sum.value)}, {dy});
    tape_->Deliver(y.value, dy);
  });
  return sum;
}

Operand LayerOperators::Scale(Operand x, std::string_view name) {
  if (options_.compiled) return x;
  const Operand y = Make(Joined(name, " output"), x.width, x.tokens, x.fp32);
  tape_->Run(Memory(std::string(name), Elements(x), Size(x), Size(y)), {x.value}, {y.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(name, ".dgrad"), Elements(x), Size(y), Size(x)),
                       {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

Operand LayerOperators::GatedSilu(Operand gate, Operand up, std::string_view module) {
  const std::int64_t flops = (kSiluFlops + 1) * Elements(gate);
  const Operand product = Make(Joined(module, " output"), gate.width, gate.tokens);
  tape_->Keep(gate.value);
  tape_->Keep(up.value);
  tape_->Run(Memory(std::string(module), flops, 2 * Size(gate), Size(gate)), {gate.value, up.value},
             {product.value});
  tape_->OnBackward([=, this] {
    const Value d_gate = tape_->MakeGradient(gate.value);
    const Value d_up = tape_->MakeGradient(up.value);
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), 2 * flops, 3 * Size(gate), 2 * Size(gate)),
                       {tape_->GradientOf(product.value)}, {d_gate, d_up});
    tape_->Deliver(gate.value, d_gate);
    tape_->Deliver(up.value, d_up);
  });
  return product;
}

Operand LayerOperators::Multiply(Operand x, Operand y, std::string_view name) {
  const Operand product = Make(Joined(name, " output"), x.width, x.tokens);
  tape_->Keep(x.value);
  tape_->Keep(y.value);
  tape_->Run(Memory(std::string(name), Elements(x), 2 * Size(x), Size(x)), {x.value, y.value},
             {product.value});
  tape_->OnBackward([=, this] {
    const Value gradient = tape_->GradientOf(product.value);
    const Value dx = tape_->MakeGradient(x.value);
    const Value dy = tape_->MakeGradient(y.value);
    tape_->RunBackward(Memory(Joined(name, ".dgrad_left"), Elements(x), 2 * Size(x), Size(x)),
                       {gradient}, {dx});
    tape_->RunBackward(Memory(Joined(name, ".dgrad_right"), Elements(x), 2 * Size(x), Size(x)),
                       {gradient}, {dy});
    tape_->Deliver(x.value, dx);
    tape_->Deliver(y.value, dy);
  });
  return product;
}

Operand LayerOperators::Elementwise(Operand x, std::string_view module,
                                    std::int64_t flops_per_element, bool keeps_result) {
  const std::int64_t flops = flops_per_element * Elements(x);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Keep(keeps_result ? y.value : x.value);
  tape_->Run(Memory(std::string(module), flops, Size(x), Size(x)), {x.value}, {y.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), flops, 2 * Size(x), Size(x)),
                       {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

Operand LayerOperators::Gelu(Operand x, std::string_view module) {
  if (options_.activation_function == Implementation::kHuggingFace) return NewGelu(x, module);
  return Elementwise(x, module, kGeluFlops);
}

Operand LayerOperators::Silu(Operand x, std::string_view module) {
  return Elementwise(x, module, kSiluFlops);
}

Operand LayerOperators::Tanh(Operand x, std::string_view module) {
  return Elementwise(x, module, kTanhFlops, true);
}

Operand LayerOperators::SquaredRelu(Operand x, std::string_view module) {
  return Elementwise(x, module, kSquaredReluFlops);
}

Operand LayerOperators::Dropout(Operand x, std::string_view module) {
  const Bytes mask_size = Bytes(Elements(x) * kMaskSize);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32);
  const Value mask = tape_->Make(Joined(module, " mask"), mask_size);
  tape_->Keep(mask);
  tape_->Run(Memory(std::string(module), 2 * Elements(x), Size(x), Size(x) + mask_size), {x.value},
             {y.value, mask});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(
        Memory(Joined(module, ".dgrad"), 2 * Elements(x), Size(x) + mask_size, Size(x)),
        {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

Operand LayerOperators::DropoutAdd(Operand x, Operand branch, std::string_view module) {
  const Bytes mask_size = Bytes(Elements(x) * kMaskSize);
  const Operand sum = Make(std::string(module), x.width, x.tokens, x.fp32);
  const Value mask = tape_->Make(Joined(module, " mask"), mask_size);
  tape_->Keep(mask);
  tape_->Run(
      Memory(std::string(module), 3 * Elements(x), Size(x) + Size(branch), Size(sum) + mask_size),
      {x.value, branch.value}, {sum.value, mask});
  last_sum_ = sum.value;
  tape_->OnBackward([=, this] {
    tape_->Pass(sum.value, x.value);
    const Value d_branch = tape_->MakeGradient(branch.value);
    tape_->RunBackward(
        Memory(Joined(module, ".dgrad"), 2 * Elements(x), Size(sum) + mask_size, Size(branch)),
        {tape_->GradientOf(sum.value)}, {d_branch});
    tape_->Deliver(branch.value, d_branch);
  });
  return sum;
}

Operand LayerOperators::Lookup(std::string_view module, std::int64_t rows, std::int64_t width,
                               int weight, bool shared) {
  const Bytes indices = Bytes(tokens_ * kIndexSize);
  const Operand y = Make(Joined(module, " output"), width, tokens_, options_.autocast);
  const Bytes table(rows * width * ElementSize(y));
  tape_->Run(Memory(std::string(module), 0, Size(y) + indices, Size(y)), {}, {y.value},
             weight >= 0 ? std::vector<int>{weight} : std::vector<int>());
  if (weight < 0) return y;  // it is frozen
  tape_->OnBackward([=, this] {
    const Bytes touched(std::min(rows, tokens_) * width * ElementSize(y));
    std::vector<int> gradients{weight};
    tape_->RunBackward(
        Memory(Joined(module, ".wgrad"), Elements(y), Size(y) + indices, table + touched),
        {tape_->GradientOf(y.value)}, {}, shared ? std::vector<int>() : gradients, {weight});
    if (shared) {
      tape_->RunBackward(Memory(Joined(module, ".weight.grad.add"), rows * width, 2 * table, table),
                         {}, {}, gradients, {weight});
    }
  });
  return y;
}

Operand LayerOperators::AddPositions(Operand x, std::string_view module, std::int64_t rows,
                                     int weight) {
  const std::int64_t s = options_.sequence_length;
  const std::int64_t elements = s * x.width;
  const Bytes size(elements * ElementSize(x));
  const Value positions = tape_->Make(Joined(module, " output"), size);
  tape_->Run(Memory(std::string(module), 0, size + Bytes(s * kIndexSize), size), {}, {positions},
             weight >= 0 ? std::vector<int>{weight} : std::vector<int>());
  const std::string name = Joined(module, ".add");
  const Operand sum = Make(Joined(name, " output"), x.width, x.tokens, x.fp32);
  tape_->Run(Memory(name, Elements(x), Size(x) + size, Size(x)), {x.value, positions}, {sum.value});
  tape_->OnBackward([=, this] {
    tape_->Pass(sum.value, x.value);
    if (weight < 0) return;
    Value gradient = tape_->GradientOf(sum.value);
    if (options_.micro_batch_size > 1) {
      const Value reduced = tape_->MakeScratch(size);
      tape_->RunBackward(Memory(Joined(module, ".add.dgrad"), Elements(x), Size(x), size),
                         {gradient}, {reduced});
      gradient = reduced;
    }
    tape_->RunBackward(Memory(Joined(module, ".wgrad"), elements, size + Bytes(s * kIndexSize),
                              Bytes(rows * x.width * ElementSize(x)) + size),
                       {gradient}, {}, {weight}, {weight});
  });
  return sum;
}

Operand LayerOperators::AddTokenTypes(Operand x, std::string_view module, std::int64_t rows,
                                      int weight) {
  const Operand types = Lookup(module, rows, x.width, weight, false);
  return Add(x, types, Joined(module, ".add"));
}

Operand LayerOperators::TakeTokens(Operand x, std::string_view module, std::int64_t tokens) {
  const Operand taken = Make(Joined(module, " output"), x.width, tokens, x.fp32);
  const Bytes indices(tokens * kIndexSize);
  tape_->Run(Memory(std::string(module), 0, Size(taken) + indices, Size(taken)), {x.value},
             {taken.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".zeros"), 0, Bytes(), Size(x)), {}, {dx});
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), 0, Size(taken) + indices, Size(taken)),
                       {tape_->GradientOf(taken.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return taken;
}

void LayerOperators::CrossEntropy(Operand logits, std::string_view module) {
  const std::int64_t elements = Elements(logits);
  const Bytes wide = Bytes(elements * kFp32Size);
  const bool cast = element_ != DataType::kFp32;
  const Bytes targets = Bytes(tokens_ * (kIndexSize + kFp32Size));
  const auto fp32 = [this](std::string name, std::int64_t flops, Bytes read, Bytes written) {
    Kernel kernel = Memory(std::move(name), flops, read, written);
    kernel.data_type = DataType::kFp32;
    return kernel;
  };

  if (options_.loss == Loss::kInPlace) {
    // Nobody keeps the 16-bit logits. In FP32 they are their own copy.
    const Value softmax =
        cast ? tape_->Make(Joined(module, ".softmax output"), wide) : logits.value;
    tape_->Keep(softmax);
    if (cast) {
      tape_->Run(fp32(Joined(module, ".cast"), 0, Size(logits), wide), {logits.value}, {softmax});
    }
    // `rows`: what the ranks of a divided vocabulary have agreed on before.
    const auto pass = [&](const char* name, Bytes written, std::optional<Value> rows = {}) {
      Kernel kernel = fp32(Joined(module, name), elements, wide, written);
      if (rows) {
        tape_->Run(std::move(kernel), {softmax, *rows}, {});
      } else {
        tape_->Run(std::move(kernel), {softmax}, {});
      }
    };
    const auto sums = [&](const char* name) {
      return AgreedRows(fp32(Joined(module, name), elements, wide, Bytes(tokens_ * kFp32Size)),
                        softmax, Joined(module, Joined(name, " output")), 1);
    };
    pass(".shift", wide, sums(".max"));
    std::optional<Value> targets_logits;
    if (options_.tensor > 1) {
      targets_logits = AgreedRows(fp32(Joined(module, ".target"), tokens_, targets, targets),
                                  softmax, Joined(module, ".target output"), 1);
    }
    pass(".exp", wide, targets_logits);
    pass(".divide", wide, sums(".sum"));
    tape_->Run(fp32(Joined(module, ".nll"), tokens_, targets, Bytes(kFp32Size)), {softmax}, {});
    // What is kept is no temporary of the backward, and its gradient lies where it does.
    tape_->OnBackward([=, this] {
      if (!cast) {
        const Value d_logits = tape_->MakeGradient(logits.value);
        tape_->RunBackward(fp32(Joined(module, ".dgrad"), elements, wide, wide), {}, {d_logits});
        tape_->Deliver(logits.value, d_logits);
        return;
      }
      tape_->RunBackward(fp32(Joined(module, ".dgrad"), elements, wide, wide), {}, {});
      const Value d_logits = tape_->MakeGradient(logits.value);
      tape_->RunBackward(fp32(Joined(module, ".cast.dgrad"), 0, wide, Size(logits)), {},
                         {d_logits});
      tape_->Deliver(logits.value, d_logits);
    });
    return;
  }

  if (options_.loss == Loss::kFused) {
    const bool widened = cast && options_.fp32_logits;
    Operand read = logits;
    if (widened) {
      read = Make(Joined(module, " input in FP32"), logits.width, logits.tokens, true);
      tape_->Run(fp32(Joined(module, ".float"), 0, Size(logits), wide), {logits.value},
                 {read.value});
    }
    tape_->Keep(read.value);
    if (options_.scores_logits) Score(read, "metrics");
    const Bytes statistics = Bytes(tokens_ * kFp32Size);
    const Value log_sum_exp = tape_->Make(Joined(module, ".log-sum-exp"), statistics);
    tape_->Keep(log_sum_exp);
    if (options_.tensor == 1) {
      tape_->Run(
          fp32(std::string(module), kSoftmaxFlops * elements, 2 * Size(read) + targets, statistics),
          {read.value}, {log_sum_exp});
    } else {
      const auto most = AgreedRows(fp32(Joined(module, ".max"), elements, Size(read), statistics),
                                   read.value, Joined(module, ".max output"), 1);
      const Value sums = tape_->Make(Joined(module, ".sum output"), 2 * statistics);
      tape_->Run(fp32(Joined(module, ".sum"), (kSoftmaxFlops - 1) * elements, Size(read) + targets,
                      2 * statistics),
                 {read.value, *most}, {sums});
      tape_->Communicate({CollectiveKind::kAllReduce, options_.output_layer_axis, DataType::kFp32},
                         sums, sums);
      tape_->Run(fp32(std::string(module), tokens_, 2 * statistics, statistics), {sums},
                 {log_sum_exp});
    }
    tape_->OnBackward([=, this] {
      const Kernel gradient = fp32(Joined(module, ".dgrad"), kSoftmaxFlops * elements,
                                   Size(read) + statistics + targets, Size(read));
      if (widened) tape_->RunBackward(gradient, {}, {});  // where the copy lies
      const Value d_logits = tape_->MakeGradient(logits.value);
      tape_->RunBackward(
          widened ? fp32(Joined(module, ".float.dgrad"), 0, wide, Size(logits)) : gradient, {},
          {d_logits});
      tape_->Deliver(logits.value, d_logits);
    });
    return;
  }
  tape_->Keep(logits.value);
  Value upcast = logits.value;
  if (cast) {
    upcast = tape_->Make(Joined(module, ".cast output"), wide);
    tape_->Run(fp32(Joined(module, ".cast"), 0, Size(logits), wide), {logits.value}, {upcast});
  }
  const Value log_softmax = tape_->Make(Joined(module, ".log_softmax output"), wide);
  tape_->Keep(log_softmax);
  if (options_.tensor == 1) {
    tape_->Run(fp32(Joined(module, ".log_softmax"), kSoftmaxFlops * elements, wide, wide), {upcast},
               {log_softmax});
    tape_->Run(fp32(Joined(module, ".nll"), tokens_, targets, Bytes(kFp32Size)), {log_softmax}, {});
  } else {
    const auto rows = [&](const char* name, std::int64_t flops) {
      return AgreedRows(fp32(Joined(module, name), flops, wide, Bytes(tokens_ * kFp32Size)), upcast,
                        Joined(module, Joined(name, " output")), 1);
    };
    const auto most = rows(".max", elements);
    const Value sums = tape_->Make(Joined(module, ".sum output"), Bytes(tokens_ * kFp32Size));
    tape_->Run(fp32(Joined(module, ".sum"), 2 * elements, wide, Bytes(tokens_ * kFp32Size)),
               {upcast, *most}, {sums});
    tape_->Communicate({CollectiveKind::kAllReduce, options_.output_layer_axis, DataType::kFp32},
                       sums, sums);
    tape_->Run(fp32(Joined(module, ".log_softmax"), 2 * elements, wide, wide), {upcast, sums},
               {log_softmax});
    const auto loss = AgreedRows(fp32(Joined(module, ".nll"), tokens_, targets, targets),
                                 log_softmax, Joined(module, ".nll output"), 1);
    tape_->Run(fp32(Joined(module, ".mean"), tokens_, Bytes(tokens_ * kFp32Size), Bytes(kFp32Size)),
               {*loss}, {});
  }

  tape_->OnBackward([=, this] {
    const Value d_log = tape_->MakeGradient(log_softmax);
    tape_->RunBackward(fp32(Joined(module, ".nll.dgrad"), tokens_, targets, wide), {}, {d_log});
    const Value d_upcast = tape_->MakeGradient(upcast);
    tape_->RunBackward(
        fp32(Joined(module, ".log_softmax.dgrad"), kSoftmaxFlops * elements, 2 * wide, wide),
        {d_log}, {d_upcast});
    if (!cast) {
      tape_->Deliver(logits.value, d_upcast);
      return;
    }
    const Value d_logits = tape_->MakeGradient(logits.value);
    tape_->RunBackward(fp32(Joined(module, ".cast.dgrad"), 0, wide, Size(logits)), {d_upcast},
                       {d_logits});
    tape_->Deliver(logits.value, d_logits);
  });
}

void LayerOperators::CrossEntropyOfPart(Operand logits, std::string_view module,
                                        std::string_view module_of_product, std::int64_t width,
                                        int weight, bool gradients_of_input) {
  const std::int64_t elements = Elements(logits);
  const Bytes wide = Bytes(elements * kFp32Size);
  const bool cast = element_ != DataType::kFp32;
  const bool fused = options_.loss == Loss::kFused;
  const Bytes statistics = Bytes(tokens_ * kFp32Size);
  const Bytes targets = Bytes(tokens_ * (kIndexSize + kFp32Size));
  const auto fp32 = [this](std::string name, std::int64_t flops, Bytes read, Bytes written) {
    Kernel kernel = Memory(std::move(name), flops, read, written);
    kernel.data_type = DataType::kFp32;
    return kernel;
  };
  Value softmax = logits.value;
  if (fused) {
    tape_->Keep(logits.value);
    tape_->Run(fp32(std::string(module), kSoftmaxFlops * elements, 2 * Size(logits) + targets,
                    3 * statistics),
               {logits.value}, {});
  } else {
    if (cast) {
      softmax = tape_->Make(Joined(module, ".softmax output"), wide);
      tape_->Run(fp32(Joined(module, ".cast"), 0, Size(logits), wide), {logits.value}, {softmax});
    }
    tape_->Keep(softmax);
    const auto pass = [&](const char* name, Bytes read, Bytes written) {
      tape_->Run(fp32(Joined(module, name), elements, read, written), {softmax}, {});
    };
    pass(".max", wide, statistics);
    pass(".shift", wide, wide);
    tape_->Run(fp32(Joined(module, ".target"), tokens_, targets, targets), {softmax}, {});
    pass(".exp", wide, wide);
    pass(".sum", wide, statistics);
    pass(".divide", wide, wide);
  }
  if (gradients_of_input) {
    const Bytes rows = BytesOfElements(tokens_ * width);
    const Value narrow = tape_->Make(Joined(module, ".softmax in 16 bits"), Size(logits));
    const Value made = tape_->Make(Joined(module_of_product, ".softmax.dgrad output"), rows);
    const std::vector<int> parameters = weight >= 0 ? std::vector<int>{weight} : std::vector<int>();
    tape_->Run(fp32(Joined(module, ".softmax.cast"), fused ? kSoftmaxFlops * elements : 0,
                    fused ? Size(logits) : wide, Size(logits)),
               {softmax}, {narrow});
    tape_->Run(Gemm(Joined(module_of_product, ".softmax.dgrad"), tokens_, width, logits.width,
                    ProductLayout::kInputGradient),
               {narrow}, {made}, parameters);
    // Rows of the targets, of others' words zeros; they are taken off once the softmax is scaled by
    // what all have agreed on.
    tape_->Run(Memory(Joined(module_of_product, ".target_rows"), 0, rows, rows), {}, {},
               parameters);
    tape_->Run(Memory(Joined(module_of_product, ".softmax.scale"), 0, 2 * rows, rows), {made}, {});
  }
  tape_->OnBackward([=, this] {
    const Value d_logits = tape_->MakeGradient(logits.value);
    if (fused) {
      tape_->RunBackward(fp32(Joined(module, ".dgrad"), kSoftmaxFlops * elements,
                              Size(logits) + 3 * statistics + targets, Size(logits)),
                         {}, {d_logits});
    } else {
      // In place.
      tape_->RunBackward(fp32(Joined(module, ".scale"), elements, wide + 3 * statistics, wide),
                         {softmax}, {softmax});
      Kernel gradient = fp32(Joined(module, ".dgrad"), elements, wide, wide);
      if (!cast) {
        tape_->RunBackward(std::move(gradient), {softmax}, {d_logits});
      } else {
        tape_->RunBackward(std::move(gradient), {softmax}, {softmax});
        tape_->RunBackward(fp32(Joined(module, ".cast.dgrad"), 0, wide, Size(logits)), {softmax},
                           {d_logits});
      }
    }
    tape_->Deliver(logits.value, d_logits);
  });
}

}  // namespace stepcast::model

#include "src/model/layer_operators.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <utility>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

// Floating-point operations per element of memory-bound kernels. They matter only for a device with
// little arithmetic for its bandwidth.
constexpr std::int64_t kNormFlops = 7, kRotaryFlops = 3, kGeluFlops = 9, kSiluFlops = 5,
                       kSquaredReluFlops = 2, kXieluFlops = 8, kReluFlops = 1, kTanhFlops = 5,
                       kSigmoidFlops = 4;

}  // namespace

DataType ActivationType(DataType compute) {
  if (compute == DataType::kTf32) return DataType::kFp32;
  return IsQuantized(compute) ? DataType::kBf16 : compute;
}

WorkOptions WithoutQuantization(WorkOptions options) {
  if (IsQuantized(options.compute)) options.compute = ActivationType(options.compute);
  return options;
}

LayerOperators::LayerOperators(const WorkOptions& options, LayerTape& tape)
    : options_(options),
      tape_(&tape),
      tokens_(options.micro_batch_size * options.sequence_length / options.context.ranks),
      positions_(options.sequence_length / options.context.ranks),
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

std::string LayerOperators::InLowPrecision() const {
  std::string name(" in ");
  for (const char letter : Name(options_.compute)) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  return name;
}

Kernel LayerOperators::Quantize(std::string name, Bytes bytes, Bytes copy, int copies) const {
  if (casts_inside_) return Memory(std::move(name), 0, Bytes(), Bytes());
  return Memory(std::move(name), 0, reads_for_scales() ? 2 * bytes : bytes, copies * copy);
}

std::optional<QuantizedCopies> LayerOperators::Quantized(const Operand& x, std::string_view module,
                                                         bool frozen) {
  if (!quantizes()) return std::nullopt;
  if (quantized_ == x.value) return quantized_copies_;
  const Bytes bytes = QuantizedBytes(Elements(x));
  quantized_ = x.value;
  turned_ = std::make_shared<std::optional<Value>>();
  const std::string name = Joined(module, " input" + InLowPrecision());
  std::string cast = Joined(module, ".input.cast");
  if (frozen || turns_in_backward() || scales_rows()) {
    const Value rows = tape_->Make(name, bytes);
    quantized_copies_ = {.rows = rows, .columns = rows};
    tape_->Run(Quantize(std::move(cast), Size(x), bytes, 1), {x.value}, {rows});
    return quantized_copies_;
  }
  quantized_copies_ = {.rows = tape_->Make(name, bytes),
                       .columns = tape_->Make(name + ", transposed", bytes)};
  tape_->Run(Quantize(std::move(cast), Size(x), bytes, 2), {x.value},
             {quantized_copies_.rows, quantized_copies_.columns});
  return quantized_copies_;
}

QuantizedCopies LayerOperators::QuantizedInBackward(const std::vector<LayerTape::Piece>& value,
                                                    std::int64_t elements, std::string name) {
  const Bytes bytes = QuantizedBytes(elements), whole = BytesOfElements(elements);
  QuantizedCopies copies{.rows = tape_->MakeScratch(bytes)};
  if (scales_rows() || turns_in_backward()) {
    tape_->RunBackward(Quantize(name, whole, bytes, 1), value, {copies.rows});
    copies.columns = scales_rows() ? CastColumns(name + ".columns", value, elements)
                                   : Transposed(name + ".transpose", {copies.rows}, elements);
    return copies;
  }
  copies.columns = tape_->MakeScratch(bytes);
  tape_->RunBackward(Quantize(std::move(name), whole, bytes, 2), value,
                     {copies.rows, copies.columns});
  return copies;
}

LayerTape::Value LayerOperators::Transposed(std::string name,
                                            const std::vector<LayerTape::Piece>& value,
                                            std::int64_t elements) {
  const Bytes bytes = QuantizedBytes(elements);
  return tape_->RunToScratch(Memory(std::move(name), 0, bytes, bytes), value);
}

LayerTape::Value LayerOperators::CastColumns(std::string name,
                                             const std::vector<LayerTape::Piece>& value,
                                             std::int64_t elements) {
  return tape_->RunToScratch(
      Memory(std::move(name), 0, 2 * BytesOfElements(elements), QuantizedBytes(elements)), value);
}

Operand LayerOperators::Norm(Operand x, std::string_view module, Normalization normalization,
                             ModulePositions parameters) {
  const bool rms = normalization == Normalization::kRmsNorm;
  if (rms && IsUnfused(options_.norm)) return EagerRmsNorm(x, module, parameters);
  const bool compiled = options_.norm == Implementation::kCompiled;
  const bool staged =
      options_.norm == Implementation::kApex || options_.norm == Implementation::kTransformerEngine;
  // apex/normalization/fused_layer_norm.py: under autocast inputs are cast. PyTorch's own norms
  // stay in FP32, and a compiled one writes the type to which a matrix product would cast.
  if (staged && x.fp32) x = Cast(x, module);
  // LayerNorm keeps a mean and a reciprocal deviation per token, RMSNorm only the latter.
  const Bytes statistics = Bytes(x.tokens * kFp32Size * (rms ? 1 : 2));
  const Bytes weights(x.width * (parameters.biased() ? 2 : 1) * ElementSize(x));
  const std::int64_t flops = kNormFlops * Elements(x);
  tape_->Keep(x.value);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32 && !compiled);
  const bool fused = compiled && last_sum_ == x.value;
  Kernel forward = Memory(std::string(module), flops, (fused ? Bytes() : Size(x)) + weights,
                          Size(y) + statistics);
  // PyTorch's own kernel over rows in FP32.
  const bool own = !compiled && !staged && ElementSize(x) == kFp32Size;
  if (own) forward.access = Access::kNorm;
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
    Kernel backward =
        Memory(Joined(module, ".dgrad"), flops, Size(x) + Size(y) + weights + statistics, Size(x));
    if (own) backward.access = Access::kNormGradient;
    tape_->RunBackward(std::move(backward), {dy}, {dx}, {}, parameters.all());
    if (parameters.frozen) {
      tape_->Deliver(x.value, dx);
      return;
    }
    std::vector<int> gradients{parameters.weight};
    if (parameters.bias >= 0) gradients.push_back(parameters.bias);
    const bool within = compiled && !options_.sums_norm_weights_apart;
    const Bytes again = within ? Bytes() : Size(x) + Size(y) + statistics;
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

// The kernels treat every head as a row.
Operand LayerOperators::NormOfHeads(Operand x, std::string_view module, std::int64_t head_size,
                                    ModulePositions parameters) {
  const std::int64_t heads = x.width / head_size;
  const Operand rows{
      .value = x.value, .width = head_size, .tokens = x.tokens * heads, .fp32 = x.fp32};
  const Operand y = Norm(rows, module, Normalization::kRmsNorm, parameters);
  return {.value = y.value, .width = x.width, .tokens = x.tokens, .fp32 = y.fp32};
}

Operand LayerOperators::Rotary(Operand x, std::string_view module, std::int64_t head_size) {
  if (options_.rotary == Implementation::kEager) return ComplexRotary(x, module, head_size);
  if (options_.rotary == Implementation::kHuggingFace) return HalvesRotary(x, module, head_size);
  const std::int64_t flops = kRotaryFlops * Elements(x);
  // Sines and cosines of every position.
  const Bytes table = BytesOfElements(2 * positions_ * head_size);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->RunBothWays(Memory(std::string(module), flops, Size(x) + table, Size(y)),
                     {Memory(Joined(module, ".dgrad"), flops, Size(y) + table, Size(x))}, {x.value},
                     {y.value});
  return y;
}

std::array<Operand, 3> LayerOperators::Split(Operand x, std::string_view module,
                                             const std::array<std::int64_t, 3>& widths) {
  const std::array<Operand, 3> parts = {Make(Joined(module, " query"), widths[0], x.tokens),
                                        Make(Joined(module, " key"), widths[1], x.tokens),
                                        Make(Joined(module, " value"), widths[2], x.tokens)};
  tape_->RunBothWays(Memory(Joined(module, ".split"), 0, Size(x), Size(x)),
                     {Memory(Joined(module, ".join"), 0, Size(x), Size(x))}, {x.value},
                     {parts[0].value, parts[1].value, parts[2].value});
  return parts;
}

Operand LayerOperators::ResizeHeads(Operand x, std::string_view module, std::string_view suffix,
                                    std::int64_t heads, std::int64_t size) {
  const std::string name = Joined(module, suffix);
  const Operand y = Make(name + " output", heads * size, x.tokens);
  const Bytes read = std::min(Size(x), Size(y));
  tape_->RunBothWays(Memory(name, 0, read, Size(y)), {Memory(name + ".dgrad", 0, read, Size(x))},
                     {x.value}, {y.value});
  return y;
}

Operand LayerOperators::Values(std::string_view name, std::int64_t width, std::int64_t tokens) {
  const Operand values = Make(std::string(name), width, tokens);
  tape_->Run(Memory(Joined(name, ".cast"), 0, Size(values), Size(values)), {}, {values.value});
  return values;
}

Operand LayerOperators::ReplaceRows(Operand x, Operand rows, std::string_view name) {
  const Operand y = Make(Joined(name, " output"), x.width, x.tokens, x.fp32);
  tape_->RunBothWays(Memory(std::string(name), 0, Size(x) + Size(rows), Size(y)),
                     {Memory(Joined(name, ".dgrad"), 0, Size(y), Size(x) + Size(rows))},
                     {x.value, rows.value}, {y.value});
  return y;
}

Operand LayerOperators::Join(Operand x, Operand y, std::string_view name) {
  const Operand both = Make(Joined(name, " output"), x.width + y.width, x.tokens, x.fp32);
  tape_->Run(Memory(std::string(name), 0, Size(x) + Size(y), Size(both)), {x.value, y.value},
             {both.value});
  tape_->OnBackward([=, this] {
    // Both are parts of one gradient.
    tape_->Pass(both.value, x.value);
    tape_->Pass(both.value, y.value);
  });
  return both;
}

void LayerOperators::AddUpWeightGradients(std::string_view module, std::int64_t elements,
                                          ModulePositions parameters) {
  if (parameters.weight < 0) return;
  tape_->OnBackward([=, this] {
    const Bytes bytes = BytesOfElements(elements);
    tape_->RunBackward(Memory(Joined(module, ".weight.grad.add"), elements, 2 * bytes, bytes), {},
                       {}, {parameters.weight}, {parameters.weight});
  });
}

Operand LayerOperators::RepeatHeads(Operand x, std::string_view module, std::int64_t times) {
  return times == 1 ? x : Copies(x, module, times);
}

void LayerOperators::AddBias(const std::vector<Operand>& ys, std::string_view module) {
  Bytes bytes;
  std::int64_t elements = 0;
  Pieces values;
  for (const Operand& y : ys) {
    bytes += Size(y);
    elements += Elements(y);
    values.emplace_back(y.value);
  }
  tape_->Run(Memory(Joined(module, ".bias"), elements, bytes, bytes), values, values);
}

Operand LayerOperators::Transposed(Operand x, std::string_view module, std::string_view suffix) {
  return Copies(x, Joined(module, suffix), 1);
}

Operand LayerOperators::Copies(Operand x, std::string_view name, std::int64_t times) {
  const Operand y = Make(Joined(name, " output"), x.width * times, x.tokens);
  const std::int64_t sums = times > 1 ? Elements(y) : 0;
  tape_->RunBothWays(Memory(std::string(name), 0, Size(x), Size(y)),
                     {Memory(Joined(name, ".dgrad"), sums, Size(y), Size(x))}, {x.value},
                     {y.value});
  return y;
}

Operand LayerOperators::Add(Operand x, Operand y, std::string_view name) {
  const Operand sum = Make(std::string(name), x.width, x.tokens, x.fp32);
  tape_->Run(Eager(x.fp32 == y.fp32 ? Access::kPlain : Access::kMixed,
                   Memory(std::string(name), Elements(x), Size(x) + Size(y), Size(sum))),
             {x.value, y.value}, {sum.value});
  last_sum_ = sum.value;
  tape_->OnBackward([=, this] {
    tape_->Pass(sum.value, x.value);
    if (sum.fp32 == y.fp32) {
      tape_->Pass(sum.value, y.value);
      return;
    }
    // The kernel that made the sum's gradient may also write the copy.
    const Bytes read = options_.compiled ? Bytes() : Size(sum);
    tape_->Deliver(y.value,
                   tape_->RunToGradient(y.value, Memory(Joined(name, ".cast"), 0, read, Size(y)),
                                        {tape_->GradientOf(sum.value)}));
  });
  return sum;
}

Operand LayerOperators::MeanOfRows(Operand x, std::string_view module, std::int64_t rows,
                                   ModulePositions parameters) {
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32);
  const std::int64_t flops = 4 * rows * Elements(x);
  tape_->RunBothWays(
      Memory(std::string(module), flops, rows * Size(x), Size(y)),
      {Memory(Joined(module, ".dgrad"), 2 * flops, 2 * rows * Size(x) + Size(y), rows * Size(x))},
      {x.value}, {y.value}, parameters.all());
  return y;
}

Operand LayerOperators::Scale(Operand x, std::string_view name) {
  if (options_.compiled) return x;
  const Operand y = Make(Joined(name, " output"), x.width, x.tokens, x.fp32);
  tape_->RunBothWays(Memory(std::string(name), Elements(x), Size(x), Size(y)),
                     {Memory(Joined(name, ".dgrad"), Elements(x), Size(y), Size(x))}, {x.value},
                     {y.value});
  return y;
}

Operand LayerOperators::GatedSilu(Operand gate, Operand up, std::string_view module) {
  const std::int64_t flops = (kSiluFlops + 1) * Elements(gate);
  const Operand product = Make(Joined(module, " output"), gate.width, gate.tokens);
  tape_->Keep(gate.value);
  tape_->Keep(up.value);
  tape_->RunBothWays(Memory(std::string(module), flops, 2 * Size(gate), Size(gate)),
                     {Memory(Joined(module, ".dgrad"), 2 * flops, 3 * Size(gate), 2 * Size(gate))},
                     {gate.value, up.value}, {product.value});
  return product;
}

Operand LayerOperators::Multiply(Operand x, Operand y, std::string_view name) {
  const Operand product = Make(Joined(name, " output"), x.width, x.tokens);
  tape_->Keep(x.value);
  tape_->Keep(y.value);
  tape_->RunBothWays(Memory(std::string(name), Elements(x), 2 * Size(x), Size(x)),
                     {Memory(Joined(name, ".dgrad_left"), Elements(x), 2 * Size(x), Size(x)),
                      Memory(Joined(name, ".dgrad_right"), Elements(x), 2 * Size(x), Size(x))},
                     {x.value, y.value}, {product.value});
  return product;
}

Operand LayerOperators::Elementwise(Operand x, std::string_view module,
                                    std::int64_t flops_per_element, bool keeps_result) {
  const std::int64_t flops = flops_per_element * Elements(x);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Keep(keeps_result ? y.value : x.value);
  tape_->RunBothWays(Memory(std::string(module), flops, Size(x), Size(x)),
                     {Memory(Joined(module, ".dgrad"), flops, 2 * Size(x), Size(x))}, {x.value},
                     {y.value});
  return y;
}

Operand LayerOperators::Gelu(Operand x, std::string_view module) {
  if (options_.activation_function == Implementation::kHuggingFace) return NewGelu(x, module);
  return Elementwise(x, module, kGeluFlops);
}

Operand LayerOperators::Silu(Operand x, std::string_view module) {
  return Elementwise(x, module, kSiluFlops);
}

Operand LayerOperators::Relu(Operand x, std::string_view module) {
  return Elementwise(x, module, kReluFlops, true);
}

Operand LayerOperators::Tanh(Operand x, std::string_view module) {
  return Elementwise(x, module, kTanhFlops, true);
}

Operand LayerOperators::Sigmoid(Operand x, std::string_view module) {
  return Elementwise(x, module, kSigmoidFlops, true);
}

Operand LayerOperators::ScaleRows(Operand x, Operand numbers, std::string_view name) {
  const Operand y = Make(Joined(name, " output"), x.width, x.tokens);
  tape_->Keep(x.value);
  tape_->Keep(numbers.value);
  // The numbers' gradient is a product of both rows, added up.
  tape_->RunBothWays(
      Memory(std::string(name), Elements(x), Size(x) + Size(numbers), Size(y)),
      {Memory(Joined(name, ".dgrad_rows"), Elements(x), Size(x) + Size(numbers), Size(x)),
       Memory(Joined(name, ".dgrad_numbers"), 2 * Elements(x), 2 * Size(x), Size(numbers))},
      {x.value, numbers.value}, {y.value});
  return y;
}

Operand LayerOperators::SquaredRelu(Operand x, std::string_view module) {
  return Elementwise(x, module, kSquaredReluFlops);
}

Operand LayerOperators::Xielu(Operand x, std::string_view module,
                              const ModulePositions& parameters) {
  const std::int64_t flops = kXieluFlops * Elements(x);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Keep(x.value);
  tape_->RunBothWays(Memory(std::string(module), flops, Size(x), Size(x)),
                     {Memory(Joined(module, ".dgrad"), 2 * flops, 2 * Size(x), Size(x))}, {x.value},
                     {y.value}, parameters.all());
  return y;
}

Operand LayerOperators::Dropout(Operand x, std::string_view module) {
  const Bytes mask_size = Bytes(Elements(x) * kMaskSize);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32);
  const Value mask = tape_->Make(Joined(module, " mask"), mask_size);
  tape_->Keep(mask);
  tape_->Run(Memory(std::string(module), 2 * Elements(x), Size(x), Size(x) + mask_size), {x.value},
             {y.value, mask});
  tape_->RunOnBackward(
      {Memory(Joined(module, ".dgrad"), 2 * Elements(x), Size(x) + mask_size, Size(x))}, {y.value},
      {x.value});
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
    const Value d_branch = tape_->RunToGradient(
        branch.value,
        Memory(Joined(module, ".dgrad"), 2 * Elements(x), Size(sum) + mask_size, Size(branch)),
        {tape_->GradientOf(sum.value)});
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
  const std::int64_t s = positions_;
  const std::int64_t elements = s * x.width;
  const Bytes size(elements * ElementSize(x));
  const Value positions = tape_->RunTo(
      Joined(module, " output"), Memory(std::string(module), 0, size + Bytes(s * kIndexSize), size),
      {}, weight >= 0 ? std::vector<int>{weight} : std::vector<int>());
  const std::string name = Joined(module, ".add");
  const Operand sum = Make(Joined(name, " output"), x.width, x.tokens, x.fp32);
  tape_->Run(Memory(name, Elements(x), Size(x) + size, Size(x)), {x.value, positions}, {sum.value});
  tape_->OnBackward([=, this] {
    tape_->Pass(sum.value, x.value);
    if (weight < 0) return;
    Value gradient = tape_->GradientOf(sum.value);
    if (options_.micro_batch_size > 1) {
      gradient = tape_->RunToScratch(
          Memory(Joined(module, ".add.dgrad"), Elements(x), Size(x), size), {gradient});
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
    const Value dx =
        tape_->RunToGradient(x.value, Memory(Joined(module, ".zeros"), 0, Bytes(), Size(x)), {});
    tape_->RunBackward(Memory(Joined(module, ".dgrad"), 0, Size(taken) + indices, Size(taken)),
                       {tape_->GradientOf(taken.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return taken;
}

}  // namespace stepcast::model

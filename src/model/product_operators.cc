#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/column_region.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"

// Linear layers: matrix products, whole or piece by piece, with the casts of their operands.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

Operand LayerOperators::Linear(Operand x, std::string_view module, std::int64_t out,
                               ModulePositions parameters) {
  return Product(std::move(x), module, {{module, out, parameters}}, Outputs::kOne, nullptr).front();
}

std::vector<Operand> LayerOperators::Linears(Operand x, std::string_view name,
                                             const std::vector<LinearModule>& modules,
                                             Outputs outputs) {
  return Product(std::move(x), name, modules, outputs, nullptr);
}

void LayerOperators::RunProduct(bool forward, const Kernel& product, const Factor& input,
                                std::optional<Value> also, const Factor& output,
                                const std::vector<int>& parameters,
                                const std::function<void(int)>& made) {
  const std::size_t pieces = std::max(input.by_tokens ? input.pieces.size() : 1,
                                      output.by_tokens ? output.pieces.size() : 1);
  const auto of = [](const Factor& factor, std::size_t i) {
    return factor.by_tokens ? Pieces{factor.pieces[i]} : factor.pieces;
  };
  const auto count = static_cast<std::int64_t>(pieces);
  Kernel kernel = product;
  if (pieces > 1) {
    const Kernel whole = Gemm(product.name, product.m, product.n, product.k, product.layout);
    kernel = Gemm(product.name, product.m / count, product.n, product.k, product.layout);
    kernel.read += product.read - whole.read;  // a bias, each time
    kernel.together =
        std::min<std::int64_t>(count, user_buffers() ? kStreamsOfUserBuffers : kStreamsOfAsync);
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    if (i > 0) kernel.issuer = Issuer::kSameCall;
    Pieces reads = of(input, i);
    if (also) reads.push_back(*also);
    if (forward) {
      tape_->Run(kernel, reads, of(output, i), parameters);
    } else {
      tape_->RunBackward(kernel, reads, of(output, i), {}, parameters);
    }
    if (made) made(static_cast<int>(i));
  }
}

// One product of an input with the weights of one or several linear layers.
class LayerOperators::LinearProduct {
 public:
  // `rows`: state of the product that ends a divided region, or null.
  LinearProduct(LayerOperators& operators, const Operand& x, std::string_view name,
                const std::vector<LinearModule>& modules, Outputs outputs,
                std::shared_ptr<RowRegion> rows);

  // Records the forward and, for backward, the gradients. Call once.
  std::vector<Operand> Record();

 private:
  // Forms of the output's gradient that the products of backward read.
  struct OutputGradient {
    Pieces unquantized;   // whole values
    Factor for_input;     // of the input's gradient
    Pieces for_weight{};  // of the weights' gradients
  };

  bool one_output() const { return outputs_ == Outputs::kOne; }
  // Whether the input is gathered in 8 or 4 bits.
  bool gathers_quantized_input() const { return x_.region && x_.region->quantized; }
  bool gathers_output_gradient() const { return rows_ && !rows_->gradient.empty(); }
  // Whether the output's gradient is gathered in 8 or 4 bits.
  bool gathers_quantized_gradient() const { return gathers_output_gradient() && rows_->quantized; }
  bool casts_weight() const {
    return operators_->quantizes() && operators_->options_.casts_weights;
  }
  Bytes QuantizedWeightBytes() const { return operators_->QuantizedBytes(in_ * out_); }
  Bytes QuantizedOutputBytes() const { return operators_->QuantizedBytes(x_.tokens * out_); }
  // The name of a kernel that prepares the shared input; it is named after the first module.
  std::string InputName(std::string_view suffix) const {
    return Joined(modules_.front().name, suffix);
  }

  void MakeOutputs();
  void KeepInput();
  Kernel WeightCast() const;
  std::optional<Value> CastWeight();
  void RunForward();

  void RunBackward() const;
  // Returns the output's gradient, gathered if needed, and cast where products are quantized.
  OutputGradient TakeOutputGradient() const;
  Pieces JoinedGradients(Pieces gradients) const;
  void Quantize(OutputGradient& gradient) const;
  Value RunInputGradient(const Factor& gradient) const;
  // `operand`: the output's gradient. `gathered`: the input, if it was gathered again.
  void RunWeightGradients(const Pieces& operand, std::optional<Value> gathered) const;
  // The input in the form that the weights' gradients read.
  Pieces InputOfWeightGradients(std::optional<Value> gathered) const;
  // Transposes or casts the gathered input once for all products that share it.
  Value GatheredColumns(Value gathered) const;
  Value RowScaledColumns() const;
  Value TransposedColumns() const;
  void RunBiasGradients() const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Operand x_;
  std::string_view name_;
  std::vector<LinearModule> modules_;
  Outputs outputs_;
  std::shared_ptr<RowRegion> rows_;
  std::int64_t in_ = 0, out_ = 0, biases_ = 0;
  std::vector<int> parameters_, weights_;  // `weights_`: whose gradients this product completes
  bool frozen_ = false;
  std::optional<QuantizedCopies> copies_;  // of the input
  std::shared_ptr<std::optional<Value>> turned_;
  std::vector<Operand> ys_;
  std::vector<Value> kept_;  // of the input
};

LayerOperators::LinearProduct::LinearProduct(LayerOperators& operators, const Operand& x,
                                             std::string_view name,
                                             const std::vector<LinearModule>& modules,
                                             Outputs outputs, std::shared_ptr<RowRegion> rows)
    : operators_(&operators),
      tape_(operators.tape_),
      x_(x),
      name_(name),
      modules_(modules),
      outputs_(outputs),
      rows_(std::move(rows)),
      in_(x.width) {
  bool biased = false;
  for (const LinearModule& module : modules_) {
    out_ += module.out;
    if (!module.part) biased = module.parameters.biased();
    if (biased) biases_ += module.out;
    for (const int position : module.parameters.all()) parameters_.push_back(position);
    if (module.parameters.weight >= 0) weights_.push_back(module.parameters.weight);
  }
  frozen_ = weights_.empty();
  if (modules_.front().parameters.gradient_later) weights_.clear();
}

std::vector<Operand> LayerOperators::LinearProduct::Record() {
  if (!gathers_quantized_input()) {
    copies_ = operators_->Quantized(x_, modules_.front().name, frozen_);
  }
  turned_ = operators_->turned_;
  MakeOutputs();
  KeepInput();
  RunForward();
  tape_->OnBackward([product = *this] { product.RunBackward(); });
  return ys_;
}

void LayerOperators::LinearProduct::MakeOutputs() {
  if (one_output()) {
    ys_.push_back(operators_->Make(Joined(name_, " output"), out_, x_.tokens));
  } else {
    for (const LinearModule& module : modules_) {
      ys_.push_back(operators_->Make(Joined(module.name, " output"), module.out, x_.tokens));
    }
  }
  if (rows_) ys_.front().rows = rows_;
}

void LayerOperators::LinearProduct::KeepInput() {
  const WorkOptions& options = operators_->options_;
  const bool regathers = x_.region && options.sequence_parallel && options.regathers;
  kept_ = {x_.value};
  if (x_.region) kept_ = x_.region->kept;
  if (copies_ && !regathers && !operators_->scales_rows()) kept_ = {copies_->columns};
  if (frozen_) return;
  for (const Value value : kept_) tape_->Keep(value);
}

Kernel LayerOperators::LinearProduct::WeightCast() const {
  return operators_->Quantize(Joined(name_, ".weight.cast"),
                              operators_->BytesOfElements(in_ * out_), QuantizedWeightBytes(), 1);
}

std::optional<Value> LayerOperators::LinearProduct::CastWeight() {
  if (!casts_weight()) return std::nullopt;
  const Value weight =
      tape_->Make(Joined(name_, " weight" + operators_->InLowPrecision()), QuantizedWeightBytes());
  tape_->Run(WeightCast(), {}, {weight}, parameters_);
  return weight;
}

void LayerOperators::LinearProduct::RunForward() {
  Kernel product = operators_->Gemm(std::string(name_), x_.tokens, out_, in_);
  product.read += operators_->BytesOfElements(biases_);
  const std::optional<Value> weight = CastWeight();
  Factor input{.pieces = {x_.value}}, output;
  if (x_.region) input = {.pieces = x_.region->inputs, .by_tokens = x_.region->inputs.size() > 1};
  if (copies_) input = {.pieces = {copies_->rows}};
  for (const Operand& y : ys_) output.pieces.push_back(y.value);
  if (rows_ && !rows_->outputs.empty()) output = {.pieces = rows_->outputs, .by_tokens = true};
  operators_->RunProduct(true, product, input, weight, output, parameters_,
                         rows_ ? rows_->made : std::function<void(int)>());
}

void LayerOperators::LinearProduct::RunBackward() const {
  if (x_.region && !frozen_) x_.region->begin_backward();
  const OutputGradient gradient = TakeOutputGradient();
  if (casts_weight()) {
    tape_->RunBackward(WeightCast(), {}, {tape_->MakeScratch(QuantizedWeightBytes())}, {},
                       parameters_);
  }
  const Value dx = RunInputGradient(gradient.for_input);
  if (frozen_) {
    tape_->Deliver(x_.value, dx);
    return;
  }
  if (gathers_quantized_gradient() && !operators_->scales_both_ways()) {
    const Bytes bytes = QuantizedOutputBytes();
    tape_->RunBackward(operators_->Memory(Joined(name_, ".output_grad.transpose"), 0, bytes, bytes),
                       gradient.unquantized, gradient.for_weight);
  }
  if (x_.region) {
    x_.region->weight_gradients.push_back(
        [product = *this, operand = gradient.for_weight](std::optional<Value> again) {
          product.RunWeightGradients(operand, again);
        });
  } else {
    RunWeightGradients(gradient.for_weight, std::nullopt);
  }
  tape_->Deliver(x_.value, dx);
}

LayerOperators::LinearProduct::OutputGradient LayerOperators::LinearProduct::TakeOutputGradient()
    const {
  OutputGradient gradient;
  if (gathers_output_gradient()) {
    gradient.for_input = {.pieces = rows_->gradient, .by_tokens = rows_->gradient.size() > 1};
    for (const LayerTape::Piece& piece : rows_->gradient) {
      Pieces& values = gradient.unquantized;
      if (values.empty() || values.back().value != piece.value) values.emplace_back(piece.value);
    }
  } else {
    for (const Operand& y : ys_) gradient.unquantized.push_back(tape_->GradientOf(y.value));
  }
  gradient.unquantized = JoinedGradients(std::move(gradient.unquantized));
  if (!gathers_output_gradient()) gradient.for_input.pieces = gradient.unquantized;
  gradient.for_weight = gradient.unquantized;
  if (operators_->quantizes() || gathers_quantized_gradient()) Quantize(gradient);
  return gradient;
}

LayerOperators::Pieces LayerOperators::LinearProduct::JoinedGradients(Pieces gradients) const {
  if (outputs_ != Outputs::kApart || gradients.size() == 1) return gradients;
  const Bytes bytes = operators_->BytesOfElements(x_.tokens * out_);
  return {tape_->RunToScratch(
      operators_->Memory(Joined(name_, ".output_grad.join"), 0, bytes, bytes), gradients)};
}

void LayerOperators::LinearProduct::Quantize(OutputGradient& gradient) const {
  const Bytes bytes = QuantizedOutputBytes();
  const std::string name = Joined(name_, ".output_grad.cast");
  const std::int64_t elements = x_.tokens * out_;
  if (gathers_quantized_gradient()) {
    // Transposed after the product of the input's gradient, which does not wait for it.
    if (!frozen_ && !operators_->scales_both_ways()) {
      gradient.for_weight = {tape_->MakeScratch(bytes)};
    }
  } else if (frozen_) {
    const Value cast = tape_->MakeScratch(bytes);
    tape_->RunBackward(operators_->Quantize(name, operators_->BytesOfElements(elements), bytes, 1),
                       gradient.unquantized, {cast});
    gradient.for_input = {.pieces = {cast}};
  } else {
    const QuantizedCopies copies =
        operators_->QuantizedInBackward(gradient.unquantized, elements, name);
    gradient.for_input = {.pieces = {copies.rows}};
    gradient.for_weight = {copies.columns};
  }
}

Value LayerOperators::LinearProduct::RunInputGradient(const Factor& gradient) const {
  const Value dx = tape_->MakeGradient(x_.value);
  operators_->RunProduct(false,
                         operators_->Gemm(Joined(name_, ".dgrad"), x_.tokens, in_, out_,
                                          ProductLayout::kInputGradient),
                         gradient, std::nullopt, {.pieces = {dx}}, parameters_);
  if (operators_->scales_rows()) {
    const Bytes bytes = operators_->Size(x_);
    tape_->RunBackward(operators_->Memory(Joined(name_, ".dgrad.scale"), 0, bytes, bytes), {dx},
                       {dx});
  }
  return dx;
}

void LayerOperators::LinearProduct::RunWeightGradients(const Pieces& operand,
                                                       std::optional<Value> gathered) const {
  Pieces reads = operand;
  for (const LayerTape::Piece& piece : InputOfWeightGradients(gathered)) reads.push_back(piece);
  Kernel product = operators_->Gemm(Joined(name_, ".wgrad"), out_, in_, x_.tokens,
                                    ProductLayout::kWeightGradient);
  const std::optional<DataType>& main_gradients = operators_->options_.main_gradients;
  if (main_gradients) {
    const Bytes sums(in_ * out_ * SizeOf(*main_gradients));
    product.read += sums;
    product.written = sums;
    product.adds_to_fp32 = *main_gradients == DataType::kFp32;
  }
  if (operators_->scales_rows()) {
    const Bytes bytes = operators_->BytesOfElements(in_ * out_);
    const Value unscaled = tape_->MakeScratch(bytes);
    tape_->RunBackward(product, reads, {unscaled}, {}, parameters_);
    tape_->RunBackward(operators_->Memory(Joined(name_, ".wgrad.scale"), 0, bytes, bytes),
                       {unscaled}, {}, weights_, parameters_);
  } else if (modules_.front().parameters.of_part) {
    operators_->RunPartGradients(product, reads, weights_, modules_.front().parameters);
  } else {
    tape_->RunBackward(product, reads, {}, weights_, parameters_);
  }
  RunBiasGradients();
}

LayerOperators::Pieces LayerOperators::LinearProduct::InputOfWeightGradients(
    std::optional<Value> gathered) const {
  const bool gathers_both_ways = gathers_quantized_input() && operators_->scales_both_ways();
  if (gathered && operators_->quantizes() && !gathers_both_ways) {
    gathered = GatheredColumns(*gathered);
  }
  if (copies_ && operators_->scales_rows()) return {RowScaledColumns()};
  if ((copies_ || gathers_quantized_input()) && operators_->turns_in_backward()) {
    return {TransposedColumns()};
  }
  if (gathered) return {*gathered};
  return {kept_.begin(), kept_.end()};
}

Value LayerOperators::LinearProduct::GatheredColumns(Value gathered) const {
  std::optional<Value>& columns = x_.region->gathered_columns;
  if (!columns && gathers_quantized_input()) {
    columns = operators_->Transposed(InputName(".gathered.transpose"), {gathered}, Elements(x_));
  } else if (!columns) {
    columns = operators_->QuantizedInBackward({gathered}, Elements(x_), InputName(".gathered.cast"))
                  .columns;
  }
  return *columns;
}

Value LayerOperators::LinearProduct::RowScaledColumns() const {
  if (!*turned_) {
    *turned_ = operators_->CastColumns(InputName(".input.cast.columns"),
                                       Pieces(kept_.begin(), kept_.end()), Elements(x_));
  }
  return **turned_;
}

Value LayerOperators::LinearProduct::TransposedColumns() const {
  std::optional<Value>& columns = copies_ ? *turned_ : x_.region->gathered_columns;
  if (!columns) {
    columns = operators_->Transposed(
        InputName(".input.transpose"),
        copies_ ? Pieces{copies_->columns} : Pieces(kept_.begin(), kept_.end()), Elements(x_));
  }
  return *columns;
}

void LayerOperators::LinearProduct::RunBiasGradients() const {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const LinearModule& module = modules_[i];
    if (module.parameters.bias < 0) continue;
    // Width and gradients of the module and of the parts after it, which share its bias.
    std::int64_t width = 0;
    Pieces gradients;
    for (std::size_t j = i; j < modules_.size() && (j == i || modules_[j].part); ++j) {
      width += modules_[j].out;
      const Operand& y = ys_[one_output() ? 0 : j];
      const Value gradient = tape_->GradientOf(y.value);
      if (gradients.empty() || !one_output()) gradients.emplace_back(gradient);
    }
    const std::int64_t elements = x_.tokens * width;
    Kernel sum = operators_->Memory(Joined(module.name, ".bias.grad"), elements,
                                    operators_->BytesOfElements(elements),
                                    operators_->BytesOfElements(width));
    tape_->RunBackward(operators_->Eager(Access::kColumnSum, std::move(sum)), gradients, {},
                       {module.parameters.bias}, module.parameters.all());
  }
}

std::vector<Operand> LayerOperators::Product(Operand x, std::string_view name,
                                             const std::vector<LinearModule>& modules,
                                             Outputs outputs, std::shared_ptr<RowRegion> rows) {
  if (x.fp32) x = Cast(x, name);
  return LinearProduct(*this, x, name, modules, outputs, std::move(rows)).Record();
}

}  // namespace stepcast::model

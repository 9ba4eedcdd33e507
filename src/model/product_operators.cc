#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

std::vector<Operand> LayerOperators::Product(Operand x, std::string_view name,
                                             const std::vector<LinearModule>& modules,
                                             Outputs outputs, std::shared_ptr<RowRegion> rows) {
  if (x.fp32) x = Cast(x, name);
  const std::int64_t in = x.width;
  std::int64_t out = 0, biases = 0;
  bool biased = false;
  std::vector<int> parameters, weights;
  for (const LinearModule& module : modules) {
    out += module.out;
    if (!module.part) biased = module.parameters.biased();
    if (biased) biases += module.out;
    for (const int position : module.parameters.all()) parameters.push_back(position);
    if (module.parameters.weight >= 0) weights.push_back(module.parameters.weight);
  }
  const bool frozen = weights.empty();
  if (modules.front().parameters.gradient_later) weights.clear();
  const bool gathers_low = x.region && x.region->quantized;
  const std::optional<QuantizedCopies> low =
      gathers_low ? std::nullopt : Quantized(x, modules.front().name, frozen);
  const auto turned = turned_;
  std::vector<Operand> ys;
  if (outputs == Outputs::kOne) {
    ys.push_back(Make(Joined(name, " output"), out, x.tokens));
  } else {
    for (const LinearModule& module : modules) {
      ys.push_back(Make(Joined(module.name, " output"), module.out, x.tokens));
    }
  }
  if (rows) ys.front().rows = rows;
  Kernel forward = Gemm(std::string(name), x.tokens, out, in);
  forward.read += BytesOfElements(biases);
  const bool regathers = x.region && options_.sequence_parallel && options_.regathers;
  std::vector<Value> kept{x.value};
  if (x.region) kept = x.region->kept;
  if (low && !regathers && !scales_rows()) kept = {low->columns};
  if (!frozen) {
    for (const Value value : kept) tape_->Keep(value);
  }

  const bool casts_weight = quantizes() && options_.casts_weights;
  const Bytes weight_bytes = QuantizedBytes(in * out);
  const Kernel weight_cast =
      Quantize(Joined(name, ".weight.cast"), BytesOfElements(in * out), weight_bytes, 1);
  std::optional<Value> weight;
  if (casts_weight) {
    weight = tape_->Make(Joined(name, " weight" + InLowPrecision()), weight_bytes);
    tape_->Run(weight_cast, {}, {*weight}, parameters);
  }
  Factor input{.pieces = {x.value}}, output;
  if (x.region) input = {.pieces = x.region->inputs, .by_tokens = x.region->inputs.size() > 1};
  if (low) input = {.pieces = {low->rows}};
  for (const Operand& y : ys) output.pieces.push_back(y.value);
  if (rows && !rows->outputs.empty()) output = {.pieces = rows->outputs, .by_tokens = true};
  RunProduct(true, forward, input, weight, output, parameters,
             rows ? rows->made : std::function<void(int)>());

  // `dy`: as the product reads it; `gathered`: the input.
  const auto weight_gradients = [=, this](const Pieces& dy, std::optional<Value> gathered) {
    if (gathered && quantizes() && !(gathers_low && scales_both_ways())) {
      // What has been gathered again is turned or cast once for all that share it.
      std::optional<Value>& columns = x.region->gathered_columns;
      if (!columns && gathers_low) {
        columns = Transposed(Joined(modules.front().name, ".gathered.transpose"), {*gathered},
                             Elements(x));
      } else if (!columns) {
        columns = QuantizedInBackward({*gathered}, Elements(x),
                                      Joined(modules.front().name, ".gathered.cast"))
                      .columns;
      }
      gathered = columns;
    }
    Pieces reads = dy;
    if (low && scales_rows()) {
      if (!*turned) {
        *turned = CastColumns(Joined(modules.front().name, ".input.cast.columns"),
                              Pieces(kept.begin(), kept.end()), Elements(x));
      }
      reads.push_back(**turned);
    } else if ((low || gathers_low) && turns_in_backward()) {
      std::optional<Value>& columns = low ? *turned : x.region->gathered_columns;
      if (!columns) {
        columns =
            Transposed(Joined(modules.front().name, ".input.transpose"),
                       low ? Pieces{low->columns} : Pieces(kept.begin(), kept.end()), Elements(x));
      }
      reads.push_back(*columns);
    } else if (gathered) {
      reads.push_back(*gathered);
    } else {
      for (const Value value : kept) reads.push_back(value);
    }
    Kernel product =
        Gemm(Joined(name, ".wgrad"), out, in, x.tokens, ProductLayout::kWeightGradient);
    if (options_.main_gradients) {
      const Bytes sums(in * out * SizeOf(*options_.main_gradients));
      product.read += sums;
      product.written = sums;
      product.adds_to_fp32 = *options_.main_gradients == DataType::kFp32;
    }
    if (scales_rows()) {
      const Bytes bytes = BytesOfElements(in * out);
      const Value unscaled = tape_->MakeScratch(bytes);
      tape_->RunBackward(product, reads, {unscaled}, {}, parameters);
      tape_->RunBackward(Memory(Joined(name, ".wgrad.scale"), 0, bytes, bytes), {unscaled}, {},
                         weights, parameters);
    } else if (modules.front().parameters.of_part) {
      RunPartGradients(product, reads, weights, modules.front().parameters);
    } else {
      tape_->RunBackward(product, reads, {}, weights, parameters);
    }
    for (std::size_t i = 0; i < modules.size(); ++i) {
      const LinearModule& module = modules[i];
      if (module.parameters.bias < 0) continue;
      // Of the module and of the parts behind it, which share its bias.
      std::int64_t width = 0;
      std::vector<LayerTape::Piece> gradients;
      for (std::size_t j = i; j < modules.size() && (j == i || modules[j].part); ++j) {
        width += modules[j].out;
        const Operand& y = ys[outputs == Outputs::kOne ? 0 : j];
        const Value gradient = tape_->GradientOf(y.value);
        if (gradients.empty() || outputs != Outputs::kOne) gradients.emplace_back(gradient);
      }
      const std::int64_t elements = x.tokens * width;
      tape_->RunBackward(
          Eager(Access::kColumnSum, Memory(Joined(module.name, ".bias.grad"), elements,
                                           BytesOfElements(elements), BytesOfElements(width))),
          gradients, {}, {module.parameters.bias}, module.parameters.all());
    }
  };
  tape_->OnBackward([=, this] {
    if (x.region && !frozen) x.region->begin_backward();
    const Bytes low_bytes = QuantizedBytes(x.tokens * out);
    const bool gathered = rows && !rows->gradient.empty();
    Factor gradient{.by_tokens = gathered && rows->gradient.size() > 1};
    Pieces dy;  // the same as wholes, which the weights' gradients read
    if (gathered) {
      gradient.pieces = rows->gradient;
      for (const LayerTape::Piece& piece : gradient.pieces) {
        if (dy.empty() || dy.back().value != piece.value) dy.emplace_back(piece.value);
      }
    } else {
      for (const Operand& y : ys) dy.push_back(tape_->GradientOf(y.value));
    }
    if (outputs == Outputs::kApart && dy.size() > 1) {
      const Bytes bytes = BytesOfElements(x.tokens * out);
      const Value joined = tape_->MakeScratch(bytes);
      tape_->RunBackward(Memory(Joined(name, ".output_grad.join"), 0, bytes, bytes), dy, {joined});
      dy = {joined};
    }
    if (!gathered) gradient.pieces = dy;
    Pieces operand = dy;
    if (frozen) {
      if (quantizes() && !(gathered && rows->quantized)) {
        const Value cast = tape_->MakeScratch(low_bytes);
        tape_->RunBackward(Quantize(Joined(name, ".output_grad.cast"),
                                    BytesOfElements(x.tokens * out), low_bytes, 1),
                           dy, {cast});
        gradient = {.pieces = {cast}};
      }
    } else if (gathered && rows->quantized) {
      // Turned behind the product of the input's gradient, which does not wait for it.
      if (!scales_both_ways()) operand = {tape_->MakeScratch(low_bytes)};
    } else if (quantizes()) {
      const QuantizedCopies copies =
          QuantizedInBackward(dy, x.tokens * out, Joined(name, ".output_grad.cast"));
      gradient = {.pieces = {copies.rows}};
      operand = {copies.columns};
    }
    if (casts_weight) {
      tape_->RunBackward(weight_cast, {}, {tape_->MakeScratch(weight_bytes)}, {}, parameters);
    }
    const Value dx = tape_->MakeGradient(x.value);
    RunProduct(false,
               Gemm(Joined(name, ".dgrad"), x.tokens, in, out, ProductLayout::kInputGradient),
               gradient, std::nullopt, {.pieces = {dx}}, parameters);
    if (scales_rows()) {
      const Bytes bytes = Size(x);
      tape_->RunBackward(Memory(Joined(name, ".dgrad.scale"), 0, bytes, bytes), {dx}, {dx});
    }
    if (frozen) {
      tape_->Deliver(x.value, dx);
      return;
    }
    if (gathered && rows->quantized && !scales_both_ways()) {
      tape_->RunBackward(Memory(Joined(name, ".output_grad.transpose"), 0, low_bytes, low_bytes),
                         dy, operand);
    }
    if (x.region) {
      x.region->weight_gradients.push_back(
          [=](std::optional<Value> again) { weight_gradients(operand, again); });
    } else {
      weight_gradients(operand, std::nullopt);
    }
    tape_->Deliver(x.value, dx);
  });
  return ys;
}

}  // namespace stepcast::model

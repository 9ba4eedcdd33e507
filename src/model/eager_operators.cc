#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"

// Norms, rotary positions and activation functions as Python writes them, every operation a kernel
// of its own, and the casts of autocast.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

// aten/src/ATen/native/layer_norm.cpp, rms_norm of PyTorch 2.4 to 2.8; the same operations in
// torchtitan's and Hugging Face's modules. With e the size of an activation's element:
//
//   x32 = x.float()                        reads e, writes 4     kept for pow and mul
//   x32.pow(2)                                   4         4
//   .mean(-1), + eps, rsqrt                      4                 rstd is kept
//   x32 * rstd                                   4         4
//   .type_as(x)                                  4         e     kept for the weight's gradient
//   * weight                                     e         e
//
// 36 bytes an element for 16 bits. What is FP32 already is not cast: x32 is x. Backward, from the
// last to the first (derivatives.yaml):
//
//   dy * weight                                  e         e
//   dy * normalised, summed over tokens      2 e + e       e
//   .float()                                     e         4
//   d * rstd                                     4         4
//   d * x32, summed over features            8 + 4         4
//   the mean's gradient, spread                            4
//   2 x32 (of x32.pow(1)), times that        4 + 4 + 8    12
//   added to the other gradient of x32           8         4
//   .to(x's type)                                4         e
Operand LayerOperators::EagerRmsNorm(Operand x, std::string_view module,
                                     ModulePositions parameters) {
  const std::int64_t elements = Elements(x);
  const Bytes narrow = Size(x);
  const Bytes wide(elements * kFp32Size);
  const bool casts = ElementSize(x) < kFp32Size;
  const Bytes rows(x.tokens * kFp32Size);
  const Bytes weights(x.width * ElementSize(x));
  const std::vector<int> all = parameters.all();
  const auto kernel = [&](std::string_view suffix, std::int64_t flops, Bytes read, Bytes written) {
    return Memory(Joined(module, suffix), flops, read, written);
  };

  Value x32 = x.value;
  if (casts) {
    x32 = tape_->Make(Joined(module, " input in FP32"), wide);
    tape_->Run(kernel(".float", 0, narrow, wide), {x.value}, {x32}, all);
  }
  tape_->Keep(x32);
  const Value squares = tape_->Make(Joined(module, " squares"), wide);
  tape_->Run(kernel(".pow", elements, wide, wide), {x32}, {squares}, all);
  const Value mean = tape_->Make(Joined(module, " mean"), rows);
  tape_->Run(kernel(".mean", elements, wide, rows), {squares}, {mean}, all);
  const Value sum = tape_->Make(Joined(module, " mean and epsilon"), rows);
  tape_->Run(kernel(".add", x.tokens, rows, rows), {mean}, {sum}, all);
  const Value rstd = tape_->Make(Joined(module, " reciprocal deviation"), rows);
  tape_->Keep(rstd);
  tape_->Run(kernel(".rsqrt", x.tokens, rows, rows), {sum}, {rstd}, all);
  const Value scaled = tape_->Make(Joined(module, " normalised in FP32"), wide);
  tape_->Run(kernel(".mul", elements, wide + rows, wide), {x32, rstd}, {scaled}, all);
  Value normalised = scaled;
  if (casts) {
    normalised = tape_->Make(Joined(module, " normalised"), narrow);
    tape_->Run(kernel(".type_as", 0, wide, narrow), {scaled}, {normalised}, all);
  }
  if (!parameters.frozen) tape_->Keep(normalised);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens, x.fp32);
  tape_->Run(kernel(".weight", elements, narrow + weights, narrow), {normalised}, {y.value}, all);

  tape_->OnBackward([=, this] {
    const auto backward = [&](std::string_view suffix, std::int64_t flops, Bytes read,
                              Bytes written, LayerTape::Values reads, LayerTape::Values writes,
                              std::vector<int> gradients = {}) {
      tape_->RunBackward(Memory(Joined(module, suffix), flops, read, written), reads, writes,
                         std::move(gradients), parameters.all());
    };
    const Value dy = tape_->GradientOf(y.value);
    const Value d_normalised = tape_->MakeScratch(narrow);
    backward(".weight.dgrad", elements, narrow + weights, narrow, {dy}, {d_normalised});
    if (!parameters.frozen) {
      const Value products = tape_->MakeScratch(narrow);
      backward(".weight.products", elements, 2 * narrow, narrow, {dy, normalised}, {products});
      backward(".wgrad", elements, narrow, weights, {products}, {}, {parameters.weight});
    }
    Value d_scaled = d_normalised;
    if (casts) {
      d_scaled = tape_->MakeScratch(wide);
      backward(".type_as.dgrad", 0, narrow, wide, {d_normalised}, {d_scaled});
    }
    const Value first = tape_->MakeScratch(wide);
    backward(".mul.dgrad", elements, wide + rows, wide, {d_scaled}, {first});
    const Value by_x = tape_->MakeScratch(wide);
    backward(".mul.products", elements, 2 * wide, wide, {d_scaled}, {by_x});
    const Value d_rstd = tape_->MakeScratch(rows);
    backward(".mul.sum", elements, wide, rows, {by_x}, {d_rstd});
    backward(".rsqrt.dgrad", 3 * x.tokens, 2 * rows, rows, {d_rstd}, {d_rstd});
    const Value spread = tape_->MakeScratch(wide);
    backward(".mean.dgrad", elements, rows, wide, {d_rstd}, {spread});
    const Value power = tape_->MakeScratch(wide);
    backward(".pow.base", 0, wide, wide, {}, {power});
    const Value twice = tape_->MakeScratch(wide);
    backward(".pow.twice", elements, wide, wide, {power}, {twice});
    const Value second = tape_->MakeScratch(wide);
    backward(".pow.dgrad", elements, 2 * wide, wide, {spread, twice}, {second});
    const Value dx = tape_->MakeGradient(x.value);
    const Value both = casts ? tape_->MakeScratch(wide) : dx;
    backward(".add_gradients", elements, 2 * wide, wide, {first, second}, {both});
    if (casts) backward(".float.dgrad", 0, wide, narrow, {both}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// As complex numbers (Meta's Llama, torchtitan's apply_rotary_emb): to FP32, times the angles,
// back; 20 bytes an element for 16 bits, and as many in backward. Nothing is kept.
Operand LayerOperators::ComplexRotary(Operand x, std::string_view module, std::int64_t head_size) {
  const std::int64_t elements = Elements(x);
  const Bytes narrow = Size(x);
  const Bytes wide(elements * kFp32Size);
  const bool casts = ElementSize(x) < kFp32Size;
  const Bytes table(positions_ * head_size * kFp32Size);
  const auto cast = [&](std::string_view suffix, Bytes from, Bytes to) {
    return Memory(Joined(module, suffix), 0, from, to);
  };
  Value x32 = x.value;
  if (casts) {
    x32 = tape_->Make(Joined(module, " input in FP32"), wide);
    tape_->Run(cast(".float", narrow, wide), {x.value}, {x32});
  }
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  const Value turned = casts ? tape_->Make(Joined(module, " turned"), wide) : y.value;
  tape_->Run(Memory(Joined(module, ".mul"), 3 * elements, wide + table, wide), {x32}, {turned});
  if (casts) tape_->Run(cast(".type_as", wide, narrow), {turned}, {y.value});
  tape_->OnBackward([=, this] {
    const auto back = [&](std::string_view suffix, std::int64_t flops, Bytes read, Bytes written,
                          Value from, Value to) {
      tape_->RunBackward(Memory(Joined(module, suffix), flops, read, written), {from}, {to});
    };
    Value d_turned = tape_->GradientOf(y.value);
    if (casts) {
      d_turned = tape_->MakeScratch(wide);
      back(".type_as.dgrad", 0, narrow, wide, tape_->GradientOf(y.value), d_turned);
    }
    const Value dx = tape_->MakeGradient(x.value);
    const Value d_x32 = casts ? tape_->MakeScratch(wide) : dx;
    back(".mul.dgrad", 3 * elements, wide + table, wide, d_turned, d_x32);
    if (casts) back(".float.dgrad", 0, wide, narrow, d_x32, dx);
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// Hugging Face's apply_rotary_pos_emb: x cos + rotate_half(x) sin in the type of activations; 20
// bytes an element for 16 bits, and about as many in backward. Cosines and sines are kept by all
// layers together.
Operand LayerOperators::HalvesRotary(Operand x, std::string_view module, std::int64_t head_size) {
  const std::int64_t elements = Elements(x);
  const Bytes size = Size(x);
  const Bytes half = BytesOfElements(elements / 2);
  const Bytes table = BytesOfElements(positions_ * head_size);
  const Value by_cosine = tape_->Make(Joined(module, " by cosine"), size);
  tape_->Run(Memory(Joined(module, ".cos"), elements, size + table, size), {x.value}, {by_cosine});
  const Value negated = tape_->Make(Joined(module, " negated half"), half);
  tape_->Run(Memory(Joined(module, ".neg"), elements / 2, half, half), {x.value}, {negated});
  const Value rotated = tape_->Make(Joined(module, " halves rotated"), size);
  tape_->Run(Memory(Joined(module, ".cat"), 0, size, size), {x.value, negated}, {rotated});
  const Value by_sine = tape_->Make(Joined(module, " by sine"), size);
  tape_->Run(Memory(Joined(module, ".sin"), elements, size + table, size), {rotated}, {by_sine});
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Run(Memory(Joined(module, ".add"), elements, 2 * size, size), {by_cosine, by_sine},
             {y.value});
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    const auto scratch = [&](std::string_view suffix, std::int64_t flops, Bytes read, Bytes written,
                             LayerTape::Values reads) {
      const Value made = tape_->MakeScratch(written);
      tape_->RunBackward(Memory(Joined(module, suffix), flops, read, written), reads, {made});
      return made;
    };
    const Value d_rotated = scratch(".sin.dgrad", elements, size + table, size, {dy});
    const Value d_half = scratch(".neg.dgrad", elements / 2, half, half, {d_rotated});
    const Value joined = scratch(".cat.dgrad", 0, size, size, {d_rotated, d_half});
    const Value d_cosine = scratch(".cos.dgrad", elements, size + table, size, {dy});
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".add_gradients"), elements, 2 * size, size),
                       {joined, d_cosine}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// transformers/activations.py, NewGELUActivation, the activation function of Hugging Face's GPT-2:
//
//   0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//
// Eight kernels, 36 bytes an element for 16 bits, where one takes 4. Kept are x (of the power), the
// tanh, and both factors of the last product.
Operand LayerOperators::NewGelu(Operand x, std::string_view module) {
  const std::int64_t elements = Elements(x);
  const Bytes size = Size(x);
  const auto next = [&](std::string_view suffix, int operands, LayerTape::Values reads) {
    const Value made = tape_->Make(Joined(module, suffix), size);
    tape_->Run(Memory(Joined(module, suffix), elements, operands * size, size), reads, {made});
    return made;
  };
  const Value half = next(".half", 1, {x.value});
  const Value cube = next(".pow", 1, {x.value});
  const Value part = next(".cubic", 1, {cube});
  const Value sum = next(".add", 2, {x.value, part});
  const Value argument = next(".scale", 1, {sum});
  const Value tanh = next(".tanh", 1, {argument});
  const Value factor = next(".add_one", 1, {tanh});
  for (const Value kept : {x.value, tanh, half, factor}) tape_->Keep(kept);
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Run(Memory(Joined(module, ".mul"), elements, 2 * size, size), {half, factor}, {y.value});
  tape_->OnBackward([=, this] {
    const auto back = [&](std::string_view suffix, int operands, LayerTape::Values reads) {
      const Value made = tape_->MakeScratch(size);
      tape_->RunBackward(Memory(Joined(module, suffix), elements, operands * size, size), reads,
                         {made});
      return made;
    };
    const Value dy = tape_->GradientOf(y.value);
    const Value d_half = back(".mul.dgrad_left", 2, {dy});
    const Value d_factor = back(".mul.dgrad_right", 2, {dy});
    const Value d_argument = back(".tanh.dgrad", 2, {d_factor});
    const Value d_sum = back(".scale.dgrad", 1, {d_argument});
    const Value d_cube = back(".cubic.dgrad", 1, {d_sum});
    const Value square = back(".pow.base", 1, {});
    const Value thrice = back(".pow.thrice", 1, {square});
    const Value by_cube = back(".pow.dgrad", 2, {d_cube, thrice});
    const Value by_both = back(".add_cubic", 2, {d_sum, by_cube});
    const Value by_half = back(".half.dgrad", 1, {d_half});
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(Memory(Joined(module, ".add_gradients"), elements, 2 * size, size),
                       {by_both, by_half}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// torch.autocast casts the inputs of a matrix product each time; unlike copies of parameters,
// copies of activations are not cached, so that queries, keys and values that are three products
// keep three.
Operand LayerOperators::Cast(Operand x, std::string_view module) {
  const Operand y = Make(Joined(module, " input"), x.width, x.tokens);
  tape_->Run(Memory(Joined(module, ".cast"), 0, Size(x), Size(y)), {x.value}, {y.value});
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(
        Eager(Access::kWidening, Memory(Joined(module, ".cast.dgrad"), 0, Size(y), Size(x))),
        {tape_->GradientOf(y.value)}, {dx});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

}  // namespace stepcast::model

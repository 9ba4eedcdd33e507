#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"

// Norms, rotary positions and activation functions written in Python, with a kernel for every
// operation, and the casts of autocast.
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
class LayerOperators::UnfusedRmsNorm {
 public:
  UnfusedRmsNorm(LayerOperators& operators, const Operand& x, std::string_view module,
                 ModulePositions parameters)
      : operators_(&operators),
        tape_(operators.tape_),
        x_(x),
        module_(module),
        parameters_(parameters),
        elements_(Elements(x)),
        casts_(operators.ElementSize(x) < kFp32Size),
        narrow_(operators.Size(x)),
        wide_(elements_ * kFp32Size),
        rows_(x.tokens * kFp32Size),
        weights_(x.width * operators.ElementSize(x)) {}

  // Records the forward and, for backward, the gradients. Call once.
  Operand Record();

 private:
  Kernel Over(std::string_view suffix, std::int64_t flops, Bytes read, Bytes written) const {
    return operators_->Memory(Joined(module_, suffix), flops, read, written);
  }
  // Runs a step of the forward or of the backward, and returns its result.
  Value Run(std::string_view value, Kernel kernel, LayerTape::Values reads) {
    return tape_->RunTo(Joined(module_, value), std::move(kernel), reads, parameters_.all());
  }
  Value RunBackward(Kernel kernel, LayerTape::Values reads) const {
    const Value made = tape_->MakeScratch(kernel.written);
    RunBackward(std::move(kernel), reads, {made});
    return made;
  }
  void RunBackward(Kernel kernel, LayerTape::Values reads, LayerTape::Values writes,
                   std::vector<int> gradients = {}) const {
    tape_->RunBackward(std::move(kernel), reads, writes, std::move(gradients), parameters_.all());
  }

  Value MakeReciprocalDeviation(Value x32);
  Value Normalise(Value x32, Value reciprocal_deviation);

  void RunBackward() const;
  // Gradients of the normalised activation and of the weight.
  Value NormalisedGradient(Value dy) const;
  // Gradients of x32: through its use as a factor, and through the mean of its squares.
  Value FactorGradient(Value d_scaled) const;
  Value SquaresGradient(Value d_scaled) const;

  LayerOperators* operators_;
  LayerTape* tape_;
  Operand x_;
  std::string_view module_;
  ModulePositions parameters_;
  std::int64_t elements_;
  bool casts_;
  Bytes narrow_, wide_;   // of the activation, and in FP32
  Bytes rows_, weights_;  // of an FP32 number a token; of the weight
  Value normalised_ = -1;
  Operand y_;
};

Operand LayerOperators::UnfusedRmsNorm::Record() {
  Value x32 = x_.value;
  if (casts_) {
    x32 = Run(" input in FP32", Over(".float", 0, narrow_, wide_), {x_.value});
  }
  tape_->Keep(x32);
  normalised_ = Normalise(x32, MakeReciprocalDeviation(x32));
  if (!parameters_.frozen) tape_->Keep(normalised_);
  y_ = operators_->Make(Joined(module_, " output"), x_.width, x_.tokens, x_.fp32);
  tape_->Run(Over(".weight", elements_, narrow_ + weights_, narrow_), {normalised_}, {y_.value},
             parameters_.all());
  tape_->OnBackward([norm = *this] { norm.RunBackward(); });
  return y_;
}

LayerTape::Value LayerOperators::UnfusedRmsNorm::MakeReciprocalDeviation(Value x32) {
  const Value squares = Run(" squares", Over(".pow", elements_, wide_, wide_), {x32});
  const Value mean = Run(" mean", Over(".mean", elements_, wide_, rows_), {squares});
  const Value sum = Run(" mean and epsilon", Over(".add", x_.tokens, rows_, rows_), {mean});
  const Value reciprocal =
      Run(" reciprocal deviation", Over(".rsqrt", x_.tokens, rows_, rows_), {sum});
  tape_->Keep(reciprocal);
  return reciprocal;
}

LayerTape::Value LayerOperators::UnfusedRmsNorm::Normalise(Value x32, Value reciprocal_deviation) {
  const Value scaled = Run(" normalised in FP32", Over(".mul", elements_, wide_ + rows_, wide_),
                           {x32, reciprocal_deviation});
  return casts_ ? Run(" normalised", Over(".type_as", 0, wide_, narrow_), {scaled}) : scaled;
}

void LayerOperators::UnfusedRmsNorm::RunBackward() const {
  Value d_scaled = NormalisedGradient(tape_->GradientOf(y_.value));
  if (casts_) {
    d_scaled = RunBackward(Over(".type_as.dgrad", 0, narrow_, wide_), {d_scaled});
  }
  const Value first = FactorGradient(d_scaled);
  const Value second = SquaresGradient(d_scaled);
  const Value dx = tape_->MakeGradient(x_.value);
  const Value both = casts_ ? tape_->MakeScratch(wide_) : dx;
  RunBackward(Over(".add_gradients", elements_, 2 * wide_, wide_), {first, second}, {both});
  if (casts_) RunBackward(Over(".float.dgrad", 0, wide_, narrow_), {both}, {dx});
  tape_->Deliver(x_.value, dx);
}

LayerTape::Value LayerOperators::UnfusedRmsNorm::NormalisedGradient(Value dy) const {
  const Value d_normalised =
      RunBackward(Over(".weight.dgrad", elements_, narrow_ + weights_, narrow_), {dy});
  if (!parameters_.frozen) {
    const Value products =
        RunBackward(Over(".weight.products", elements_, 2 * narrow_, narrow_), {dy, normalised_});
    RunBackward(Over(".wgrad", elements_, narrow_, weights_), {products}, {}, {parameters_.weight});
  }
  return d_normalised;
}

LayerTape::Value LayerOperators::UnfusedRmsNorm::FactorGradient(Value d_scaled) const {
  return RunBackward(Over(".mul.dgrad", elements_, wide_ + rows_, wide_), {d_scaled});
}

LayerTape::Value LayerOperators::UnfusedRmsNorm::SquaresGradient(Value d_scaled) const {
  const Value by_x = RunBackward(Over(".mul.products", elements_, 2 * wide_, wide_), {d_scaled});
  const Value d_reciprocal = RunBackward(Over(".mul.sum", elements_, wide_, rows_), {by_x});
  RunBackward(Over(".rsqrt.dgrad", 3 * x_.tokens, 2 * rows_, rows_), {d_reciprocal},
              {d_reciprocal});
  const Value spread = RunBackward(Over(".mean.dgrad", elements_, rows_, wide_), {d_reciprocal});
  const Value power = RunBackward(Over(".pow.base", 0, wide_, wide_), {});
  const Value twice = RunBackward(Over(".pow.twice", elements_, wide_, wide_), {power});
  return RunBackward(Over(".pow.dgrad", elements_, 2 * wide_, wide_), {spread, twice});
}

Operand LayerOperators::EagerRmsNorm(Operand x, std::string_view module,
                                     ModulePositions parameters) {
  return UnfusedRmsNorm(*this, x, module, parameters).Record();
}

// Rotary positions as complex numbers (Meta's Llama, torchtitan's apply_rotary_emb): cast to FP32,
// multiply, cast back; 20 bytes an element for 16 bits, and as many in backward. Nothing is kept.
Operand LayerOperators::ComplexRotary(Operand x, std::string_view module, std::int64_t head_size) {
  const std::int64_t elements = Elements(x);
  const Bytes narrow = Size(x);
  const Bytes wide(elements * kFp32Size);
  const bool casts = ElementSize(x) < kFp32Size;
  const Bytes table(positions_ * head_size * kFp32Size);
  const auto cast = [=, this](std::string_view suffix, Bytes from, Bytes to) {
    return Memory(Joined(module, suffix), 0, from, to);
  };
  Value x32 = x.value;
  if (casts) {
    x32 = tape_->RunTo(Joined(module, " input in FP32"), cast(".float", narrow, wide), {x.value});
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
    if (casts) d_turned = tape_->RunToScratch(cast(".type_as.dgrad", narrow, wide), {d_turned});
    const Value dx = tape_->MakeGradient(x.value);
    const Value d_x32 = casts ? tape_->MakeScratch(wide) : dx;
    back(".mul.dgrad", 3 * elements, wide + table, wide, d_turned, d_x32);
    if (casts) back(".float.dgrad", 0, wide, narrow, d_x32, dx);
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// Hugging Face's apply_rotary_pos_emb: x cos + rotate_half(x) sin in the type of activations; 20
// bytes an element for 16 bits, and about as many in backward. All layers share the kept cosines
// and sines.
Operand LayerOperators::HalvesRotary(Operand x, std::string_view module, std::int64_t head_size) {
  const std::int64_t elements = Elements(x);
  const Bytes size = Size(x);
  const Bytes half = BytesOfElements(elements / 2);
  const Bytes table = BytesOfElements(positions_ * head_size);
  const auto over = [=, this](std::string_view suffix, std::int64_t flops, Bytes read,
                              Bytes written) {
    return Memory(Joined(module, suffix), flops, read, written);
  };
  const auto next = [&](std::string_view value, Kernel kernel, LayerTape::Values reads) {
    return tape_->RunTo(Joined(module, value), std::move(kernel), reads);
  };
  const Value by_cosine = next(" by cosine", over(".cos", elements, size + table, size), {x.value});
  const Value negated = next(" negated half", over(".neg", elements / 2, half, half), {x.value});
  const Value rotated = next(" halves rotated", over(".cat", 0, size, size), {x.value, negated});
  const Value by_sine = next(" by sine", over(".sin", elements, size + table, size), {rotated});
  const Operand y = Make(Joined(module, " output"), x.width, x.tokens);
  tape_->Run(Memory(Joined(module, ".add"), elements, 2 * size, size), {by_cosine, by_sine},
             {y.value});
  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    const Value d_rotated =
        tape_->RunToScratch(over(".sin.dgrad", elements, size + table, size), {dy});
    const Value d_half =
        tape_->RunToScratch(over(".neg.dgrad", elements / 2, half, half), {d_rotated});
    const Value joined =
        tape_->RunToScratch(over(".cat.dgrad", 0, size, size), {d_rotated, d_half});
    const Value d_cosine =
        tape_->RunToScratch(over(".cos.dgrad", elements, size + table, size), {dy});
    const Value dx = tape_->RunToGradient(x.value, over(".add_gradients", elements, 2 * size, size),
                                          {joined, d_cosine});
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
  const auto over = [=, this](std::string_view suffix, int operands) {
    return Memory(Joined(module, suffix), elements, operands * size, size);
  };
  const auto next = [&](std::string_view suffix, int operands, LayerTape::Values reads) {
    return tape_->RunTo(Joined(module, suffix), over(suffix, operands), reads);
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
  tape_->Run(over(".mul", 2), {half, factor}, {y.value});
  tape_->OnBackward([=, this] {
    const auto back = [&](std::string_view suffix, int operands, LayerTape::Values reads) {
      return tape_->RunToScratch(over(suffix, operands), reads);
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
    const Value dx = tape_->RunToGradient(x.value, over(".add_gradients", 2), {by_both, by_half});
    tape_->Deliver(x.value, dx);
  });
  return y;
}

// torch.autocast casts the inputs of each matrix product. Casts of activations are not cached,
// unlike those of parameters. If queries, keys and values are three products, three copies are
// kept.
Operand LayerOperators::Cast(Operand x, std::string_view module) {
  const Operand y = Make(Joined(module, " input"), x.width, x.tokens);
  tape_->RunBothWays(
      Memory(Joined(module, ".cast"), 0, Size(x), Size(y)),
      {Eager(Access::kWidening, Memory(Joined(module, ".cast.dgrad"), 0, Size(y), Size(x)))},
      {x.value}, {y.value});
  return y;
}

}  // namespace stepcast::model

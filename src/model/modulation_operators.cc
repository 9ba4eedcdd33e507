#include <array>
#include <cstdint>
#include <string_view>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"

// Operators of diffusion transformers: branches that vectors of a condition scale, and blocks with
// two streams of rows.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

Operand LayerOperators::Modulate(Operand x, Operand vectors, std::string_view name) {
  const Operand y = Make(Joined(name, " output"), x.width, x.tokens);
  // A scale and a shift for each sample.
  const std::int64_t samples = vectors.tokens;
  const Bytes vector = BytesOfElements(samples * x.width);
  tape_->Keep(x.value);
  tape_->Keep(vectors.value);
  if (options_.compiled) {
    tape_->Run(Memory(std::string(name), 2 * Elements(x), Size(x) + 2 * vector, Size(y)),
               {x.value, vectors.value}, {y.value});
  } else {
    const Value scaled =
        tape_->RunTo(Joined(name, ".scale output"),
                     Memory(Joined(name, ".scale"), Elements(x), Size(x) + vector, Size(y)),
                     {x.value, vectors.value});
    tape_->Run(Memory(Joined(name, ".shift"), Elements(x), Size(y) + vector, Size(y)),
               {scaled, vectors.value}, {y.value});
  }
  // The vectors' gradients are sums over the rows of a sample: of the gradient, and of its product
  // with x.
  tape_->RunOnBackward(
      {Memory(Joined(name, ".dgrad"), Elements(x), Size(y) + vector, Size(x)),
       Memory(Joined(name, ".dgrad_vectors"), 3 * Elements(x), Size(y) + Size(x), 2 * vector)},
      {y.value}, {x.value, vectors.value});
  return y;
}

Operand LayerOperators::GatedAdd(Operand x, Operand branch, Operand vectors,
                                 std::string_view name) {
  const Operand sum = Make(std::string(name), x.width, x.tokens, x.fp32);
  const Bytes vector = BytesOfElements(vectors.tokens * x.width);
  tape_->Keep(branch.value);
  tape_->Keep(vectors.value);
  if (options_.compiled) {
    tape_->Run(
        Memory(std::string(name), 2 * Elements(x), Size(x) + Size(branch) + vector, Size(sum)),
        {x.value, branch.value, vectors.value}, {sum.value});
  } else {
    const Value gated = tape_->Make(Joined(name, ".gate output"), Size(branch));
    tape_->Run(Memory(Joined(name, ".gate"), Elements(x), Size(branch) + vector, Size(branch)),
               {branch.value, vectors.value}, {gated});
    tape_->Run(Memory(std::string(name), Elements(x), Size(x) + Size(branch), Size(sum)),
               {x.value, gated}, {sum.value});
  }
  // Backward runs in reverse order: the gradient passes to x first.
  tape_->RunOnBackward(
      {Memory(Joined(name, ".gate.dgrad"), Elements(x), Size(sum) + vector, Size(branch)),
       Memory(Joined(name, ".gate.dgrad_vectors"), 2 * Elements(x), Size(sum) + Size(branch),
              vector)},
      {sum.value}, {branch.value, vectors.value});
  tape_->OnBackward([=, this] { tape_->Pass(sum.value, x.value); });
  return sum;
}

Operand LayerOperators::JoinRows(const std::array<Operand, 2>& parts, std::string_view name,
                                 bool copies) {
  const auto& [first, second] = parts;
  const Operand y =
      Make(Joined(name, " output"), first.width, first.tokens + second.tokens, first.fp32);
  const Bytes moved = copies ? Size(y) : Bytes();
  tape_->RunBothWays(Memory(std::string(name), 0, moved, moved),
                     {Memory(Joined(name, ".dgrad"), 0, moved, moved)}, {first.value, second.value},
                     {y.value});
  return y;
}

}  // namespace stepcast::model

#include "src/model/stream_operators.h"

#include <string>
#include <utility>
#include <vector>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

// Passes of the gradient's kernel over its operands: for the input, and again for the products of
// each pair of streams, which are the gradient of the mixing weights. With them, the kernel moves
// 2.3 times as many bytes as one pass, and takes 2.4 times as long on GB200 (fused kernels, 32,768
// tokens of 7,168: NVIDIA/Megatron-LM pull request 3828).
constexpr std::int64_t kMixingPasses = 3;

}  // namespace

Operand StreamOperators::Spread(const Operand& x, std::string_view name) {
  const Operand y = operators_.Make(Joined(name, " output"), streams_ * x.width, x.tokens, x.fp32);
  const Bytes one = operators_.Size(x), all = operators_.Size(y);
  tape_.RunBothWays(
      operators_.Memory(std::string(name), 0, one, all),
      {operators_.Memory(Joined(name, ".dgrad"), LayerOperators::Elements(y), all, one)}, {x.value},
      {y.value});
  return y;
}

Operand StreamOperators::Take(const Operand& x, std::string_view module, std::int64_t numbers,
                              const ModulePositions& parameters) {
  const std::string name(module);
  const Operand y = operators_.Make(name + " output", x.width / streams_, x.tokens, x.fp32);
  const Value weights = tape_.Make(name + " weights", Bytes(x.tokens * numbers * kFp32Size));
  const Bytes all = operators_.Size(x), one = operators_.Size(y);
  const std::int64_t flops = 2 * LayerOperators::Elements(x);
  tape_.Keep(x.value);
  tape_.Keep(weights);
  tape_.Run(operators_.Gemm(name, x.tokens, numbers, x.width), {x.value}, {weights},
            parameters.all());
  tape_.Run(operators_.Memory(name + ".take", flops, all, one), {x.value, weights}, {y.value});
  const Kernel input =
      operators_.Gemm(name + ".dgrad", x.tokens, x.width, numbers, ProductLayout::kInputGradient);
  const Kernel weight =
      operators_.Gemm(name + ".wgrad", numbers, x.width, x.tokens, ProductLayout::kWeightGradient);
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(y.value);
    const Value dx = tape_.MakeGradient(x.value);
    tape_.RunBackward(operators_.Memory(name + ".take.dgrad", 2 * flops, all + one, all),
                      {gradient, weights}, {dx});
    tape_.RunBackward(input, {gradient}, {dx}, {}, parameters.all());
    // The norm of all streams before the small product.
    tape_.RunBackward(
        operators_.Memory(name + ".norm.dgrad", 4 * LayerOperators::Elements(x), all + all, all),
        {dx, x.value}, {dx});
    if (!parameters.all().empty()) {
      operators_.RunPartGradients(weight, {gradient}, parameters.all(), parameters);
    }
    tape_.Deliver(x.value, dx);
  });
  return y;
}

Operand StreamOperators::Give(const Operand& x, const Operand& branch, std::string_view module) {
  const std::string name = Joined(module, ".give");
  const Operand y = operators_.Make(name + " output", x.width, x.tokens, x.fp32);
  const Bytes all = operators_.Size(x), one = operators_.Size(branch);
  const std::int64_t flops = (2 * streams_ + 2) * LayerOperators::Elements(x);
  tape_.Keep(branch.value);
  const Bytes read = kMixingPasses * (all + all + one);
  tape_.RunBothWays(operators_.Memory(name, flops, all + one, all),
                    {operators_.Memory(name + ".dgrad", 2 * flops, read, all + one)},
                    {x.value, branch.value}, {y.value});
  return y;
}

}  // namespace stepcast::model

// The router of a mixture: the choice of a token's experts and their weights.
#include <string>
#include <string_view>
#include <vector>

#include "src/model/mixture_operators.h"
#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

using Pieces = std::vector<LayerTape::Piece>;

// Kernels that PyTorch launches for what Transformer Engine's router does in one: scores, top-k,
// gather, normalization, and the two tables of zeros into which the chosen ones are scattered
// (megatron/core/transformer/moe/moe_utils.py, topk_routing_with_score_function). Choosing by
// groups adds kGroupKernels; the last constant is for gradients.
constexpr std::int64_t kRouterKernels = 10, kGroupKernels = 7, kRouterGradientKernels = 5;

}  // namespace

// The weight is the same on all ranks, and its product is in 16 bits whatever the experts' type. If
// the router is FP32, forward multiplies 16 bits into FP32, and backward casts both operands
// (moe_utils.py, RouterGatingLinearFunction). DeepSpeed's gate casts both first and keeps the
// copies (sharded_moe.py, TopKGate).
LayerTape::Value MixtureOperators::Logits(const Operand& x) {
  const std::int64_t count = experts_.count;
  const DataType type = options_.router_type;
  const bool wide = type == DataType::kFp32;
  const ModulePositions positions = modules_.router.parameters;
  const Bytes logits_bytes = BytesOf(tokens_ * count, type);
  const Value logits = tape_.Make(Joined(modules_.router.name, " logits"), logits_bytes);
  const auto product = [&, this](std::string_view suffix, std::int64_t m, std::int64_t n,
                                 std::int64_t k, ProductLayout layout, DataType operands) {
    Kernel kernel = operators_.Gemm(Joined(modules_.router.name, suffix), m, n, k, layout);
    kernel.data_type = operands;
    kernel.read = BytesOf(m * k + k * n, operands);
    return kernel;
  };
  const DataType narrow = operators_.element_;
  const DataType operands = wide ? DataType::kFp32 : narrow;
  const bool copies = wide && options_.implementation == ExpertImplementation::kDeepSpeed;
  const Bytes cast(tokens_ * x.width * kFp32Size);
  Value input = x.value;
  Pieces operands_kept{input};
  if (copies) {
    const std::string name(modules_.router.name);
    input = tape_.Make(name + " input in FP32", cast);
    tape_.Run(Small(name + ".input.cast", operators_.BytesOfElements(tokens_ * x.width), cast),
              {x.value}, {input});
    const std::int64_t elements = x.width * count;
    const Value weight = tape_.Make(name + " weight in FP32", Bytes(elements * kFp32Size));
    tape_.Keep(weight);
    tape_.Run(Small(name + ".weight.cast", BytesOf(elements, narrow), Bytes(elements * kFp32Size)),
              {}, {weight}, positions.all());
    operands_kept = {input, weight};
  }
  Kernel forward =
      product("", tokens_, count, x.width, ProductLayout::kForward, copies ? operands : narrow);
  forward.written = logits_bytes;
  tape_.Keep(input);
  tape_.Run(forward, operands_kept, {logits}, positions.all());
  const Kernel input_gradient =
      product(".dgrad", tokens_, x.width, count, ProductLayout::kInputGradient, operands);
  const Kernel weight_gradient =
      product(".wgrad", count, x.width, tokens_, ProductLayout::kWeightGradient, operands);
  tape_.OnBackward([=, this, name = std::string(modules_.router.name)] {
    const Value gradient = tape_.GradientOf(logits);
    Value operand = input;
    if (wide && !copies) {
      operand = tape_.MakeScratch(cast);
      tape_.RunBackward(
          Small(name + ".input.cast", operators_.BytesOfElements(tokens_ * x.width), cast),
          {x.value}, {operand});
    }
    const Value dx = tape_.MakeGradient(x.value);
    Pieces reads{gradient};
    reads.insert(reads.end(), operands_kept.begin() + 1, operands_kept.end());
    tape_.RunBackward(input_gradient, reads, {dx}, {}, positions.all());
    if (positions.weight >= 0) {
      operators_.RunPartGradients(weight_gradient, {gradient, operand}, {positions.weight},
                                  positions);
    }
    if (positions.bias >= 0) {
      operators_.RunPartGradients(
          Small(name + ".bias.grad", logits_bytes, BytesOf(experts_.count, type)), {gradient},
          {positions.bias}, positions);
    }
    tape_.Deliver(x.value, dx);
  });
  return logits;
}

void MixtureOperators::Route(const Operand& x) {
  const Value logits = Logits(x);
  const std::int64_t scores = tokens_ * experts_.count;
  const Bytes dense(scores * kFp32Size), logit_bytes = BytesOf(scores, options_.router_type);
  const std::string name(modules_.router.name);
  probabilities_ = tape_.Make(name + " probabilities", dense);
  map_ = tape_.Make(name + " map of chosen experts", Bytes(scores * kMaskSize));
  tape_.Keep(probabilities_);
  tape_.Keep(map_);
  std::int64_t launches = 1, gradient_launches = 1;
  if (!options_.fused_router) {
    launches = kRouterKernels + (experts_.groups > 0 ? kGroupKernels : 0);
    gradient_launches = kRouterGradientKernels;
    // The indices of the chosen experts, which the gradient of gather reads.
    const Value indices = tape_.Make(name + " indices of chosen experts",
                                     Bytes(tokens_ * experts_.per_token * kIndexSize));
    tape_.Keep(indices);
    tape_.Run(Small(name + ".top_k", logit_bytes, Bytes(tokens_ * experts_.per_token * kIndexSize)),
              {logits}, {indices});
    --launches;
  }
  Repeat(true, launches, Small(name + ".choose", logit_bytes, dense + Bytes(scores * kMaskSize)),
         {logits}, {probabilities_, map_});
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.MakeGradient(logits);
    Repeat(false, gradient_launches, Small(name + ".choose.dgrad", dense + dense, logit_bytes),
           {tape_.GradientOf(probabilities_), probabilities_, map_}, {gradient});
    tape_.Deliver(logits, gradient);
  });
}

}  // namespace stepcast::model

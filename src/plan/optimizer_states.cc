#include "src/plan/optimizer_states.h"

#include <algorithm>
#include <cstddef>

#include "src/plan/framework_style.h"

namespace stepcast::plan {
namespace {

constexpr std::int64_t kLeastElementsIn8Bits = 4096;
constexpr std::int64_t kBlock = 256;        // bitsandbytes since 0.44, torchao
constexpr std::int64_t kTableBytes = 1024;  // 256 values in FP32

bool IsOfTorchao(const Plan& plan) {
  return StyleOf(plan.data_parallel.framework).distributed_tensors;
}

bool IsEmbedding(const model::Model& model, int index) {
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const model::Layer& layer) {
    return layer.kind == model::LayerKind::kEmbedding &&
           std::find(layer.tensors.begin(), layer.tensors.end(), index) != layer.tensors.end();
  });
}

}  // namespace

OptimizerTensor OptimizerTensorOf(const Plan& plan, const model::Model& model, int index,
                                  std::int64_t elements) {
  OptimizerTensor seen{.elements = elements};
  if (index < 0) return seen;
  const model::Tensor& tensor = model.tensors[static_cast<std::size_t>(index)];
  const bool flattens = StyleOf(plan.data_parallel.framework).flattens;
  if (flattens && !plan.data_parallel.use_orig_params) return seen;
  seen.embedding = IsEmbedding(model, index);
  seen.of_block = tensor.of_block;
  const std::size_t dimensions = tensor.shape.size();
  if (flattens || dimensions < 2) return seen;
  seen.columns = tensor.shape[dimensions - 1];
  seen.rows = tensor.shape[dimensions - 2];
  const std::int64_t matrix = seen.rows * seen.columns;
  if (matrix == 0) return {.elements = elements, .of_block = tensor.of_block};
  if (elements < matrix) {
    seen.matrices = 1;
    seen.rows = std::max<std::int64_t>(elements / seen.columns, 1);
  } else {
    seen.matrices = elements / matrix;
  }
  return seen;
}

bool TakesMuon(const OptimizerTensor& tensor) { return tensor.of_block && tensor.matrices > 0; }

bool HasShortMoments(const Plan& plan, const OptimizerTensor& tensor) {
  if (plan.training.optimizer != Optimizer::kAdamW8bit) return false;
  if (tensor.elements < kLeastElementsIn8Bits) return false;
  return IsOfTorchao(plan) ? tensor.elements % kBlock == 0 : !tensor.embedding;
}

Bytes MomentBytes(const Plan& plan, const OptimizerTensor& tensor) {
  const Training& training = plan.training;
  const std::int64_t type = SizeOf(training.optimizer_state_dtype);
  const auto full = [&](std::int64_t moments) { return Bytes(moments * tensor.elements * type); };
  switch (training.optimizer) {
    case Optimizer::kAdamW:
    case Optimizer::kSgd:
    case Optimizer::kLamb:
    case Optimizer::kLion:
      return full(MomentsOf(training.optimizer));
    case Optimizer::kAdamW8bit: {
      if (!HasShortMoments(plan, tensor)) return full(2);
      const std::int64_t blocks = (tensor.elements + kBlock - 1) / kBlock;
      return Bytes(2 * (tensor.elements + 4 * blocks + (IsOfTorchao(plan) ? kTableBytes : 0)));
    }
    case Optimizer::kAdafactor:
      if (tensor.matrices == 0) return full(1);
      return Bytes(tensor.matrices * (tensor.rows + tensor.columns) * type);
    case Optimizer::kMuon:
      return full(TakesMuon(tensor) ? 1 : 2);
  }
  return {};
}

Bytes OptimizerStateBytes(const Plan& plan, const OptimizerTensor& tensor) {
  return MomentBytes(plan, tensor) +
         Bytes(tensor.elements * MasterBytesPerParameter(plan.training));
}

Bytes OptimizerStateBytes(const Plan& plan, const model::Model& model,
                          std::span<const int> parameters) {
  Bytes bytes;
  std::int64_t elements = 0;
  for (const int index : parameters) {
    const std::int64_t own = model.tensors[static_cast<std::size_t>(index)].elements;
    elements += own;
    bytes += OptimizerStateBytes(plan, OptimizerTensorOf(plan, model, index, own));
  }
  const bool vector =
      StyleOf(plan.data_parallel.framework).flattens && !plan.data_parallel.use_orig_params;
  return vector || HasEqualMoments(plan.training.optimizer)
             ? OptimizerStateBytes(plan, {.elements = elements})
             : bytes;
}

}  // namespace stepcast::plan

#include "src/lowering/update.h"

namespace stepcast::lowering {

void ParameterUpdate::Write(GradientClipping& clipping, std::int64_t gradient_tensors,
                            DataType type, const UpdatedTensors& updated) {
  Clip(clipping, gradient_tensors, type, updated.elements);
  Write(updated);
}

void ParameterUpdate::Write(const UpdatedTensors& updated) {
  gradients_.insert(gradients_.end(), states_.begin(), states_.end());
  WriteFrameworkUpdate(step_, training_, updated, gradients_, updates_);
}

}  // namespace stepcast::lowering

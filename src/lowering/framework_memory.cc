#include "src/lowering/framework_memory.h"

#include "src/base/bytes.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {
namespace {

using program::Category;

constexpr int kHopper = 90;

Bytes TransformerEngineWorkspace(int compute_capability) {
  return Bytes(compute_capability >= kHopper ? 32 << 20 : 4 << 20);
}

}  // namespace

void AllocateFrameworkWorkspaces(TrainingStep& step) {
  const scenario::Scenario& scenario = step.scenario();
  const auto& memory = scenario.calibration->memory;
  if (!memory || memory->gemm_workspace == Bytes(0) || step.model().is_layer_list()) return;
  const plan::Training& training = step.plan().training;
  const auto allocate = [&](const char* name, Bytes size) {
    step.builder().Allocate(step.compute(),
                            step.builder().AddBuffer(name, size, Category::kWorkspace));
  };
  const Bytes size =
      training.deterministic ? plan::kDeterministicWorkspace : memory->gemm_workspace;
  allocate("cuBLAS workspace of forward", size);
  allocate("cuBLAS workspace of backward", size);
  const int capability = scenario.gpu ? scenario.gpu->compute_capability : 0;
  if (capability > 0 && plan::HasTransformerEngine(training)) {
    allocate("Transformer Engine's workspace", TransformerEngineWorkspace(capability));
  }
}

}  // namespace stepcast::lowering

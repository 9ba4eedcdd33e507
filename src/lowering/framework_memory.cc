#include "src/lowering/framework_memory.h"

namespace stepcast::lowering {

using program::Category;

void AllocateFrameworkWorkspaces(TrainingStep& step, std::vector<StreamId> streams) {
  const auto& memory = step.scenario().calibration->memory;
  if (!memory || memory->gemm_workspace == Bytes(0) || step.model().is_layer_list()) return;
  for (const StreamId stream : streams) {
    const Index workspace =
        step.builder().AddBuffer("cuBLAS workspace", memory->gemm_workspace, Category::kWorkspace);
    step.builder().Allocate(stream, workspace);
  }
}

}  // namespace stepcast::lowering

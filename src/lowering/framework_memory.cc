#include "src/lowering/framework_memory.h"

#include <string>
#include <utility>

#include "src/lowering/optimizer.h"

namespace stepcast::lowering {

using program::BufferUse;
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

void WriteFrameworkUpdate(TrainingStep& step, std::int64_t elements,
                          std::span<const BufferUse> uses,
                          std::span<const program::Effect> updates) {
  ProgramBuilder& builder = step.builder();
  const plan::Training& training = step.plan().training;
  const Bytes temporary_size = step.model().is_layer_list()
                                   ? Bytes(0)
                                   : Bytes(elements * TemporaryBytesPerParameter(training));
  Index temporary = program::kNone;
  std::vector<BufferUse> all(uses.begin(), uses.end());
  if (temporary_size > Bytes(0)) {
    temporary = builder.AddBuffer("optimizer temporaries", temporary_size, Category::kWorkspace);
    builder.Allocate(step.compute(), temporary);
    all.push_back(builder.WritesAll(temporary));
  }
  std::vector<Kernel> kernels = UpdateKernels(step.model(), training, elements);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (i + 1 == kernels.size()) builder.With(updates);
    builder.Run(step.compute(), builder.AddKernel(std::move(kernels[i])), all);
  }
  if (temporary != program::kNone) builder.Release(temporary);
}

}  // namespace stepcast::lowering

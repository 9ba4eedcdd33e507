#include "src/lowering/framework_memory.h"

#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "src/lowering/optimizer.h"
#include "src/lowering/sized_kernel.h"

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

void WriteFrameworkUpdate(TrainingStep& step, std::span<const Amount> pieces,
                          std::span<const BufferUse> uses,
                          std::span<const program::Effect> updates) {
  ProgramBuilder& builder = step.builder();
  const plan::Training& training = step.plan().training;
  const Amount all = std::accumulate(pieces.begin(), pieces.end(), Amount());
  const bool single = training.optimizer_implementation == plan::OptimizerImplementation::kSingle &&
                      !step.model().is_layer_list();
  std::vector<Amount> parts;
  for (const Amount& elements : pieces) {
    if (single && elements.positive()) parts.push_back(elements);
  }
  if (parts.empty()) parts.push_back(all);

  const Amount cast_size = single ? all * CastGradientBytesPerParameter(training) : Amount();
  Index cast = program::kNone;
  if (cast_size.positive()) {
    cast = builder.AddSizedBuffer("FP32 gradients", cast_size, Category::kWorkspace);
    builder.Allocate(step.compute(), cast);
  }
  struct Part {
    std::vector<Index> kernels;
    Index temporary = program::kNone;
  };
  // By elements: those that are as many for every number of ranks.
  std::map<std::pair<std::int64_t, std::uint32_t>, Part> known;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto [found, added] = known.try_emplace({parts[p].value(), parts[p].formula()});
    Part& part = found->second;
    if (added) {
      for (SizedKernel& kernel : UpdateKernels(step.model(), training, parts[p])) {
        part.kernels.push_back(builder.AddSizedKernel(std::move(kernel)));
      }
      const Amount size =
          step.model().is_layer_list() ? Amount() : parts[p] * TemporaryBytesPerParameter(training);
      if (size.positive()) {
        part.temporary =
            builder.AddSizedBuffer("optimizer temporaries", size, Category::kWorkspace);
      }
    }
    if (part.temporary != program::kNone) builder.Allocate(step.compute(), part.temporary);
    for (std::size_t i = 0; i < part.kernels.size(); ++i) {
      const bool last = p + 1 == parts.size() && i + 1 == part.kernels.size();
      // One by one, the first kernel and the last name what all of them use: stream order is
      // between them.
      std::vector<BufferUse> own;
      if (!single || (p == 0 && i == 0) || last) own.assign(uses.begin(), uses.end());
      if (part.temporary != program::kNone) own.push_back(builder.WritesAll(part.temporary));
      if (cast != program::kNone) own.push_back(builder.WritesAll(cast));
      if (last) builder.With(updates);
      builder.Run(step.compute(), part.kernels[i], own);
    }
    if (part.temporary != program::kNone) builder.Release(part.temporary);
  }
  if (cast != program::kNone) builder.Release(cast);
}

}  // namespace stepcast::lowering

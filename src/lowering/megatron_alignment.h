#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/lowering/pipeline_stage.h"

namespace stepcast::lowering {

// When a stage of Megatron's interleaved pipeline sends off what its data-parallel ranks share out,
// so that all stages do so at the same moment: a pass is one step of the pipeline behind that of
// the stage before (NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py,
// `grad_sync_func` and `param_sync_func`). By pass of the stage; chunks are the stage's own.
struct MegatronAlignment {
  // Parameters: those of the first two chunks before the first forward; those of chunk q + 1
  // where the forward so many passes ahead, as there are stages before this one, is the first of
  // chunk q.
  std::vector<std::vector<std::size_t>> gathered_before;
  // Gradients: of the chunk whose last backward was so many backwards ago. Those of chunks that are
  // named nowhere go at the end.
  std::vector<std::optional<std::size_t>> reduced_after;
};
MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage);

}  // namespace stepcast::lowering

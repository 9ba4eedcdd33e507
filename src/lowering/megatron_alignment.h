#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/lowering/pipeline_stage.h"

namespace stepcast::lowering {

// When a stage of Megatron's interleaved pipeline launches data-parallel collectives, so that all
// stages launch them at the same time. Each stage is one pass behind the previous one
// (NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py, `grad_sync_func` and
// `param_sync_func`). Both tables are indexed by pass of the stage and hold the stage's own chunks.
struct MegatronAlignment {
  // Chunks whose parameters are gathered before the pass. The first two are gathered before the
  // first forward. Chunk q + 1 is gathered s passes before the first forward of chunk q, where s is
  // the number of stages before this one.
  std::vector<std::vector<std::size_t>> gathered_before;
  // The chunk whose gradients are reduced after the pass. The chunk's last backward was s backward
  // passes earlier. Chunks that do not appear here are reduced at the end.
  std::vector<std::optional<std::size_t>> reduced_after;
};
MegatronAlignment MegatronAlignmentOf(const PipelineStage& stage);

}  // namespace stepcast::lowering

#pragma once

#include <vector>

#include "src/lowering/training_step.h"

// What every real framework has in memory beside its strategy.
namespace stepcast::lowering {

// One cuBLAS workspace for each stream that runs matrix products, for the life of the process.
// Nothing without a GPU or without matrix products (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step, std::vector<StreamId> streams);

}  // namespace stepcast::lowering

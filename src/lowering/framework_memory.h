#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/formulas.h"
#include "src/lowering/training_step.h"

// What every real framework has beside its technique: library workspaces, and an optimizer step
// that needs temporaries.
namespace stepcast::lowering {

// One cuBLAS workspace for each stream that runs matrix products, for the life of the process.
// Nothing without a GPU or without matrix products (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step, std::vector<StreamId> streams);

// The optimizer's kernels over `elements` parameters on the compute stream, with the temporaries
// that they need while they run. `pieces` are the tensors, by elements, that make them up: an
// optimizer that goes one by one takes them so. `uses` are the gradients read and the states
// written; `updates` what happens to them, said of the last kernel, which writes the parameters.
void WriteFrameworkUpdate(TrainingStep& step, std::span<const Amount> pieces,
                          std::span<const program::BufferUse> uses,
                          std::span<const program::Effect> updates);

}  // namespace stepcast::lowering

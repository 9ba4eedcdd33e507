#pragma once

#include "src/model/architecture.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// The keys of a model file that describe a mixture of experts, in Hugging Face's words:
// `num_experts`, and those that mean something with it alone. `architecture` has the dimensions
// that were read before, and what its family has where keys are left out.
void ReadExperts(MappingReader& reader, model::Architecture& architecture);

}  // namespace stepcast::scenario

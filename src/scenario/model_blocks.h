#pragma once

#include "src/model/model.h"
#include "src/plan/request.h"

namespace stepcast::scenario {

// What a pipeline's stages share out of the model.
plan::ModelBlocks BlocksOf(const model::Model& model);

}  // namespace stepcast::scenario

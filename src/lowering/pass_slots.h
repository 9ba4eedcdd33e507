#pragma once

#include <vector>

#include "src/lowering/pipeline_stage.h"
#include "src/lowering/stage_messages.h"
#include "src/model/layer_work.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// What a stage sends and receives, pass by pass, as StageMessages takes it: which pass takes what
// another chunk of the stage makes, and the slots of activations and of received gradients, none of
// which holds two micro-batches at a time. `works`: of the stage's layers.
// `rank`: one of the stage's.
StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works, int rank);

}  // namespace stepcast::lowering

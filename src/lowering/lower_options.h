#pragma once

#include <vector>

#include "src/model/layer_work.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::lowering {

struct LowerOptions {
  // The rank whose program is written. Ranks with the same label have programs that differ only in
  // process groups and in the offsets of the data flow.
  int rank = 0;
  // Whether the program describes how operations change values (src/program/data_flow.h). The
  // runtime needs this description.
  bool data_flow = false;
  // The result of model::BuildWork for the scenario, if the caller already has it. Null: it is
  // computed.
  const std::vector<model::LayerWork>* works = nullptr;
  // The result of plan::ScheduleOf for the scenario's plan, if the caller already has it. Null: it
  // is computed.
  const parallel::PipelineSchedule* schedule = nullptr;
};

}  // namespace stepcast::lowering

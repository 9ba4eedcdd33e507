#pragma once

#include <vector>

#include "src/model/layer_work.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::lowering {

struct LowerOptions {
  // The rank whose program is written. Programs of ranks with the same label differ only in process
  // groups and in the offsets of the data flow.
  int rank = 0;
  // Whether the program describes how operations change values (src/program/data_flow.h), which the
  // runtime needs.
  bool data_flow = false;
  // The result of model::BuildWork for the scenario. If null, LowerRank calls BuildWork.
  const std::vector<model::LayerWork>* works = nullptr;
  // The result of plan::ScheduleOf for the scenario's plan. If null, LowerRank calls ScheduleOf.
  const parallel::PipelineSchedule* schedule = nullptr;
};

}  // namespace stepcast::lowering

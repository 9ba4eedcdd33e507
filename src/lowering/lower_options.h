#pragma once

#include <vector>

#include "src/model/layer_work.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::lowering {

struct LowerOptions {
  // The rank whose program is written. The programs of ranks with the same label differ only in
  // their process groups and in the offsets of their data flow.
  int rank = 0;
  // Describe how operations change values (src/program/data_flow.h), for the runtime.
  bool data_flow = false;
  // model::BuildWork of the scenario, if the caller already has it.
  const std::vector<model::LayerWork>* works = nullptr;
  // plan::ScheduleOf the scenario's plan, if the caller already has it.
  const parallel::PipelineSchedule* schedule = nullptr;
};

}  // namespace stepcast::lowering

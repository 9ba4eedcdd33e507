#pragma once

#include <vector>

#include "src/model/layer_work.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::lowering {

struct LowerOptions {
  // Whose program. All ranks' programs are alike but for the ranks in their process groups and the
  // offsets in their data flow.
  int rank = 0;
  // Describe what the operations do to values (src/program/data_flow.h), for the runtime.
  bool data_flow = false;
  // model::BuildWork of the scenario, where it is known already.
  const std::vector<model::LayerWork>* works = nullptr;
  // plan::ScheduleOf the scenario's plan, likewise.
  const parallel::PipelineSchedule* schedule = nullptr;
};

}  // namespace stepcast::lowering

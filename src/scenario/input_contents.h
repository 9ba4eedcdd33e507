#pragma once

#include <optional>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/scenario/document.h"
#include "src/scenario/input_cache.h"
#include "src/scenario/model_file.h"
#include "src/scenario/shared_inputs.h"
#include "src/scenario/topology_file.h"
#include "src/topology/cluster.h"

// What an InputCache holds; for the readers that fill it.
namespace stepcast::scenario {

// A file's tree, and what was wrong without keeping it from having one.
struct Document {
  std::optional<Node> root;
  Diagnostics mistakes;
};

struct InputCache::Contents {
  SharedInputs<Document> documents;
  SharedInputs<LoadedModel> models;
  SharedInputs<Topology> topologies;
  SharedInputs<topology::Cluster> clusters;
  SharedInputs<calibration::Calibration> calibrations;
  SharedInputs<parallel::PipelineSchedule> schedules;
};

}  // namespace stepcast::scenario

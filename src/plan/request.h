#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.h"

// A plan as somebody states it: only what was said. Complete() fills in the rest by the documented
// defaults; whether it can exist is legality.h.
namespace stepcast::parallel {
struct NamedSchedule;
}  // namespace stepcast::parallel

namespace stepcast::plan {

struct Request : DataParallelRequest, TrainingRequest {
  std::optional<std::int64_t> data;
  std::optional<std::int64_t> tensor;
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> expert;
  std::optional<bool> sequence_parallel;
  std::optional<std::string> schedule;
  // Of a schedule that a file lists, under whose name `schedule` has it.
  std::shared_ptr<const parallel::PipelineSchedule> listed_schedule;
  std::optional<std::int64_t> virtual_stages;
  std::optional<std::vector<std::int64_t>> stage_layers;

  std::optional<Version> torch;
  std::optional<Version> nccl;
  std::optional<bool> expandable_segments;
  std::optional<Version> driver;

  // Ranks that hold one replica: the product of the axes other than data.
  std::int64_t ranks_per_replica() const {
    return tensor.value_or(1) * pipeline.value_or(1) * context.value_or(1) * expert.value_or(1);
  }
};

// What a request says of its pipeline's schedule, with defaults.
struct RequestedSchedule {
  std::string name;
  const parallel::NamedSchedule* named = nullptr;  // nullptr: a file lists it
  std::int64_t virtual_stages = 1;                 // chunks a stage
};
RequestedSchedule ScheduleOf(const Request& request);

// The data-parallel degree: as requested, else the devices over the other axes. Nothing when they
// do not divide, or neither is known.
std::optional<std::int64_t> DataDegree(const Request& request, std::optional<std::int64_t> devices);

// The plan with every default filled in. The request must be legal (legality.h) on a cluster of
// `devices`, for a model of so many blocks.
Plan Complete(const Request& request, std::int64_t devices, std::int64_t blocks = 1);

}  // namespace stepcast::plan

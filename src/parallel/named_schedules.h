#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/parallel/pipeline_schedule.h"

// Schedules that have a name in scenario files and on command lines.
namespace stepcast::parallel {

// What a named schedule is built for.
struct ScheduleShape {
  int stages = 1, micro_batches = 1;
  int virtual_stages = 1;  // chunks a stage
  int group = 0;           // of interleaved schedules: micro-batches; 0: as many as stages
};

// Why a schedule cannot be built for a shape.
struct ShapeMistake {
  enum class Number : std::uint8_t { kStages, kMicroBatches };
  Number number = Number::kMicroBatches;  // the wrong one
  std::string sentence;                   // goes on from the schedule's name
  std::string hint;
};

struct NamedSchedule {
  std::string_view name;     // "1f1b"
  std::string_view summary;  // a line for pages of help
  // Chunks a stage; 0: as many virtual stages as one asks for.
  int chunks = 1;
  bool splits_backward = false;  // gradients of inputs and of weights have passes of their own
  // Two copies of the model, in opposite directions.
  bool two_copies = false;
  // nullptr: every shape will do.
  std::optional<ShapeMistake> (*mistake)(const ScheduleShape& shape) = nullptr;
  // Requires a shape without mistake.
  PipelineSchedule (*build)(const ScheduleShape& shape) = nullptr;

  std::optional<ShapeMistake> MistakeOf(const ScheduleShape& shape) const {
    return mistake == nullptr ? std::nullopt : mistake(shape);
  }
};

std::span<const NamedSchedule> NamedSchedules();
// nullptr: there is none of this name.
const NamedSchedule* FindSchedule(std::string_view name);
// "gpipe, 1f1b, ...": those of one copy of the model.
std::string NamesOfSchedules();

}  // namespace stepcast::parallel

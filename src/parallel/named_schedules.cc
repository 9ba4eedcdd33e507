#include "src/parallel/named_schedules.h"

#include "fmt/format.h"
#include "src/parallel/controllable_memory_schedules.h"
#include "src/parallel/zero_bubble_schedules.h"

namespace stepcast::parallel {
namespace {

using Number = ShapeMistake::Number;

// A schedule with one chunk a stage, or with a number of its own.
template <PipelineSchedule (*kBuild)(int, int)>
PipelineSchedule Of(const ScheduleShape& shape) {
  return kBuild(shape.stages, shape.micro_batches);
}
template <PipelineSchedule (*kBuild)(int, int, int)>
PipelineSchedule OfVirtualStages(const ScheduleShape& shape) {
  return kBuild(shape.stages, shape.micro_batches, shape.virtual_stages);
}

PipelineSchedule Interleaved(const ScheduleShape& shape) {
  return InterleavedOneForwardOneBackward(shape.stages, shape.micro_batches, shape.virtual_stages,
                                          shape.group);
}

std::optional<ShapeMistake> Groups(const ScheduleShape& shape) {
  const int group = shape.group == 0 ? shape.stages : shape.group;
  const int rest = shape.micro_batches % group;
  if (rest == 0 || rest >= shape.stages) return std::nullopt;
  if (group == shape.stages) {
    return ShapeMistake{Number::kMicroBatches,
                        fmt::format("runs micro-batches in groups of {}, and there are {}", group,
                                    shape.micro_batches),
                        "choose a multiple of the pipeline's stages"};
  }
  return ShapeMistake{
      Number::kMicroBatches,
      fmt::format("runs micro-batches in groups of {}, and of {} the last group has {}", group,
                  shape.micro_batches, rest),
      fmt::format("choose a multiple of {}, or what leaves {} or more", group, shape.stages)};
}

std::optional<ShapeMistake> FillsThePipeline(const ScheduleShape& shape) {
  if (shape.micro_batches >= 2 * shape.stages) return std::nullopt;
  return ShapeMistake{Number::kMicroBatches,
                      fmt::format("needs {} micro-batches or more with {} stages, and there are {}",
                                  2 * shape.stages, shape.stages, shape.micro_batches),
                      "choose more micro-batches, or zb_v"};
}

std::optional<ShapeMistake> TwoDirections(const ScheduleShape& shape) {
  if (shape.stages % 2 != 0) {
    return ShapeMistake{
        Number::kStages,
        fmt::format("takes an even number of stages, and there are {}", shape.stages),
        "choose an even number, or dualpipe_v"};
  }
  if (shape.micro_batches % 2 != 0) {
    return ShapeMistake{Number::kMicroBatches,
                        fmt::format("sends half of the micro-batches each way, and there are {}",
                                    shape.micro_batches),
                        "choose an even number"};
  }
  return FillsThePipeline(shape);
}

constexpr NamedSchedule kNamedSchedules[] = {
    {.name = "gpipe", .summary = "all forwards, then all backwards", .build = Of<GPipe>},
    {.name = "1f1b",
     .summary = "one forward and one backward by turns, after P-1-s forwards at stage s",
     .build = Of<OneForwardOneBackward>},
    {.name = "interleaved_1f1b",
     .summary = "1f1b with several chunks of layers a stage (virtual stages)",
     .chunks = 0,
     .mistake = Groups,
     .build = Interleaved},
    {.name = "breadth_first",
     .summary = "with several chunks a stage: all forwards chunk by chunk, then all backwards",
     .chunks = 0,
     .build = OfVirtualStages<BreadthFirst>},
    {.name = "zb_h1",
     .summary = "1f1b with backward in two parts; the weights' part fills the drain",
     .splits_backward = true,
     .build = Of<ZeroBubbleH1>},
    {.name = "zb_h2",
     .summary = "zb_h1 with twice the activations: equal passes leave no bubble between steps",
     .splits_backward = true,
     .build = Of<ZeroBubbleH2>},
    {.name = "zb_v",
     .summary = "zero bubble with two chunks a stage, the first and the last at stage 0",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<ZeroBubbleV>},
    {.name = "v_half",
     .summary = "zb_v's chunks, with half of 1f1b's activations and half of its bubble",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<VHalf>},
    {.name = "v_min",
     .summary = "zb_v's chunks, with a third of 1f1b's activations and two thirds of its bubble",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<VMin>},
    {.name = "dualpipe",
     .summary = "two copies of the model in opposite directions, forwards beside backwards",
     .splits_backward = true,
     .two_copies = true,
     .mistake = TwoDirections,
     .build = Of<DualPipe>},
    {.name = "dualpipe_v",
     .summary = "dualpipe with one copy, two chunks a stage as zb_v has them",
     .chunks = 2,
     .splits_backward = true,
     .mistake = FillsThePipeline,
     .build = Of<DualPipeV>},
};

}  // namespace

std::span<const NamedSchedule> NamedSchedules() { return kNamedSchedules; }

const NamedSchedule* FindSchedule(std::string_view name) {
  for (const NamedSchedule& schedule : kNamedSchedules) {
    if (schedule.name == name) return &schedule;
  }
  return nullptr;
}

std::string NamesOfSchedules() {
  std::string names;
  for (const NamedSchedule& schedule : kNamedSchedules) {
    if (!schedule.two_copies) names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  }
  return names;
}

}  // namespace stepcast::parallel

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// Pipelines with controllable memory (arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism,
// scheduler/zbv_greedy.py). Stage s has the chunks s and 2P-1-s, and backward has two parts. A
// building block defines the time slots of a micro-batch's four passes at each stage. The passes
// are the forwards of the first and the second chunk, then the input gradients of the second and
// the first chunk. The block is repeated every six slots, two of which are for weight gradients.
// The distances between the passes of a block determine the memory of a micro-batch. At the start
// and the end of the step, passes move to earlier slots if this needs no more memory.

// The schedule V-Half. V-Half needs about half of 1F1B's activations: P/2 micro-batches per stage
// plus a constant.
PipelineSchedule VHalf(int stages, int micro_batches);

// The schedule V-Min. V-Min needs about a third of 1F1B's activations, but has more idle time than
// V-Half. Passes run as closely together as dependencies allow.
PipelineSchedule VMin(int stages, int micro_batches);

// The schedules that scenario files and command lines can select by name.

// Schedules that split backward. Input gradients (I) run immediately, because the previous chunk
// waits for them. Weight gradients (W), which only the optimizer step needs, fill idle time.

// ZB-H1 (arXiv 2401.10241; also called ZB1P): the same peak activation memory as 1F1B. On stage s,
// weight gradients run s micro-batches after input gradients.
PipelineSchedule ZeroBubbleH1(int stages, int micro_batches);

// ZB-H2 (arXiv 2401.10241, section 2.2): if all passes take equally long, a stage never waits
// between its first and its last pass. Each stage needs the activations of 2P-1 micro-batches,
// nearly twice as many as with 1F1B. Stage s begins with 2(P-s)-1 forwards. On stage s, weight
// gradients run 2s micro-batches after input gradients.
PipelineSchedule ZeroBubbleH2(int stages, int micro_batches);

// ZB-V (arXiv 2401.10241, section 6; torch.distributed.pipelining's ScheduleZBVZeroBubble). Stage s
// has the chunks s and 2P-1-s, so the first stage also computes the loss.
PipelineSchedule ZeroBubbleV(int stages, int micro_batches);

// DualPipe (arXiv 2412.19437; deepseek-ai/DualPipe, dualpipe.py): two copies of the model run
// through the stages in opposite directions. Each copy trains half of the micro-batches. Stage s
// has chunk s of one copy and chunk P-1-s of the other copy. In the steady state, a forward of one
// direction and a backward of the other direction form an overlapping pair. Requires an even number
// of stages P, and an even number of micro-batches, at least 2P.
PipelineSchedule DualPipe(int stages, int micro_batches);

// DualPipeV, which is DualPipe cut in half (deepseek-ai/DualPipe, dualpipev.py). There is one copy
// of the model, whose chunks s and 2P-1-s are on stage s. Requires at least 2P micro-batches.
PipelineSchedule DualPipeV(int stages, int micro_batches);

// The parameters of a named schedule.
struct ScheduleShape {
  int stages = 1, micro_batches = 1;
  int virtual_stages = 1;  // chunks per stage
  int group = 0;  // interleaved schedules: micro-batches per group; 0: the number of stages
};

// The reason why a schedule cannot be built for a shape.
struct ShapeMistake {
  enum class Number : std::uint8_t { kStages, kMicroBatches };
  Number number = Number::kMicroBatches;  // the invalid number
  std::string sentence;                   // the reason, without the schedule's name
  std::string hint;
};

struct NamedSchedule {
  std::string_view name;     // "1f1b"
  std::string_view summary;  // one line for help pages
  // The number of chunks per stage. 0: the number of virtual stages.
  int chunks = 1;
  bool splits_backward = false;  // input and weight gradients have separate passes
  // Whether the schedule runs two copies of the model in opposite directions.
  bool two_copies = false;
  // Returns why a shape is invalid, or no value if it is valid. If the function is null, every
  // shape is valid.
  std::optional<ShapeMistake> (*mistake)(const ScheduleShape& shape) = nullptr;
  // Builds the schedule. The shape must be valid.
  PipelineSchedule (*build)(const ScheduleShape& shape) = nullptr;

  std::optional<ShapeMistake> MistakeOf(const ScheduleShape& shape) const {
    return mistake == nullptr ? std::nullopt : mistake(shape);
  }
};

std::span<const NamedSchedule> NamedSchedules();
// Returns the schedule with this name, or nullptr if no schedule has it.
const NamedSchedule* FindSchedule(std::string_view name);
// Returns the names of the schedules with one copy of the model, such as "gpipe, 1f1b, ...".
std::string NamesOfSchedules();

}  // namespace stepcast::parallel

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// Pipelines with controllable memory (arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism,
// scheduler/zbv_greedy.py): two chunks per stage, s and 2P-1-s, and a two-part backward. A building
// block states the time slots of a micro-batch's four passes at each stage, all of equal length.
// There are four passes, in this order: the forward of the first chunk, the forward of the second
// chunk, the input gradients of the second chunk, and the input gradients of the first chunk. The
// block is repeated every six slots, of which two are reserved for weight gradients. The distances
// between the passes of a block determine the memory of a micro-batch. Finally, passes before the
// first micro-batch returns, and passes after the last forward, move to earlier slots if that needs
// no more memory.

// The schedule V-Half. It needs about half of 1F1B's activations: P/2 micro-batches per stage plus
// a constant.
PipelineSchedule VHalf(int stages, int micro_batches);

// The schedule V-Min. It needs about a third of 1F1B's activations but has more idle time. Passes
// follow each other as closely as dependencies allow.
PipelineSchedule VMin(int stages, int micro_batches);

// The schedules that scenario files and command lines name.

// Schedules that split backward. Input gradients (I) run immediately, because the previous chunk
// waits for them. Weight gradients (W) are needed only for the update and fill a stage's waits.

// ZB-H1 (arXiv 2401.10241; ZB1P): 1F1B with the same peak of activations. Stage s runs the weight
// part of backward s micro-batches after the input part.
PipelineSchedule ZeroBubbleH1(int stages, int micro_batches);

// ZB-H2 (arXiv 2401.10241, section 2.2): with equal passes, a stage never waits between its first
// pass and its last. Each stage needs the activations of 2P-1 micro-batches, nearly twice as many
// as with 1F1B. Stage s begins with 2(P-s)-1 forwards and runs the weight part 2s micro-batches
// after the input part.
PipelineSchedule ZeroBubbleH2(int stages, int micro_batches);

// ZB-V (arXiv 2401.10241, section 6; torch.distributed.pipelining's ScheduleZBVZeroBubble). Stage s
// has the chunks s and 2P-1-s, so the first stage also computes the loss.
PipelineSchedule ZeroBubbleV(int stages, int micro_batches);

// DualPipe (arXiv 2412.19437; deepseek-ai/DualPipe, dualpipe.py): two copies of the model run
// through the stages in opposite directions, with half of the micro-batches each. Stage s has chunk
// s of one copy and chunk P-1-s of the other. In the steady state, a forward of one direction and a
// backward of the other form an overlapping pair. Requires an even number of stages, and an even
// number of micro-batches of at least 2P.
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
  std::string sentence;                   // continues a sentence that starts with the schedule's
                                          // name
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
  // Returns why a shape is invalid, or none if it is valid. If the function is null, every shape is
  // valid.
  std::optional<ShapeMistake> (*mistake)(const ScheduleShape& shape) = nullptr;
  // Builds the schedule. The shape must be valid.
  PipelineSchedule (*build)(const ScheduleShape& shape) = nullptr;

  std::optional<ShapeMistake> MistakeOf(const ScheduleShape& shape) const {
    return mistake == nullptr ? std::nullopt : mistake(shape);
  }
};

std::span<const NamedSchedule> NamedSchedules();
// Returns the schedule of this name, or nullptr if there is none.
const NamedSchedule* FindSchedule(std::string_view name);
// Returns the names of the schedules with one copy of the model, such as "gpipe, 1f1b, ...".
std::string NamesOfSchedules();

}  // namespace stepcast::parallel

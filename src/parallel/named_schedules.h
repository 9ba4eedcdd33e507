#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// Pipelines with controllable memory (arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism,
// scheduler/zbv_greedy.py): two chunks a stage, s and 2P-1-s, and backward in two parts. A building
// block says when a micro-batch's four passes (forward of the first chunk, of the second, gradients
// of inputs of the second, of the first) run at each stage, in slots of equal passes; it is
// repeated every six slots, two of which are left to the gradients of weights. What a micro-batch
// keeps alive follows from how long its passes are apart in the block. Passes before the first
// micro-batch has come back, and behind the last forward, then move to earlier slots where that
// needs no more memory.

// About half of 1F1B's activations: P/2 micro-batches of a stage and a constant.
PipelineSchedule VHalf(int stages, int micro_batches);

// About a third, for more idle time: passes follow each other as closely as dependencies let them.
PipelineSchedule VMin(int stages, int micro_batches);

// Schedules that have a name in scenario files and on command lines.

// Schedules that part backward: gradients of inputs (I), for which the chunk before waits, at once;
// those of weights (W), for which only the update does, where a stage would wait.

// ZB-H1 (arXiv 2401.10241; ZB1P): 1F1B with the same most activations; stage s runs the weights'
// part s micro-batches behind the inputs'.
PipelineSchedule ZeroBubbleH1(int stages, int micro_batches);

// ZB-H2 (arXiv 2401.10241, section 2.2): from a stage's first pass to its last it does not wait
// where all passes take as long, for nearly twice 1F1B's activations, 2P-1 micro-batches at every
// stage: stage s begins with 2(P-s)-1 forwards and runs the weights' part 2s micro-batches behind
// the inputs'.
PipelineSchedule ZeroBubbleH2(int stages, int micro_batches);

// ZB-V (arXiv 2401.10241, section 6; torch.distributed.pipelining's ScheduleZBVZeroBubble): stage s
// holds chunks s and 2P-1-s, so that the first stage has the loss, too.
PipelineSchedule ZeroBubbleV(int stages, int micro_batches);

// DualPipe (arXiv 2412.19437; deepseek-ai/DualPipe, dualpipe.py): two copies of the model go
// through the stages in opposite directions, half of the micro-batches each; stage s holds chunk s
// of the one and P-1-s of the other. In the steady state a forward of one direction and a backward
// of the other are a pair. Requires an even number of stages, and of micro-batches, of which there
// are at least 2P.
PipelineSchedule DualPipe(int stages, int micro_batches);

// DualPipe cut in half (deepseek-ai/DualPipe, dualpipev.py): one copy, whose chunks s and 2P-1-s
// stage s holds. Requires at least 2P micro-batches.
PipelineSchedule DualPipeV(int stages, int micro_batches);

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

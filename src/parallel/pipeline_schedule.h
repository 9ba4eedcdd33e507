#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

// Pipeline schedules as data: for each stage, the list of its passes, in order.
//
// The model's layers are divided into *chunks*, numbered in layer order: chunk 0 has the first
// layers. A *stage* (the ranks at one coordinate of the pipeline axis) has one or several chunks. A
// schedule does not list sends and receives, because they follow from the stages of neighboring
// chunks. A schedule has no durations; see schedule_check.h.
namespace stepcast::parallel {

enum class Task : std::uint8_t {
  kForward,
  kBackward,        // input and weight gradients
  kBackwardInput,   // only input gradients, for which the previous chunk waits
  kBackwardWeight,  // weight gradients, after the input gradients
};

// Returns whether the task is the last task of a micro-batch in a chunk.
constexpr bool EndsBackward(Task task) {
  return task == Task::kBackward || task == Task::kBackwardWeight;
}

// One pass of one micro-batch through one chunk.
struct Action {
  Task task = Task::kForward;
  int micro_batch = 0;
  int chunk = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

// A forward of one micro-batch and a backward (or input gradients) of another micro-batch. The
// operations of both passes are issued alternately, so that one pass computes while the other
// communicates (Megatron-Core's combined 1F1B, DualPipe).
struct OverlappedPair {
  Action forward;
  Action backward{Task::kBackward, 0, 0};
  friend bool operator==(const OverlappedPair&, const OverlappedPair&) = default;
};

// An operation on a chunk's sharded parameters or gradients, which runs between passes.
struct ParameterPass {
  enum class Kind : std::uint8_t {
    kUnshard,          // gather the parameters
    kReshard,          // free the gathered parameters
    kReduceGradients,  // reduce the step's gradients
  };
  Kind kind = Kind::kUnshard;
  int chunk = 0;
  friend bool operator==(const ParameterPass&, const ParameterPass&) = default;
};

using ScheduleEntry = std::variant<Action, OverlappedPair, ParameterPass>;

// Returns the passes of an entry in issue order: one pass, both passes of a pair (the forward
// first), or no pass for a ParameterPass.
std::vector<Action> ActionsOf(const ScheduleEntry& entry);

struct PipelineSchedule {
  struct Stage {
    std::vector<int> chunks;  // the chunks on this stage
    std::vector<ScheduleEntry> entries;
    friend bool operator==(const Stage&, const Stage&) = default;
  };
  int micro_batches = 0;
  std::vector<Stage> stages;
  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// Returns the number of chunks in the model: one more than the highest chunk number on any stage.
int Chunks(const PipelineSchedule& schedule);

// Returns whether any backward is split into two passes, one for inputs and one for weights.
bool SplitsBackward(const PipelineSchedule& schedule);

// The sequential schedule, which is gradient accumulation: one stage runs forward and backward of
// each micro-batch before the next micro-batch.
PipelineSchedule Sequential(int micro_batches);

// GPipe: all forwards, then all backwards, both starting with the first micro-batch (arXiv
// 1811.06965; backwards are in the order of torch.distributed.pipelining and Megatron-LM). With one
// micro-batch, this is naive model parallelism.
PipelineSchedule GPipe(int stages, int micro_batches);

// 1F1B: PipeDream-Flush, Megatron-LM's schedule without interleaving (arXiv 2104.04473, figure 4).
// Stage s first runs P-1-s forwards, then alternates one forward and one backward.
PipelineSchedule OneForwardOneBackward(int stages, int micro_batches);

// Interleaved 1F1B, with several chunks per stage: stage s has chunks s, s + P, s + 2P, ...
// (Megatron-LM, arXiv 2104.04473, lower half of figure 4; core/pipeline_parallel/schedules.py).
// Micro-batches run in groups of G = `group` (0: P); the last group may be smaller. In each group,
// the first chunk's passes come first, then the second chunk's, and so on. Backwards run in the
// same way, starting with the last chunk. Stage s first runs 2 (P-1-s) + (v-1) G forwards, where v
// is the number of chunks per stage. The last group must be complete or have at least P
// micro-batches; otherwise, a stage would wait for one of its own later passes.
PipelineSchedule InterleavedOneForwardOneBackward(int stages, int micro_batches, int virtual_stages,
                                                  int group = 0);

// Breadth-first pipelines (arXiv 2211.05953; torch.distributed.pipelining's ScheduleLoopedBFS).
// Chunks are on the same stages as in interleaved 1F1B. A stage runs all forwards of its first
// chunk, then all forwards of its second chunk, and so on. Backwards start with the last chunk.
PipelineSchedule BreadthFirst(int stages, int micro_batches, int virtual_stages);

// Combines each backward and the forward after it into an overlapping pair (Megatron-Core's
// combined 1F1B, core/pipeline_parallel/combined_1f1b.py). A stage has one more micro-batch in
// flight before its first pair. Only for Sequential and InterleavedOneForwardOneBackward, whose
// passes are independent. With one chunk on each of several stages, stages would wait for each
// other.
PipelineSchedule Combined(PipelineSchedule schedule);

// Functions that insert ParameterPass entries between the passes of a schedule, as in
// torch.distributed.pipelining (torch/distributed/pipelining/schedules.py, _add_unshard_reshard and
// _add_reduce_grad). A function's argument must not contain the entries that the function inserts.

// Returns the schedule with a reduction of each chunk's gradients after the last micro-batch's
// backward.
PipelineSchedule WithReductions(PipelineSchedule schedule);

// Returns the schedule with gathers and frees of parameters. Before each pass, the stage gathers
// the parameters of the next `active` chunks that it uses, and frees the parameters of all other
// chunks. At the end, the stage frees all parameters. By default, three chunks are gathered: one in
// forward, one in backward, and the next one.
PipelineSchedule WithUnshards(PipelineSchedule schedule, int active = 3);

// Finds the periodic part of a schedule. After the pipeline is filled and before it is drained,
// every stage repeats the same passes, each time for later micro-batches.

// A range [first, end) of a stage's micro-batches.
struct MicroBatchRange {
  int first = 0, end = 0;

  int size() const { return end - first; }
  friend bool operator==(const MicroBatchRange&, const MicroBatchRange&) = default;
};

// Returns, for each stage, the micro-batches whose last pass is in the periodic part of the stage's
// passes. In this part, the passes repeat, each time for micro-batches that are later by `period`.
// Passes of the schedule's first and last micro-batch, which frameworks handle differently, are
// excluded. The length of a range is a multiple of `period`; a range ends as late as possible.
// Ranges are empty if no passes repeat.
std::vector<MicroBatchRange> RepeatedMicroBatches(const PipelineSchedule& schedule, int period);

}  // namespace stepcast::parallel

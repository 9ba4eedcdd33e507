#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

// Pipeline schedules as data: for each stage of a pipeline, the list of what it computes, in order.
//
// The model's layers are cut into *chunks*, numbered in the order of the layers: chunk 0 has the
// first ones. A *stage* (the ranks at one coordinate of the pipeline axis) holds one chunk or
// several. Sends and receives are not in a schedule: they follow from which stage holds the
// neighbouring chunk. Durations are not in it either (schedule_check.h).
namespace stepcast::parallel {

enum class Task : std::uint8_t {
  kForward,
  kBackward,        // of inputs and weights together
  kBackwardInput,   // gradients of inputs alone: what the previous chunk waits for
  kBackwardWeight,  // gradients of weights, after those of inputs
};

// Of a micro-batch through a chunk nothing is left to do.
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

// A forward and a backward pass (whole, or of inputs) of two micro-batches, issued operation by
// operation in turns, so that one computes while the other communicates (Megatron-Core's combined
// 1F1B, DualPipe).
struct OverlappedPair {
  Action forward;
  Action backward{Task::kBackward, 0, 0};
  friend bool operator==(const OverlappedPair&, const OverlappedPair&) = default;
};

// What a chunk's sharded parameters and gradients do between passes.
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

// The actions of an entry, in issue order: one, two (a pair's forward first), or none.
std::vector<Action> ActionsOf(const ScheduleEntry& entry);

struct PipelineSchedule {
  struct Stage {
    std::vector<int> chunks;  // that it holds
    std::vector<ScheduleEntry> entries;
    friend bool operator==(const Stage&, const Stage&) = default;
  };
  int micro_batches = 0;
  std::vector<Stage> stages;
  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// How many chunks the model is cut into: one more than the highest that a stage holds.
int Chunks(const PipelineSchedule& schedule);

// Whether some backward comes in two passes, of inputs and of weights.
bool SplitsBackward(const PipelineSchedule& schedule);

// [chunk][micro-batch]: the stage that runs these passes, -1 where none does. With two copies of
// the model in opposite directions (DualPipe) a chunk's micro-batches run on two stages.
std::vector<std::vector<int>> StagesOfPasses(const PipelineSchedule& schedule);

// One stage, each micro-batch forward and backward before the next: gradient accumulation.
PipelineSchedule Sequential(int micro_batches);

// All forwards, then all backwards, both from the first micro-batch on (arXiv 1811.06965; order of
// backwards as torch.distributed.pipelining and Megatron-LM have it). With one micro-batch: naive
// model parallelism.
PipelineSchedule GPipe(int stages, int micro_batches);

// PipeDream-Flush, Megatron-LM's schedule without interleaving (arXiv 2104.04473, figure 4): stage
// s runs P-1-s forwards ahead, then one forward and one backward by turns.
PipelineSchedule OneForwardOneBackward(int stages, int micro_batches);

// The same with several chunks a stage: stage s holds chunks s, s + P, s + 2P, ... (Megatron-LM,
// arXiv 2104.04473, figure 4, below; core/pipeline_parallel/schedules.py). Micro-batches go in
// groups of G, the last of which may be smaller: the first chunk's passes of a group, then the
// second's, ...; backwards in the same order from the last chunk on. Stage s runs
// 2 (P-1-s) + (v-1) G forwards ahead. Requires that the last group is whole or has P micro-batches
// at least: else a stage waits for what it would run only later. `group`: G; 0: P.
PipelineSchedule InterleavedOneForwardOneBackward(int stages, int micro_batches, int virtual_stages,
                                                  int group = 0);

// Breadth-first pipelines (arXiv 2211.05953; torch.distributed.pipelining's ScheduleLoopedBFS),
// with the chunks of interleaving: all forwards of a stage's first chunk, then all of its second,
// ...; backwards from the last chunk on.
PipelineSchedule BreadthFirst(int stages, int micro_batches, int virtual_stages);

// Each backward and the forward behind it as a pair that overlaps: Megatron-Core's combined 1F1B
// (core/pipeline_parallel/combined_1f1b.py). A stage then has one more micro-batch in flight before
// its first pair, as Megatron-Core's has. Of Sequential and InterleavedOneForwardOneBackward, where
// the two do not depend on one another; stages with one chunk each would wait in turns.
PipelineSchedule Combined(PipelineSchedule schedule);

}  // namespace stepcast::parallel

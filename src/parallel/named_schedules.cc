#include "src/parallel/named_schedules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// Writes the entries of a stage with two legs, 0 and 1: chunks whose micro-batches run in order.
class Stage {
 public:
  struct Leg {
    int chunk = 0;
    int first = 0;  // micro-batch
  };
  Stage(Leg first, Leg second) : legs_{first, second} {}

  void Forward(int leg) { entries_.push_back(NextForward(leg)); }
  void Backward(int leg) { entries_.push_back(NextBackward(leg)); }
  void BackwardInput(int leg) {
    Action action = NextBackward(leg);
    action.task = Task::kBackwardInput;
    entries_.push_back(action);
    action.task = Task::kBackwardWeight;
    delayed_.push_back(action);
  }
  // The weights' part of the inputs' gradients that have waited longest: of any leg, or of one.
  void BackwardWeight() {
    entries_.push_back(delayed_.front());
    delayed_.pop_front();
  }
  void BackwardWeight(int leg) {
    const auto oldest = std::find_if(delayed_.begin(), delayed_.end(), [&](const Action& action) {
      return action.chunk == legs_[At(leg)].chunk;
    });
    entries_.push_back(*oldest);
    delayed_.erase(oldest);
  }
  void Pair(int forward, int backward) {
    const Action ahead = NextForward(forward);
    entries_.push_back(OverlappedPair{ahead, NextBackward(backward)});
  }

  int forwards(int leg) const { return forwards_[At(leg)]; }
  bool delays() const { return !delayed_.empty(); }

  PipelineSchedule::Stage Take() {
    std::vector<int> chunks{legs_[0].chunk};
    if (legs_[1].chunk != legs_[0].chunk) chunks.push_back(legs_[1].chunk);
    std::sort(chunks.begin(), chunks.end());
    return {.chunks = std::move(chunks), .entries = std::move(entries_)};
  }

 private:
  static std::size_t At(int leg) { return static_cast<std::size_t>(leg); }
  Action NextForward(int leg) {
    return {Task::kForward, legs_[At(leg)].first + forwards_[At(leg)]++, legs_[At(leg)].chunk};
  }
  Action NextBackward(int leg) {
    return {Task::kBackward, legs_[At(leg)].first + backwards_[At(leg)]++, legs_[At(leg)].chunk};
  }

  const std::array<Leg, 2> legs_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> delayed_;  // weights' parts
  std::vector<ScheduleEntry> entries_;
};

// Steps 1 to 8 of dualpipe.py and dualpipev.py. `place`: distance from the start of a leg; the legs
// meet at `places` - 1. Each leg has `count` micro-batches.
void RunDualPipe(Stage& stage, int place, int places, int count) {
  const int ahead = places - place - 1;
  for (int i = 0; i < 2 * ahead; ++i) stage.Forward(0);
  for (int i = 0; i <= place; ++i) {
    stage.Forward(0);
    stage.Forward(1);
  }
  for (int i = 0; i < ahead; ++i) {
    stage.BackwardInput(1);
    stage.BackwardWeight();
    stage.Forward(1);
  }
  for (int i = 0; i < count - 2 * places + place + 1; ++i) {
    if (i == 0 && ahead == 0) {
      // In the stage where the legs meet, the first two passes do not overlap.
      stage.Forward(0);
      stage.Backward(1);
    } else {
      stage.Pair(0, 1);
    }
    stage.Pair(1, 0);
  }
  for (int i = 0; i < ahead; ++i) {
    stage.Backward(1);
    stage.Pair(1, 0);
  }
  // From the middle on, the weights' parts are delayed.
  for (int i = 0; i < 2 * (place + 1); ++i) {
    const int leg = 1 - i % 2;
    if (i > place) {
      stage.BackwardInput(leg);
    } else {
      stage.Backward(leg);
    }
  }
  for (int i = 0; i < ahead; ++i) {
    stage.BackwardWeight();
    stage.BackwardInput(0);
  }
  while (stage.delays()) stage.BackwardWeight();
}

// Alternates one forward and the input part of one backward. From stage to stage, the forwards
// before the first backward decrease by `step`, and the waiting weight parts increase by it.
PipelineSchedule SplitOneForwardOneBackward(int stages, int micro_batches, int step) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1,
                 "a schedule must have at least one stage and one micro-batch");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int s = 0; s < stages; ++s) {
    Stage stage({s}, {s});
    const int ahead = std::min(step * (stages - 1 - s), micro_batches);
    for (int i = 0; i < ahead; ++i) stage.Forward(0);
    for (int i = 0; i < micro_batches; ++i) {
      if (ahead + i < micro_batches) stage.Forward(0);
      stage.BackwardInput(0);
      if (i >= step * s) stage.BackwardWeight();
    }
    while (stage.delays()) stage.BackwardWeight();
    schedule.stages.push_back(stage.Take());
  }
  return schedule;
}

}  // namespace

PipelineSchedule ZeroBubbleH1(int stages, int micro_batches) {
  return SplitOneForwardOneBackward(stages, micro_batches, 1);
}

PipelineSchedule ZeroBubbleH2(int stages, int micro_batches) {
  return SplitOneForwardOneBackward(stages, micro_batches, 2);
}

PipelineSchedule ZeroBubbleV(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1,
                 "a schedule must have at least one stage and one micro-batch");
  // Fewer micro-batches than fill the pipeline run like its first ones.
  const int count = std::max(2 * stages - 1, micro_batches);
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int s = 0; s < stages; ++s) {
    Stage stage({s}, {2 * stages - 1 - s});
    const auto backward = [&](int leg) {
      stage.BackwardInput(leg);
      stage.BackwardWeight(leg);
    };
    for (int i = 0; i < 2 * (stages - s) - 1; ++i) stage.Forward(0);
    for (int i = 0; i < s; ++i) {
      stage.Forward(1);
      stage.Forward(0);
    }
    for (int i = 0; i < stages - s; ++i) {
      stage.Forward(1);
      backward(1);
    }
    while (stage.forwards(1) < count) {
      if (stage.forwards(0) < count) stage.Forward(0);
      backward(0);
      stage.Forward(1);
      backward(1);
    }
    for (int i = 0; i < s; ++i) {
      stage.BackwardInput(0);
      stage.BackwardInput(1);
    }
    for (int i = 0; i < stages - s; ++i) backward(0);
    for (int i = 0; i < s; ++i) stage.BackwardWeight(1);
    while (stage.delays()) stage.BackwardWeight();
    PipelineSchedule::Stage& taken = schedule.stages.emplace_back(stage.Take());
    std::erase_if(taken.entries, [&](const ScheduleEntry& entry) {
      return std::get<Action>(entry).micro_batch >= micro_batches;
    });
  }
  return schedule;
}

PipelineSchedule DualPipe(int stages, int micro_batches) {
  STEPCAST_CHECK(stages % 2 == 0 && micro_batches % 2 == 0 && micro_batches >= 2 * stages,
                 "dualpipe needs even numbers of stages and micro-batches, and at least two "
                 "micro-batches per stage");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  const int half = micro_batches / 2;
  for (int s = 0; s < stages; ++s) {
    const Stage::Leg onwards{s, 0}, back{stages - 1 - s, half};
    const bool begins_onwards = s < stages / 2;
    Stage stage(begins_onwards ? onwards : back, begins_onwards ? back : onwards);
    RunDualPipe(stage, std::min(s, stages - 1 - s), stages / 2, half);
    schedule.stages.push_back(stage.Take());
  }
  return schedule;
}

PipelineSchedule DualPipeV(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 2 * stages,
                 "dualpipe_v needs at least two micro-batches per stage");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int s = 0; s < stages; ++s) {
    Stage stage({s}, {2 * stages - 1 - s});
    RunDualPipe(stage, s, stages, micro_batches);
    schedule.stages.push_back(stage.Take());
  }
  return schedule;
}

namespace {

using Number = ShapeMistake::Number;

// A schedule with one chunk per stage, or with its own number of chunks.
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
    return ShapeMistake{
        Number::kMicroBatches,
        fmt::format("the number of micro-batches must be a multiple of {} in this schedule, but is "
                    "{}",
                    group, shape.micro_batches),
        "use a number of micro-batches that is a multiple of the number of pipeline stages"};
  }
  return ShapeMistake{
      Number::kMicroBatches,
      fmt::format(
          "the schedule runs micro-batches in groups of {}, but with {} micro-batches, the last "
          "group has only {}",
          group, shape.micro_batches, rest),
      fmt::format(
          "use a multiple of {} micro-batches, or at least {} micro-batches in the last group",
          group, shape.stages)};
}

std::optional<ShapeMistake> FillsThePipeline(const ScheduleShape& shape) {
  if (shape.micro_batches >= 2 * shape.stages) return std::nullopt;
  return ShapeMistake{Number::kMicroBatches,
                      fmt::format("the schedule needs at least {} micro-batches if there are {} "
                                  "stages, but the number of micro-batches is {}",
                                  2 * shape.stages, shape.stages, shape.micro_batches),
                      "use more micro-batches, or the schedule zb_v"};
}

std::optional<ShapeMistake> TwoDirections(const ScheduleShape& shape) {
  if (shape.stages % 2 != 0) {
    return ShapeMistake{
        Number::kStages,
        fmt::format("the schedule needs an even number of stages, but the number of stages is "
                    "{}",
                    shape.stages),
        "use an even number of stages, or the schedule dualpipe_v"};
  }
  if (shape.micro_batches % 2 != 0) {
    return ShapeMistake{
        Number::kMicroBatches,
        fmt::format(
            "the schedule needs an even number of micro-batches, one half for each direction, but "
            "the number of micro-batches is {}",
            shape.micro_batches),
        "use an even number of micro-batches"};
  }
  return FillsThePipeline(shape);
}

constexpr NamedSchedule kNamedSchedules[] = {
    {.name = "gpipe",
     .summary = "all forward passes, then all backward passes",
     .build = Of<GPipe>},
    {.name = "1f1b",
     .summary = "stage s of P stages runs P-1-s forward passes, then alternates forward and "
                "backward passes",
     .build = Of<OneForwardOneBackward>},
    {.name = "interleaved_1f1b",
     .summary = "1f1b with several chunks of layers per stage (virtual stages)",
     .chunks = 0,
     .mistake = Groups,
     .build = Interleaved},
    {.name = "breadth_first",
     .summary = "several chunks per stage: all forward passes chunk by chunk, then all backward "
                "passes",
     .chunks = 0,
     .build = OfVirtualStages<BreadthFirst>},
    {.name = "zb_h1",
     .summary = "1f1b with separate passes for input and weight gradients; weight gradients fill "
                "the idle time at the end",
     .splits_backward = true,
     .build = Of<ZeroBubbleH1>},
    {.name = "zb_h2",
     .summary = "zb_h1 with twice the activations; if all passes take equal time, a stage never "
                "waits between its passes",
     .splits_backward = true,
     .build = Of<ZeroBubbleH2>},
    {.name = "zb_v",
     .summary = "zero bubble with two chunks per stage; stage 0 has the model's first and last "
                "chunk",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<ZeroBubbleV>},
    {.name = "v_half",
     .summary = "the same chunks as zb_v, half of 1f1b's activations and half of its bubble",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<VHalf>},
    {.name = "v_min",
     .summary =
         "the same chunks as zb_v, one third of 1f1b's activations and two thirds of its bubble",
     .chunks = 2,
     .splits_backward = true,
     .build = Of<VMin>},
    {.name = "dualpipe",
     .summary = "two copies of the model in opposite directions; forward passes overlap backward "
                "passes",
     .splits_backward = true,
     .two_copies = true,
     .mistake = TwoDirections,
     .build = Of<DualPipe>},
    {.name = "dualpipe_v",
     .summary = "dualpipe with one copy of the model, and two chunks per stage (the same chunks as "
                "zb_v)",
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

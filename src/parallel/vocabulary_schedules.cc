#include "src/parallel/vocabulary_schedules.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/parallel/controllable_memory_schedules.h"

namespace stepcast::parallel {
namespace {

using Part = VocabularyPass::Part;

// The list of one stage; passes are appended in the order of micro-batches, and none behind the
// last.
class StageList {
 public:
  StageList(PipelineSchedule::Stage& stage, int chunk, int micro_batches)
      : stage_(stage), chunk_(chunk), micro_batches_(micro_batches) {}

  void Forward() { Append(Task::kForward, forwards_); }
  void Backward() { Append(Task::kBackward, backwards_); }
  void InputForward() { Append(Part::kE, inputs_); }
  void InputGradients() { Append(Part::kG, input_gradients_); }
  // S of a micro-batch, and before it T of the one before.
  void Output() {
    if (outputs_ > 0) Append(Part::kT, output_gradients_);
    Append(Part::kS, outputs_);
  }
  // Both of one.
  void WholeOutput() {
    Append(Part::kS, outputs_);
    Append(Part::kT, output_gradients_);
  }
  void Rest() {
    while (backwards_ < micro_batches_) Backward();
    while (output_gradients_ < micro_batches_) Append(Part::kT, output_gradients_);
    while (input_gradients_ < micro_batches_) InputGradients();
  }

  int outputs() const { return outputs_; }
  int backwards() const { return backwards_; }

 private:
  void Append(Task task, int& count) {
    if (count < micro_batches_) stage_.entries.push_back(Action{task, count++, chunk_});
  }
  void Append(Part part, int& count) {
    if (count < micro_batches_) stage_.entries.push_back(VocabularyPass{part, count++});
  }

  PipelineSchedule::Stage& stage_;
  const int chunk_, micro_batches_;
  int forwards_ = 0, backwards_ = 0, outputs_ = 0, output_gradients_ = 0;
  int inputs_ = 0, input_gradients_ = 0;
};

// By stage: whether S stands between a backward and the next forward, or behind that forward; and
// how many S come before the first backward beside those of the last stage. From stage to stage
// upwards a backward begins two slots later and a forward ends one earlier, so that every third
// stage has its forward first.
struct OutputPlaces {
  std::vector<bool> behind_backward;
  std::vector<int> ahead;
};
OutputPlaces PlacesOfOutputs(int stages) {
  constexpr int kForward = 1, kBackward = 2;  // slots
  std::vector<bool> behind{true};             // from the last stage upwards
  int offset = 0;
  while (static_cast<int>(behind.size()) < stages) {
    if (offset - kForward >= -kBackward) {
      offset -= kForward;
    } else {
      behind.push_back(false);
      offset += kBackward - kForward;
    }
    behind.push_back(true);
  }
  behind.resize(static_cast<std::size_t>(stages));
  OutputPlaces places;
  places.ahead.assign(behind.size(), 0);
  for (std::size_t up = 1; up < behind.size(); ++up) {
    const bool same = !behind[up - 1] && behind[up];
    places.ahead[up] = places.ahead[up - 1] + (same ? 0 : 1);
  }
  std::reverse(behind.begin(), behind.end());
  std::reverse(places.ahead.begin(), places.ahead.end());
  places.behind_backward = std::move(behind);
  return places;
}

PipelineSchedule Empty(int stages, int micro_batches, bool gradients_in_t) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1, "a schedule has stages and micro-batches");
  PipelineSchedule schedule{
      .micro_batches = micro_batches, .stages = {}, .gradients_in_t = gradients_in_t};
  for (int stage = 0; stage < stages; ++stage) {
    schedule.stages.push_back({.chunks = {stage}, .entries = {}});
  }
  return schedule;
}

PipelineSchedule OneForwardOneBackwardWith(bool gradients_in_t, int stages, int micro_batches) {
  PipelineSchedule schedule = Empty(stages, micro_batches, gradients_in_t);
  const OutputPlaces places = PlacesOfOutputs(stages);
  const int more = gradients_in_t ? 1 : 0;
  for (int s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    StageList list(schedule.stages[at], s, micro_batches);
    const int all_ahead = places.ahead.front() + more;
    // Of S and what goes with it.
    const auto output = [&] {
      const int before = list.outputs();
      list.Output();
      if (before >= all_ahead && before > 0) list.InputForward();
    };
    for (int i = 0; i <= s; ++i) list.InputForward();
    for (int i = 0; i < stages - s; ++i) {
      list.InputForward();
      list.Forward();
    }
    list.Output();
    if (gradients_in_t) list.InputForward();
    list.Forward();
    if (gradients_in_t) {
      list.Output();
      list.Forward();
    }
    for (int i = 0; i < places.ahead[at]; ++i) output();
    while (list.backwards() < micro_batches) {
      const bool gradients = list.outputs() >= all_ahead + 2;
      list.Backward();
      if (!places.behind_backward[at]) list.Forward();
      output();
      if (gradients) list.InputGradients();
      if (places.behind_backward[at]) list.Forward();
    }
    list.Rest();
  }
  return schedule;
}

PipelineSchedule Interlaced(int stages, int micro_batches) {
  PipelineSchedule schedule = Empty(stages, micro_batches, true);
  for (int s = 0; s < stages; ++s) {
    StageList list(schedule.stages[static_cast<std::size_t>(s)], s, micro_batches);
    const int ahead = std::min(stages * 3 / 2 - s, micro_batches);
    const int outputs_first = std::min(stages - s, micro_batches);
    const int backwards_first = std::max(0, ahead - outputs_first - (stages - s - 1) / 2);
    // Of S and T and what goes with them.
    const auto output = [&] {
      const int before = list.outputs();
      if (before >= micro_batches) return;
      list.WholeOutput();
      if (before >= stages - 1) list.InputForward();
      if (before >= stages + 1) list.InputGradients();
    };
    for (int i = 0; i <= s; ++i) list.InputForward();
    for (int i = 0; i < ahead; ++i) {
      list.InputForward();
      list.Forward();
    }
    for (int i = 0; i < outputs_first; ++i) output();
    for (int i = 0; i < backwards_first; ++i) {
      list.Backward();
      output();
    }
    const bool forward_first = s % 2 == stages % 2;
    for (int i = 0; i < micro_batches - ahead; ++i) {
      if (forward_first) list.Forward();
      list.Backward();
      if (!forward_first) list.Forward();
      output();
    }
    while (list.outputs() < micro_batches) {
      list.Backward();
      output();
    }
    list.Rest();
  }
  return schedule;
}

}  // namespace

std::optional<PipelineSchedule> ScheduleWithVocabulary(std::string_view name, Vocabulary vocabulary,
                                                       int stages, int micro_batches) {
  if (!HasSchedule(name, vocabulary)) return std::nullopt;
  const bool first = vocabulary == Vocabulary::kVocab1;
  if (name == "1f1b") {
    return vocabulary == Vocabulary::kInterlaced
               ? Interlaced(stages, micro_batches)
               : OneForwardOneBackwardWith(first, stages, micro_batches);
  }
  return VHalfWithVocabulary(stages, micro_batches, first);
}

bool HasSchedule(std::string_view name, Vocabulary vocabulary) {
  if (vocabulary == Vocabulary::kEnds) return false;
  return name == "1f1b" || (name == "v_half" && vocabulary != Vocabulary::kInterlaced);
}

std::string_view SchedulesWith(Vocabulary vocabulary) {
  if (vocabulary == Vocabulary::kInterlaced) return "1f1b";
  return vocabulary == Vocabulary::kEnds ? "" : "1f1b, v_half";
}

}  // namespace stepcast::parallel

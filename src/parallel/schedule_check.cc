#include "src/parallel/schedule_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::parallel {
namespace {

std::size_t AsIndex(int number) { return static_cast<std::size_t>(number); }

}  // namespace

ScheduleDependencies::ScheduleDependencies(const PipelineSchedule& schedule)
    : schedule_(&schedule),
      chunks_(Chunks(schedule)),
      passes_(AsIndex(chunks_) * AsIndex(schedule.micro_batches)) {
  const auto exists = [&](const Action& action) {
    return action.chunk >= 0 && action.chunk < chunks_ && action.micro_batch >= 0 &&
           action.micro_batch < schedule.micro_batches;
  };
  for (int stage = 0; stage < static_cast<int>(schedule.stages.size()); ++stage) {
    const std::vector<ScheduleEntry>& entries = schedule.stages[AsIndex(stage)].entries;
    for (int entry = 0; entry < static_cast<int>(entries.size()); ++entry) {
      for (const Action& action : ActionsOf(entries[AsIndex(entry)])) {
        if (!exists(action) || action.task == Task::kBackwardWeight) continue;
        Passes& passes = passes_[AsIndex(action.chunk) * AsIndex(schedule.micro_batches) +
                                 AsIndex(action.micro_batch)];
        (action.task == Task::kForward ? passes.forward : passes.backward) = {stage, entry};
      }
    }
  }
}

const ScheduleDependencies::Passes& ScheduleDependencies::At(int chunk, int micro_batch) const {
  return passes_[AsIndex(chunk) * AsIndex(schedule_->micro_batches) + AsIndex(micro_batch)];
}

void ScheduleDependencies::Add(const Action& action, std::vector<EntryAt>& needed) const {
  const auto add = [&](EntryAt at) {
    if (at.entry >= 0) needed.push_back(at);
  };
  const Passes& own = At(action.chunk, action.micro_batch);
  switch (action.task) {
    case Task::kForward:
      if (action.chunk > 0) add(At(action.chunk - 1, action.micro_batch).forward);
      return;
    case Task::kBackward:
    case Task::kBackwardInput:
      add(own.forward);
      if (action.chunk + 1 < chunks_) add(At(action.chunk + 1, action.micro_batch).backward);
      return;
    case Task::kBackwardWeight:
      add(own.backward);
      return;
  }
}

std::vector<EntryAt> ScheduleDependencies::Of(EntryAt at) const {
  std::vector<EntryAt> needed;
  const ScheduleEntry& entry = schedule_->stages[AsIndex(at.stage)].entries[AsIndex(at.entry)];
  for (const Action& action : ActionsOf(entry)) Add(action, needed);
  return needed;
}

std::vector<EntryAt> RunOrder(const PipelineSchedule& schedule,
                              const ScheduleDependencies& dependencies) {
  std::vector<EntryAt> order;
  std::vector<int> done(schedule.stages.size());  // [stage] entries that have run
  const auto has_run = [&](const EntryAt& at) { return at.entry < done[AsIndex(at.stage)]; };
  // Stages take turns, each as far as it can go, until none can.
  for (bool running = true; running;) {
    running = false;
    for (int stage = 0; stage < static_cast<int>(schedule.stages.size()); ++stage) {
      int& next = done[AsIndex(stage)];
      while (next < static_cast<int>(schedule.stages[AsIndex(stage)].entries.size())) {
        const std::vector<EntryAt> needed = dependencies.Of({stage, next});
        if (!std::all_of(needed.begin(), needed.end(), has_run)) break;
        order.push_back({stage, next++});
        running = true;
      }
    }
  }
  return order;
}

namespace {

constexpr int kTasks = 4;
// Limit on reported mistakes.
constexpr std::size_t kMostMistakes = 20;

class Checker {
 public:
  explicit Checker(const PipelineSchedule& schedule)
      : schedule_(schedule), chunks_(Chunks(schedule)) {
    for (const PipelineSchedule::Stage& stage : schedule.stages) {
      held_.emplace_back(stage.chunks.begin(), stage.chunks.end());
    }
  }

  std::vector<ScheduleMistake> Run() {
    CheckChunks();
    CountPasses();
    if (mistakes_.empty()) CheckComplete();
    if (mistakes_.empty()) CheckOrder();
    return std::move(mistakes_);
  }

 private:
  // Numbers may far exceed the lists' lengths, so tables only hold the existing ones.
  struct Passes {  // of a micro-batch at a chunk
    std::array<int, kTasks> count{};
    int stage = -1;
  };

  int stages() const { return static_cast<int>(schedule_.stages.size()); }
  const ScheduleEntry& At(const EntryAt& at) const {
    return schedule_.stages[AsIndex(at.stage)].entries[AsIndex(at.entry)];
  }
  // Returns "F3", or "F3 of chunk 7" if the stage's number does not determine the chunk.
  std::string Name(const Action& action, int stage) const {
    const bool told = schedule_.stages[AsIndex(stage)].chunks == std::vector<int>{action.chunk};
    return told ? Print(action, action.chunk)
                : fmt::format("{} of chunk {}", Print(action, action.chunk), action.chunk);
  }
  void Add(int stage, int entry, std::string sentence) {
    mistakes_.push_back({stage, entry, std::move(sentence)});
  }

  bool Enough() const { return mistakes_.size() >= kMostMistakes; }

  void CheckChunks() {
    std::set<int> held;
    for (int stage = 0; stage < stages(); ++stage) {
      const std::vector<int>& chunks = schedule_.stages[AsIndex(stage)].chunks;
      held.insert(chunks.begin(), chunks.end());
      if (chunks.empty()) Add(stage, -1, fmt::format("stage {} has no chunk of the model", stage));
    }
    for (int chunk = 0; chunk < chunks_ && !Enough(); ++chunk) {
      if (held.contains(chunk)) continue;
      Add(0, -1, fmt::format("no stage has chunk {} of {}", chunk, chunks_));
    }
  }

  bool Exists(int micro_batch, const EntryAt& at) {
    if (micro_batch >= 0 && micro_batch < schedule_.micro_batches) return true;
    Add(at.stage, at.entry,
        fmt::format("micro-batch {} does not exist; numbers start at 0 and must be below {}",
                    micro_batch, schedule_.micro_batches));
    return false;
  }

  bool Holds(int chunk, const EntryAt& at) {
    if (held_[AsIndex(at.stage)].contains(chunk)) return true;
    Add(at.stage, at.entry, fmt::format("stage {} does not have chunk {}", at.stage, chunk));
    return false;
  }

  void CountPasses() {
    for (int stage = 0; stage < stages(); ++stage) {
      const int entries = static_cast<int>(schedule_.stages[AsIndex(stage)].entries.size());
      for (int entry = 0; entry < entries && !Enough(); ++entry) CountEntry({stage, entry});
    }
  }

  void CountEntry(const EntryAt& at) {
    const ScheduleEntry& entry = At(at);
    if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
      const bool overlap =
          pair->forward.task == Task::kForward &&
          (pair->backward.task == Task::kBackward || pair->backward.task == Task::kBackwardInput);
      if (!overlap) {
        Add(at.stage, at.entry,
            fmt::format("two overlapping passes must be one forward pass and "
                        "one backward pass: {}",
                        Print(entry, -1)));
        return;
      }
    }
    for (const Action& action : ActionsOf(entry)) CountAction(action, at);
    if (const auto* pass = std::get_if<ParameterPass>(&entry)) Holds(pass->chunk, at);
  }

  void CountAction(const Action& action, const EntryAt& at) {
    const bool held = Holds(action.chunk, at);
    if (!Exists(action.micro_batch, at) || !held) return;
    Passes& passes = passes_[{action.chunk, action.micro_batch}];
    const auto count = [&](Task task) { return passes.count[static_cast<std::size_t>(task)]; };
    const bool whole = action.task == Task::kBackward;
    const bool part = action.task == Task::kBackwardInput || action.task == Task::kBackwardWeight;
    if (count(action.task) > 0) {
      Add(at.stage, at.entry, fmt::format("{} occurs twice", Name(action, at.stage)));
    } else if ((whole && count(Task::kBackwardInput) + count(Task::kBackwardWeight) > 0) ||
               (part && count(Task::kBackward) > 0)) {
      Add(at.stage, at.entry,
          fmt::format("micro-batch {} has both a full backward pass (B) of chunk {} and a split "
                      "backward pass (I, W)",
                      action.micro_batch, action.chunk));
    } else if (passes.stage >= 0 && passes.stage != at.stage) {
      Add(at.stage, at.entry,
          fmt::format("{} is on stage {}, but other passes of the same micro-batch and chunk are "
                      "on stage {}",
                      Name(action, at.stage), at.stage, passes.stage));
    } else {
      passes.stage = at.stage;
    }
    ++passes.count[static_cast<std::size_t>(action.task)];
  }

  // The stage that should have the pass: the one with the micro-batch's other passes, else the
  // first that holds the chunk.
  int Home(int chunk, const Passes& passes) const {
    if (passes.stage >= 0) return passes.stage;
    for (int stage = 0; stage < stages(); ++stage) {
      const std::vector<int>& chunks = schedule_.stages[AsIndex(stage)].chunks;
      if (std::find(chunks.begin(), chunks.end(), chunk) != chunks.end()) return stage;
    }
    return 0;
  }

  void CheckComplete() {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      for (int i = 0; i < schedule_.micro_batches && !Enough(); ++i) {
        const auto found = passes_.find({chunk, i});
        const Passes passes = found == passes_.end() ? Passes() : found->second;
        const auto require = [&](Task task) {
          if (passes.count[static_cast<std::size_t>(task)] > 0) return;
          const int stage = Home(chunk, passes);
          Add(stage, -1, fmt::format("stage {} has no {}", stage, Name({task, i, chunk}, stage)));
        };
        const bool parts = passes.count[static_cast<std::size_t>(Task::kBackwardInput)] +
                               passes.count[static_cast<std::size_t>(Task::kBackwardWeight)] >
                           0;
        require(Task::kForward);
        if (parts) {
          require(Task::kBackwardInput);
          require(Task::kBackwardWeight);
        } else {
          require(Task::kBackward);
        }
      }
    }
  }

  void CheckOrder() {
    const ScheduleDependencies dependencies(schedule_);
    std::vector<int> done(AsIndex(stages()));
    for (const EntryAt& at : RunOrder(schedule_, dependencies)) ++done[AsIndex(at.stage)];
    // A blocked stage waits for an entry of another stage, which is therefore blocked too.
    const auto awaited = [&](int stage) {
      for (const EntryAt& needed : dependencies.Of({stage, done[AsIndex(stage)]})) {
        if (needed.entry >= done[AsIndex(needed.stage)]) return needed;
      }
      return EntryAt{stage, done[AsIndex(stage)]};
    };
    int stage = 0;
    while (stage < stages() &&
           done[AsIndex(stage)] ==
               static_cast<int>(schedule_.stages[AsIndex(stage)].entries.size())) {
      ++stage;
    }
    if (stage == stages()) return;
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), stage) == path.end()) {
      path.push_back(stage);
      stage = awaited(stage).stage;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), stage));
    std::string sentence;
    for (const int at : path) {
      const EntryAt needed = awaited(at);
      if (path.size() == 1) {
        sentence = fmt::format("stage {}: {} depends on {}, but does not come after it", at,
                               Text({at, done[AsIndex(at)]}), Text(needed));
        break;
      }
      sentence += fmt::format("{}stage {} at {} waits for {} of stage {}",
                              sentence.empty() ? "the stages wait for each other in a "
                                                 "cycle: "
                                               : ", ",
                              at, Text({at, done[AsIndex(at)]}), Text(needed), needed.stage);
    }
    Add(path.front(), done[AsIndex(path.front())], sentence);
  }

  std::string Text(const EntryAt& at) const {
    const std::vector<int>& chunks = schedule_.stages[AsIndex(at.stage)].chunks;
    return Print(At(at), chunks.size() == 1 ? chunks.front() : -1);
  }

  const PipelineSchedule& schedule_;
  int chunks_;
  std::vector<std::set<int>> held_;               // chunks by stage
  std::map<std::pair<int, int>, Passes> passes_;  // [chunk, micro-batch]
  std::vector<ScheduleMistake> mistakes_;
};

}  // namespace

std::vector<ScheduleMistake> CheckSchedule(const PipelineSchedule& schedule) {
  return Checker(schedule).Run();
}

std::optional<ScheduleMistake> MessageOutOfOrder(const PipelineSchedule& schedule) {
  const int chunks = Chunks(schedule);
  std::vector<int> home(AsIndex(chunks));
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const int chunk : schedule.stages[stage].chunks)
      home[AsIndex(chunk)] = static_cast<int>(stage);
  }
  struct Taken {
    Action action;  // that takes it
    int entry = -1;
  };
  // By sender, receiver and direction: in the sender's order, and in the receiver's.
  std::map<std::tuple<int, int, bool>, std::vector<Taken>> sent, taken;
  for (int stage = 0; stage < static_cast<int>(schedule.stages.size()); ++stage) {
    const std::vector<ScheduleEntry>& entries = schedule.stages[AsIndex(stage)].entries;
    for (int entry = 0; entry < static_cast<int>(entries.size()); ++entry) {
      for (const Action& action : ActionsOf(entries[AsIndex(entry)])) {
        if (action.task == Task::kBackwardWeight) continue;
        const bool onwards = action.task == Task::kForward;
        const int to = action.chunk + (onwards ? 1 : -1), from = action.chunk - (onwards ? 1 : -1);
        if (to >= 0 && to < chunks && home[AsIndex(to)] != stage) {
          sent[{stage, home[AsIndex(to)], onwards}].push_back(
              {{Task::kForward, action.micro_batch, to}});
        }
        if (from >= 0 && from < chunks && home[AsIndex(from)] != stage) {
          taken[{home[AsIndex(from)], stage, onwards}].push_back({action, entry});
        }
      }
    }
  }
  for (const auto& [leg, order] : taken) {
    const std::vector<Taken>& in_order = sent.at(leg);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Action& action = order[i].action;
      const Action& next = in_order[i].action;
      if (action.micro_batch == next.micro_batch && action.chunk == next.chunk) continue;
      const auto [from, stage, onwards] = leg;
      return ScheduleMistake{
          stage, order[i].entry,
          fmt::format("stage {} expects micro-batch {} for chunk {} from stage {}, but that stage "
                      "first sends micro-batch {} for chunk {}",
                      stage, action.micro_batch, action.chunk, from, next.micro_batch, next.chunk)};
    }
  }
  return std::nullopt;
}

std::vector<int> MostInFlight(const PipelineSchedule& schedule) {
  std::vector<int> most;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    int now = 0;
    int highest = 0;
    for (const ScheduleEntry& entry : stage.entries) {
      const std::vector<Action> actions = ActionsOf(entry);
      for (const Action& action : actions) now += action.task == Task::kForward ? 1 : 0;
      highest = std::max(highest, now);
      for (const Action& action : actions) {
        now -= action.task == Task::kBackward || action.task == Task::kBackwardWeight ? 1 : 0;
      }
    }
    most.push_back(highest);
  }
  return most;
}

std::vector<WaitingPasses> MostWaiting(const PipelineSchedule& schedule) {
  const auto chunks = static_cast<std::size_t>(Chunks(schedule));
  std::vector<WaitingPasses> most;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    WaitingPasses highest{.chunk = 0, .forwards = std::vector<int>(chunks)};
    std::vector<int> now(chunks);
    int all = 0, highest_all = -1;
    for (const ScheduleEntry& entry : stage.entries) {
      const std::vector<Action> actions = ActionsOf(entry);
      // The backward of a pair first: its forward need not have kept anything yet.
      for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
        int& own = now[static_cast<std::size_t>(action->chunk)];
        if (action->task == Task::kForward) {
          ++own;
          ++all;
        } else if (action->task != Task::kBackwardWeight) {
          --own;
          if (--all > highest_all) {
            highest_all = all;
            highest = {.chunk = action->chunk, .forwards = now};
          }
        }
      }
    }
    most.push_back(std::move(highest));
  }
  return most;
}

}  // namespace stepcast::parallel

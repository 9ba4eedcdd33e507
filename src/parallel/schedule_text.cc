#include "src/parallel/schedule_text.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace stepcast::parallel {
namespace {

constexpr std::pair<Task, char> kLetters[] = {{Task::kForward, 'F'},
                                              {Task::kBackward, 'B'},
                                              {Task::kBackwardInput, 'I'},
                                              {Task::kBackwardWeight, 'W'}};

struct ParameterWord {
  ParameterPass::Kind kind;
  std::string_view word;
};
constexpr ParameterWord kParameterWords[] = {{ParameterPass::Kind::kUnshard, "unshard"},
                                             {ParameterPass::Kind::kReshard, "reshard"},
                                             {ParameterPass::Kind::kReduceGradients, "reduce"}};

std::string ActionText(const Action& action, int stage_chunk) {
  std::string text = fmt::format("{}{}", Letter(action.task), action.micro_batch);
  if (action.chunk != stage_chunk) text += fmt::format(".{}", action.chunk);
  return text;
}

}  // namespace

char Letter(Task task) {
  for (const auto& [one, letter] : kLetters) {
    if (one == task) return letter;
  }
  return '?';
}

std::optional<Task> TaskOf(char letter) {
  for (const auto& [task, one] : kLetters) {
    if (one == letter) return task;
  }
  return std::nullopt;
}

std::string Print(const ScheduleEntry& entry, int stage_chunk) {
  if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
    return ActionText(pair->forward, stage_chunk) + "+" + ActionText(pair->backward, stage_chunk);
  }
  if (const auto* pass = std::get_if<ParameterPass>(&entry)) {
    const auto* word =
        std::find_if(std::begin(kParameterWords), std::end(kParameterWords),
                     [&](const ParameterWord& one) { return one.kind == pass->kind; });
    std::string text(word->word);
    if (pass->chunk != stage_chunk) text += fmt::format(".{}", pass->chunk);
    return text;
  }
  return ActionText(std::get<Action>(entry), stage_chunk);
}

std::string Print(const PipelineSchedule& schedule) {
  std::string text;
  for (std::size_t number = 0; number < schedule.stages.size(); ++number) {
    const PipelineSchedule::Stage& stage = schedule.stages[number];
    text += fmt::format("stage {}", number);
    const bool own = stage.chunks == std::vector<int>{static_cast<int>(number)};
    if (!own) {
      text += " holds";
      for (const int chunk : stage.chunks) text += fmt::format(" {}", chunk);
    }
    text += ":";
    for (const ScheduleEntry& entry : stage.entries) {
      text += " " + Print(entry, own ? stage.chunks.front() : -1);
    }
    text += "\n";
  }
  return text;
}

}  // namespace stepcast::parallel

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/parallel/schedule_text.h"
#include "src/report/answer.h"
#include "src/report/dumps.h"

namespace stepcast::report {
namespace {

using parallel::Action;
using parallel::ScheduleEntry;
using parallel::ScheduleTiming;
using parallel::Task;

constexpr std::string_view kLeftOut = " ... ";

// Background colors (of 256) on which black text is readable; -1: none.
int TerminalColour(const ScheduleEntry& entry) {
  const auto* action = std::get_if<Action>(&entry);
  if (action == nullptr) return 214;
  switch (action->task) {
    case Task::kForward:
      return 75;
    case Task::kBackward:
    case Task::kBackwardInput:
      return 176;
    case Task::kBackwardWeight:
      return 79;
  }
  return -1;
}

// The slots that are drawn: all, or the first and the last ones.
struct Window {
  std::int64_t head = 0;
  std::int64_t tail = 0;  // first of the last slots
  std::int64_t slots = 0;
  bool whole() const { return head == slots; }
};

Window ShownSlots(std::int64_t slots, std::int64_t columns_of_slot, std::int64_t columns) {
  if (slots * columns_of_slot <= columns) return {slots, slots, slots};
  const std::int64_t room = columns - static_cast<std::int64_t>(kLeftOut.size());
  const std::int64_t shown = std::max<std::int64_t>(2, room / columns_of_slot);
  return {shown - shown / 2, slots - shown / 2, slots};
}

// The columns of the drawn slots, with backgrounds.
class StageLine {
 public:
  StageLine(const Window& window, std::int64_t columns_of_slot)
      : window_(window),
        columns_of_slot_(columns_of_slot),
        letters_(
            static_cast<std::size_t>((window.head + window.slots - window.tail) * columns_of_slot),
            ' '),
        colours_(letters_.size(), -1) {}

  // If a slot has several columns, the last one stays free.
  void Draw(ScheduleTiming::Span span, std::string_view label, int colour, char fill) {
    const std::int64_t begin = span.begin * columns_of_slot_;
    const std::int64_t end =
        std::min(span.end, window_.slots) * columns_of_slot_ - (columns_of_slot_ > 1 ? 1 : 0);
    const std::int64_t head = window_.head * columns_of_slot_;
    const std::int64_t tail = window_.tail * columns_of_slot_;
    for (std::int64_t at = begin; at < end; ++at) {
      if (at >= head && at < tail) at = std::min(tail, end);
      if (at >= end) return;
      const auto column = static_cast<std::size_t>(at < tail ? at : at - (tail - head));
      const auto letter = static_cast<std::size_t>(at - begin);
      letters_[column] = letter < label.size() ? label[letter] : fill;
      colours_[column] = colour;
    }
  }

  std::string Text(bool colour) const {
    const auto head = static_cast<std::size_t>(window_.head * columns_of_slot_);
    std::string text = Columns(0, head, colour);
    if (!window_.whole()) text += std::string(kLeftOut) + Columns(head, letters_.size(), colour);
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  std::string Columns(std::size_t begin, std::size_t end, bool colour) const {
    const std::string letters = letters_.substr(begin, end - begin);
    if (!colour) return letters;
    return OnColours(letters, {colours_.begin() + static_cast<std::ptrdiff_t>(begin),
                               colours_.begin() + static_cast<std::ptrdiff_t>(end)});
  }

  Window window_;
  std::int64_t columns_of_slot_;
  std::string letters_;
  std::vector<int> colours_;
};

// The numbers of slots at their beginnings, if there is space.
StageLine Scale(const Window& window, std::int64_t columns_of_slot) {
  constexpr std::int64_t kApart = 8;
  std::int64_t step = 1;
  for (int i = 0; step * columns_of_slot < kApart; ++i) step = i % 3 == 1 ? step * 5 / 2 : step * 2;
  StageLine row(window, columns_of_slot);
  const auto label = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = (begin + step - 1) / step * step; slot < end; slot += step) {
      const std::string number = fmt::format("{}", slot);
      const auto columns = static_cast<std::int64_t>(number.size());
      const std::int64_t slots = (columns + columns_of_slot) / columns_of_slot;
      if (slot == 0 || slot + slots <= end) row.Draw({slot, slot + slots}, number, -1, ' ');
    }
  };
  label(0, window.head);
  label(window.tail, window.slots);
  return row;
}

// The label of an entry: "F3", or one letter, in lower case for chunks after the stage's first.
std::string Label(const ScheduleEntry& entry, const std::vector<int>& chunks, bool numbers) {
  if (numbers) return parallel::Print(entry, chunks.size() == 1 ? chunks.front() : -1);
  if (std::holds_alternative<parallel::OverlappedPair>(entry)) return "+";
  std::string letter = parallel::Print(entry, -1).substr(0, 1);
  const auto* action = std::get_if<Action>(&entry);
  const bool other = action != nullptr && action->chunk != chunks.front();
  if (other) letter.front() = static_cast<char>(std::tolower(letter.front()));
  return letter;
}

// The legend of drawn entries; passes that take no slot are not drawn.
std::string Legend(const parallel::PipelineSchedule& schedule, const ScheduleTiming& timing,
                   bool numbers) {
  constexpr std::pair<char, const char*> kLetters[] = {{'F', "forward"},
                                                       {'B', "backward"},
                                                       {'I', "backward of inputs"},
                                                       {'W', "backward of weights"},
                                                       {'+', "both passes, overlapped"}};
  std::string letters;
  bool chunks = false;
  for (std::size_t number = 0; number < schedule.stages.size(); ++number) {
    const parallel::PipelineSchedule::Stage& stage = schedule.stages[number];
    chunks = chunks || stage.chunks.size() > 1;
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      const ScheduleEntry& entry = stage.entries[i];
      if (timing.spans[number][i].begin == timing.spans[number][i].end) continue;
      for (const Action& action : parallel::ActionsOf(entry)) {
        letters += parallel::Letter(action.task);
      }
      if (std::holds_alternative<parallel::OverlappedPair>(entry)) letters += '+';
    }
  }
  std::string legend;
  for (const auto& [letter, meaning] : kLetters) {
    if (letters.find(letter) == std::string::npos) continue;
    legend += fmt::format("{}{} {}", legend.empty() ? "" : "   ", letter, meaning);
  }
  if (numbers)
    return legend + (chunks ? "   with micro-batch.chunk\n" : "   with the micro-batch\n");
  return legend + (chunks ? "   lowercase: another chunk of the stage\n" : "\n");
}

// The number of columns per slot at which all labels fit.
std::int64_t ColumnsOfSlot(const parallel::PipelineSchedule& schedule,
                           const ScheduleTiming& timing) {
  std::int64_t columns = 2;
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (std::size_t i = 0; i < schedule.stages[stage].entries.size(); ++i) {
      const std::int64_t slots = timing.spans[stage][i].end - timing.spans[stage][i].begin;
      if (slots == 0) continue;
      const std::string label =
          Label(schedule.stages[stage].entries[i], schedule.stages[stage].chunks, true);
      const auto needed = static_cast<std::int64_t>(label.size()) + 1;
      columns = std::max(columns, (needed + slots - 1) / slots);
    }
  }
  return columns;
}

}  // namespace

std::string ScheduleDrawing(const parallel::PipelineSchedule& schedule,
                            const ScheduleTiming& timing, const TerminalStyle& style) {
  const std::size_t name_width = fmt::format("stage {}", schedule.stages.size() - 1).size();
  const std::int64_t beside = static_cast<std::int64_t>(name_width) + 2;
  const std::int64_t columns = style.width - beside;
  const std::int64_t with_numbers = ColumnsOfSlot(schedule, timing);
  const bool numbers = timing.slots * with_numbers <= columns;
  const std::int64_t columns_of_slot = numbers ? with_numbers : 1;
  const Window window = ShownSlots(timing.slots, columns_of_slot, columns);

  std::string out;
  for (std::size_t number = 0; number < schedule.stages.size(); ++number) {
    const parallel::PipelineSchedule::Stage& stage = schedule.stages[number];
    StageLine row(window, columns_of_slot);
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      row.Draw(timing.spans[number][i], Label(stage.entries[i], stage.chunks, numbers),
               TerminalColour(stage.entries[i]), style.colour ? ' ' : '-');
    }
    out += fmt::format("{:<{}}  {}\n", fmt::format("stage {}", number), name_width,
                       row.Text(style.colour));
  }
  out +=
      fmt::format("{:<{}}  {}\n", "slot", name_width, Scale(window, columns_of_slot).Text(false));
  out += Legend(schedule, timing, numbers);
  if (!window.whole()) {
    out += fmt::format("slots {} to {} are not shown: all {} slots need {} columns\n", window.head,
                       window.tail - 1, timing.slots, timing.slots + beside);
  }
  if (!numbers) {
    out += fmt::format("the numbers of micro-batches are not shown: they need {} columns\n",
                       timing.slots * with_numbers + beside);
  }
  return out;
}

namespace {

std::string Slots(std::int64_t slots) {
  return fmt::format("{} slot{}", slots, slots == 1 ? "" : "s");
}

std::string Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-"
                    : Decimal(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1);
}

std::int64_t Whole(const parallel::PassDurations& durations) {
  return durations.Of(parallel::Action{parallel::Task::kBackward, 0, 0});
}

}  // namespace

AnswerTable ScheduleStages(const TimedSchedule& timed) {
  const ScheduleTiming& timing = timed.timing;
  AnswerTable table{{{"stage", "stage"},
                     {"chunks", "chunks", Align::kLeft},
                     {"in flight", "in_flight"},
                     {"busy", "busy_slots"},
                     {"idle", "idle_slots"},
                     {"idle %", ""},
                     {"", "actions"}}};
  for (std::size_t number = 0; number < timed.schedule.stages.size(); ++number) {
    const parallel::PipelineSchedule::Stage& stage = timed.schedule.stages[number];
    Json actions = Json::array();
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      actions.push_back(Json{
          {"action",
           parallel::Print(stage.entries[i], stage.chunks.size() == 1 ? stage.chunks.front() : -1)},
          {"begin", timing.spans[number][i].begin},
          {"end", timing.spans[number][i].end}});
    }
    table.Add({Plain(number), Cell(fmt::format("{}", fmt::join(stage.chunks, " ")), stage.chunks),
               Plain(timed.in_flight[number]), timing.slots - timing.idle[number],
               timing.idle[number], Share(timing.idle[number], timing.slots), std::move(actions)});
  }
  return table;
}

namespace {

std::int64_t Idle(const ScheduleTiming& timing) {
  return std::accumulate(timing.idle.begin(), timing.idle.end(), std::int64_t{0});
}

}  // namespace

double TimedSchedule::bubble() const {
  const auto all = static_cast<double>(timing.slots) * static_cast<double>(schedule.stages.size());
  return all > 0 ? static_cast<double>(Idle(timing)) / all : 0;
}

std::string ScheduleText(const TimedSchedule& schedule, const TerminalStyle& style) {
  const parallel::ScheduleTiming& timing = schedule.timing;
  const std::size_t stages = schedule.schedule.stages.size();
  std::string text = fmt::format(
      "{}: {} stage{}, {} micro-batch{}; forward {}, backward {} ({} of inputs, {} of "
      "weights)\n\n",
      schedule.name, stages, stages == 1 ? "" : "s", schedule.schedule.micro_batches,
      schedule.schedule.micro_batches == 1 ? "" : "es", Slots(schedule.durations.forward),
      Whole(schedule.durations), schedule.durations.backward_input,
      schedule.durations.backward_weight);
  text += ScheduleDrawing(schedule.schedule, timing, style);

  const std::int64_t idle = Idle(timing);
  const std::int64_t all = timing.slots * static_cast<std::int64_t>(stages);
  text += fmt::format(
      "\n{}\nstep of {}; bubble {} % of the step, {} % of the computing time\nin flight: the "
      "maximum number of micro-batches whose activations a stage stores at once\n",
      ScheduleStages(schedule).Text(), Slots(timing.slots), Share(idle, all),
      Share(idle, all - idle));
  return text;
}

std::string ScheduleJson(const TimedSchedule& schedule) {
  const parallel::ScheduleTiming& timing = schedule.timing;
  Json durations{{"forward", schedule.durations.forward},
                 {"backward_input", schedule.durations.backward_input},
                 {"backward_weight", schedule.durations.backward_weight}};
  return Text(Json{{"stepcast", 1},
                   {"schedule", schedule.name},
                   {"micro_batches", schedule.schedule.micro_batches},
                   {"durations", std::move(durations)},
                   {"slots", timing.slots},
                   {"bubble", schedule.bubble()},
                   {"stages", ScheduleStages(schedule).ToJson()}});
}

}  // namespace stepcast::report

#include "src/formats/schedule_csv.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/formats/csv_table.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::formats {
namespace {

using parallel::Action;
using parallel::OverlappedPair;
using parallel::ParameterPass;
using parallel::PipelineSchedule;
using parallel::ScheduleEntry;
using parallel::Task;

constexpr std::string_view kOverlap = "OVERLAP_F_B";

struct ParameterWord {
  ParameterPass::Kind kind;
  std::string_view word;
};
constexpr ParameterWord kParameterWords[] = {
    {ParameterPass::Kind::kUnshard, "UNSHARD"},
    {ParameterPass::Kind::kReshard, "RESHARD"},
    {ParameterPass::Kind::kReduceGradients, "REDUCE_GRAD"}};

// Removes and returns a nonnegative number at the beginning of the text.
std::optional<int> TakeNumber(std::string_view& text) {
  constexpr int kHighest = 999'999'999;
  int number = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kHighest) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Action> ReadAction(std::string_view text) {
  const std::optional<int> chunk = TakeNumber(text);
  if (!chunk || text.empty()) return std::nullopt;
  const std::optional<Task> task = parallel::TaskOf(text.front());
  if (!task) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<int> micro_batch = TakeNumber(text);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Action{*task, *micro_batch, *chunk};
}

// "(0F1;3B0)OVERLAP_F_B"
std::optional<ScheduleEntry> ReadPair(std::string_view text) {
  const std::size_t middle = text.find(';'), end = text.find(')');
  if (!text.starts_with('(') || middle == text.npos || end == text.npos || end < middle ||
      text.substr(end + 1) != kOverlap) {
    return std::nullopt;
  }
  const auto forward = ReadAction(text.substr(1, middle - 1));
  const auto backward = ReadAction(text.substr(middle + 1, end - middle - 1));
  if (!forward || !backward) return std::nullopt;
  return OverlappedPair{*forward, *backward};
}

std::optional<ScheduleEntry> ReadEntry(std::string_view text) {
  if (text.starts_with('(')) return ReadPair(text);
  if (const std::optional<Action> action = ReadAction(text)) return *action;
  const std::optional<int> chunk = TakeNumber(text);
  for (const ParameterWord& word : kParameterWords) {
    if (chunk && text == word.word) return ParameterPass{word.kind, *chunk};
  }
  return std::nullopt;
}

Diagnostic WrongCell(const CsvCell& cell) {
  const bool communication =
      cell.text.find("SEND_") != std::string::npos || cell.text.find("RECV_") != std::string::npos;
  return {"schedule.action", cell.location,
          fmt::format("the cell is not an action of a schedule: {}", Quoted(cell.text)),
          communication ? "remove sends and receives (PyTorch's format compute_only), because "
                          "stepcast derives them from the schedule"
                        : "write the chunk, the action and the micro-batch: 0F3, 0B3, 0I3, 0W3, "
                          "(0F4;7B0)OVERLAP_F_B, 0UNSHARD, 0RESHARD or 0REDUCE_GRAD"};
}

std::string Text(const Action& action) {
  return fmt::format("{}{}{}", action.chunk, parallel::Letter(action.task), action.micro_batch);
}

std::string Text(const ScheduleEntry& entry) {
  if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
    return fmt::format("({};{}){}", Text(pair->forward), Text(pair->backward), kOverlap);
  }
  if (const auto* pass = std::get_if<ParameterPass>(&entry)) {
    const auto* word =
        std::find_if(std::begin(kParameterWords), std::end(kParameterWords),
                     [&](const ParameterWord& one) { return one.kind == pass->kind; });
    return fmt::format("{}{}", pass->chunk, word->word);
  }
  STEPCAST_CHECK(std::holds_alternative<Action>(entry),
                 "the format must support every action of the schedule");
  return Text(std::get<Action>(entry));
}

}  // namespace

Result<PipelineSchedule> ParseScheduleCsv(std::string_view text, const std::string& file) {
  auto rows = ParseCsvRows(text, file);
  if (!rows) return tl::make_unexpected(std::move(rows.error()));
  PipelineSchedule schedule;
  std::vector<std::vector<Location>> locations;  // [stage][entry]
  Diagnostics mistakes;
  for (const std::vector<CsvCell>& row : *rows) {
    if (mistakes.size() >= kMostShownFaults) break;
    PipelineSchedule::Stage stage;
    std::set<int> chunks;
    locations.emplace_back();
    for (const CsvCell& cell : row) {
      if (cell.text.empty()) continue;
      const std::optional<ScheduleEntry> entry = ReadEntry(cell.text);
      if (!entry) {
        mistakes.push_back(WrongCell(cell));
        if (mistakes.size() >= kMostShownFaults) break;
        continue;
      }
      for (const Action& action : parallel::ActionsOf(*entry)) {
        schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
        chunks.insert(action.chunk);
      }
      stage.entries.push_back(*entry);
      locations.back().push_back(cell.location);
    }
    stage.chunks.assign(chunks.begin(), chunks.end());
    schedule.stages.push_back(std::move(stage));
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  if (schedule.micro_batches == 0) {
    return tl::make_unexpected(Diagnostics{{"schedule.not-runnable",
                                            {file, 0, 0},
                                            "the schedule has no actions",
                                            "write a row for each rank: '0F0,0B0'"}});
  }
  for (parallel::ScheduleMistake& mistake : parallel::CheckSchedule(schedule)) {
    const auto stage = static_cast<std::size_t>(mistake.stage);
    const Location row = (*rows)[stage].front().location;
    mistakes.push_back(
        {"schedule.not-runnable",
         mistake.entry < 0 ? Location{file, row.line, 1}
                           : locations[stage][static_cast<std::size_t>(mistake.entry)],
         "the schedule cannot run: " + mistake.sentence,
         mistakes.empty() ? "correct the order of the actions; for a valid example, run stepcast "
                            "schedule --stages 2 --micro-batches 4 --print csv"
                          : ""});
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  return schedule;
}

std::string ScheduleCsv(const PipelineSchedule& schedule) {
  std::string text;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      if (i > 0) text += ",";
      text += Text(stage.entries[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace stepcast::formats

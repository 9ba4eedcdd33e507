#include "src/report/sweep_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/report/json.h"
#include "src/report/table.h"
#include "src/report/training_report.h"

namespace stepcast::report {
namespace {

using forecast::TrainingTarget;
using planner::RowStatus;
using planner::SweepGrid;
using planner::SweepRow;

// Explanations of the columns.
constexpr const char* kFigures =
    "exposed: communication that does not overlap computation; sent: bytes that a rank sends per "
    "step; left: free memory of a device, after reserved memory and memory outside of the "
    "allocator (context, NCCL); peak: allocated memory; accumulated: micro-batches per rank\n";

// Keys that rows may have in addition to their values (planner::SweepRow::added).
constexpr const char* kDevices = "cluster.devices";

// "KEY=VALUE, ..."
std::string SettingsText(const SweepGrid& grid, std::int64_t index, const SweepRow& row) {
  std::string text;
  for (const auto& [key, value] : planner::SettingsOf(grid, index, row)) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

// "shortest step: FIGURE with KEY=VALUE, ..."
std::string Named(const char* what, const std::string& figure, const SweepGrid& grid,
                  std::int64_t index, const SweepRow& row) {
  return fmt::format("{}: {} with {}\n", what, figure, SettingsText(grid, index, row));
}

// The best row for each number of GPUs, if there are several numbers.
std::string SizesText(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                      const TrainingTarget& target) {
  std::vector<SizeRow> sizes;
  for (const std::int64_t index : FastestByGpus(rows)) {
    const SweepRow& row = rows[static_cast<std::size_t>(index)];
    sizes.push_back({StepOf(row), row.tokens_per_second_per_gpu, SettingsText(grid, index, row)});
  }
  std::string text = SizesText(target, std::move(sizes));
  return text.empty() ? "" : text + "\n";
}

std::string Summary(const SweepGrid& grid, const std::vector<SweepRow>& rows) {
  const std::int64_t too_large = Count(rows, RowStatus::kDoesNotFit);
  std::string out =
      fmt::format("{} {}: {} ok, {} {} not fit, {} illegal\n", Grouped(grid.rows()),
                  grid.rows() == 1 ? "combination" : "combinations",
                  Grouped(Count(rows, RowStatus::kOk)), Grouped(too_large),
                  too_large == 1 ? "does" : "do", Grouped(Count(rows, RowStatus::kIllegal)));
  const std::optional<std::int64_t> best = Fastest(rows);
  if (!best) return out;
  const bool unequal = planner::UnequalTokens(rows);
  const auto row = [&](std::int64_t index) -> const SweepRow& {
    return rows[static_cast<std::size_t>(index)];
  };
  if (unequal) {
    out += Named("least time per token", TimeForAToken(row(*best)), grid, *best, row(*best));
    out +=
        "(the combinations have different numbers of tokens per step, so the training differs)\n";
  } else {
    out += Named("shortest step", FormatTime(row(*best).step_time), grid, *best, row(*best));
  }
  const std::int64_t busiest = MostTokensPerGpu(rows, *best);
  if (busiest == *best) return out;
  return out + Named("most tokens/s per GPU", Decimal(row(busiest).tokens_per_second_per_gpu, 1),
                     grid, busiest, row(busiest));
}

// The row fits on the devices, but not in a node's memory or drives.
bool LacksInItsNode(const SweepRow& row) {
  return row.status == RowStatus::kDoesNotFit && row.needed() <= row.capacity;
}

Bytes Free(const SweepRow& row) { return std::max(Bytes(0), row.capacity - row.needed()); }

// A note that explains a row's figures.
std::string NoteOf(const SweepRow& row) {
  return row.status == RowStatus::kIllegal || LacksInItsNode(row) ? Reason(row) : "";
}

// The distinct notes of all rows.
std::vector<std::string> NotesOf(const std::vector<SweepRow>& rows) {
  std::vector<std::string> notes;
  std::unordered_set<std::string> known;
  for (const SweepRow& row : rows) {
    std::string note = NoteOf(row);
    if (!note.empty() && known.insert(note).second) notes.push_back(std::move(note));
  }
  return notes;
}

// The status; a row that may not fit says so, since its step time is uncertain.
const char* StatusText(const SweepRow& row) {
  const bool doubtful =
      row.status == RowStatus::kOk && row.verdict == forecast::MemoryVerdict::kMayNotFit;
  return doubtful ? Name(row.verdict) : Name(row.status);
}

std::string TableText(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                      const std::vector<std::string>& notes, const TrainingTarget& target) {
  const RowFigures figures(rows, target);
  std::unordered_map<std::string, std::size_t> numbers;
  for (const std::string& note : notes) numbers.emplace(note, numbers.size() + 1);
  AnswerTable table;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<Figure> row = figures.Of(grid, i, StatusText(rows[i]));
    if (!notes.empty()) {
      const std::string note = NoteOf(rows[i]);
      row.push_back({{"", "", Align::kLeft},
                     note.empty() ? std::string() : fmt::format("[{}]", numbers.at(note))});
    }
    table.AddFigures(std::move(row));
  }
  return table.Text();
}

// A figure of a row in JSON and CSV.
struct RowFigure {
  const char* key;
  Json (*value)(const SweepRow& row);  // null: there is none
  bool of_illegal = false;             // also present for illegal combinations
};

constexpr RowFigure kRowFigures[] = {
    {"status", [](const SweepRow& row) { return Json(Name(row.status)); }, true},
    {"reason", [](const SweepRow& row) { return Json(Reason(row)); }, true},
    {"step_time_s", [](const SweepRow& row) { return Json(JsonSeconds(row.step_time)); }},
    {"tokens_per_s_per_gpu",
     [](const SweepRow& row) { return Json(row.tokens_per_second_per_gpu); }},
    {"peak_bytes", [](const SweepRow& row) { return Json(row.peak.count()); }},
    {"fits", [](const SweepRow& row) { return Json(row.status == RowStatus::kOk); }},
    {"reserved_bytes", [](const SweepRow& row) { return Json(row.reserved.count()); }},
    {"outside_bytes", [](const SweepRow& row) { return Json(row.outside.count()); }},
    {"capacity_bytes", [](const SweepRow& row) { return Json(row.capacity.count()); }},
    {"free_bytes", [](const SweepRow& row) { return Json(Free(row).count()); }},
    {"tokens", [](const SweepRow& row) { return Json(row.tokens); }},
    {"verdict", [](const SweepRow& row) { return Json(Name(row.verdict)); }},
    {"fit_probability", [](const SweepRow& row) { return Json(row.fit_probability); }},
    {"gpus", [](const SweepRow& row) { return Json(row.gpus); }},
    {"global_batch_size", [](const SweepRow& row) { return Json(row.global_batch_size); }},
    {"gradient_accumulation", [](const SweepRow& row) { return Json(row.gradient_accumulation); }},
    {"mfu", [](const SweepRow& row) { return Cell(row.mfu).value; }},
    {"wire_bytes_per_rank", [](const SweepRow& row) { return Json(row.wire_bytes_per_rank); }},
    {"exposed_communication_s",
     [](const SweepRow& row) { return Cell(row.exposed_communication).value; }},
};

Json ValueOf(const RowFigure& figure, const SweepRow& row) {
  const bool there = figure.of_illegal || row.status != RowStatus::kIllegal;
  return there ? figure.value(row) : Json();
}

Json ToJson(const SweepGrid& grid, std::int64_t index, const SweepRow& row,
            const TrainingTarget& target) {
  Json json{{"set", SetJson(planner::SettingsOf(grid, index, row))}};
  for (const RowFigure& figure : kRowFigures) json[figure.key] = ValueOf(figure, row);
  for (const Figure& figure : TrainingFigures(target, StepOf(row))) {
    json[figure.column.key] = row.status == RowStatus::kIllegal ? Json() : figure.cell.value;
  }
  return json;
}

}  // namespace

std::int64_t Count(const std::vector<SweepRow>& rows, RowStatus status) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const SweepRow& row) { return row.status == status; });
}

planner::TimePerToken TimePerTokenOf(const SweepRow& row) {
  return planner::TimePerToken::Of(row.step_time, row.tokens);
}

forecast::TrainedStep StepOf(const SweepRow& row) { return {row.step_time, row.tokens, row.gpus}; }

double NanosecondsPerToken(const SweepRow& row) {
  constexpr double kPicoseconds = 1e3;
  return TimePerTokenOf(row).picoseconds() / kPicoseconds;
}

std::string TimeForAToken(const SweepRow& row) {
  return fmt::format("{} ns ({} for {} tokens)", Decimal(NanosecondsPerToken(row), 1),
                     FormatTime(row.step_time), Grouped(row.tokens));
}

std::optional<std::int64_t> Fastest(const std::vector<SweepRow>& rows) {
  std::optional<std::int64_t> best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].status != RowStatus::kOk) continue;
    if (!best || TimePerTokenOf(rows[i]) < TimePerTokenOf(rows[static_cast<std::size_t>(*best)])) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

std::int64_t MostTokensPerGpu(const std::vector<SweepRow>& rows, std::int64_t best) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].status == RowStatus::kOk &&
        rows[i].tokens_per_second_per_gpu >
            rows[static_cast<std::size_t>(best)].tokens_per_second_per_gpu) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

std::vector<std::int64_t> FastestByGpus(const std::vector<SweepRow>& rows) {
  std::map<std::int64_t, std::int64_t> best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].status != RowStatus::kOk) continue;
    const auto index = static_cast<std::int64_t>(i);
    const auto [known, first] = best.emplace(rows[i].gpus, index);
    const SweepRow& other = rows[static_cast<std::size_t>(known->second)];
    if (!first && TimePerTokenOf(rows[i]) < TimePerTokenOf(other)) known->second = index;
  }
  std::vector<std::int64_t> indices;
  for (const auto& [gpus, index] : best) indices.push_back(index);
  return indices;
}

std::string Reason(const planner::SweepRow& row) {
  if (row.status == RowStatus::kDoesNotFit) {
    return LacksInItsNode(row)
               ? fmt::format("needs {} more host memory or drive space than the node has",
                             FormatBytes(row.over))
               : fmt::format("needs {} more memory than the device has", FormatBytes(row.over));
  }
  std::string reason;
  for (const Diagnostic& fault : row.faults) {
    if (!reason.empty()) reason += "; ";
    reason += fault.message;
  }
  return reason;
}

std::string ShortName(const SweepGrid& grid, std::size_t axis) {
  const auto last = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  const std::string name = last(grid.axes()[axis].key);
  for (std::size_t i = 0; i < grid.axes().size(); ++i) {
    if (i != axis && last(grid.axes()[i].key) == name) return grid.axes()[axis].key;
  }
  return name;
}

std::string Left(ByteUnit unit, const SweepRow& row) {
  return SignedIn(unit, row.capacity - row.needed());
}

RowFigures::RowFigures(const std::vector<SweepRow>& rows, const TrainingTarget& target)
    : rows_(rows), unit_(UnitFor(rows)), unequal_(planner::UnequalTokens(rows)), target_(target) {
  const auto any = [&](const auto& holds) {
    return std::any_of(rows.begin(), rows.end(), [&](const SweepRow& row) {
      return row.status != RowStatus::kIllegal && holds(row);
    });
  };
  double most = 0;
  for (const SweepRow& row : rows) most = std::max(most, row.wire_bytes_per_rank);
  wire_ = UnitFor(most);
  mfu_ = any([](const SweepRow& row) { return row.mfu.has_value(); });
  exposed_ = any([](const SweepRow& row) { return row.exposed_communication.has_value(); });
}

std::vector<Figure> RowFigures::Of(const SweepGrid& grid, std::size_t index,
                                   std::string status) const {
  const SweepRow& row = rows_[index];
  std::vector<Figure> figures;
  for (std::size_t axis = 0; axis < grid.axes().size(); ++axis) {
    figures.push_back({{ShortName(grid, axis), "", Align::kLeft},
                       grid.Value(static_cast<std::int64_t>(index), axis)});
  }
  figures.push_back({{"status", "", Align::kLeft}, std::move(status)});
  const std::size_t first = figures.size();
  const auto add = [&](std::string heading, Cell cell, bool spare = false) {
    figures.push_back({{std::move(heading), "", Align::kRight, spare}, std::move(cell)});
  };
  const auto in_unit = [&](const char* what) { return fmt::format("{} {}", what, unit_.name); };
  if (unequal_) add("tokens/step", row.tokens, true);
  add("step ms", row.step_time);
  if (unequal_) add("ns/token", Fixed(NanosecondsPerToken(row), 1));
  add("tokens/s/GPU", Fixed(row.tokens_per_second_per_gpu, 1));
  if (mfu_) add("MFU %", row.mfu ? PerCent(*row.mfu) : "-", true);
  if (exposed_) add("exposed ms", row.exposed_communication, true);
  add(fmt::format("sent {}", wire_.name), In(wire_, row.wire_bytes_per_rank), true);
  add(in_unit("left"), Left(unit_, row));
  for (Figure& figure : TrainingFigures(target_, StepOf(row))) figures.push_back(std::move(figure));
  add(in_unit("peak"), Amount(unit_, row.peak), true);
  add(in_unit("needs"), Amount(unit_, row.needed()), true);
  add("batch", row.global_batch_size, true);
  add("accumulated", row.gradient_accumulation, true);
  if (row.status == RowStatus::kIllegal) {
    for (std::size_t i = first; i < figures.size(); ++i) figures[i].cell = Cell("-", Json());
  }
  return figures;
}

ByteUnit UnitFor(const std::vector<SweepRow>& rows) {
  Bytes most;
  for (const SweepRow& row : rows) most = std::max({most, row.peak, row.needed()});
  return UnitFor(most);
}

std::string SweepText(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                      const TrainingTarget& target) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  const std::vector<std::string> notes = NotesOf(rows);
  std::string out = TableText(grid, rows, notes, target) + "\n";
  for (std::size_t i = 0; i < notes.size(); ++i) {
    out += fmt::format("{:<4} {}\n", fmt::format("[{}]", i + 1), notes[i]);
  }
  if (!notes.empty()) out += "\n";
  if (Count(rows, RowStatus::kIllegal) < grid.rows()) {
    out += fmt::format("{}\n", kFigures);
  }
  const auto partly = std::count_if(rows.begin(), rows.end(),
                                    [](const SweepRow& row) { return !row.added.empty(); });
  if (partly > 0) {
    out += fmt::format(
        "{} {} only a part of the topology's GPUs ({}=plan), and tokens/s/GPU includes only used "
        "GPUs.\n",
        Grouped(partly), partly == 1 ? "combination uses" : "combinations use", kDevices);
  }
  if (target.said()) out += fmt::format("training: {}\n\n", TargetText(target));
  return out + SizesText(grid, rows, target) + Summary(grid, rows);
}

std::string SweepCsv(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                     const TrainingTarget& target) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  std::vector<std::string> fields;
  for (const planner::SweepAxis& axis : grid.axes()) fields.push_back(axis.key);
  const bool partly =
      std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return !row.added.empty(); });
  if (partly) fields.emplace_back(kDevices);
  for (const RowFigure& figure : kRowFigures) fields.emplace_back(figure.key);
  for (const Figure& figure : TrainingFigures(target, {})) fields.push_back(figure.column.key);
  std::string out = CsvRecord(fields);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    const bool illegal = row.status == RowStatus::kIllegal;
    fields.clear();
    for (auto& [key, value] : grid.Row(static_cast<std::int64_t>(i))) {
      fields.push_back(std::move(value));
    }
    if (partly) fields.push_back(row.added.empty() ? "" : row.added.front().second);
    for (const RowFigure& figure : kRowFigures) fields.push_back(ValueOf(figure, row).Field());
    for (const Figure& figure : TrainingFigures(target, StepOf(row))) {
      fields.push_back(illegal ? "" : figure.cell.value.dump());
    }
    out += CsvRecord(fields);
  }
  return out;
}

std::string SweepJson(const SweepGrid& grid, const std::vector<SweepRow>& rows, double seconds,
                      std::int64_t known, const TrainingTarget& target) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  Json array = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    array.push_back(ToJson(grid, static_cast<std::int64_t>(i), rows[i], target));
  }
  Json by_gpus = Json::array();
  for (const std::int64_t index : FastestByGpus(rows)) {
    by_gpus.push_back({{"gpus", rows[static_cast<std::size_t>(index)].gpus}, {"row", index}});
  }
  const std::int64_t simulated = grid.rows() - Count(rows, RowStatus::kIllegal);
  return Text(
      Json{{"stepcast", 1},
           {"rows", std::move(array)},
           {"training", TargetJson(target)},
           {"by_gpus", std::move(by_gpus)},
           {"run", {{"simulated", simulated}, {"from_store", known}, {"seconds", seconds}}}});
}

std::string SweepJsonLines(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                           const TrainingTarget& target) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += Line(ToJson(grid, static_cast<std::int64_t>(i), rows[i], target));
  }
  return out;
}

}  // namespace stepcast::report

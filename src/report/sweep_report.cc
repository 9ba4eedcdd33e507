#include "src/report/sweep_report.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
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

// "shortest step: FIGURE with KEY=VALUE, ..."
std::string Named(const char* what, const std::string& figure, const SweepGrid& grid,
                  std::int64_t index, const SweepRow& row) {
  return fmt::format("{}: {} with {}\n", what, figure, SettingsText(grid, index, row));
}

// The fastest fitting row for each number of GPUs, in ascending order.
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

// The rows for programs. In JSON, `set` has all settings of a row; in CSV, each setting is a field.
AnswerTable ForPrograms(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                        const TrainingTarget& target, bool csv) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  const bool partly =
      std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return !row.added.empty(); });
  AnswerTable table;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    const auto index = static_cast<std::int64_t>(i);
    std::vector<Figure> figures;
    const auto add = [&](std::string key, Cell cell, bool of_illegal = false) {
      const bool there = of_illegal || row.status != RowStatus::kIllegal;
      figures.push_back({{"", std::move(key)}, there ? std::move(cell) : Cell(Json())});
    };
    if (!csv) add("set", SetJson(planner::SettingsOf(grid, index, row)), true);
    if (csv) {
      for (auto& [key, value] : grid.Row(index)) add(key, value, true);
      if (partly) add(kDevices, row.added.empty() ? "" : row.added.front().second, true);
    }
    add("status", Name(row.status), true);
    add("reason", Reason(row), true);
    add("step_time_s", row.step_time);
    add("tokens_per_s_per_gpu", row.tokens_per_second_per_gpu);
    add("peak_bytes", row.peak.count());
    add("fits", row.status == RowStatus::kOk);
    add("reserved_bytes", row.reserved.count());
    add("outside_bytes", row.outside.count());
    add("capacity_bytes", row.capacity.count());
    add("free_bytes", std::max(Bytes(0), row.capacity - row.needed()).count());
    add("tokens", row.tokens);
    add("verdict", Name(row.verdict));
    add("fit_probability", row.fit_probability);
    add("gpus", row.gpus);
    add("global_batch_size", row.global_batch_size);
    add("gradient_accumulation", row.gradient_accumulation);
    add("mfu", row.mfu);
    add("wire_bytes_per_rank", row.wire_bytes_per_rank);
    add("exposed_communication_s", row.exposed_communication);
    for (Figure& figure : TrainingFigures(target, StepOf(row))) {
      add(std::move(figure.column.key), std::move(figure.cell));
    }
    table.AddFigures(std::move(figures));
  }
  return table;
}

}  // namespace

std::string SettingsText(const SweepGrid& grid, std::int64_t index, const SweepRow& row,
                         const char* equals) {
  std::string text;
  for (const auto& [key, value] : planner::SettingsOf(grid, index, row)) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", key, equals, value);
  }
  return text;
}

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
  return ForPrograms(grid, rows, target, true).Csv();
}

std::string SweepJson(const SweepGrid& grid, const std::vector<SweepRow>& rows, double seconds,
                      std::int64_t known, const TrainingTarget& target) {
  AnswerTable by_gpus{Keys("gpus row")};
  for (const std::int64_t index : FastestByGpus(rows)) {
    by_gpus.Add({rows[static_cast<std::size_t>(index)].gpus, index});
  }
  const std::int64_t simulated = grid.rows() - Count(rows, RowStatus::kIllegal);
  return Text(
      Json{{"stepcast", 1},
           {"rows", ForPrograms(grid, rows, target, false).ToJson()},
           {"training", TargetJson(target)},
           {"by_gpus", by_gpus.ToJson()},
           {"run", {{"simulated", simulated}, {"from_store", known}, {"seconds", seconds}}}});
}

std::string SweepJsonLines(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                           const TrainingTarget& target) {
  std::string out;
  for (const Json& row : ForPrograms(grid, rows, target, false).ToJson()) {
    out += OneLine(row) + "\n";
  }
  return out;
}

}  // namespace stepcast::report

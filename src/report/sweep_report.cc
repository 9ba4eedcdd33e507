#include "src/report/sweep_report.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/report/csv.h"
#include "src/report/json_values.h"
#include "src/report/number_text.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using planner::RowStatus;
using planner::SweepGrid;
using planner::SweepRow;

std::int64_t Count(const std::vector<SweepRow>& rows, RowStatus status) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const SweepRow& row) { return row.status == status; });
}

// " with KEY=VALUE, ..."
std::string With(const SweepGrid& grid, std::int64_t index) {
  std::string text;
  for (const auto& [key, value] : grid.Row(index)) {
    text += fmt::format("{}{}={}", text.empty() ? " with " : ", ", key, value);
  }
  return text;
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
  const auto row = [&](std::int64_t index) -> const SweepRow& {
    return rows[static_cast<std::size_t>(index)];
  };
  out += fmt::format("shortest step: {}{}\n", FormatTime(row(*best).step_time), With(grid, *best));
  // Where steps do not have as much to do, the shortest is not the one that does most.
  std::int64_t busiest = *best;
  for (std::int64_t i = 0; i < grid.rows(); ++i) {
    if (row(i).status == RowStatus::kOk &&
        row(i).tokens_per_second_per_gpu > row(busiest).tokens_per_second_per_gpu) {
      busiest = i;
    }
  }
  if (busiest == *best) return out;
  return out + fmt::format("most tokens/s per GPU: {}{}\n",
                           Decimal(row(busiest).tokens_per_second_per_gpu, 1), With(grid, busiest));
}

Json ToJson(const SweepGrid& grid, std::int64_t index, const SweepRow& row) {
  const bool illegal = row.status == RowStatus::kIllegal;
  Json set = Json::object();
  for (auto& [key, value] : grid.Row(index)) set[key] = std::move(value);
  return Json{
      {"set", std::move(set)},
      {"status", Name(row.status)},
      {"reason", Reason(row)},
      {"step_time_s", illegal ? Json() : Json(JsonSeconds(row.step_time))},
      {"tokens_per_s_per_gpu", illegal ? Json() : Json(row.tokens_per_second_per_gpu)},
      {"peak_bytes", illegal ? Json() : Json(row.peak.count())},
      {"fits", illegal ? Json() : Json(row.status == RowStatus::kOk)},
  };
}

}  // namespace

std::optional<std::int64_t> Fastest(const std::vector<SweepRow>& rows) {
  std::optional<std::int64_t> best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].status != RowStatus::kOk) continue;
    if (!best || rows[i].step_time < rows[static_cast<std::size_t>(*best)].step_time) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

std::string Reason(const planner::SweepRow& row) {
  if (row.status == RowStatus::kDoesNotFit) {
    return fmt::format("needs {} more than the device has", FormatBytes(row.over));
  }
  std::string reason;
  for (const Diagnostic& fault : row.faults) {
    if (!reason.empty()) reason += "; ";
    reason += fault.message;
  }
  return reason;
}

std::string SweepText(const SweepGrid& grid, const std::vector<SweepRow>& rows) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  Bytes most;
  for (const SweepRow& row : rows) most = std::max(most, row.peak);
  const ByteUnit unit = UnitFor(most);
  std::vector<Column> columns;
  for (const planner::SweepAxis& axis : grid.axes()) columns.push_back({axis.key, Align::kLeft});
  columns.push_back({"status", Align::kLeft});
  columns.push_back({"step ms", Align::kRight});
  columns.push_back({"tokens/s/GPU", Align::kRight});
  columns.push_back({fmt::format("peak {}", unit.name), Align::kRight});
  columns.push_back({"reason", Align::kLeft});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    const bool illegal = row.status == RowStatus::kIllegal;
    std::vector<std::string> cells;
    for (auto& [key, value] : grid.Row(static_cast<std::int64_t>(i))) {
      cells.push_back(std::move(value));
    }
    cells.emplace_back(Name(row.status));
    cells.push_back(illegal ? "-" : Milliseconds(row.step_time));
    cells.push_back(illegal ? "-" : Decimal(row.tokens_per_second_per_gpu, 1));
    cells.push_back(illegal ? "-" : In(unit, row.peak));
    cells.push_back(Reason(row));
    table.AddRow(std::move(cells));
  }
  return table.ToString() + "\n" + Summary(grid, rows);
}

std::string SweepCsv(const SweepGrid& grid, const std::vector<SweepRow>& rows) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  std::vector<std::string> fields;
  for (const planner::SweepAxis& axis : grid.axes()) fields.push_back(axis.key);
  for (const char* name :
       {"status", "reason", "step_time_s", "tokens_per_s_per_gpu", "peak_bytes", "fits"}) {
    fields.emplace_back(name);
  }
  std::string out = CsvRecord(fields);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    const bool illegal = row.status == RowStatus::kIllegal;
    fields.clear();
    for (auto& [key, value] : grid.Row(static_cast<std::int64_t>(i))) {
      fields.push_back(std::move(value));
    }
    fields.emplace_back(Name(row.status));
    fields.push_back(Reason(row));
    fields.push_back(illegal ? "" : fmt::format("{}", JsonSeconds(row.step_time)));
    fields.push_back(illegal ? "" : fmt::format("{}", row.tokens_per_second_per_gpu));
    fields.push_back(illegal ? "" : fmt::format("{}", row.peak.count()));
    fields.push_back(illegal ? "" : row.status == RowStatus::kOk ? "true" : "false");
    out += CsvRecord(fields);
  }
  return out;
}

std::string SweepJson(const SweepGrid& grid, const std::vector<SweepRow>& rows, double seconds,
                      std::int64_t known) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  Json array = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    array.push_back(ToJson(grid, static_cast<std::int64_t>(i), rows[i]));
  }
  const std::int64_t simulated = grid.rows() - Count(rows, RowStatus::kIllegal);
  return Text(
      Json{{"stepcast", 1},
           {"rows", std::move(array)},
           {"run", {{"simulated", simulated}, {"from_store", known}, {"seconds", seconds}}}});
}

std::string SweepJsonLines(const SweepGrid& grid, const std::vector<SweepRow>& rows) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += Line(ToJson(grid, static_cast<std::int64_t>(i), rows[i]));
  }
  return out;
}

}  // namespace stepcast::report

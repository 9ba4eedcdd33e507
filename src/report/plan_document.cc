// The CSV and JSON of `plan`.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/report/json.h"
#include "src/report/plan_report.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"
#include "src/report/training_report.h"

namespace stepcast::report {
namespace {

using planner::Goal;
using planner::Verdict;

// A plan's figures in the document.
Json RowJson(const Goal& goal, const PlanRow& row) {
  const planner::Outcome& outcome = row.outcome;
  Json json{
      {"set", SetJson(row.settings)},
      {"status", outcome.fits ? "ok" : "does_not_fit"},
      {"reason", Reason(goal, row)},
      {"step_time_s", JsonSeconds(outcome.step_time)},
      {"step_time_range_s", RangeJson(row)},
      {"tokens_per_s_per_gpu", outcome.tokens_per_second_per_gpu},
      {"peak_bytes", outcome.memory.count()},
      {"reserved_bytes", outcome.reserved.count()},
      {"outside_bytes", outcome.outside.count()},
      {"capacity_bytes", row.facts.capacity.count()},
      {"fits", outcome.fits},
      {"verdict", Name(outcome.verdict)},
      {"fit_probability", outcome.fit_probability},
      {"free_bytes", std::max<std::int64_t>(0, -outcome.over.count())},
      {"lacks_bytes", std::max<std::int64_t>(0, Lacks(goal, row.facts, outcome.over).count())},
      {"allocator_flushes", outcome.flushes},
      {"gpus", row.facts.gpus},
      {"tokens", row.facts.tokens}};
  if (row.ties > 0) {
    Json settings = Json::object();
    for (const auto& [key, values] : row.no_difference) settings[key] = values;
    json["as_good"] = {{"plans", row.ties}, {"settings", std::move(settings)}};
  }
  AddTraining(goal.training, StepOf(row.facts, outcome), json);
  return json;
}

Json RowsJson(const Goal& goal, const std::vector<PlanRow>& rows) {
  Json array = Json::array();
  for (const PlanRow& row : rows) array.push_back(RowJson(goal, row));
  return array;
}

Json SensitivityJson(const PlanReport& report) {
  const planner::Sensitivity& sensitivity = *report.sensitivity;
  AnswerTable faster{Keys("resource step_time_s")};
  for (const forecast::WhatIf& what_if : sensitivity.faster) {
    faster.Add({Name(what_if.resource), what_if.step_time});
  }
  AnswerTable neighbours{Keys("key from to reason step_time_s peak_bytes fits")};
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    const bool exists = neighbour.illegal_message.empty();
    const auto of_plan = [&](Cell cell) { return exists ? std::move(cell) : Cell(Json()); };
    neighbours.Add({neighbour.key, neighbour.from, neighbour.to, neighbour.illegal_message,
                    of_plan(neighbour.outcome.step_time), of_plan(neighbour.outcome.memory.count()),
                    of_plan(neighbour.outcome.fits)});
  }
  return Json{
      {"more", planner::kResourceIncrease},
      {"resources", faster.ToJson()},
      {"memory", report.with_more_memory ? RowJson(report.goal, *report.with_more_memory) : Json()},
      {"settings", neighbours.ToJson()}};
}

Json ExecuteJson(const PlanReport& report) {
  if (!report.execution) return {};
  return Json{
      {"command",
       report.execution->refused.empty() ? Json(CommandLine(ExecutionCommand(report))) : Json()},
      {"refused", report.execution->refused}};
}

}  // namespace

std::string PlanCsv(const PlanReport& report) {
  const std::vector<PlanRow> own = report.own ? std::vector{*report.own} : std::vector<PlanRow>();
  const std::pair<const char*, const std::vector<PlanRow>*> lists[] = {
      {"yours", &own},
      {"best", &report.best},
      {"pareto", &report.pareto},
      {"nearest", &report.nearest}};
  // All keys of all plans, in order of first occurrence.
  std::vector<std::string> keys;
  for (const auto& [list, rows] : lists) {
    for (const PlanRow& row : *rows) {
      for (const auto& [key, value] : row.settings) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      }
    }
  }
  // Keys of RowJson.
  std::vector<std::string> figures = {"status",         "step_time_s",   "tokens_per_s_per_gpu",
                                      "peak_bytes",     "fits",          "gpus",
                                      "reserved_bytes", "outside_bytes", "capacity_bytes",
                                      "tokens",         "verdict",       "fit_probability"};
  std::vector<std::string> fields = {"list", "rank"};
  fields.insert(fields.end(), keys.begin(), keys.end());
  fields.insert(fields.end(), figures.begin(), figures.end());
  fields.insert(fields.end(), {"step_time_low_s", "step_time_high_s"});
  for (const Figure& figure : TrainingFigures(report.goal.training, {})) {
    fields.push_back(figure.column.key);
  }
  std::string out = CsvRecord(fields);
  for (const auto& [list, rows] : lists) {
    int rank = 0;
    for (const PlanRow& row : *rows) {
      Json json = RowJson(report.goal, row);
      fields = {list, fmt::format("{}", ++rank)};
      for (const std::string& key : keys) fields.push_back(Field(json["set"][key]));
      for (const std::string& key : figures) fields.push_back(Field(json[key]));
      const Json& range = json["step_time_range_s"];
      for (std::size_t end : {0, 1}) fields.push_back(range.size() > 0 ? Field(range[end]) : "");
      const auto step = StepOf(row.facts, row.outcome);
      for (const Figure& figure : TrainingFigures(report.goal.training, step)) {
        fields.push_back(OneLine(figure.cell.value));
      }
      out += CsvRecord(fields);
    }
  }
  return out;
}

std::string PlanJson(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  Json pruned = Json::object();
  for (const Verdict verdict :
       {Verdict::kIllegal, Verdict::kSame, Verdict::kDoesNotFit, Verdict::kTooSlow, Verdict::kBound,
        Verdict::kDominated, Verdict::kOpen}) {
    pruned[Name(verdict)] = result.Count(verdict);
  }
  Json illegal = Json::object();
  for (const auto& [code, reason] : result.illegal) {
    Json reasons = Json::array();
    std::map<std::string, std::int64_t> counts;
    for (const auto& [message, refused] : reason.messages) counts[message] = refused.count;
    for (const auto& [message, count] : Sorted(counts)) {
      reasons.push_back({{"reason", message}, {"count", count}});
    }
    illegal[code] = {
        {"count", reason.count}, {"example", reasons[0]["reason"]}, {"reasons", reasons}};
  }
  AnswerTable became{Keys("what count")};
  for (const auto& [what, count] : VerdictCounts(report)) became.Add({what, count});
  AnswerTable held{Keys("key of at")};
  for (const planner::HeldSetting& setting : report.held) {
    held.Add({setting.key, WordOr(setting.of), Json(setting.at)});
  }
  AnswerTable losers{Keys("set reason simulated step_time_s peak_bytes needed_bytes")};
  for (const PlanRow& row : report.runners_up) {
    const Shown shown = ShownOf(row);
    losers.Add({SetJson(row.settings), WhyText(report.goal, row), row.simulated, shown.step_time,
                shown.peak.count(), shown.needed.count()});
  }
  AnswerTable by_gpus{Keys("gpus best")};
  for (const SizeAnswer& size : report.by_gpus) {
    by_gpus.Add({size.gpus, size.best ? RowJson(report.goal, *size.best) : Json()});
  }
  Json document{
      {"stepcast", 1},
      {"scenario", report.name},
      {"target", Name(report.goal.target)},
      {"training", TargetJson(report.goal.training)},
      {"compared_by", result.UnequalTokens() ? "time_per_token" : "step_time"},
      {"headroom", {{"bytes", report.goal.headroom.count()}, {"part", report.goal.headroom_part}}},
      {"tried", report.tried},
      {"not_tried", report.not_tried},
      {"port", PortJson(report)},
      {"execute", ExecuteJson(report)},
      {"yours", report.own ? RowJson(report.goal, *report.own) : Json()},
      {"faster_than_yours", report.own && !report.best.empty()
                                ? Json(Longer(*report.own, report.best.front()))
                                : Json()},
      {"risky", report.risky ? RowJson(report.goal, *report.risky) : Json()},
      {"interrupted", report.interrupted},
      {"kinds", KindsJson(report)},
      {"why", LayoutAnswerJson(report)},
      {"best", RowsJson(report.goal, report.best)},
      {"by_gpus", by_gpus.ToJson()},
      {"pareto", RowsJson(report.goal, report.pareto)},
      {"nearest", RowsJson(report.goal, report.nearest)},
      {"pruned", std::move(pruned)},
      {"illegal", std::move(illegal)},
      {"became", became.ToJson()},
      {"notes", report.notes},
      {"held", held.ToJson()},
      {"losers", losers.ToJson()},
      {"sensitivity", report.sensitivity ? SensitivityJson(report) : Json()},
      {"space", report.space},
      {"simulated", static_cast<std::int64_t>(result.outcomes.size()) - result.shared},
      {"exact", result.proved},
      {"open", result.open},
      {"least", result.least},
  };
  if (report.would_fit) document["would_fit"] = FittingJson(*report.would_fit);
  document["run"] = {{"seconds", report.seconds}};
  return Text(document);
}

}  // namespace stepcast::report

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
  Json set = Json::object();
  for (const auto& [key, value] : row.settings) set[key] = value;
  const planner::Outcome& outcome = row.outcome;
  Json json{
      {"set", std::move(set)},
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
  for (auto& [key, value] : TrainingFigures(goal.training, StepOf(row.facts, outcome.step_time))) {
    json[key] = std::move(value);
  }
  return json;
}

Json RowsJson(const Goal& goal, const std::vector<PlanRow>& rows) {
  Json array = Json::array();
  for (const PlanRow& row : rows) array.push_back(RowJson(goal, row));
  return array;
}

Json SensitivityJson(const PlanReport& report) {
  const planner::Sensitivity& sensitivity = *report.sensitivity;
  Json faster = Json::array();
  for (const forecast::WhatIf& what_if : sensitivity.faster) {
    faster.push_back(
        {{"resource", Name(what_if.resource)}, {"step_time_s", JsonSeconds(what_if.step_time)}});
  }
  Json neighbours = Json::array();
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    const bool exists = neighbour.illegal_message.empty();
    neighbours.push_back(
        {{"key", neighbour.key},
         {"from", neighbour.from},
         {"to", neighbour.to},
         {"reason", neighbour.illegal_message},
         {"step_time_s", exists ? Json(JsonSeconds(neighbour.outcome.step_time)) : Json()},
         {"peak_bytes", exists ? Json(neighbour.outcome.memory.count()) : Json()},
         {"fits", exists ? Json(neighbour.outcome.fits) : Json()}});
  }
  return Json{
      {"more", planner::kResourceIncrease},
      {"resources", std::move(faster)},
      {"memory", report.with_more_memory ? RowJson(report.goal, *report.with_more_memory) : Json()},
      {"settings", std::move(neighbours)}};
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
  // All keys of all plans, in order of first occurrence.
  std::vector<std::string> keys;
  const auto note = [&](const std::vector<PlanRow>& rows) {
    for (const PlanRow& row : rows) {
      for (const auto& [key, value] : row.settings) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      }
    }
  };
  const std::vector<PlanRow> own = report.own ? std::vector{*report.own} : std::vector<PlanRow>();
  note(report.best);
  note(report.pareto);
  note(report.nearest);
  std::vector<std::string> fields = {"list", "rank"};
  fields.insert(fields.end(), keys.begin(), keys.end());
  for (const char* name : {"status", "step_time_s", "tokens_per_s_per_gpu", "peak_bytes", "fits",
                           "gpus", "reserved_bytes", "outside_bytes", "capacity_bytes", "tokens",
                           "verdict", "fit_probability", "step_time_low_s", "step_time_high_s"}) {
    fields.emplace_back(name);
  }
  for (const auto& [name, value] : TrainingFigures(report.goal.training, {})) {
    fields.emplace_back(name);
  }
  std::string out = CsvRecord(fields);
  const auto append = [&](const char* list, const std::vector<PlanRow>& rows) {
    int rank = 0;
    for (const PlanRow& row : rows) {
      fields = {list, fmt::format("{}", ++rank)};
      for (const std::string& key : keys) {
        const auto found = std::find_if(row.settings.begin(), row.settings.end(),
                                        [&](const auto& setting) { return setting.first == key; });
        fields.push_back(found == row.settings.end() ? "" : found->second);
      }
      fields.emplace_back(row.outcome.fits ? "ok" : "does_not_fit");
      fields.push_back(fmt::format("{}", JsonSeconds(row.outcome.step_time)));
      fields.push_back(fmt::format("{}", row.outcome.tokens_per_second_per_gpu));
      fields.push_back(fmt::format("{}", row.outcome.memory.count()));
      fields.emplace_back(row.outcome.fits ? "true" : "false");
      for (const std::int64_t number :
           {row.facts.gpus, row.outcome.reserved.count(), row.outcome.outside.count(),
            row.facts.capacity.count(), row.facts.tokens}) {
        fields.push_back(fmt::format("{}", number));
      }
      fields.emplace_back(Name(row.outcome.verdict));
      fields.push_back(fmt::format("{}", row.outcome.fit_probability));
      for (const bool high : {false, true}) {
        fields.push_back(
            row.range ? fmt::format("{}", JsonSeconds(high ? row.range->high : row.range->low))
                      : "");
      }
      for (const auto& [name, value] :
           TrainingFigures(report.goal.training, StepOf(row.facts, row.outcome.step_time))) {
        fields.push_back(value.dump());
      }
      out += CsvRecord(fields);
    }
  };
  append("yours", own);
  append("best", report.best);
  append("pareto", report.pareto);
  append("nearest", report.nearest);
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
  Json became = Json::array();
  for (const auto& [what, count] : VerdictCounts(report)) {
    became.push_back({{"what", what}, {"count", count}});
  }
  Json held = Json::array();
  for (const planner::HeldSetting& setting : report.held) {
    held.push_back({{"key", setting.key},
                    {"of", setting.of.empty() ? Json() : Json(setting.of)},
                    {"at", setting.at}});
  }
  Json losers = Json::array();
  for (const PlanRow& row : report.runners_up) {
    Json set = Json::object();
    for (const auto& [key, value] : row.settings) set[key] = value;
    const Shown shown = ShownOf(row);
    losers.push_back({{"set", std::move(set)},
                      {"reason", WhyText(report.goal, row)},
                      {"simulated", row.simulated},
                      {"step_time_s", JsonSeconds(shown.step_time)},
                      {"peak_bytes", shown.peak.count()},
                      {"needed_bytes", shown.needed.count()}});
  }
  Json by_gpus = Json::array();
  for (const SizeAnswer& size : report.by_gpus) {
    by_gpus.push_back(
        {{"gpus", size.gpus}, {"best", size.best ? RowJson(report.goal, *size.best) : Json()}});
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
      {"by_gpus", std::move(by_gpus)},
      {"pareto", RowsJson(report.goal, report.pareto)},
      {"nearest", RowsJson(report.goal, report.nearest)},
      {"pruned", std::move(pruned)},
      {"illegal", std::move(illegal)},
      {"became", std::move(became)},
      {"notes", report.notes},
      {"held", std::move(held)},
      {"losers", std::move(losers)},
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

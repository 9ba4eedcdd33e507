#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/charts.h"
#include "src/report/command_text.h"
#include "src/report/page.h"
#include "src/report/plan_report.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"
#include "src/report/training_report.h"

// The CSV and JSON of `plan`.
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

// A row in the table of the best plans: its heading, and its text for each plan.
struct Compared {
  std::string what;
  std::vector<std::string> values;
  bool is_setting = false;

  bool Constant() const {
    return std::all_of(values.begin(), values.end(),
                       [&](const std::string& value) { return value == values.front(); });
  }
};

std::vector<Compared> FiguresOf(const PlanReport& report) {
  Bytes most;
  for (const PlanRow& row : report.best) most = std::max(most, Needed(row.outcome));
  const ByteUnit unit = UnitFor(most);
  const PlanRow& first = report.best.front();
  std::vector<Compared> rows;
  const auto add = [&](std::string what, const auto& value) {
    Compared& row = rows.emplace_back();
    row.what = std::move(what);
    for (const PlanRow& plan : report.best) row.values.push_back(value(plan));
  };
  add("step ms", [](const PlanRow& plan) { return Milliseconds(plan.outcome.step_time); });
  add("tokens/s/GPU",
      [](const PlanRow& plan) { return Decimal(plan.outcome.tokens_per_second_per_gpu, 1); });
  add("fewer tokens/s/GPU than plan 1, %", [&](const PlanRow& plan) {
    const double part =
        plan.outcome.tokens_per_second_per_gpu / first.outcome.tokens_per_second_per_gpu;
    return &plan == &first ? std::string("-") : Decimal(kHundred * (1 - part), 1);
  });
  add("GPUs", [](const PlanRow& plan) { return Grouped(plan.facts.gpus); });
  add(fmt::format("peak {}", unit.name),
      [&](const PlanRow& plan) { return In(unit, plan.outcome.memory); });
  add(fmt::format("needs {}", unit.name),
      [&](const PlanRow& plan) { return In(unit, Needed(plan.outcome)); });
  add(fmt::format("left {}", unit.name), [&](const PlanRow& plan) {
    return In(unit, std::max(Bytes(0), plan.facts.capacity - Needed(plan.outcome)));
  });
  return rows;
}

std::vector<Compared> SettingsOf(const PlanReport& report) {
  std::vector<Compared> rows;
  const auto value = [](const PlanRow& plan, const std::string& key) {
    for (const auto& [own, text] : plan.settings) {
      if (own == key) return text == "null" ? std::string("default") : text;
    }
    return std::string("default");
  };
  for (const PlanRow& plan : report.best) {
    for (const auto& [key, text] : plan.settings) {
      if (std::any_of(rows.begin(), rows.end(),
                      [&, &own = key](const Compared& row) { return row.what == own; })) {
        continue;
      }
      Compared& row = rows.emplace_back();
      row.what = key;
      row.is_setting = true;
      for (const PlanRow& other : report.best) row.values.push_back(value(other, key));
    }
  }
  return rows;
}

// The memory that each of the best plans needs on a device, by part.
Chart MemoryBars(const PlanReport& report) {
  Bytes capacity = report.best.front().facts.capacity;
  std::vector<ByteBar> bars;
  for (const PlanRow& row : report.best) {
    const planner::Outcome& plan = row.outcome;
    if (row.facts.capacity != capacity) capacity = Bytes();
    bars.emplace_back(fmt::format("plan {}", bars.size() + 1),
                      std::vector<Bytes>{plan.memory, plan.reserved - plan.memory, plan.outside});
  }
  return ByteBars("Memory per device of each of the best plans, as stacked bars", bars,
                  {{"allocated at the peak", "--c1"},
                   {"reserved, not used", "--c0"},
                   {"outside of the allocator", "--c3"}},
                  capacity);
}

// Plans are columns. Common settings are stated above the table, and cells that differ from plan 1
// are highlighted.
PageSection BestSection(const PlanReport& report) {
  PageSection section{.heading = "The best plans"};
  std::vector<Compared> rows = FiguresOf(report);
  for (Compared& row : SettingsOf(report)) rows.push_back(std::move(row));
  std::vector<Column> columns = {{"", Align::kLeft}};
  for (std::size_t i = 0; i < report.best.size(); ++i) {
    columns.push_back({fmt::format("plan {}", i + 1)});
  }
  PageTable table{.caption = "The best plan is first; differences from plan 1 are marked",
                  .table = Table(std::move(columns))};
  std::string constant;
  std::size_t number = 0;
  for (Compared& row : rows) {
    if (report.best.size() > 1 && row.Constant()) {
      constant +=
          fmt::format("{}{} {}", constant.empty() ? "" : ", ", row.what, row.values.front());
      continue;
    }
    for (std::size_t i = 1; i < row.values.size(); ++i) {
      if (row.is_setting && row.values[i] != row.values.front()) {
        table.stressed.emplace(number, i + 1);
      }
    }
    std::vector<std::string> cells = {std::move(row.what)};
    for (std::string& value : row.values) cells.push_back(std::move(value));
    table.table.AddRow(std::move(cells));
    ++number;
  }
  if (!constant.empty()) section.paragraphs.push_back("Common to all plans: " + constant + ".");
  section.chart = MemoryBars(report);
  section.tables.push_back(std::move(table));
  const std::string file = report.file.empty() ? "FOLDER/plan.json" : report.file;
  for (std::size_t i = 0; i < report.best.size(); ++i) {
    const CommandWords command{{"stepcast", "simulate", file}, report.set};
    section.texts.push_back({fmt::format("The command that forecasts plan {}", i + 1),
                             CommandText(command.With(report.best[i].settings)), true});
  }
  if (report.execution && report.execution->refused.empty()) {
    section.texts.push_back({"The command that executes plan 1 and compares it with the forecast",
                             CommandText(ExecutionCommand(report)), true});
  }
  return section;
}

PageSection FrontSection(const PlanReport& report, const PlanNames& name) {
  const planner::SearchResult& result = *report.result;
  // If the search did not look for the front, the chart shows the front of the simulated plans.
  const bool searched = !result.pareto.empty();
  // Plans that may not fit come after all others and dominate none of them.
  const bool best_is_safe = !result.best.empty() && IsSafe(result.outcomes.at(result.best.front()));
  std::vector<ParetoPoint> points;
  std::optional<Bytes> capacity;  // of all plans
  for (const auto& [plan, outcome] : result.outcomes) {
    if (!outcome.illegal_message.empty()) continue;
    const planner::PlanFacts& facts = result.states.FactsOf(plan);
    if (points.empty()) capacity = facts.capacity;
    if (facts.capacity != capacity || facts.capacity <= Bytes()) capacity = std::nullopt;
    const bool on_front =
        std::find(result.pareto.begin(), result.pareto.end(), plan) != result.pareto.end();
    points.push_back(
        {.name = name(plan),
         .step_time = outcome.step_time,
         .peak = Needed(outcome),
         .tokens_per_second_per_gpu = outcome.tokens_per_second_per_gpu,
         .fits = Eligible(report.goal, facts, outcome) && (IsSafe(outcome) || !best_is_safe),
         .tokens = result.UnequalTokens() ? facts.tokens : 0,
         .gpus = facts.gpus,
         .on_front = searched ? std::optional(on_front) : std::nullopt});
  }
  ParetoFigure figure = ParetoChart(std::move(points),
                                    "Step time of every simulated plan against the memory that "
                                    "the plan needs",
                                    "does not fit, or is too slow", "memory needed", capacity);
  PageSection section{.heading = "Step time against memory"};
  section.paragraphs = {
      searched ? "Each point is a plan that was simulated. For each plan on the front, no other "
                 "plan has a shorter step, less memory and fewer GPUs. A plan fits if it leaves "
                 "enough memory free."
               : "Each point is a plan that was simulated. The search did not look for the front, "
                 "so other plans may be on the front."};
  Draw(std::move(figure), "Plans on the front", section);
  return section;
}

PageSection SensitivitySection(const PlanReport& report) {
  PageSection section{.heading = "Effects of changes on the best plan"};
  const Time now = report.best.front().outcome.step_time;
  Table table({{"with", Align::kLeft}, {"step ms"}, {"%"}});
  const auto add = [&](std::string what, Time then) {
    table.AddRow({std::move(what), Milliseconds(then),
                  now == Time() ? "-" : Signed(kHundred * ((then - now) / now), 1)});
  };
  for (const forecast::WhatIf& faster : report.sensitivity->faster) {
    add(fmt::format("{} {:.0f} % faster", Name(faster.resource),
                    kHundred * planner::kResourceIncrease),
        faster.step_time);
  }
  for (const planner::NeighbouringSetting& neighbour : report.sensitivity->neighbours) {
    if (!neighbour.illegal_message.empty()) continue;
    add(fmt::format("{} = {} instead of {}{}", neighbour.key, neighbour.to, neighbour.from,
                    neighbour.outcome.fits ? "" : ", but the plan does not fit"),
        neighbour.outcome.step_time);
  }
  section.tables.push_back({.caption = "Step time of the best plan after one change",
                            .table = std::move(table),
                            .sortable = true});
  return section;
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

std::string PlanPage(const PlanReport& report,
                     std::vector<std::pair<std::string, std::string>> about,
                     const PlanNames& name) {
  const planner::SearchResult& result = *report.result;
  const auto simulated =
      std::count_if(result.outcomes.begin(), result.outcomes.end(),
                    [](const auto& one) { return one.second.illegal_message.empty(); });
  Page page;
  page.kind = "Search for the best plan";
  page.title = report.name;
  page.asked = std::move(about);
  page.asked.emplace_back("wanted", TargetText(report.goal, result.UnequalTokens()));
  if (!report.held.empty()) {
    page.asked.emplace_back("set by the scenario; other values were not tried", HeldText(report));
  }
  if (report.best.empty()) {
    page.answer.push_back({.label = "Best plan",
                           .value = "none",
                           .more = "no plan in the search meets the goal",
                           .tone = Tone::kBad});
  } else {
    const PlanRow& best = report.best.front();
    page.answer.push_back({.label = "Step time of the best plan",
                           .value = FormatTime(best.outcome.step_time),
                           .more = name(best.plan),
                           .tone = Tone::kGood});
    page.answer.push_back({.label = "Tokens/s per GPU",
                           .value = Decimal(best.outcome.tokens_per_second_per_gpu, 1),
                           .more = fmt::format("on {} {}", Grouped(best.facts.gpus),
                                               best.facts.gpus == 1 ? "GPU" : "GPUs")});
    page.answer.push_back(
        {.label = "Peak memory",
         .value = FormatBytes(best.outcome.memory),
         .more = fmt::format(
             "the plan needs {}, including reserved memory and memory outside of the allocator",
             FormatBytes(Needed(best.outcome)))});
  }
  if (report.own) {
    page.answer.push_back({.label = "Your own plan",
                           .value = FormatTime(report.own->outcome.step_time),
                           .more = GainText(report)});
  }
  page.answer.push_back(
      {.label = "Plans",
       .value = Grouped(report.space),
       .more = fmt::format(
           "{} simulated; {}", Grouped(simulated),
           result.open == 0 ? "no other plan is better"
                            : fmt::format("{} other plans may be better", Grouped(result.open)))});
  if (!report.kinds.empty() && report.kinds.front().fits && !result.UnequalTokens()) {
    page.sections.push_back(KindsSection(report));
  }
  if (!report.best.empty()) page.sections.push_back(BestSection(report));
  if (simulated > 0) page.sections.push_back(FrontSection(report, name));
  if (!report.best.empty() && report.sensitivity) {
    page.sections.push_back(SensitivitySection(report));
  }
  if (const auto became = VerdictCounts(report); !became.empty()) {
    PageSection section{.heading = "Verdicts on the plans"};
    Table table({{"plans", Align::kLeft}, {"number", Align::kRight}});
    for (const auto& [verdict, count] : became) table.AddRow({verdict, Grouped(count)});
    table.AddRule();
    table.AddRow({"all", Grouped(report.space)});
    section.tables.push_back({.caption = "Number of plans by verdict", .table = std::move(table)});
    page.sections.push_back(std::move(section));
  }
  return PageHtml(page);
}

}  // namespace stepcast::report

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/quantity.h"
#include "src/forecast/corrections.h"
#include "src/forecast/training_run.h"
#include "src/report/answers.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/plan_rows.h"
#include "src/report/step_figures.h"

namespace stepcast::report {
namespace {

using enum Align;
using forecast::Forecast;
using forecast::MemoryForecast;

// In per cent of A's figure.
std::string ChangeOf(double a, double b) { return ChangeText(b - a, a); }

std::string SignedTime(Time time) { return (time > Time() ? "+" : "") + Milliseconds(time); }

AnswerTable Settings(const ComparedPlan& a, const ComparedPlan& b) {
  constexpr std::size_t kLongest = 40;
  AnswerTable table{{{"setting", "key", kLeft}, {"A", "a", kLeft}, {"B", "b", kLeft}}};
  const auto cell = [](const std::string& value) {
    return Cell(value.empty() ? "-" : Quoted(value, "", kLongest), value);
  };
  for (const SettingPair& pair : DifferentSettings(*a.scenario, *b.scenario)) {
    table.Add({pair.key, cell(pair.a), cell(pair.b)});
  }
  return table;
}

// An empty table of figures of A and B, whose unit may be " ms".
Table Differences(const char* heading, const std::string& unit) {
  return Table({{heading, kLeft}, {"A" + unit}, {"B" + unit}, {"difference"}, {"%"}});
}

Table Figures(const Forecast& a, const Forecast& b) {
  Table table = Differences("", "");
  table.AddRow({"step time, ms", Milliseconds(a.step_time), Milliseconds(b.step_time),
                SignedTime(b.step_time - a.step_time),
                ChangeOf(a.step_time.seconds(), b.step_time.seconds())});
  const auto row = [&](const char* what, double of_a, double of_b, int digits) {
    const double difference = of_b - of_a;
    table.AddRow({what, Decimal(of_a, digits), Decimal(of_b, digits),
                  (difference > 0   ? "+"
                   : difference < 0 ? "-"
                                    : "") +
                      Decimal(std::abs(difference), digits),
                  ChangeOf(of_a, of_b)});
  };
  const std::vector<StepFigure> of_a = StepFigures(a), of_b = StepFigures(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (!of_a[i].value || !of_b[i].value) continue;
    const double scale = of_a[i].scale;
    row(of_a[i].name, scale * *of_a[i].value, scale * *of_b[i].value, of_a[i].digits);
  }
  return table;
}

Table TimeTable(const Forecast& a, const Forecast& b) {
  Table table = Differences("where the time goes", " ms");
  const auto row = [&](const char* what, Time of_a, Time of_b) {
    table.AddRow({what, Milliseconds(of_a), Milliseconds(of_b), SignedTime(of_b - of_a),
                  ChangeOf(of_a.seconds(), of_b.seconds())});
  };
  const std::vector<forecast::TimePart> of_a = forecast::PartsOf(a.time);
  const std::vector<forecast::TimePart> of_b = forecast::PartsOf(b.time);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].always || of_a[i].time != Time() || of_b[i].time != Time()) {
      row(of_a[i].name, of_a[i].time, of_b[i].time);
    }
  }
  table.AddRule();
  row("step", a.step_time, b.step_time);
  row("communication in flight", a.communication_total, b.communication_total);
  return table;
}

// Differences of collectives.
AnswerTable Collectives(const Forecast& a, const Forecast& b) {
  const std::vector<CollectivePair> pairs = PairCollectives(a, b);
  double most = 0;
  for (const CollectivePair& pair : pairs) {
    for (const forecast::CollectiveSummary* summary : {pair.a, pair.b}) {
      if (summary != nullptr) most = std::max(most, summary->wire_bytes_per_rank);
    }
  }
  const ByteUnit unit = UnitFor(most);
  AnswerTable table{{{"collective", "collective", kLeft},
                     {"group", "group", kLeft},
                     {"calls A", ""},
                     {"B", "calls"},
                     {fmt::format("sent {} A", unit.name), ""},
                     {"B", "bytes_per_rank"},
                     {"ms A", ""},
                     {"B", ""},
                     {"difference", "total_s"}}};
  for (const CollectivePair& pair : pairs) {
    const forecast::CollectiveSummary none{};
    const forecast::CollectiveSummary& in_a = pair.a == nullptr ? none : *pair.a;
    const forecast::CollectiveSummary& in_b = pair.b == nullptr ? none : *pair.b;
    const auto of_a = [&](std::string text) { return pair.a == nullptr ? "-" : text; };
    const auto of_b = [&](std::string text) { return pair.b == nullptr ? "-" : text; };
    const Time longer = in_b.total - in_a.total;
    table.Add({Name(pair.any().collective), pair.any().group, of_a(Grouped(in_a.calls)),
               Cell(of_b(Grouped(in_b.calls)), in_b.calls - in_a.calls),
               of_a(In(unit, in_a.wire_bytes_per_rank)),
               Cell(of_b(In(unit, in_b.wire_bytes_per_rank)),
                    JsonNumber(in_b.wire_bytes_per_rank - in_a.wire_bytes_per_rank)),
               of_a(Milliseconds(in_a.total)), of_b(Milliseconds(in_b.total)),
               Cell(SignedTime(longer), JsonSeconds(longer))});
  }
  return table;
}

// Memory in the order of the text: the categories at the peak, then totals.
Table MemoryTable(const MemoryForecast& a, const MemoryForecast& b) {
  const ByteUnit unit = UnitFor(std::max({a.reserved, b.reserved, a.peak, b.peak}));
  Table table = Differences("memory at the peak", fmt::format(" {}", unit.name));
  const auto row = [&](std::string what, Bytes of_a, Bytes of_b) {
    table.AddRow({std::move(what), In(unit, of_a), In(unit, of_b),
                  (of_b > of_a ? "+" : "") + SignedIn(unit, of_b - of_a),
                  ChangeOf(static_cast<double>(of_a.count()), static_cast<double>(of_b.count()))});
  };
  for (std::size_t i = 0; i < a.at_peak.size(); ++i) {
    row(std::string(kCategoryNames[i]), a.at_peak[i], b.at_peak[i]);
  }
  table.AddRule();
  const std::vector<MemoryFigure> of_a = MemoryFigures(a), of_b = MemoryFigures(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) row(of_a[i].name, of_a[i].bytes, of_b[i].bytes);
  return table;
}

Json Plan(const ComparedPlan& plan) {
  Json json{{"scenario", plan.scenario->name}, {"file", plan.file}};
  AddStep(*plan.forecast, json);
  json["time_s"] = TimeJson(plan.forecast->time);
  json["communication"] = CommunicationJson(*plan.forecast);
  json["memory"] = MemoryJson(plan.forecast->memory);
  json["resolved"] = ToJson(plan.scenario->resolved);
  json["warnings"] = plan.scenario->warnings;
  return json;
}

// Whole picoseconds are subtracted, so that equal parts have a difference of exactly zero.
Json TimeDifference(const Forecast& a, const Forecast& b) {
  std::vector<forecast::TimePart> parts = forecast::PartsOf(b.time);
  const std::vector<forecast::TimePart> of_a = forecast::PartsOf(a.time);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].time = parts[i].time - of_a[i].time;
  return TimeJson(parts);
}

Json MemoryDifference(const MemoryForecast& a, const MemoryForecast& b) {
  Json object{
      {"peak_bytes", (b.peak - a.peak).count()},
      {"reserved_bytes", (b.reserved - a.reserved).count()},
      {"outside_bytes", (b.outside - a.outside).count()},
  };
  forecast::BytesByCategory categories{};
  for (std::size_t i = 0; i < categories.size(); ++i) categories[i] = b.at_peak[i] - a.at_peak[i];
  AddCategories(object, categories);
  return object;
}

}  // namespace

std::string CompareText(const ComparedPlan& a, const ComparedPlan& b,
                        const std::vector<GuardVerdict>& guards) {
  std::string verdicts;
  for (const GuardVerdict& verdict : guards) {
    verdicts += fmt::format("guard {} {}\n", verdict.guard, verdict.sentence);
  }
  std::string hosts;
  for (const auto& [name, plan] : {std::pair("A", &a), std::pair("B", &b)}) {
    const auto& unknown = plan->forecast->unknown_host;
    if (unknown) hosts += fmt::format("{} host: {}\n", name, forecast::Sentence(*unknown));
  }
  const AnswerTable settings = Settings(a, b);
  const AnswerTable collectives = Collectives(*a.forecast, *b.forecast);
  return fmt::format("A  {} ({})\nB  {} ({})\n\n{}\n{}{}\n{}\n{}\n{}\nA {}\nB {}\n{}",
                     a.scenario->name, a.file, b.scenario->name, b.file,
                     settings.rows.empty() ? "all settings are equal\n" : settings.Text(),
                     Figures(*a.forecast, *b.forecast).ToString(), hosts,
                     TimeTable(*a.forecast, *b.forecast).ToString(),
                     collectives.rows.empty() ? "no collectives\n" : collectives.Text(),
                     MemoryTable(a.forecast->memory, b.forecast->memory).ToString(),
                     MemorySentence(a.forecast->memory), MemorySentence(b.forecast->memory),
                     verdicts.empty() ? "" : "\n" + verdicts);
}

std::string CompareJson(const ComparedPlan& a, const ComparedPlan& b, double seconds,
                        const std::vector<GuardVerdict>& guards) {
  AnswerTable verdicts{Keys("guard a b failed")};
  for (const GuardVerdict& one : guards) verdicts.Add({one.guard, one.a, one.b, one.failed});
  return Text(Json{
      {"stepcast", 1},
      {"a", Plan(a)},
      {"b", Plan(b)},
      {"settings", Settings(a, b).ToJson()},
      {"difference",
       {{"step_time_s", JsonSeconds(b.forecast->step_time - a.forecast->step_time)},
        {"time_s", TimeDifference(*a.forecast, *b.forecast)},
        {"communication_total_s",
         JsonSeconds(b.forecast->communication_total - a.forecast->communication_total)},
        {"collectives", Collectives(*a.forecast, *b.forecast).ToJson()},
        {"memory", MemoryDifference(a.forecast->memory, b.forecast->memory)}}},
      {"guards", verdicts.ToJson()},
      {"run", {{"seconds", seconds}}},
  });
}

namespace {

// "A step of B takes 79.2 ms, 77.0 % more than a step of A".
std::string VerdictOf(const Forecast& a, const Forecast& b) {
  const double part = b.step_time.seconds() / a.step_time.seconds() - 1;
  if (part == 0) return "A step of plan B takes as long as a step of plan A.";
  return fmt::format("A step of plan B takes {}, {} % {} than a step of plan A.",
                     FormatTime(b.step_time), PerCent(std::abs(part)), part < 0 ? "less" : "more");
}

PageSection TimeSection(const Forecast& a, const Forecast& b) {
  PageSection section{.heading = "Time breakdown"};
  section.chart =
      BreakdownChart("Time breakdown of one step, plan A above plan B, as two stacked bars",
                     {{"A", &a}, {"B", &b}});
  section.tables = {{.caption = "Parts of the step", .table = TimeTable(a, b)},
                    {.caption = "Values of the step", .table = Figures(a, b)}};
  return section;
}

PageSection MemorySection(const MemoryForecast& a, const MemoryForecast& b) {
  PageSection section{.heading = "Memory at the peak"};
  section.paragraphs = {fmt::format("A {}.", MemorySentence(a)),
                        fmt::format("B {}.", MemorySentence(b))};
  if (a.capacity == b.capacity) {
    section.chart =
        MemoryBars("Memory of a device at the peak, plan A above plan B, as two stacked bars",
                   {MemoryBarOf("A", a), MemoryBarOf("B", b)}, a.capacity);
  }
  section.tables = {{.caption = "By category", .table = MemoryTable(a, b)}};
  return section;
}

}  // namespace

std::string ComparePage(const ComparedPlan& a, const ComparedPlan& b,
                        const std::vector<GuardVerdict>& guards) {
  Page page{.kind = "Comparison of two plans", .title = a.scenario->name};
  if (b.scenario->name != page.title) page.title += " and " + b.scenario->name;
  page.verdict = VerdictOf(*a.forecast, *b.forecast);
  for (const auto& [name, plan] : {std::pair("A", &a), std::pair("B", &b)}) {
    page.asked.emplace_back(name, fmt::format("{} ({})", plan->scenario->name, plan->file));
    const MemoryForecast& memory = plan->forecast->memory;
    page.answer.push_back({.label = fmt::format("Step time of {}", name),
                           .value = FormatTime(plan->forecast->step_time)});
    page.answer.push_back({.label = fmt::format("Peak memory of {}", name),
                           .value = FormatBytes(memory.peak),
                           .more = MemorySentence(memory),
                           .tone = ToneOf(memory.verdict())});
    for (const std::string& warning : plan->scenario->warnings) {
      page.warnings.push_back(fmt::format("{}: {}", name, warning));
    }
    page.appendices.push_back({fmt::format("Scenario {}, including all default values", name),
                               Text(ToJson(plan->scenario->resolved))});
  }
  for (const GuardVerdict& guard : guards) {
    if (guard.failed) page.tone = Tone::kBad;
    page.verdict += fmt::format(" Guard {} {}.", guard.guard, guard.sentence);
  }
  if (const AnswerTable settings = Settings(a, b); !settings.rows.empty()) {
    page.sections.push_back(
        {.heading = "Different settings",
         .tables = {{.caption = "Different settings", .table = settings.ToTable()}}});
  }
  page.sections.push_back(TimeSection(*a.forecast, *b.forecast));
  page.sections.push_back(MemorySection(a.forecast->memory, b.forecast->memory));
  if (const AnswerTable collectives = Collectives(*a.forecast, *b.forecast);
      !collectives.rows.empty()) {
    page.sections.push_back(
        {.heading = "Collectives",
         .tables = {{.caption = "One step on one rank", .table = collectives.ToTable()}}});
  }
  return PageHtml(page);
}

}  // namespace stepcast::report


#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using enum Align;

constexpr const char* kTieText =
    "~: within 2 %, which is the forecast error between plans on one machine\n";

// The parallel axes of a kind of plans: "data + tensor + pipeline".
std::string DividesText(const planner::PlanGroup& kind) {
  std::string text = "data";
  if (kind.tensor) text += " + tensor";
  if (kind.pipeline) text += " + pipeline";
  return text;
}

// The most important settings within a layout: "ZeRO 1, mbs 2, selective".
std::string SettingsInShort(const PlanRow& row) {
  const plan::Plan& plan = row.values;
  const model::Checkpointing recomputed = plan.training.activation_checkpointing;
  std::string text =
      fmt::format("ZeRO {}, mbs {}", plan.data_parallel.zero_stage, plan.training.micro_batch_size);
  if (recomputed != model::Checkpointing::kNone) {
    text += fmt::format(", recompute {}", model::Name(recomputed));
  }
  return text;
}

Bytes NeededBy(const PlanRow& row) { return ShownOf(row).needed; }

Bytes LackedBy(const planner::Goal& goal, const PlanRow& row) {
  return Lacks(goal, row.facts, row.simulated ? row.outcome.over : row.bound.over);
}

// How the model and the sequences are divided among the plan's ranks: "tensor 8, pipeline 7 x 15".
// If only the batch is divided: "data 16".
std::string LayoutText(const plan::Plan& plan) {
  const plan::Parallelism& axes = plan.parallelism;
  std::vector<std::string> parts;
  if (axes.tensor > 1) parts.push_back(fmt::format("tensor {}", axes.tensor));
  if (axes.pipeline > 1) {
    std::string text = fmt::format("pipeline {}", axes.pipeline);
    if (axes.virtual_stages > 1) text += fmt::format(" x {}", axes.virtual_stages);
    if (axes.schedule != "1f1b" && axes.schedule != "interleaved_1f1b") text += ' ' + axes.schedule;
    parts.push_back(std::move(text));
  }
  if (axes.context > 1) {
    parts.push_back(fmt::format("context {} {}", axes.context, model::Name(axes.context_method)));
  }
  if (axes.expert > 1) parts.push_back(fmt::format("expert {}", axes.expert));
  parts.push_back(fmt::format("data {}", axes.data));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Why a plan is slower than another, such as "2,100.000 ms more waiting in the pipeline". Empty if
// the reason is unknown.
std::string WhyLonger(const PlanRow& plan, const PlanRow& than) {
  if (!plan.spent || !than.spent) return "";
  const TimeSpent &a = *plan.spent, &b = *than.spent;
  const auto rest = [](const TimeSpent& one) {
    return one.step - one.computing - one.communicating - one.bubble;
  };
  std::vector<std::pair<Time, const char*>> more = {
      {a.computing - b.computing, "computing"},
      {a.communicating - b.communicating, "exposed communication"},
      {a.bubble - b.bubble, "waiting in the pipeline"},
      {rest(a) - rest(b), "waiting for the host"}};
  std::stable_sort(more.begin(), more.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const Time all = a.step - b.step;
  std::vector<std::string> parts;
  constexpr std::size_t kMost = 2;
  for (const auto& [time, what] : more) {
    // A part below a tenth of the difference explains little of it.
    constexpr int kTenth = 10;
    if (parts.size() == kMost || time <= Time() || kTenth * time < all) break;
    parts.push_back(fmt::format("{} ms more {}", Milliseconds(time), what));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// A line below the table of kinds: "2  data + tensor: tensor 2, data 8, ZeRO 1, mbs 1". Words that
// `more` holds follow on lines of their own.
std::string KindLine(std::string_view label, const std::string& divides, const std::string& plan,
                     const std::vector<std::string>& more) {
  std::string text = fmt::format("{}  {}: {}\n", label, divides, plan);
  for (const std::string& words : more) {
    if (!words.empty()) text += fmt::format("{:{}}{}\n", "", label.size() + 2, words);
  }
  return text;
}

// A row of the table of kinds: the best plan of a kind, or the scenario's own plan.
struct ShownKind {
  std::string label;  // "1", "2", ... or "yours"
  std::string framework, divides;
  const PlanRow* row = nullptr;
};

std::vector<ShownKind> ShownKinds(const PlanReport& report) {
  std::vector<ShownKind> shown;
  for (const KindRow& kind : report.kinds) {
    if (!kind.fits) continue;
    shown.push_back({std::to_string(shown.size() + 1), plan::Name(kind.kind.framework),
                     DividesText(kind.kind), &kind.row});
  }
  if (report.own && report.own->outcome.fits) {
    const plan::Parallelism& axes = report.own->values.parallelism;
    const plan::Framework framework = report.own->values.data_parallel.framework;
    shown.push_back({"yours", plan::Name(framework),
                     DividesText({framework, axes.tensor > 1, axes.pipeline > 1}), &*report.own});
  }
  return shown;
}

Table KindsTable(const PlanReport& report, const std::vector<ShownKind>& shown) {
  Bytes most;
  for (const KindRow& kind : report.kinds) most = std::max(most, NeededBy(kind.row));
  const ByteUnit unit = UnitFor(most);
  Table table({{"", kLeft},
               {"framework", kLeft},
               {"step ms"},
               {"range"},
               {"longer by %"},
               {fmt::format("needs {}", unit.name)},
               {"fits %"}});
  const KindRow& best = report.kinds.front();
  for (const ShownKind& kind : shown) {
    table.AddRow({kind.label, kind.framework, Milliseconds(kind.row->outcome.step_time),
                  RangeText(*kind.row), best.fits ? LongerText(*kind.row, best.row) : "-",
                  In(unit, NeededBy(*kind.row)), FitText(kind.row->outcome)});
  }
  return table;
}

}  // namespace

std::string PlanInShort(const PlanRow& row) {
  return fmt::format("{}, {}, {}", plan::Name(row.values.data_parallel.framework),
                     LayoutText(row.values), SettingsInShort(row));
}

std::string KindsText(const PlanReport& report) {
  if (report.kinds.empty()) return "";
  std::string lines, without;
  bool close = false;
  const KindRow& best = report.kinds.front();
  const plan::Plan& alike = report.own ? report.own->values : best.row.values;
  const std::vector<ShownKind> shown = ShownKinds(report);
  for (const ShownKind& kind : shown) {
    const PlanRow& row = *kind.row;
    const std::string differs = RecipeDifference(row.values, alike);
    lines +=
        KindLine(kind.label, kind.divides, LayoutText(row.values) + ", " + SettingsInShort(row),
                 {differs.empty() ? "" : "different from yours: " + differs,
                  best.fits ? WhyLonger(row, best.row) : ""});
  }
  for (const KindRow& kind : report.kinds) {
    const char* const framework = plan::Name(kind.kind.framework);
    const std::string divides = DividesText(kind.kind);
    if (kind.fits) {
      close |= kind.least < 1;
      continue;
    }
    const Bytes lacks = LackedBy(report.goal, kind.row);
    const char* const at_least = kind.row.simulated ? "" : "at least ";
    without += lacks <= Bytes(0)
                   ? fmt::format("{}, {}: {} ({} plans in total)\n", framework, divides,
                                 kind.row.simulated ? "none of the simulated plans fits"
                                                    : "no plan was simulated in the given time",
                                 Grouped(kind.plans))
                   : fmt::format(
                         "{}, {}: no plan fits; the plan nearest to fitting, {}, {}, needs {}{} of "
                         "memory, which is {}{} too much\n",
                         framework, divides, LayoutText(kind.row.values), SettingsInShort(kind.row),
                         at_least, FormatBytes(NeededBy(kind.row)), at_least, FormatBytes(lacks));
  }
  std::string out = "by kind\n";
  if (!lines.empty()) {
    const std::string table = KindsTable(report, shown).ToString();
    out += table + (table.find(" ~") == std::string::npos ? "" : kTieText) + "\n" + lines;
  }
  if (!lines.empty() && !without.empty()) out += "\n";
  out += without;
  if (close) {
    double least = 1;
    for (const KindRow& kind : report.kinds) {
      if (kind.fits) least = std::min(least, kind.least);
    }
    out +=
        fmt::format("the best plan of a kind may be up to {} % better than the plan in the table\n",
                    Decimal(kHundred * (1 - least), 1));
  }
  return out + "\n";
}

PageSection KindsSection(const PlanReport& report) {
  const std::vector<ShownKind> shown = ShownKinds(report);
  PageSection section{.heading = "The best plan of each kind"};
  section.paragraphs = {
      "A kind of plan is a combination of a framework and the axes of parallelism that divide the "
      "model. A thin line shows the range that contains 90 % of measurements."};
  const Palette palette = {{"best of its kind", "--c0"}, {"your plan", "--c1"}};
  ChartData data;
  for (const ShownKind& kind : shown) {
    data.Word("bar", fmt::format("{}: {}, {}", kind.label, kind.framework, kind.divides));
    data.Word("part", palette[kind.label == "yours" ? 1 : 0].first);
    data.Number("value", InMilliseconds(kind.row->outcome.step_time));
    for (const auto& [column, bound] : {std::pair("low", &forecast::TimeRange::low),
                                        std::pair("high", &forecast::TimeRange::high)}) {
      if (kind.row->range) {
        data.Number(column, InMilliseconds((*kind.row->range).*bound));
      } else {
        data.Missing(column);
      }
    }
    data.Word("plan", LayoutText(kind.row->values) + ", " + SettingsInShort(*kind.row));
  }
  Chart chart =
      StackedBars("Step time of the best plan of each kind, and of your own plan, as bars", "ms",
                  std::move(data), palette, static_cast<int>(shown.size()), {{"ranges", true}});
  chart.tips = {{"bar", ""},
                {"plan", "Plan"},
                {"value", "Step time", "ms", 3},
                {"low", "From", "ms", 3},
                {"high", "To", "ms", 3}};
  section.chart = std::move(chart);
  section.tables.push_back({.caption = "The best plan of each kind",
                            .table = KindsTable(report, shown),
                            .sortable = true});
  return section;
}

Json KindsJson(const PlanReport& report) {
  AnswerTable kinds{
      Keys("framework tensor pipeline plans fits set layout step_time_s step_time_range_s "
           "fit_probability recipe_difference needed_bytes lacks_bytes why least")};
  for (const KindRow& kind : report.kinds) {
    const PlanRow& row = kind.row;
    const auto simulated = [&](Cell cell) {
      return row.simulated ? std::move(cell) : Cell(Json());
    };
    kinds.Add({plan::Name(kind.kind.framework), kind.kind.tensor, kind.kind.pipeline, kind.plans,
               kind.fits, SetJson(row.settings), LayoutText(row.values),
               simulated(row.outcome.step_time), RangeJson(row),
               simulated(row.outcome.fit_probability),
               report.own && kind.fits ? RecipeDifference(row.values, report.own->values) : "",
               NeededBy(row).count(), std::max<std::int64_t>(0, LackedBy(report.goal, row).count()),
               kind.fits ? WhyLonger(row, report.kinds.front().row) : "", kind.least});
  }
  return kinds.ToJson();
}

std::string LayoutAnswerText(const PlanReport& report) {
  if (!report.why_layout) return "";
  const LayoutAnswer& answer = *report.why_layout;
  std::string out = fmt::format("why not {}\n", answer.layout);
  if (!answer.best) {
    if (!answer.nearest) return out + "  no plan with the layout is legal\n\n";
    if (LackedBy(report.goal, *answer.nearest) <= Bytes(0)) {
      return out + "  no plan that has the layout and fits was found in the given time\n\n";
    }
    return out + fmt::format(
                     "  no plan with the layout fits; the plan nearest to fitting, {} {}, needs "
                     "{}{} more memory\n\n",
                     LayoutText(answer.nearest->values), SettingsInShort(*answer.nearest),
                     answer.nearest->simulated ? "" : "at least ",
                     FormatBytes(LackedBy(report.goal, *answer.nearest)));
  }
  out += fmt::format("  the best plan with the layout: {}, {}: {} ms\n",
                     LayoutText(answer.best->values), SettingsInShort(*answer.best),
                     Milliseconds(answer.best->outcome.step_time));
  std::vector<std::string> settings;
  for (const auto& [key, value] : answer.best->settings) {
    if (value != "null") settings.push_back(fmt::format("{}={}", key, value));
  }
  out += fmt::format("  {}\n", fmt::join(settings, " "));
  if (!report.best.empty()) {
    const PlanRow& best = report.best.front();
    const double longer = Longer(*answer.best, best);
    const std::string why = WhyLonger(*answer.best, best);
    out += longer > 0 ? fmt::format("  {} % slower than the best plan{}{}\n",
                                    Decimal(kHundred * longer, 1), why.empty() ? "" : ": ", why)
                      : "  the best plan that was found has this layout\n";
  }
  return out + fmt::format("  other layouts: {} are better, {} are not better, {}\n\n",
                           Grouped(answer.better), Grouped(answer.worse),
                           answer.unknown == 0
                               ? "and none is undecided"
                               : fmt::format("{} may be better", Grouped(answer.unknown)));
}

Json LayoutAnswerJson(const PlanReport& report) {
  if (!report.why_layout) return {};
  const LayoutAnswer& answer = *report.why_layout;
  const std::optional<PlanRow>& row = answer.best ? answer.best : answer.nearest;
  const bool compared = answer.best && !report.best.empty();
  return Json{
      {"layout", answer.layout},
      {"fits", answer.best.has_value()},
      {"set", row ? SetJson(row->settings) : Json::object()},
      {"step_time_s", answer.best ? Json(JsonSeconds(answer.best->outcome.step_time)) : Json()},
      {"lacks_bytes",
       row ? Json(std::max<std::int64_t>(0, LackedBy(report.goal, *row).count())) : Json()},
      {"why", compared ? WhyLonger(*answer.best, report.best.front()) : ""},
      {"better", answer.better},
      {"worse", answer.worse},
      {"unknown", answer.unknown}};
}

}  // namespace stepcast::report

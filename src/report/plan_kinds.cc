
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
#include "src/report/json.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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

}  // namespace

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

std::string PlanInShort(const PlanRow& row) {
  return fmt::format("{}, {}, {}", plan::Name(row.values.data_parallel.framework),
                     LayoutText(row.values), SettingsInShort(row));
}

std::string WhyLonger(const PlanRow& plan, const PlanRow& than) {
  if (!plan.spent || !than.spent) return "";
  const TimeSpent &a = *plan.spent, &b = *than.spent;
  const auto rest = [](const TimeSpent& one) {
    return one.step - one.computing - one.communicating - one.bubble;
  };
  std::vector<std::pair<Time, const char*>> more = {
      {a.computing - b.computing, "computing"},
      {a.communicating - b.communicating, "communication that nothing hides"},
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

namespace {

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

}  // namespace

std::string KindsText(const PlanReport& report) {
  if (report.kinds.empty()) return "";
  Bytes most;
  for (const KindRow& kind : report.kinds) most = std::max(most, NeededBy(kind.row));
  const ByteUnit unit = UnitFor(most);
  Table table({{"", Align::kLeft},
               {"framework", Align::kLeft},
               {"step ms"},
               {"range"},
               {"longer by %"},
               {fmt::format("needs {}", unit.name)},
               {"fits %"}});
  std::string lines, without;
  bool close = false;
  const KindRow& best = report.kinds.front();
  const plan::Plan& alike = report.own ? report.own->values : best.row.values;
  const auto add = [&](const std::string& label, std::string framework, const std::string& divides,
                       const PlanRow& row) {
    table.AddRow({label, std::move(framework), Milliseconds(row.outcome.step_time), RangeText(row),
                  best.fits ? LongerText(row, best.row) : "-", In(unit, NeededBy(row)),
                  FitText(row.outcome)});
    const std::string differs = RecipeDifference(row.values, alike);
    lines += KindLine(label, divides, LayoutText(row.values) + ", " + SettingsInShort(row),
                      {differs.empty() ? "" : "not as yours: " + differs,
                       best.fits ? WhyLonger(row, best.row) : ""});
  };
  std::size_t fitting = 0;
  for (const KindRow& kind : report.kinds) {
    const char* const framework = plan::Name(kind.kind.framework);
    const std::string divides = DividesText(kind.kind);
    if (kind.fits) {
      close |= kind.least < 1;
      add(fmt::format("{}", ++fitting), framework, divides, kind.row);
      continue;
    }
    const Bytes lacks = LackedBy(report.goal, kind.row);
    const char* const at_least = kind.row.simulated ? "" : "at least ";
    without +=
        lacks <= Bytes(0)
            ? fmt::format(
                  "{}, {}: no plan that fits was found among the most promising (of "
                  "{})\n",
                  framework, divides, Grouped(kind.plans))
            : fmt::format("{}, {}: no plan fits; {}, {} needs {}{}, and lacks {}{}\n", framework,
                          divides, LayoutText(kind.row.values), SettingsInShort(kind.row), at_least,
                          FormatBytes(NeededBy(kind.row)), at_least, FormatBytes(lacks));
  }
  if (report.own && report.own->outcome.fits) {
    const PlanRow& own = *report.own;
    const plan::Parallelism& axes = own.values.parallelism;
    const plan::Framework framework = own.values.data_parallel.framework;
    add("yours", plan::Name(framework),
        DividesText({framework, axes.tensor > 1, axes.pipeline > 1}), own);
  }
  std::string out = "by kind\n";
  if (!lines.empty()) out += table.ToString() + kTieText + "\n" + lines;
  if (!lines.empty() && !without.empty()) out += "\n";
  out += without;
  if (close) {
    double least = 1;
    for (const KindRow& kind : report.kinds) {
      if (kind.fits) least = std::min(least, kind.least);
    }
    out += fmt::format("the best plan of a kind may be up to {} % better than the one shown\n",
                       Decimal(kHundred * (1 - least), 1));
  }
  return out + "\n";
}

Json KindsJson(const PlanReport& report) {
  Json kinds = Json::array();
  for (const KindRow& kind : report.kinds) {
    const bool simulated = kind.row.simulated;
    kinds.push_back(
        {{"framework", plan::Name(kind.kind.framework)},
         {"tensor", kind.kind.tensor},
         {"pipeline", kind.kind.pipeline},
         {"plans", kind.plans},
         {"fits", kind.fits},
         {"set", SetJson(kind.row.settings)},
         {"layout", LayoutText(kind.row.values)},
         {"step_time_s", simulated ? Json(JsonSeconds(kind.row.outcome.step_time)) : Json()},
         {"step_time_range_s", RangeJson(kind.row)},
         {"fit_probability", simulated ? Json(kind.row.outcome.fit_probability) : Json()},
         {"recipe_difference",
          report.own && kind.fits ? RecipeDifference(kind.row.values, report.own->values) : ""},
         {"needed_bytes", NeededBy(kind.row).count()},
         {"lacks_bytes", std::max<std::int64_t>(0, LackedBy(report.goal, kind.row).count())},
         {"why", kind.fits ? WhyLonger(kind.row, report.kinds.front().row) : ""},
         {"least", kind.least}});
  }
  return kinds;
}

std::string LayoutAnswerText(const PlanReport& report) {
  if (!report.why_layout) return "";
  const LayoutAnswer& answer = *report.why_layout;
  std::string out = fmt::format("why not {}\n", answer.layout);
  if (!answer.best) {
    if (!answer.nearest) return out + "  no plan with this layout is legal\n\n";
    if (LackedBy(report.goal, *answer.nearest) <= Bytes(0)) {
      return out + "  no plan with this layout that fits was found in the given time\n\n";
    }
    return out + fmt::format("  no plan with this layout fits: {} {} lacks {}{}\n\n",
                             LayoutText(answer.nearest->values), SettingsInShort(*answer.nearest),
                             answer.nearest->simulated ? "" : "at least ",
                             FormatBytes(LackedBy(report.goal, *answer.nearest)));
  }
  out += fmt::format("  its best plan: {}, {}: {} ms\n", LayoutText(answer.best->values),
                     SettingsInShort(*answer.best), Milliseconds(answer.best->outcome.step_time));
  std::vector<std::string> settings;
  for (const auto& [key, value] : answer.best->settings) {
    if (value != "null") settings.push_back(fmt::format("{}={}", key, value));
  }
  out += fmt::format("  {}\n", fmt::join(settings, " "));
  if (!report.best.empty()) {
    const PlanRow& best = report.best.front();
    const double longer = Longer(*answer.best, best);
    const std::string why = WhyLonger(*answer.best, best);
    out += longer > 0 ? fmt::format("  {} % slower than the best{}{}\n",
                                    Decimal(kHundred * longer, 1), why.empty() ? "" : ": ", why)
                      : "  it is the best\n";
  }
  return out + fmt::format("  other layouts: {} are better, {} are not, {}\n\n",
                           Grouped(answer.better), Grouped(answer.worse),
                           answer.unknown == 0 ? "and none is undecided"
                                               : fmt::format("{} may be", Grouped(answer.unknown)));
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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/pages.h"
#include "src/report/pareto_chart.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

Bytes MostMemory(const std::vector<SearchedPlan>& plans) {
  Bytes most;
  for (const SearchedPlan& plan : plans) most = std::max({most, plan.peak, plan.needed});
  return most;
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

std::vector<Compared> FiguresOf(const SearchView& view) {
  const ByteUnit unit = UnitFor(MostMemory(view.plans));
  const SearchedPlan& first = view.plans[view.best.front()];
  std::vector<Compared> rows;
  const auto add = [&](std::string what, const auto& value) {
    Compared& row = rows.emplace_back();
    row.what = std::move(what);
    for (const std::size_t plan : view.best) row.values.push_back(value(view.plans[plan]));
  };
  add("step ms", [](const SearchedPlan& plan) { return Milliseconds(plan.step_time); });
  add("tokens/s/GPU",
      [](const SearchedPlan& plan) { return Decimal(plan.tokens_per_second_per_gpu, 1); });
  add("fewer tokens/s/GPU than plan 1, %", [&](const SearchedPlan& plan) {
    const double part = plan.tokens_per_second_per_gpu / first.tokens_per_second_per_gpu;
    return &plan == &first ? std::string("-") : Decimal(kHundred * (1 - part), 1);
  });
  add("GPUs", [](const SearchedPlan& plan) { return Grouped(plan.gpus); });
  add(fmt::format("peak {}", unit.name),
      [&](const SearchedPlan& plan) { return In(unit, plan.peak); });
  add(fmt::format("needs {}", unit.name),
      [&](const SearchedPlan& plan) { return In(unit, plan.needed); });
  add(fmt::format("left {}", unit.name), [&](const SearchedPlan& plan) {
    return In(unit, std::max(Bytes(0), plan.capacity - plan.needed));
  });
  return rows;
}

std::vector<Compared> SettingsOf(const SearchView& view) {
  std::vector<Compared> rows;
  const auto value = [](const RankedPlan& plan, const std::string& key) {
    for (const auto& [own, text] : plan.settings) {
      if (own == key) return text == "null" ? std::string("default") : text;
    }
    return std::string("default");
  };
  for (const RankedPlan& plan : view.ranked) {
    for (const auto& [key, text] : plan.settings) {
      if (std::any_of(rows.begin(), rows.end(),
                      [&, &own = key](const Compared& row) { return row.what == own; })) {
        continue;
      }
      Compared& row = rows.emplace_back();
      row.what = key;
      row.is_setting = true;
      for (const RankedPlan& other : view.ranked) row.values.push_back(value(other, key));
    }
  }
  return rows;
}

// The memory that each of the best plans needs on a device, by part.
Chart MemoryBars(const SearchView& view) {
  const ByteUnit unit = UnitFor(MostMemory(view.plans));
  const auto amount = [&](Bytes bytes) {
    return Rounded(static_cast<double>(bytes.count()) / static_cast<double>(unit.bytes));
  };
  const Palette parts = {{"allocated at the peak", "--c1"},
                         {"kept by the allocator", "--c0"},
                         {"outside of it", "--c3"}};
  ChartData data;
  Bytes capacity;
  bool same_devices = true;
  for (std::size_t i = 0; i < view.best.size(); ++i) {
    const SearchedPlan& plan = view.plans[view.best[i]];
    same_devices &= i == 0 || plan.capacity == capacity;
    capacity = plan.capacity;
    const Bytes of_parts[] = {plan.peak, plan.reserved - plan.peak, plan.needed - plan.reserved};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      data.Word("bar", fmt::format("plan {}", i + 1));
      data.Word("part", parts[part].first);
      data.Number("value", amount(of_parts[part]));
      data.Number("share",
                  Rounded(kHundred * static_cast<double>(of_parts[part].count()) /
                          static_cast<double>(std::max<std::int64_t>(1, plan.needed.count()))));
    }
  }
  std::optional<ChartLimit> limit;
  if (same_devices && capacity > Bytes()) {
    limit = {amount(capacity), fmt::format("capacity {}", FormatBytes(capacity))};
  }
  return StackedBars("Memory per device that each of the best plans needs, as stacked bars",
                     unit.name, std::move(data), parts, static_cast<int>(view.best.size()), limit);
}

// Plans are columns. Common settings are stated above the table, and cells that differ from plan 1
// are highlighted.
PageSection BestSection(const SearchView& view) {
  PageSection section{.heading = "The best plans"};
  std::vector<Compared> rows = FiguresOf(view);
  for (Compared& row : SettingsOf(view)) rows.push_back(std::move(row));
  std::vector<Column> columns = {{"", Align::kLeft}};
  for (std::size_t i = 0; i < view.best.size(); ++i) {
    columns.push_back({fmt::format("plan {}", i + 1)});
  }
  PageTable table{.caption = "Best first; differences from plan 1 are marked",
                  .table = Table(std::move(columns))};
  std::string constant;
  std::size_t number = 0;
  for (Compared& row : rows) {
    if (view.best.size() > 1 && row.Constant()) {
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
  if (!constant.empty()) section.paragraphs.push_back("All of them: " + constant + ".");
  section.chart = MemoryBars(view);
  section.tables.push_back(std::move(table));
  for (std::size_t i = 0; i < view.ranked.size(); ++i) {
    section.texts.emplace_back(fmt::format("The command that forecasts plan {}", i + 1),
                               view.ranked[i].command);
  }
  if (!view.execution.empty()) {
    section.texts.emplace_back("The command that executes plan 1 and compares it with the forecast",
                               view.execution);
  }
  return section;
}

// The device capacity of all plans, if it is equal.
std::optional<Bytes> CapacityOf(const SearchView& view) {
  std::optional<Bytes> capacity;
  for (const SearchedPlan& plan : view.plans) {
    if (plan.capacity <= Bytes() || (capacity && *capacity != plan.capacity)) return std::nullopt;
    capacity = plan.capacity;
  }
  return capacity;
}

PageSection FrontSection(const SearchView& view) {
  // If the search did not look for the front, the chart shows the front of the simulated plans.
  const bool searched = std::any_of(view.plans.begin(), view.plans.end(),
                                    [](const SearchedPlan& plan) { return plan.on_front; });
  std::vector<ParetoPoint> points;
  for (const SearchedPlan& plan : view.plans) {
    points.push_back({.name = plan.name,
                      .step_time = plan.step_time,
                      .peak = plan.needed,
                      .tokens_per_second_per_gpu = plan.tokens_per_second_per_gpu,
                      .fits = plan.eligible,
                      .tokens = plan.tokens,
                      .gpus = plan.gpus,
                      .on_front = searched ? std::optional(plan.on_front) : std::nullopt});
  }
  ParetoFigure figure =
      ParetoChart(std::move(points), "Step time against the memory that every simulated plan needs",
                  "too large (including memory that must stay free) or too slow", "memory needed",
                  CapacityOf(view));
  PageSection section{.heading = "Step time against memory"};
  section.paragraphs = {
      searched ? "Each point is a plan that was simulated. No plan beats a plan on the front in "
                 "step time, memory and GPUs together."
               : "Each point is a plan that was simulated. The front was not searched for: plans "
                 "that were not simulated may lie on it."};
  section.chart = std::move(figure.chart);
  if (!figure.note.empty()) section.notes.push_back(std::move(figure.note));
  section.tables.push_back({.caption = "The front", .table = std::move(figure.front)});
  return section;
}

PageSection SensitivitySection(const SearchView& view) {
  PageSection section{.heading = "What would change the best plan"};
  const Time now = view.plans[view.best.front()].step_time;
  Table table({{"with", Align::kLeft}, {"step ms", Align::kRight}, {"%", Align::kRight}});
  for (const auto& [what, then] : view.sensitivity) {
    table.AddRow({what, Milliseconds(then),
                  now == Time() ? "-" : Signed(kHundred * ((then - now) / now), 1)});
  }
  section.tables.push_back(
      {.caption = "Step time of the best plan if one thing changes", .table = std::move(table)});
  return section;
}

}  // namespace

std::string PlanPage(const SearchView& view) {
  Page page;
  page.kind = "Search for the best plan";
  page.title = view.title;
  page.asked = view.about;
  page.asked.emplace_back("wanted", view.goal);
  if (!view.held.empty()) {
    page.asked.emplace_back("held by the scenario, other values not tried", view.held);
  }
  if (view.best.empty()) {
    page.answer.push_back({.label = "Best plan",
                           .value = "none",
                           .more = "no plan in the search meets the goal",
                           .tone = Tone::kBad});
  } else {
    const SearchedPlan& best = view.plans[view.best.front()];
    page.answer.push_back({.label = "Step time of the best plan",
                           .value = FormatTime(best.step_time),
                           .more = best.name,
                           .tone = Tone::kGood});
    page.answer.push_back(
        {.label = "Tokens/s per GPU",
         .value = Decimal(best.tokens_per_second_per_gpu, 1),
         .more = fmt::format("on {} {}", Grouped(best.gpus), best.gpus == 1 ? "GPU" : "GPUs")});
    page.answer.push_back(
        {.label = "Peak memory",
         .value = FormatBytes(best.peak),
         .more = fmt::format(
             "it needs {}, including reserved memory and memory outside of the allocator",
             FormatBytes(best.needed))});
  }
  if (view.own) {
    page.answer.push_back(
        {.label = "Your own plan", .value = FormatTime(*view.own), .more = view.gain});
  }
  page.answer.push_back(
      {.label = "Plans",
       .value = Grouped(view.space),
       .more =
           fmt::format("{} simulated; {}", Grouped(static_cast<std::int64_t>(view.plans.size())),
                       view.open == 0 ? "no other plan is better"
                                      : fmt::format("{} more may be better", Grouped(view.open)))});
  if (!view.best.empty()) page.sections.push_back(BestSection(view));
  if (!view.plans.empty()) page.sections.push_back(FrontSection(view));
  if (!view.best.empty() && !view.sensitivity.empty()) {
    page.sections.push_back(SensitivitySection(view));
  }
  if (!view.became.empty()) {
    PageSection section{.heading = "Verdicts on the plans"};
    Table table({{"plans", Align::kLeft}, {"number", Align::kRight}});
    for (const auto& [verdict, count] : view.became) table.AddRow({verdict, Grouped(count)});
    table.AddRule();
    table.AddRow({"all", Grouped(view.space)});
    section.tables.push_back({.caption = "Each plan once", .table = std::move(table)});
    page.sections.push_back(std::move(section));
  }
  return PageHtml(page);
}

}  // namespace stepcast::report

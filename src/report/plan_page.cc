#include "src/report/plan_page.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/number_text.h"
#include "src/report/page.h"
#include "src/report/pareto_chart.h"

namespace stepcast::report {
namespace {

Bytes MostMemory(const std::vector<SearchedPlan>& plans) {
  Bytes most;
  for (const SearchedPlan& plan : plans) most = std::max({most, plan.peak, plan.needed});
  return most;
}

Table BestTable(const SearchView& view) {
  const ByteUnit unit = UnitFor(MostMemory(view.plans));
  Table table({{"rank", Align::kRight},
               {"plan", Align::kLeft},
               {"GPUs", Align::kRight},
               {"step ms", Align::kRight},
               {"tokens/s/GPU", Align::kRight},
               {fmt::format("peak {}", unit.name), Align::kRight},
               {fmt::format("needs {}", unit.name), Align::kRight}});
  for (std::size_t i = 0; i < view.best.size(); ++i) {
    const SearchedPlan& plan = view.plans[view.best[i]];
    table.AddRow({fmt::format("{}", i + 1), plan.name, Grouped(plan.gpus),
                  Milliseconds(plan.step_time), Decimal(plan.tokens_per_second_per_gpu, 1),
                  In(unit, plan.peak), In(unit, plan.needed)});
  }
  return table;
}

PageSection FrontSection(const SearchView& view) {
  // Without a search for the front, the chart shows that of what was simulated.
  const bool searched = std::any_of(view.plans.begin(), view.plans.end(),
                                    [](const SearchedPlan& plan) { return plan.on_front; });
  std::vector<ParetoPoint> points;
  for (const SearchedPlan& plan : view.plans) {
    points.push_back({.name = plan.name,
                      .step_time = plan.step_time,
                      .peak = plan.peak,
                      .tokens_per_second_per_gpu = plan.tokens_per_second_per_gpu,
                      .fits = plan.eligible,
                      .tokens = plan.tokens,
                      .gpus = plan.gpus,
                      .on_front = searched ? std::optional(plan.on_front) : std::nullopt});
  }
  ParetoFigure figure = ParetoChart(
      std::move(points), "Step time against peak memory of every plan that was simulated",
      "too large, with what must stay free, or too slow");
  PageSection section{.heading = "Step time against memory"};
  section.paragraphs = {
      searched ? "Each point is a plan that was simulated. Of those on the front none is beaten in "
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
    constexpr double kHundred = 100;
    table.AddRow({what, Milliseconds(then),
                  now == Time() ? "-" : Signed(kHundred * ((then - now) / now), 1)});
  }
  section.tables.push_back(
      {.caption = "Its step time if one thing were different", .table = std::move(table)});
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
                           .more = "no plan of the space will do",
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
    page.answer.push_back({.label = "Peak memory",
                           .value = FormatBytes(best.peak),
                           .more = fmt::format("it needs {} with what the allocator keeps and what "
                                               "is outside of it",
                                               FormatBytes(best.needed))});
  }
  page.answer.push_back(
      {.label = "Plans",
       .value = Grouped(view.space),
       .more = fmt::format("{} simulated, the others are shown not to be better",
                           Grouped(static_cast<std::int64_t>(view.plans.size())))});
  if (!view.best.empty()) {
    PageSection section{.heading = "The best plans"};
    section.tables.push_back({.caption = "Best first", .table = BestTable(view)});
    page.sections.push_back(std::move(section));
  }
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

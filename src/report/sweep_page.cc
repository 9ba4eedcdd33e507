#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/pages.h"
#include "src/report/sweep_report.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using planner::RowStatus;
using planner::SweepAxis;
using planner::SweepGrid;
using planner::SweepRow;

// The number of marks that lines and cells can show at once, and of rows that a table shows.
constexpr std::size_t kMostMarks = 4'000;
constexpr std::size_t kMostTableRows = 1'000;

// The selectable figures, except memory, whose unit depends on the rows.
constexpr const char* kStep = "step time, ms";
constexpr const char* kTokenTime = "time per token, ns";
constexpr const char* kRate = "tokens/s per GPU";

constexpr const char* kFits = "fits";
constexpr const char* kTooLarge = "does not fit";
constexpr const char* kIllegal = "cannot exist";
constexpr const char* kBest = "fastest combination";

const char* Word(RowStatus status) {
  return status == RowStatus::kOk ? kFits : status == RowStatus::kIllegal ? kIllegal : kTooLarge;
}

// The text with nonbreaking spaces.
std::string Unbroken(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? std::string("\u00a0") : std::string(1, c);
  return out;
}

// The data column of an axis: "axis0".
std::string ColumnOf(std::size_t axis) { return fmt::format("axis{}", axis); }

// Axes by their number of values, largest first: the first is the x axis.
std::vector<std::size_t> AxesBySize(const SweepGrid& grid) {
  std::vector<std::size_t> order(grid.axes().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return grid.axes()[a].values.size() > grid.axes()[b].values.size();
  });
  return order;
}

class SweepCharts {
 public:
  SweepCharts(const SweepGrid& grid, const std::vector<SweepRow>& rows,
              std::optional<std::int64_t> best)
      : grid_(grid),
        rows_(rows),
        has_best_(best.has_value()),
        best_(best.value_or(0)),
        order_(AxesBySize(grid)) {
    for (const SweepRow& row : rows) some_too_large_ |= row.status == RowStatus::kDoesNotFit;
    unit_ = UnitFor(rows);
    unequal_tokens_ = planner::UnequalTokens(rows);
    const bool all = rows_.size() <= kMostMarks;
    for (std::int64_t i = 0; i < grid_.rows() && reach_.size() < kMostMarks; ++i) {
      if (all || OthersAsBest(i)) reach_.push_back(i);
    }
  }

  std::size_t along() const { return order_[0]; }
  std::optional<std::size_t> across() const {
    if (order_.size() < 2) return std::nullopt;
    return order_[1];
  }

  bool leaves_out() const { return reach_.size() < rows_.size(); }

  Chart Lines() const {
    Chart chart = Empty();
    Json values{{"along", Ordinal(along(), -30)},
                {"least", End(&AxisRange::from)},
                {"most", End(&AxisRange::to)},
                {"shapes", {kFits, kTooLarge}},
                {"shape legend", nullptr}};
    if (some_too_large_) values["shape legend"] = {{"title", nullptr}, {"orient", "top"}};
    constexpr std::size_t kMostColours = 9;
    if (!across()) {
      values["single color"] = "var(--c0)";
    } else if (const auto& words = grid_.axes()[*across()].values; words.size() <= kMostColours) {
      values["lines"] =
          ColourBy(ColumnOf(*across()), PaletteOf(words), Legend::kPoints, Name(*across()));
    } else {
      values["detail"] = ColumnOf(*across());
    }
    chart.spec = ChartForm("sweep lines", values);
    Reachable(chart.spec, {"datum.value !== null"});
    chart.label =
        fmt::format("Chart of a value of the step, by {}{}", Key(along()),
                    across() ? ", with one line for each value of " + Key(*across()) : "");
    return chart;
  }

  Chart Map() const {
    Chart chart = Empty();
    const std::size_t columns = grid_.axes()[along()].values.size();
    const std::size_t lines = grid_.axes()[*across()].values.size();
    constexpr int kCell = 36, kLeast = 120;
    // In chart_forms.json, the two darkest colors, the last third of the range, have a text color
    // of their own, and the best combination has a frame, inside of the cell so that no neighbor
    // covers it. Figures are written in the cells if there is space, otherwise only signs. A cell
    // without a value is empty, with a tooltip that says so.
    constexpr std::size_t kRoom = 10;
    const char* figure = columns <= kRoom ? "format(datum.value, ',.4~r') + ' '" : "''";
    chart.spec = ChartForm(
        "sweep map",
        {{"height", std::max(kLeast, kCell * static_cast<int>(lines))},
         {"along", Ordinal(along(), -30)},
         {"across", Ordinal(*across(), 0)},
         {"text",
          fmt::format("datum.value === null ? '–' : {} + (datum.status === '{}' ? '' : '×')",
                      figure, kFits)}});
    Reachable(chart.spec, {});
    chart.label =
        fmt::format("Heat map of a value of the step, by {} and {}", Key(along()), Key(*across()));
    return chart;
  }

  ParetoFigure Pareto() const {
    std::vector<ParetoPoint> points;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const SweepRow& row = rows_[i];
      if (row.status == RowStatus::kIllegal) continue;
      points.push_back({.name = SettingsText(grid_, static_cast<std::int64_t>(i), row, " = "),
                        .step_time = row.step_time,
                        .peak = row.peak,
                        .tokens_per_second_per_gpu = row.tokens_per_second_per_gpu,
                        .fits = row.status == RowStatus::kOk,
                        .tokens = unequal_tokens_ ? row.tokens : 0});
    }
    return ParetoChart(std::move(points),
                       fmt::format("{} against peak memory of every combination",
                                   unequal_tokens_ ? "Time per token" : "Step time"));
  }

  const std::string& Key(std::size_t axis) const { return grid_.axes()[axis].key; }
  std::string Name(std::size_t axis) const { return ShortName(grid_, axis); }

 private:
  bool OthersAsBest(std::int64_t row) const {
    for (std::size_t i = 2; i < order_.size(); ++i) {
      if (grid_.Value(row, order_[i]) != grid_.Value(best_, order_[i])) return false;
    }
    return true;
  }

  Chart Empty() const {
    Chart chart;
    for (const std::int64_t i : reach_) {
      const SweepRow& row = rows_[static_cast<std::size_t>(i)];
      const bool illegal = row.status == RowStatus::kIllegal;
      for (std::size_t axis = 0; axis < order_.size(); ++axis) {
        chart.data.Word(ColumnOf(axis), grid_.Value(i, axis));
      }
      const auto number = [&](const char* column, double value) {
        if (illegal) {
          chart.data.Missing(column);
        } else {
          chart.data.Number(column, value);
        }
      };
      number("step", InMilliseconds(row.step_time));
      if (unequal_tokens_) number("token", Rounded(NanosecondsPerToken(row)));
      number("rate", Rounded(row.tokens_per_second_per_gpu));
      number("peak", Amount(row.peak));
      chart.data.Word("status", Word(row.status));
      chart.data.Word("reason", Reason(row));
      chart.data.Word("best", has_best_ && i == best_ ? kBest : "");
    }
    for (std::size_t axis = 0; axis < order_.size(); ++axis) {
      chart.tips.push_back({ColumnOf(axis), Name(axis)});
    }
    chart.tips.push_back({"step", "Step time", "ms", 3});
    if (unequal_tokens_) chart.tips.push_back({"token", "Time per token", "ns", 1});
    chart.tips.insert(chart.tips.end(), {{"rate", "Tokens/s per GPU", "", 1},
                                         {"peak", "Peak memory", unit_.name, 2},
                                         {"status", "Status"},
                                         {"reason", "Because"},
                                         {"best", "Mark"}});
    return chart;
  }

  // An expression for the start or end of the shown figure's axis.
  std::string End(double AxisRange::*end) const {
    const auto of = [&](auto figure) {
      std::optional<double> least;
      double most = 0;
      for (const std::int64_t i : reach_) {
        const SweepRow& row = rows_[static_cast<std::size_t>(i)];
        if (row.status == RowStatus::kIllegal) continue;
        const double value = figure(row);
        least = std::min(least.value_or(value), value);
        most = std::max(most, value);
      }
      return AxisAround(least.value_or(0), most).*end;
    };
    return fmt::format("figure === '{}' ? {} : figure === '{}' ? {} : figure === '{}' ? {} : {}",
                       kStep, of([](const SweepRow& row) { return InMilliseconds(row.step_time); }),
                       kTokenTime, of([](const SweepRow& row) { return NanosecondsPerToken(row); }),
                       kRate, of([](const SweepRow& row) { return row.tokens_per_second_per_gpu; }),
                       of([&](const SweepRow& row) { return Amount(row.peak); }));
  }

  double Amount(Bytes bytes) const { return AmountIn(unit_, bytes); }

  Json Ordinal(std::size_t axis, int angle) const {
    const std::vector<std::string>& values = grid_.axes()[axis].values;
    constexpr std::size_t kManyLabels = 12;
    return ChartForm("key", {{"field", ColumnOf(axis)},
                             {"title", Key(axis)},
                             {"values", values},
                             {"angle", values.size() > kManyLabels ? angle : 0}});
  }

  // The selected figure, and filters for axes other than x and color.
  void Reachable(Json& spec, std::vector<std::string> filters) const {
    // The figure that compares combinations comes first.
    std::vector<std::string> figures = {kStep, kRate, fmt::format("peak memory, {}", unit_.name)};
    if (unequal_tokens_) figures.insert(figures.begin(), kTokenTime);
    spec["params"].push_back(
        {{"name", "figure"},
         {"value", figures.front()},
         {"bind", {{"input", "select"}, {"options", figures}, {"name", "Figure"}}}});
    Json transform = Json::array();
    transform.push_back(
        {{"calculate", fmt::format("figure === '{}' ? datum.step : figure === '{}' ? datum.token : "
                                   "figure === '{}' ? datum.rate : datum.peak",
                                   kStep, kTokenTime, kRate)},
         {"as", "value"}});
    for (std::size_t i = 2; i < order_.size(); ++i) {
      const std::size_t axis = order_[i];
      const std::string& value = grid_.Value(best_, axis);
      const std::string name = fmt::format("value{}", axis);
      if (leaves_out()) continue;  // the chart has only the best row's value
      spec["params"].push_back(
          {{"name", name},
           {"value", value},
           {"bind",
            {{"input", "select"}, {"options", grid_.axes()[axis].values}, {"name", Key(axis)}}}});
      filters.push_back(fmt::format("datum.{} === {}", ColumnOf(axis), name));
    }
    for (const std::string& filter : filters) transform.push_back({{"filter", filter}});
    spec["transform"] = std::move(transform);
  }

  const SweepGrid& grid_;
  const std::vector<SweepRow>& rows_;
  const bool has_best_;  // whether any combination fits
  const std::int64_t best_;
  const std::vector<std::size_t> order_;
  ByteUnit unit_{};
  bool some_too_large_ = false;
  bool unequal_tokens_ = false;
  // The rows that lines and cells can show. If there are too many, axes after the first two have
  // only the values of the best row.
  std::vector<std::int64_t> reach_;
};

Table RowTable(const SweepGrid& grid, const std::vector<SweepRow>& rows,
               const forecast::TrainingTarget& target) {
  // If not all rows are shown, the fastest are.
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() > kMostTableRows) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const bool a_fits = rows[a].status == RowStatus::kOk,
                 b_fits = rows[b].status == RowStatus::kOk;
      return a_fits != b_fits ? a_fits : TimePerTokenOf(rows[a]) < TimePerTokenOf(rows[b]);
    });
    order.resize(kMostTableRows);
  }
  const RowFigures figures(rows, target);
  AnswerTable table;
  for (const std::size_t i : order) {
    std::vector<Figure> row = figures.Of(grid, i, Unbroken(Word(rows[i].status)));
    row.push_back({{"reason", "", Align::kLeft}, Reason(rows[i])});
    table.AddFigures(std::move(row));
  }
  return table.ToTable();
}

std::vector<PageFigure> Answers(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                                std::optional<std::int64_t> best) {
  std::vector<PageFigure> answers{{.label = "Combinations",
                                   .value = Grouped(grid.rows()),
                                   .more = fmt::format("{} fit, {} do not fit, {} are illegal",
                                                       Grouped(Count(rows, RowStatus::kOk)),
                                                       Grouped(Count(rows, RowStatus::kDoesNotFit)),
                                                       Grouped(Count(rows, RowStatus::kIllegal)))}};
  if (!best) {
    answers.push_back({.label = "Shortest step",
                       .value = "none",
                       .more = "no combination fits",
                       .tone = Tone::kBad});
    return answers;
  }
  const bool unequal_tokens = planner::UnequalTokens(rows);
  const SweepRow& fastest = rows[static_cast<std::size_t>(*best)];
  answers.push_back(
      {.label = unequal_tokens ? "Least time per token" : "Shortest step",
       .value = unequal_tokens ? TimeForAToken(fastest) : FormatTime(fastest.step_time),
       .more = SettingsText(grid, *best, fastest, " = "),
       .tone = Tone::kGood});
  const std::int64_t rate = MostTokensPerGpu(rows, *best);
  const SweepRow& most = rows[static_cast<std::size_t>(rate)];
  answers.push_back({.label = "Most tokens/s per GPU",
                     .value = Decimal(most.tokens_per_second_per_gpu, 1),
                     .more = SettingsText(grid, rate, most, " = ")});
  return answers;
}

PageSection ParetoSection(const SweepCharts& charts, bool unequal_tokens) {
  PageSection section{.heading = unequal_tokens ? "Time per token against memory"
                                                : "Step time against memory"};
  section.paragraphs = {
      "Each point is a combination. For each combination on the line, no other combination is "
      "faster and needs less memory."};
  Draw(charts.Pareto(),
       "Combinations on the Pareto front: no other combination is faster and needs less memory",
       section);
  return section;
}

void AddChartSections(const SweepCharts& charts, const std::vector<SweepRow>& rows, Page& page) {
  std::vector<std::string> left_out;
  if (charts.leaves_out()) {
    left_out.push_back(
        "The chart shows only combinations in which all other keys have the values of the best "
        "combination.");
  }
  PageSection lines{.heading = "Along " + charts.Name(charts.along())};
  if (Count(rows, RowStatus::kDoesNotFit) > 0) {
    lines.paragraphs.emplace_back("Crosses are combinations that do not fit in memory.");
  }
  if (Count(rows, RowStatus::kIllegal) > 0) {
    lines.paragraphs.emplace_back("Illegal combinations are not shown.");
  }
  lines.chart = charts.Lines();
  lines.notes = left_out;
  page.sections.push_back(std::move(lines));
  if (charts.across()) {
    page.sections.push_back(
        {.heading =
             fmt::format("{} and {}", charts.Name(charts.along()), charts.Name(*charts.across())),
         .paragraphs =
             {"Darker cells have larger values. A frame marks the fastest combination that fits. "
              "Combinations marked × do not fit in memory. Combinations marked – cannot exist."},
         .chart = charts.Map(),
         .notes = left_out});
  }
  page.sections.push_back(ParetoSection(charts, planner::UnequalTokens(rows)));
}

PageSection TableSection(const SweepGrid& grid, const std::vector<SweepRow>& rows,
                         const forecast::TrainingTarget& target) {
  PageSection section{.heading = "All combinations"};
  if (rows.size() > kMostTableRows) {
    section.heading = "The fastest combinations";
    section.paragraphs = {fmt::format("The table shows {} of {}; --csv prints all combinations.",
                                      Grouped(kMostTableRows), Grouped(grid.rows()))};
  }
  section.tables.push_back(
      {.caption = "Combinations", .table = RowTable(grid, rows, target), .sortable = true});
  return section;
}

}  // namespace

std::string SweepPage(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& about,
                      const SweepGrid& grid, const std::vector<SweepRow>& rows,
                      const std::vector<StageRows>& stages,
                      const forecast::TrainingTarget& target) {
  STEPCAST_CHECK(static_cast<std::int64_t>(rows.size()) == grid.rows(), "a row per combination");
  Page page;
  page.kind = "Sweep over combinations";
  page.title = title;
  page.asked = about;
  for (const SweepAxis& axis : grid.axes()) {
    page.asked.emplace_back("varied",
                            fmt::format("{} = {}", axis.key, fmt::join(axis.values, ", ")));
  }
  const std::optional<std::int64_t> best = Fastest(rows);
  page.answer = Answers(grid, rows, best);
  if (!stages.empty()) page.sections.push_back(StagesSection(stages));
  const SweepCharts charts(grid, rows, best);
  const bool drawable = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) {
    return row.status != RowStatus::kIllegal;
  });
  if (drawable) AddChartSections(charts, rows, page);
  page.sections.push_back(TableSection(grid, rows, target));
  return PageHtml(page);
}

}  // namespace stepcast::report

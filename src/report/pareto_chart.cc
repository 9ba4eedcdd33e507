#include "src/report/pareto_chart.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/charts.h"
#include "src/report/number_text.h"
#include "src/report/pareto.h"

namespace stepcast::report {
namespace {

// More cannot be told apart, and would make the page slow.
constexpr std::size_t kMostPoints = 2'500;

// The front's words in the legend, and those of points that fit and are not on it.
struct FrontWords {
  const char* front;
  const char* beaten;
};
constexpr FrontWords kInTwo = {"nothing is both faster and smaller", "something is"};
// By more figures than the two that are drawn.
constexpr FrontWords kGiven = {"on the front", "beaten"};

// What is compared: the time of a step, or, where steps train unequal numbers of tokens, for one.
struct Compared {
  const char* name;
  const char* unit;
  double value(const ParetoPoint& point) const {
    if (point.tokens == 0) return InMilliseconds(point.step_time);
    constexpr double kPicosecondsOfNanosecond = 1e3;
    return Rounded(static_cast<double>(point.step_time.picoseconds()) /
                   static_cast<double>(point.tokens) / kPicosecondsOfNanosecond);
  }
};
constexpr Compared kStepTime = {"step time", "ms"};
constexpr Compared kTokenTime = {"time for a token", "ns"};

double Exact(const ParetoPoint& point) {
  return static_cast<double>(point.step_time.picoseconds()) /
         static_cast<double>(std::max<std::int64_t>(1, point.tokens));
}

void FindFront(std::vector<ParetoPoint>& points) {
  std::vector<double> x, y;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].on_front || !points[i].fits) continue;
    x.push_back(Exact(points[i]));
    y.push_back(static_cast<double>(points[i].peak.count()));
    which.push_back(i);
  }
  const std::vector<bool> front = ParetoFront(x, y);
  for (std::size_t i = 0; i < which.size(); ++i) points[which[i]].on_front = front[i];
}

bool OnFront(const ParetoPoint& point) { return point.on_front.value_or(false); }

// The front, and of the others every so-manieth.
std::vector<ParetoPoint> Thinned(const std::vector<ParetoPoint>& points, std::size_t most) {
  std::vector<ParetoPoint> kept;
  std::size_t others = 0;
  for (const ParetoPoint& point : points) others += OnFront(point) ? 0 : 1;
  const std::size_t every = (others + most - 1) / most;
  std::size_t seen = 0;
  for (const ParetoPoint& point : points) {
    if (OnFront(point) || seen++ % every == 0) kept.push_back(point);
  }
  return kept;
}

}  // namespace

ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit, const std::string& memory,
                         std::optional<Bytes> limit) {
  const bool given = std::any_of(points.begin(), points.end(), [](const ParetoPoint& point) {
    return point.on_front.has_value();
  });
  const FrontWords words = given ? kGiven : kInTwo;
  FindFront(points);
  std::vector<ParetoPoint> front;
  std::copy_if(points.begin(), points.end(), std::back_inserter(front), OnFront);
  std::stable_sort(front.begin(), front.end(),
                   [](const ParetoPoint& a, const ParetoPoint& b) { return Exact(a) < Exact(b); });

  std::string note;
  if (points.size() > kMostPoints) {
    const std::size_t all = points.size();
    points = Thinned(points, kMostPoints);
    note = fmt::format(
        "{} of {} points are drawn: all that nothing beats, and of the others an even choice.",
        Grouped(static_cast<std::int64_t>(points.size())), Grouped(static_cast<std::int64_t>(all)));
  }
  Bytes most = limit.value_or(Bytes());
  bool gpus = false;
  for (const ParetoPoint& point : points) {
    most = std::max(most, point.peak);
    gpus |= point.gpus > 0;
  }
  const ByteUnit unit = UnitFor(most);
  const auto amount = [&](Bytes bytes) {
    return Rounded(static_cast<double>(bytes.count()) / static_cast<double>(unit.bytes));
  };

  Chart chart;
  chart.label = label;
  const bool by_token = std::any_of(points.begin(), points.end(),
                                    [](const ParetoPoint& point) { return point.tokens > 0; });
  const Compared& compared = by_token ? kTokenTime : kStepTime;
  // The front last, so that nothing is drawn over it; else by what is compared.
  std::stable_sort(points.begin(), points.end(), [](const ParetoPoint& a, const ParetoPoint& b) {
    return OnFront(a) != OnFront(b) ? OnFront(b) : Exact(a) < Exact(b);
  });
  for (const ParetoPoint& point : points) {
    chart.data.Word("name", point.name);
    chart.data.Number("step", InMilliseconds(point.step_time));
    if (by_token) chart.data.Number("token", compared.value(point));
    chart.data.Number("peak", amount(point.peak));
    chart.data.Number("rate", Rounded(point.tokens_per_second_per_gpu));
    if (gpus) chart.data.Number("gpus", static_cast<double>(point.gpus));
    chart.data.Word("what", OnFront(point) ? words.front : point.fits ? words.beaten : unfit);
  }
  chart.tips = {{"name", "Combination"}, {"step", "Step time", "ms", 3}};
  if (by_token) chart.tips.push_back({"token", "Time for a token", "ns", 1});
  chart.tips.insert(chart.tips.end(), {{"peak", memory, unit.name, 2},
                                       {"rate", "Tokens/s per GPU", "", 1},
                                       {"gpus", "GPUs"},
                                       {"what", "Compared"}});
  // The axes of step time and of memory.
  const auto loose = [&](auto figure) {
    double least = points.empty() ? 0 : figure(points.front()), most = least;
    for (const ParetoPoint& point : points) {
      least = std::min(least, figure(point));
      most = std::max(most, figure(point));
    }
    const AxisRange range = AxisAround(least, most);
    return Json{{"zero", false}, {"domainMin", range.from}, {"domainMax", range.to}};
  };
  Palette palette{{words.front, "--c1"}};
  const auto any = [&](auto is) { return std::any_of(points.begin(), points.end(), is); };
  if (any([](const ParetoPoint& point) { return point.fits && !OnFront(point); })) {
    palette.emplace_back(words.beaten, "--c0");
  }
  if (any([](const ParetoPoint& point) { return !point.fits; })) {
    palette.emplace_back(unfit, "--idle");
  }
  const Json times = loose([&](const ParetoPoint& p) { return compared.value(p); });
  Json peaks = loose([&](const ParetoPoint& p) { return amount(p.peak); });
  if (limit) {
    double highest = 0;
    for (const ParetoPoint& point : points) highest = std::max(highest, amount(point.peak));
    constexpr double kAbove = 1.06;  // for the words above the line
    peaks["domainMax"] = std::max(AxisAround(0, highest).to, kAbove * amount(*limit));
  }
  Json encoding{{"x", Quantity(by_token ? "token" : "step",
                               fmt::format("{}, {}", compared.name, compared.unit), times)},
                {"y", Quantity("peak", fmt::format("{}, {}", memory, unit.name), peaks)},
                {"color", ColourBy("what", palette)}};
  encoding["color"]["legend"]["symbolType"] = "circle";
  Json line{{"transform", {{{"filter", fmt::format("datum.what === '{}'", words.front)}}}},
            {"mark",
             {{"type", "line"},
              {"interpolate", "step-after"},
              {"color", "var(--c1)"},
              {"strokeWidth", 1.2},
              {"tooltip", nullptr}}},
            {"encoding", {{"color", nullptr}}}};
  Json marks{
      {"mark", Mark("point", {{"filled", true}, {"size", 60}, {"opacity", 0.85}, {"clip", true}})}};
  // A front in more figures makes no line in two.
  Json layers = Json::array();
  if (!given) layers.push_back(std::move(line));
  if (limit) {
    const ChartLimit capacity{amount(*limit), fmt::format("capacity {}", FormatBytes(*limit))};
    for (Json& layer : LimitLayers(capacity, "y")) layers.push_back(std::move(layer));
  }
  layers.push_back(std::move(marks));
  constexpr int kHeight = 380;
  chart.spec = Layered(std::move(layers), std::move(encoding), 2, kHeight);

  std::vector<Column> columns = {{"on the front", Align::kLeft},
                                 {"step ms", Align::kRight},
                                 {fmt::format("{} {}", memory, unit.name), Align::kRight},
                                 {"tokens/s/GPU", Align::kRight}};
  if (gpus) columns.push_back({"GPUs", Align::kRight});
  Table table(std::move(columns));
  for (const ParetoPoint& point : front) {
    std::vector<std::string> cells = {point.name, Milliseconds(point.step_time),
                                      In(unit, point.peak),
                                      Decimal(point.tokens_per_second_per_gpu, 1)};
    if (gpus) cells.push_back(Grouped(point.gpus));
    table.AddRow(std::move(cells));
  }
  return {std::move(chart), std::move(note), std::move(table)};
}

}  // namespace stepcast::report

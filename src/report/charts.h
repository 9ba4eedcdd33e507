#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/page.h"

// Parts of Vega-Lite specifications that several pages share. Colors are variables of page.css, so
// one specification works for light, dark and print. Internal to this package.
namespace stepcast::report {

// The values of a text column, each with its CSS color variable ("--forward").
using Palette = std::vector<std::pair<std::string, std::string>>;

// Returns the channel that colors the values of `field`, with a legend above the chart. The legend
// of points has circles.
enum class Legend { kPlain, kPoints };
Json ColourBy(const std::string& field, const Palette& palette, Legend legend = Legend::kPlain,
              const std::string& title = "");

// Returns a palette for values without fixed colors.
Palette PaletteOf(const std::vector<std::string>& words);

// The range of an axis for nonnegative values from `least` to `most`, slightly wider than the
// values but not below zero.
struct AxisRange {
  double from = 0, to = 0;
};
AxisRange AxisAround(double least, double most);

// Returns whether a chart draws the capacity as a line. If the capacity is more than twice the
// largest size, the line would flatten the chart.
bool DrawsCapacity(Bytes capacity, Bytes largest);

// Returns a size in a unit, rounded for charts.
double AmountIn(ByteUnit unit, Bytes bytes);

// Returns the entry `name` of chart_forms.json: a Vega-Lite specification, or a part of one. In the
// file, "$NAME" is a placeholder. The value NAME of `values` replaces the placeholder. If there is
// no such value, the entry NAME of the file replaces the placeholder. If there is no such entry
// either, the member or element with the placeholder is omitted. An object with the member "if":
// NAME is omitted if `values` has no NAME.
Json ChartForm(const std::string& name, const Json& values);

// Returns a plot of forecast against measured values on logarithmic axes. Lines mark equality and
// deviations of ten per cent. The columns of `data` are measured, forecast, group (color), name,
// the columns of `tips` and, with `shapes`, shape. `data` must have at least one row, and its
// values must be positive. `unit` is the unit of the values and of the ticks, such as "s".
Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& shapes, std::vector<ChartTip> tips);

// Returns a chart of stacked bars. The columns of `data` are bar, part, value, and share (per cent
// of the bar). `more` has further values of the form "bars".
Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars, const Json& more = Json::object());

// A memory bar: its name, and a size for each part.
using ByteBar = std::pair<std::string, std::vector<Bytes>>;
// Returns a chart of stacked memory bars. A line shows `capacity`, if it is not zero. If the line
// would flatten the bars, the axis title states the capacity instead.
Chart ByteBars(const std::string& label, const std::vector<ByteBar>& bars, const Palette& parts,
               Bytes capacity);

// Returns a line chart with texts on the x axis, such as "1 MiB", at equal distances in the order
// of `data`. The columns of `data` are x, line, value and the columns of `tips`. `x` and `y` are
// axis titles.
Chart LinesOver(const std::string& label, const std::string& x, const std::string& y,
                ChartData data, const std::vector<std::string>& lines, std::vector<ChartTip> tips);

// A chart of step time and memory of many plans or combinations. Internal to this package.

// Returns, for each point, whether it is on the Pareto front: no other point is smaller in one
// value and not larger in the other.
std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y);

struct ParetoPoint {
  std::string name;  // "data_parallel.bucket_size = 25 MiB, cluster.nodes = 4"
  Time step_time;
  Bytes peak;
  double tokens_per_second_per_gpu = 0;
  bool fits = true;         // only points that fit may be on the front
  std::int64_t tokens = 0;  // tokens per step; 0: equal for all points
  std::int64_t gpus = 0;    // number of GPUs; 0: equal for all points, and not shown
  // Whether no other plan is better in every respect. Not set: ParetoChart determines this from
  // step time and peak of the points that fit.
  std::optional<bool> on_front{};
};

struct ParetoFigure {
  Chart chart;
  std::string note;  // a note on omitted points; may be empty
  Table front;       // points on the front, shortest step first
};

// Moves the figure into a section. `caption` is the caption of the table.
void Draw(ParetoFigure figure, std::string caption, PageSection& section);

// Returns a chart with all points on the front, and with an evenly distributed selection of the
// other points if there are many. `unfit` is the legend of points that do not fit. `memory` is the
// title of the axis for `peak`. `limit` is the capacity, if all points have the same capacity.
ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit = "does not fit",
                         const std::string& memory = "peak memory",
                         std::optional<Bytes> limit = std::nullopt);

}  // namespace stepcast::report

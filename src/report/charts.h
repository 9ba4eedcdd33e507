#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/report/page.h"

// Parts of Vega-Lite specifications that several pages share. Colors are variables of page.css, so
// one specification works for light, dark and print. Internal to this package.
namespace stepcast::report {

// The values of a text column, each with its CSS color variable ("--forward").
using Palette = std::vector<std::pair<std::string, std::string>>;

// Returns the channel that colors the values of `field`, with a legend above the chart.
Json ColourBy(const std::string& field, const Palette& palette, const std::string& title = "");

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

// Returns a quantitative channel of Vega-Lite. `scale` may be null.
Json Quantity(const std::string& field, const std::string& title, Json scale = nullptr);

// Returns a specification with the width of all charts and a height of `height` pixels. The last of
// `layers` draws the rows. The row with keyboard focus has an outline of width `emphasis`.
Json Layered(Json layers, Json encoding, double emphasis, int height);

// Returns a mark that shows the rows' tooltips.
Json Mark(const std::string& type, Json more = Json::object());

// Returns a plot of forecast against measured values on logarithmic axes. Lines mark equality and
// deviations of ten per cent. The columns of `data` are measured, forecast, group (color), name,
// the columns of `tips` and, with `shapes`, shape. `unit` is the unit of the values and of the
// ticks, such as "s".
Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& groups,
                               const std::vector<std::string>& shapes, double least, double most,
                               std::vector<ChartTip> tips);

// A limit drawn across a chart, such as a capacity.
struct ChartLimit {
  double value = 0;
  std::string text;  // "capacity 80 GiB"
};
// Returns the layers of a chart that draw a limit as a line. `channel` is the channel of the
// values, "x" or "y".
std::vector<Json> LimitLayers(const ChartLimit& limit, const std::string& channel);

// Returns a chart of stacked bars. The columns of `data` are bar, part, value, and share (per cent
// of the bar).
Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars);

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

}  // namespace stepcast::report

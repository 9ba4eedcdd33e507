#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/report/page.h"

// Parts of Vega-Lite specifications that several pages share. Colors are the variables of page.css,
// so that one specification works for light, dark and print. Internal to this package.
namespace stepcast::report {

// A word in the data, and its color variable ("--forward").
using Palette = std::vector<std::pair<std::string, std::string>>;

// The color channel for the words of a field, with a legend above the chart.
Json ColourBy(const std::string& field, const Palette& palette, const std::string& title = "");

// A palette for words without fixed colors.
Palette PaletteOf(const std::vector<std::string>& words);

// The range of an axis for nonnegative amounts from `least` to `most`: a little wider, but not
// below zero. (Vega's own padding may extend below zero.)
struct AxisRange {
  double from = 0, to = 0;
};
AxisRange AxisAround(double least, double most);

// A quantitative channel. `scale` may be null.
Json Quantity(const std::string& field, const std::string& title, Json scale = nullptr);

// A specification with the shared width. The last of `layers` contains the rows; the row with the
// keyboard's focus gets an outline of width `emphasis`.
Json Layered(Json layers, Json encoding, double emphasis, int height);

// A mark with the rows' tooltips.
Json Mark(const std::string& type, Json more = Json::object());

// Forecast against measured values on logarithmic axes, with the diagonal and lines at ten per cent
// on both sides. Columns: measured, forecast, group (color), name and those of `tips`; with
// `shapes`, also `shape`. `unit` includes the unit of the ticks: "s".
Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& groups,
                               const std::vector<std::string>& shapes, double least, double most,
                               std::vector<ChartTip> tips);

// A limit drawn across a chart, such as a capacity.
struct ChartLimit {
  double value = 0;
  std::string text;  // "capacity 80 GiB"
};
// The layers of a limit. `channel` is the channel of amounts, "x" or "y".
std::vector<Json> LimitLayers(const ChartLimit& limit, const std::string& channel);

// Stacked bars of parts. Columns: bar, part, value, share (in per cent of the bar). `limit` is
// drawn across all bars.
Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars,
                  const std::optional<ChartLimit>& limit = std::nullopt);

// Lines over words, from the first word to the last. Columns: x, line, value and those of `tips`.
// `x` and `y` are the axes' titles.
Chart LinesOver(const std::string& label, const std::string& x, const std::string& y,
                ChartData data, const std::vector<std::string>& lines, std::vector<ChartTip> tips);

}  // namespace stepcast::report

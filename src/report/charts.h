#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/report/page.h"

// Pieces of Vega-Lite specifications that several pages share. Colours are the variables of
// page.css, so that light, dark and print need no other specification. For the .cc files of this
// package only.
namespace stepcast::report {

// A word of the data and the colour variable that stands for it ("--forward").
using Palette = std::vector<std::pair<std::string, std::string>>;

// The colour channel for the words of a field, with a legend above the chart.
Json ColourBy(const std::string& field, const Palette& palette, const std::string& title = "");

// The palette for words that have no colours of their own.
Palette PaletteOf(const std::vector<std::string>& words);

// What an axis shows for amounts from `least` to `most`, none of which can be negative: a little
// more, and nothing below zero. (Vega's own padding knows no such limit.)
struct AxisRange {
  double from = 0, to = 0;
};
AxisRange AxisAround(double least, double most);

// A quantitative channel. `scale` may be null.
Json Quantity(const std::string& field, const std::string& title, Json scale = nullptr);

// A specification of the shared width. Rows stand in the last of `layers`; the one that has the
// keyboard's focus gets an outline of the width `emphasis`.
Json Layered(Json layers, Json encoding, double emphasis, int height);

// A mark whose tooltips are the rows'.
Json Mark(const std::string& type, Json more = Json::object());

// Forecast over measured, both logarithmic, with the diagonal and ten per cent on both sides.
// Columns: measured, forecast, group (the colour), name and whatever `tips` adds; with `shapes`,
// also `shape`. The ticks' unit is part of `unit`: "s".
Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& groups,
                               const std::vector<std::string>& shapes, double least, double most,
                               std::vector<ChartTip> tips);

// An amount that is drawn across a chart: what there is of something.
struct ChartLimit {
  double value = 0;
  std::string text;  // "capacity 80 GiB"
};
// Its layers; `channel` is that of amounts, "x" or "y".
std::vector<Json> LimitLayers(const ChartLimit& limit, const std::string& channel);

// Bars of parts that add up. Columns: bar, part, value, share (of the bar in per cent). `limit`:
// across all bars.
Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars,
                  const std::optional<ChartLimit>& limit = std::nullopt);

}  // namespace stepcast::report

#include "src/report/charts.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

std::string Variable(const std::string& name) { return fmt::format("var({})", name); }

}  // namespace

Json ColourBy(const std::string& field, const Palette& palette, const std::string& title) {
  Json domain = Json::array(), range = Json::array();
  for (const auto& [word, colour] : palette) {
    domain.push_back(word);
    range.push_back(Variable(colour));
  }
  return Json{{"field", field},
              {"type", "nominal"},
              {"scale", {{"domain", std::move(domain)}, {"range", std::move(range)}}},
              {"legend", {{"title", title.empty() ? Json() : Json(title)}, {"orient", "top"}}}};
}

Palette PaletteOf(const std::vector<std::string>& words) {
  constexpr std::size_t kColours = 13;  // of page.css
  Palette palette;
  for (std::size_t i = 0; i < words.size(); ++i) {
    palette.emplace_back(words[i], fmt::format("--c{}", i % kColours));
  }
  return palette;
}

AxisRange AxisAround(double least, double most) {
  constexpr double kRoom = 1.0 / 16;
  // Equal amounts have no range, so use a fraction of the amount.
  const double room = kRoom * (most > least ? most - least : most);
  return {std::max(0.0, least - room), most + room};
}

bool DrawsCapacity(Bytes capacity, Bytes largest) {
  constexpr std::int64_t kNear = 2;
  return capacity > Bytes() && capacity.count() <= kNear * largest.count();
}

double AmountIn(ByteUnit unit, Bytes bytes) {
  return Rounded(static_cast<double>(bytes.count()) / static_cast<double>(unit.bytes));
}

Json Quantity(const std::string& field, const std::string& title, Json scale) {
  Json channel{{"field", field}, {"type", "quantitative"}, {"title", title}};
  if (!scale.is_null()) channel["scale"] = std::move(scale);
  return channel;
}

Json Mark(const std::string& type, Json more) {
  Json mark{{"type", type}, {"tooltip", {{"content", "data"}}}};
  mark.update(more);
  return mark;
}

Json Layered(Json layers, Json encoding, double emphasis, int height) {
  const auto in_focus = [](Json then, Json otherwise) {
    return Json{{"condition", {{"test", "datum.id === focus"}, {"value", std::move(then)}}},
                {"value", std::move(otherwise)}};
  };
  Json& rows = layers.back();
  rows["encoding"]["stroke"] = in_focus("var(--mark)", rows["mark"].value("stroke", "transparent"));
  rows["encoding"]["strokeWidth"] = in_focus(emphasis, rows["mark"].value("strokeWidth", 0.0));
  if (rows["mark"]["type"] == "point") {
    constexpr int kUsual = 60, kLarger = 3;
    const int size = rows["mark"].value("size", kUsual);
    rows["encoding"]["size"] = in_focus(kLarger * size, size);
  }
  return Json{{"data", {{"name", "rows"}}},
              {"width", "container"},
              {"height", height},
              {"params", {{{"name", "focus"}, {"value", -1}}}},
              {"encoding", std::move(encoding)},
              {"layer", std::move(layers)}};
}

Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& groups,
                               const std::vector<std::string>& shapes, double least, double most,
                               std::vector<ChartTip> tips) {
  // A margin around the outermost points.
  constexpr double kRoom = 1.25, kTenth = 1.1;
  const double from = least / kRoom, to = most * kRoom;
  const auto line = [&](double factor, bool dashed) {
    Json mark{{"type", "line"}, {"color", "var(--quiet)"}, {"strokeWidth", 1}, {"clip", true}};
    if (dashed) mark["strokeDash"] = {4, 4};
    return Json{{"data",
                 {{"values",
                   {{{"measured", from}, {"forecast", from * factor}},
                    {{"measured", to}, {"forecast", to * factor}}}}}},
                {"mark", std::move(mark)},
                {"encoding", {{"color", nullptr}, {"shape", nullptr}}}};
  };
  Json points{{"mark", Mark("point", {{"filled", true}, {"size", 44}, {"opacity", 0.75}})}};
  Json layers =
      Json::array({line(1, false), line(kTenth, true), line(1 / kTenth, true), std::move(points)});
  const Json scale{{"type", "log"}, {"domain", {from, to}}, {"nice", false}};
  const Json axis{{"format", "~g"}, {"tickCount", 6}};
  Json x = Quantity("measured", "measured, " + unit, scale);
  Json y = Quantity("forecast", "forecast, " + unit, scale);
  x["axis"] = axis;
  y["axis"] = axis;
  Json encoding{{"x", std::move(x)}, {"y", std::move(y)}};
  encoding["color"] = ColourBy("group", PaletteOf(groups));
  encoding["color"]["legend"]["symbolType"] = "circle";
  if (!shapes.empty()) {
    encoding["shape"] = {{"field", "shape"},
                         {"type", "nominal"},
                         {"scale", {{"domain", shapes}, {"range", {"circle", "cross", "square"}}}},
                         {"legend", {{"title", nullptr}, {"orient", "top"}}}};
  }
  constexpr int kHeight = 520;
  Json spec = Layered(std::move(layers), std::move(encoding), 2, kHeight);
  if (groups.size() == 1) {
    spec["encoding"]["color"]["legend"] = nullptr;
  } else {
    // A selection that shows one group only.
    Json options = Json::array({"all"});
    for (const std::string& group : groups) options.push_back(group);
    spec["params"].push_back(
        {{"name", "only"},
         {"value", "all"},
         {"bind", {{"input", "select"}, {"options", std::move(options)}, {"name", "Show"}}}});
    spec["layer"][3]["transform"] = {{{"filter", "only === 'all' || datum.group === only"}}};
  }
  return {
      .label = label, .spec = std::move(spec), .data = std::move(data), .tips = std::move(tips)};
}

std::vector<Json> LimitLayers(const ChartLimit& limit, const std::string& channel) {
  const Json data{{"values", Json::array({Json{{"limit", limit.value}, {"text", limit.text}}})}};
  // The limit has none of the rows' other channels.
  Json of_limit{{"color", nullptr}, {"order", nullptr}, {channel == "x" ? "y" : "x", nullptr}};
  of_limit[channel] = {{"field", "limit"}, {"type", "quantitative"}};
  Json with_text = of_limit;
  with_text["text"] = {{"field", "text"}};
  Json text{{"type", "text"}, {"color", "var(--bad)"}, {"align", "right"}, {"fontSize", 12},
            {"dx", -4},       {"tooltip", nullptr}};
  text[channel == "x" ? "y" : "x"] = channel == "x" ? Json(0) : Json("width");
  text["baseline"] = "bottom";
  text["dy"] = -4;
  const Json rule{
      {"type", "rule"}, {"color", "var(--bad)"}, {"strokeDash", {5, 4}}, {"tooltip", nullptr}};
  return {Json{{"data", data}, {"mark", rule}, {"encoding", std::move(of_limit)}},
          Json{{"data", data}, {"mark", std::move(text)}, {"encoding", std::move(with_text)}}};
}

Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars) {
  Json x = Quantity("value", unit, {{"nice", false}});
  x["stack"] = "zero";
  x["axis"] = {{"grid", true}, {"tickCount", 8}};
  Json encoding{{"x", std::move(x)},
                {"y",
                 {{"field", "bar"},
                  {"type", "nominal"},
                  {"sort", nullptr},
                  {"title", nullptr},
                  {"axis", {{"domain", false}, {"ticks", false}}}}},
                {"color", ColourBy("part", parts)},
                // Parts are stacked in the order of the data.
                {"order", {{"field", "id"}, {"type", "quantitative"}}}};
  constexpr int kBar = 46;
  Json base{{"mark", Mark("bar", {{"stroke", "var(--paper)"}, {"strokeWidth", 1.0}})}};
  constexpr double kEmphasis = 3;
  return {
      .label = label,
      .spec = Layered(Json::array({std::move(base)}), std::move(encoding), kEmphasis, kBar * bars),
      .data = std::move(data),
      .tips = {
          {"bar", ""}, {"part", "Part"}, {"value", "Amount", unit, 3}, {"share", "Share", "%", 1}}};
}

Chart ByteBars(const std::string& label, const std::vector<ByteBar>& bars, const Palette& parts,
               Bytes capacity) {
  const auto whole = [](const ByteBar& bar) {
    return std::accumulate(bar.second.begin(), bar.second.end(), Bytes());
  };
  Bytes longest;
  for (const ByteBar& bar : bars) longest = std::max(longest, whole(bar));
  const ByteUnit unit = UnitFor(longest);
  ChartData data;
  for (const ByteBar& bar : bars) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Bytes part = bar.second[i];
      if (part <= Bytes()) continue;
      data.Word("bar", bar.first);
      data.Word("part", parts[i].first);
      data.Number("value", AmountIn(unit, part));
      data.Number("share", Rounded(kHundred * static_cast<double>(part.count()) /
                                   static_cast<double>(whole(bar).count())));
    }
  }
  Chart chart =
      StackedBars(label, unit.name, std::move(data), parts, static_cast<int>(bars.size()));
  if (capacity <= Bytes()) return chart;
  const std::string text = fmt::format("capacity {}", FormatBytes(capacity));
  if (!DrawsCapacity(capacity, longest)) {
    chart.spec["encoding"]["x"]["title"] = fmt::format("{}; {}", unit.name, text);
    return chart;
  }
  for (Json& layer : LimitLayers({AmountIn(unit, capacity), text}, "x")) {
    layer["encoding"]["x"]["title"] = unit.name;
    chart.spec["layer"].push_back(std::move(layer));
  }
  return chart;
}

Chart LinesOver(const std::string& label, const std::string& x, const std::string& y,
                ChartData data, const std::vector<std::string>& lines, std::vector<ChartTip> tips) {
  Json encoding{{"x",
                 {{"field", "x"},
                  {"type", "ordinal"},
                  {"sort", nullptr},
                  {"title", x},
                  {"axis", {{"labelAngle", -30}, {"labelOverlap", true}}}}},
                {"y", Quantity("value", y)},
                {"color", ColourBy("line", PaletteOf(lines))}};
  encoding["color"]["legend"]["symbolType"] = "circle";
  Json line{{"mark", {{"type", "line"}, {"strokeWidth", 1.6}, {"tooltip", nullptr}}}};
  Json points{{"mark", Mark("point", {{"size", 60}, {"filled", true}})}};
  constexpr int kHeight = 300;
  return {.label = label,
          .spec = Layered(Json::array({std::move(line), std::move(points)}), std::move(encoding), 2,
                          kHeight),
          .data = std::move(data),
          .tips = std::move(tips)};
}

}  // namespace stepcast::report

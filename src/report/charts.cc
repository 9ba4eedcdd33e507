#include "src/report/charts.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/page_assets.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

const Json& Forms() {
  static const Json forms = Json::parse(ChartForms());
  return forms;
}

// The form with its values; a discarded value if it is omitted.
Json Filled(const Json& form, const Json& values) {
  if (form.is_string() && form.get_ref<const std::string&>().starts_with('$')) {
    const std::string name = form.get<std::string>().substr(1);
    if (values.contains(name)) return values.at(name);
    return Forms().contains(name) ? Filled(Forms().at(name), values)
                                  : Json(Json::value_t::discarded);
  }
  if (!form.is_structured()) return form;
  Json filled = form.is_array() ? Json::array() : Json::object();
  for (const auto& [key, part] : form.items()) {
    if (form.is_object() && key == "if") {
      if (!values.contains(part.get<std::string>())) return Json::value_t::discarded;
      continue;
    }
    Json value = Filled(part, values);
    if (value.is_discarded()) continue;
    if (form.is_array()) {
      filled.push_back(std::move(value));
    } else {
      filled[key] = std::move(value);
    }
  }
  return filled;
}

}  // namespace

Json ChartForm(const std::string& name, const Json& values) {
  return Filled(Forms().at(name), values);
}

Json ColourBy(const std::string& field, const Palette& palette, Legend legend,
              const std::string& title) {
  Json words = Json::array(), colours = Json::array();
  for (const auto& [word, colour] : palette) {
    words.push_back(word);
    colours.push_back(fmt::format("var({})", colour));
  }
  Json values{{"field", field},
              {"words", std::move(words)},
              {"colors", std::move(colours)},
              {"title", title.empty() ? Json() : Json(title)}};
  if (legend == Legend::kPoints) values["symbol"] = "circle";
  return ChartForm("words", values);
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

Chart PredictedAgainstMeasured(const std::string& label, const std::string& unit, ChartData data,
                               const std::vector<std::string>& shapes, std::vector<ChartTip> tips) {
  std::vector<double> values_of_both;
  for (const char* column : {"measured", "forecast"}) {
    for (const Json& value : data.Distinct(column)) values_of_both.push_back(value.get<double>());
  }
  const auto [least, most] = std::minmax_element(values_of_both.begin(), values_of_both.end());
  std::vector<std::string> groups;
  for (const Json& group : data.Distinct("group")) groups.push_back(group.get<std::string>());
  // A margin around the outermost points.
  constexpr double kRoom = 1.25, kTenth = 1.1;
  const double from = *least / kRoom, to = *most * kRoom;
  const auto line = [&](double factor) {
    return Json{{{"measured", from}, {"forecast", from * factor}},
                {{"measured", to}, {"forecast", to * factor}}};
  };
  Json values{{"x", "measured, " + unit},
              {"y", "forecast, " + unit},
              {"scale", {{"type", "log"}, {"domain", {from, to}}, {"nice", false}}},
              {"groups", ColourBy("group", PaletteOf(groups), Legend::kPoints)},
              {"equal", line(1)},
              {"more", line(kTenth)},
              {"less", line(1 / kTenth)}};
  if (!shapes.empty()) values["shapes"] = shapes;
  if (groups.size() == 1) {
    values["groups"]["legend"] = nullptr;
  } else {
    // A selection that shows one group only.
    values["choices"] = groups;
    values["choices"].insert(values["choices"].begin(), "all");
    values["chosen"] = {{{"filter", "only === 'all' || datum.group === only"}}};
  }
  return {.label = label,
          .spec = ChartForm("predicted against measured", values),
          .data = std::move(data),
          .tips = std::move(tips)};
}

Chart StackedBars(const std::string& label, const std::string& unit, ChartData data,
                  const Palette& parts, int bars, const Json& more) {
  constexpr int kBar = 46;
  Json values{{"height", kBar * bars}, {"title", unit}, {"parts", ColourBy("part", parts)}};
  values.update(more);
  return {
      .label = label,
      .spec = ChartForm("bars", values),
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
  Json limit = Json::object();
  const std::string text = fmt::format("capacity {}", FormatBytes(capacity));
  if (DrawsCapacity(capacity, longest)) {
    limit = {{"limit", AmountIn(unit, capacity)}, {"limit words", text}};
  } else if (capacity > Bytes()) {
    limit["title"] = fmt::format("{}; {}", unit.name, text);
  }
  return StackedBars(label, unit.name, std::move(data), parts, static_cast<int>(bars.size()),
                     limit);
}

Chart LinesOver(const std::string& label, const std::string& x, const std::string& y,
                ChartData data, const std::vector<std::string>& lines, std::vector<ChartTip> tips) {
  return {.label = label,
          .spec = ChartForm(
              "line chart",
              {{"x", x}, {"y", y}, {"lines", ColourBy("line", PaletteOf(lines), Legend::kPoints)}}),
          .data = std::move(data),
          .tips = std::move(tips)};
}

}  // namespace stepcast::report

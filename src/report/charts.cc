#include "src/report/charts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
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

std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y) {
  STEPCAST_CHECK(x.size() == y.size(), "a point must have two values");
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return x[a] != x[b] ? x[a] < x[b] : y[a] < y[b]; });
  std::vector<bool> front(x.size());
  double best = std::numeric_limits<double>::infinity();  // y of all with a smaller x
  for (std::size_t i = 0; i < order.size();) {
    // Among equal x, only the lowest y can be on the front.
    const double least = y[order[i]];
    std::size_t end = i;
    for (; end < order.size() && x[order[end]] == x[order[i]]; ++end) {
      front[order[end]] = y[order[end]] == least && least < best;
    }
    best = std::min(best, least);
    i = end;
  }
  return front;
}

namespace {

// More points could not be distinguished and would make the page slow.
constexpr std::size_t kMostPoints = 2'500;

// The legend of points on the front, and of points that fit but are not on it.
constexpr const char* kFront = "Pareto-optimal";
constexpr const char* kDominated = "dominated";

// The compared figure: the time of a step or, if tokens differ, of a token.
struct Measure {
  const char* name;
  const char* unit;
  double value(const ParetoPoint& point) const {
    if (point.tokens == 0) return InMilliseconds(point.step_time);
    constexpr double kPicosecondsOfNanosecond = 1e3;
    return Rounded(static_cast<double>(point.step_time.picoseconds()) /
                   static_cast<double>(point.tokens) / kPicosecondsOfNanosecond);
  }
};
constexpr Measure kStepTime = {"step time", "ms"};
constexpr Measure kByTokenTime = {"time per token", "ns"};

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

// The points on the front, and an even selection of the others.
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

// Draws the selected points and makes the table.
class ParetoDrawing {
 public:
  // `given`: the front has more dimensions than the two drawn.
  ParetoDrawing(std::vector<ParetoPoint> points, bool given, std::string unfit, std::string memory,
                std::optional<Bytes> limit)
      : points_(std::move(points)),
        given_(given),
        unfit_(std::move(unfit)),
        memory_(std::move(memory)),
        limit_(limit),
        by_token_(Any([](const ParetoPoint& point) { return point.tokens > 0; })),
        with_gpus_(Any([](const ParetoPoint& point) { return point.gpus > 0; })),
        compared_(by_token_ ? kByTokenTime : kStepTime) {
    Bytes most;
    for (const ParetoPoint& point : points_) most = std::max(most, point.peak);
    unit_ = UnitFor(most);
    axis_ = fmt::format("{}, {}", memory_, unit_.name);
    if (limit_ && !DrawsCapacity(*limit_, most)) {
      axis_ += fmt::format("; capacity {}", FormatBytes(*limit_));
      limit_.reset();
    }
    // The front is drawn last, on top; otherwise points are ordered by the compared figure.
    std::stable_sort(points_.begin(), points_.end(),
                     [](const ParetoPoint& a, const ParetoPoint& b) {
                       return OnFront(a) != OnFront(b) ? OnFront(b) : Exact(a) < Exact(b);
                     });
  }

  Chart Draw(const std::string& label) const;
  Table FrontTable(const std::vector<ParetoPoint>& front) const;

 private:
  template <typename Predicate>
  bool Any(Predicate is) const {
    return std::any_of(points_.begin(), points_.end(), is);
  }
  double Amount(Bytes bytes) const { return AmountIn(unit_, bytes); }
  // The range of an axis that need not begin at zero.
  template <typename Figure>
  Json LooseDomain(Figure figure) const {
    double least = points_.empty() ? 0 : figure(points_.front()), most = least;
    for (const ParetoPoint& point : points_) {
      least = std::min(least, figure(point));
      most = std::max(most, figure(point));
    }
    const AxisRange range = AxisAround(least, most);
    return Json{{"zero", false}, {"domainMin", range.from}, {"domainMax", range.to}};
  }

  void AddRows(Chart& chart) const;
  void AddTips(Chart& chart) const;
  Json MemoryDomain() const;
  Palette Colours() const;
  Json Spec() const;

  std::vector<ParetoPoint> points_;
  bool given_;
  std::string unfit_, memory_, axis_;
  std::optional<Bytes> limit_;
  bool by_token_, with_gpus_;
  const Measure& compared_;
  ByteUnit unit_{};
};

Chart ParetoDrawing::Draw(const std::string& label) const {
  Chart chart;
  chart.label = label;
  AddRows(chart);
  AddTips(chart);
  chart.spec = Spec();
  return chart;
}

void ParetoDrawing::AddRows(Chart& chart) const {
  for (const ParetoPoint& point : points_) {
    chart.data.Word("name", point.name);
    chart.data.Number("step", InMilliseconds(point.step_time));
    if (by_token_) chart.data.Number("token", compared_.value(point));
    chart.data.Number("peak", Amount(point.peak));
    chart.data.Number("rate", Rounded(point.tokens_per_second_per_gpu));
    if (with_gpus_) chart.data.Number("gpus", static_cast<double>(point.gpus));
    chart.data.Word("what", OnFront(point) ? kFront : point.fits ? kDominated : unfit_);
  }
}

void ParetoDrawing::AddTips(Chart& chart) const {
  chart.tips = {{"name", "Combination"}, {"step", "Step time", "ms", 3}};
  if (by_token_) chart.tips.push_back({"token", "Time per token", "ns", 1});
  chart.tips.insert(chart.tips.end(), {{"peak", memory_, unit_.name, 2},
                                       {"rate", "Tokens/s per GPU", "", 1},
                                       {"gpus", "GPUs"},
                                       {"what", "Compared"}});
}

Json ParetoDrawing::MemoryDomain() const {
  const auto peak = [this](const ParetoPoint& point) { return Amount(point.peak); };
  Json domain = LooseDomain(peak);
  if (limit_) {
    double highest = 0;
    for (const ParetoPoint& point : points_) highest = std::max(highest, peak(point));
    constexpr double kAbove = 1.06;  // for the words above the line
    domain["domainMax"] = std::max(AxisAround(0, highest).to, kAbove * Amount(*limit_));
  }
  return domain;
}

Palette ParetoDrawing::Colours() const {
  Palette palette{{kFront, "--c1"}};
  if (Any([](const ParetoPoint& point) { return point.fits && !OnFront(point); })) {
    palette.emplace_back(kDominated, "--c0");
  }
  if (Any([](const ParetoPoint& point) { return !point.fits; })) {
    palette.emplace_back(unfit_, "--idle");
  }
  return palette;
}

Json ParetoDrawing::Spec() const {
  Json values{
      {"compared", by_token_ ? "token" : "step"},
      {"x", fmt::format("{}, {}", compared_.name, compared_.unit)},
      {"times", LooseDomain([this](const ParetoPoint& point) { return compared_.value(point); })},
      {"y", axis_},
      {"memory", MemoryDomain()},
      {"kinds", ColourBy("what", Colours(), Legend::kPoints)}};
  // A front in more than two dimensions is not drawn as a line.
  if (!given_) values["front"] = fmt::format("datum.what === '{}'", kFront);
  if (limit_) {
    values["limit"] = Amount(*limit_);
    values["limit words"] = fmt::format("capacity {}", FormatBytes(*limit_));
  }
  return ChartForm("step time against memory", values);
}

Table ParetoDrawing::FrontTable(const std::vector<ParetoPoint>& front) const {
  std::vector<Column> columns = {{"on the front", Align::kLeft},
                                 {"step ms", Align::kRight},
                                 {fmt::format("{} {}", memory_, unit_.name), Align::kRight},
                                 {"tokens/s/GPU", Align::kRight}};
  if (with_gpus_) columns.push_back({"GPUs", Align::kRight});
  Table table(std::move(columns));
  for (const ParetoPoint& point : front) {
    std::vector<std::string> cells = {point.name, Milliseconds(point.step_time),
                                      In(unit_, point.peak),
                                      Decimal(point.tokens_per_second_per_gpu, 1)};
    if (with_gpus_) cells.push_back(Grouped(point.gpus));
    table.AddRow(std::move(cells));
  }
  return table;
}

std::vector<ParetoPoint> FrontOf(const std::vector<ParetoPoint>& points) {
  std::vector<ParetoPoint> front;
  std::copy_if(points.begin(), points.end(), std::back_inserter(front), OnFront);
  std::stable_sort(front.begin(), front.end(),
                   [](const ParetoPoint& a, const ParetoPoint& b) { return Exact(a) < Exact(b); });
  return front;
}

}  // namespace

void Draw(ParetoFigure figure, std::string caption, PageSection& section) {
  section.chart = std::move(figure.chart);
  if (!figure.note.empty()) section.notes.push_back(std::move(figure.note));
  section.tables.push_back(
      {.caption = std::move(caption), .table = std::move(figure.front), .sortable = true});
}

ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit, const std::string& memory,
                         std::optional<Bytes> limit) {
  const bool given = std::any_of(points.begin(), points.end(), [](const ParetoPoint& point) {
    return point.on_front.has_value();
  });
  FindFront(points);
  const std::vector<ParetoPoint> front = FrontOf(points);
  std::string note;
  if (points.size() > kMostPoints) {
    const std::size_t all = points.size();
    points = Thinned(points, kMostPoints);
    note = fmt::format(
        "The chart shows {} of {} points: all points on the front, and an even sample of the "
        "others.",
        Grouped(static_cast<std::int64_t>(points.size())), Grouped(static_cast<std::int64_t>(all)));
  }
  const ParetoDrawing drawing(std::move(points), given, unfit, memory, limit);
  return {drawing.Draw(label), std::move(note), drawing.FrontTable(front)};
}

}  // namespace stepcast::report

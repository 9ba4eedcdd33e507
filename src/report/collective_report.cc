#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/time.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"

namespace stepcast::report {
namespace {

using enum Align;

using forecast::CollectiveForecast;
using forecast::CollectiveRow;

// A division by a power of ten is rounded correctly; a product with 1e-6 is not.
double InMicroseconds(Time time) {
  constexpr double kPicoseconds = 1e6;
  return static_cast<double>(time.picoseconds()) / kPicoseconds;
}

Cell TwoDigits(double number) { return {fmt::format("{:.2f}", number), Json(number)}; }

// Sizes at which NCCL does not choose the fastest algorithm.
Table FasterChoices(const CollectiveForecast& forecast) {
  Table table({{"size"}, {"NCCL's choice", kLeft}, {"time us"}, {"faster", kLeft}, {"time us"}});
  for (const CollectiveRow& row : forecast.rows) {
    if (!row.faster) continue;
    table.AddRow({FormatBytes(row.size), row.algorithm + " " + row.protocol.value_or("-"),
                  fmt::format("{:.2f}", InMicroseconds(row.faster->of_own)),
                  row.faster->algorithm + " " + row.faster->protocol,
                  fmt::format("{:.2f}", InMicroseconds(row.faster->time))});
  }
  return table;
}

std::string FasterChoicesText(const CollectiveForecast& forecast) {
  const Table table = FasterChoices(forecast);
  if (table.rows().empty()) return "";
  return "\nNCCL chooses an algorithm and a protocol from its own constants. According to the cost "
         "formula\nwithout measured curves, another choice is faster (communication.nccl_algo, "
         "nccl_proto):\n" +
         table.ToString();
}

Json FasterChoiceJson(const CollectiveRow& row) {
  if (!row.faster) return {};
  return Json{{"algorithm", row.faster->algorithm},
              {"protocol", row.faster->protocol},
              {"time_us", InMicroseconds(row.faster->time)},
              {"nccl_choice_time_us", InMicroseconds(row.faster->of_own)}};
}

// In the order of scenario::Fidelity.
constexpr const char* kNetworks[] = {"analytic", "flow", "message"};

Cell Range(const CollectiveRow& row) {
  if (!row.range) return {"-", Json()};
  const double low = InMicroseconds(row.range->low), high = InMicroseconds(row.range->high);
  return {fmt::format("{:.2f} to {:.2f}", low, high), Json{{"low", low}, {"high", high}}};
}

// In CSV, every record has the question, and the range has two fields.
AnswerTable Rows(const CollectiveForecast& forecast, bool csv) {
  AnswerTable table{{{"size B", "size_bytes"},
                     {"size", ""},
                     {"time us", "time_us"},
                     {"90 % range, us", csv ? "" : "time_range_us"},
                     {"algbw GB/s", "algbw_gb_s"},
                     {"busbw GB/s", "busbw_gb_s"},
                     {"algorithm", "algorithm", kLeft},
                     {"protocol", "protocol", kLeft},
                     {"channels", "channels"},
                     {"cost is", "provenance", kLeft}}};
  std::vector<AnswerColumn>& columns = table.columns;
  if (csv) {
    columns.insert(columns.begin() + 4, {{"", "time_low_us"}, {"", "time_high_us"}});
    columns.insert(columns.begin(), {{"", "op"}, {"", "ranks"}, {"", "nodes"}});
  } else {
    columns.push_back({"", "faster_choice"});
  }
  for (const CollectiveRow& row : forecast.rows) {
    std::vector<Cell> cells = {Plain(row.size.count()),
                               FormatBytes(row.size),
                               TwoDigits(InMicroseconds(row.time)),
                               Range(row),
                               TwoDigits(forecast.AlgorithmBandwidth(row)),
                               TwoDigits(forecast.BusBandwidth(row)),
                               row.algorithm,
                               row.protocol,
                               row.channels,
                               cost::Name(row.provenance)};
    if (csv) {
      const auto end = [&](Time forecast::TimeRange::*bound) {
        return row.range ? Cell(InMicroseconds((*row.range).*bound)) : Cell(Json());
      };
      cells.insert(cells.begin() + 4,
                   {end(&forecast::TimeRange::low), end(&forecast::TimeRange::high)});
      cells.insert(cells.begin(), {Name(forecast.op), forecast.ranks, forecast.nodes});
    } else {
      cells.emplace_back(FasterChoiceJson(row));
    }
    table.Add(std::move(cells));
  }
  return table;
}

// "all_reduce over 16 ranks on 2 nodes".
std::string About(const CollectiveForecast& forecast) {
  return fmt::format(
      "{}{} over {} ranks on {}{}",
      forecast.groups == 1 ? "" : fmt::format("{} groups at once: ", Grouped(forecast.groups)),
      Name(forecast.op), Grouped(forecast.ranks),
      forecast.nodes == 1 ? "1 node" : fmt::format("{} nodes", Grouped(forecast.nodes)),
      forecast.group == "all" || forecast.group == "part"
          ? ""
          : fmt::format(" (group {})", forecast.group));
}

}  // namespace

std::string CollectiveText(const std::string& name, const CollectiveForecast& forecast) {
  return fmt::format("{}\n\n{}, sizes and bandwidths as nccl-tests defines them{}\n\n", name,
                     About(forecast),
                     forecast.network == scenario::Fidelity::kAnalytic
                         ? ""
                         : fmt::format("\n"
                                       "network: {}, simulated on the links of the cluster",
                                       kNetworks[static_cast<std::size_t>(forecast.network)])) +
         Rows(forecast, false).Text() + FasterChoicesText(forecast);
}

std::string CollectiveCsv(const CollectiveForecast& forecast) { return Rows(forecast, true).Csv(); }

std::string CollectiveJson(const std::string& name, const CollectiveForecast& forecast) {
  return Text(Json{{"stepcast", 1},
                   {"scenario", name},
                   {"op", Name(forecast.op)},
                   {"network", kNetworks[static_cast<std::size_t>(forecast.network)]},
                   {"group", forecast.group},
                   {"groups", forecast.groups},
                   {"ranks", forecast.ranks},
                   {"nodes", forecast.nodes},
                   {"rows", Rows(forecast, false).ToJson()}});
}

namespace {

PageSection BandwidthSection(const CollectiveForecast& forecast) {
  PageSection section{.heading = "Bandwidth by size"};
  section.paragraphs = {"Sizes and bandwidths are defined as in nccl-tests."};
  ChartData data;
  for (const char* line : {"busbw", "algbw"}) {
    for (const CollectiveRow& row : forecast.rows) {
      data.Word("x", FormatBytes(row.size));
      data.Word("line", line);
      data.Number("value", Rounded(line[0] == 'b' ? forecast.BusBandwidth(row)
                                                  : forecast.AlgorithmBandwidth(row)));
      data.Number("time", Rounded(InMicroseconds(row.time)));
      data.Word("algorithm", row.algorithm);
    }
  }
  section.chart = LinesOver("Bus bandwidth and algorithm bandwidth of the collective, by size",
                            "size", "GB/s", std::move(data), {"busbw", "algbw"},
                            {{"x", "Size"},
                             {"line", "Bandwidth"},
                             {"value", "Value", "GB/s", 2},
                             {"time", "Time", "us", 2},
                             {"algorithm", "Algorithm"}});
  section.tables.push_back({.caption = "By size", .table = Rows(forecast, false).ToTable()});
  return section;
}

using forecast::CollectiveSteps;

// "3"; of an all-to-all "3 to 5", from rank to rank.
std::string ChunkText(const collective::Chunk& chunk, const CollectiveSteps& steps) {
  std::string text;
  const auto pairs = static_cast<std::int64_t>(steps.participants.size());
  for (int i = 0; i < chunk.count; ++i) {
    const std::int64_t at = chunk.block + std::int64_t{i} * chunk.stride;
    const std::int64_t block = (at % steps.blocks + steps.blocks) % steps.blocks;
    if (!text.empty()) text += ", ";
    text += steps.blocks == pairs * pairs ? fmt::format("{} to {}", block / pairs, block % pairs)
                                          : fmt::format("{}", block);
  }
  return text;
}

// Time to the right, a row for each participant, a line for each message.
Chart MessagesChart(const CollectiveSteps& steps) {
  Chart chart;
  chart.label = fmt::format(
      "The messages of a {} from rank to rank, step by step; the table below lists the messages",
      steps.algorithm);
  chart.tips = {{"end", "Step"},
                {"sender", "From"},
                {"receiver", "To"},
                {"chunk", "Chunk"},
                {"what", "The receiver"}};
  int rounds = 0;
  for (const collective::SentChunk& message : steps.messages) {
    rounds = std::max(rounds, message.round + 1);
    chart.data.Number("start", message.round);
    chart.data.Number("end", message.round + 1);
    chart.data.Number("from", message.from);
    chart.data.Number("to", message.to);
    chart.data.Word("sender", steps.participants[static_cast<std::size_t>(message.from)]);
    chart.data.Word("receiver", steps.participants[static_cast<std::size_t>(message.to)]);
    chart.data.Word("chunk", ChunkText(message.chunk, steps));
    chart.data.Word("what", message.reduce ? "adds it" : "stores it");
  }
  const auto rows = static_cast<int>(steps.participants.size());
  Json names = Json::array(), values = Json::array();
  for (int i = 0; i < rows; ++i) {
    names.push_back(steps.participants[static_cast<std::size_t>(i)]);
    values.push_back(i);
  }
  const auto x = [&](const char* field) {
    Json channel = Quantity(field, "step", {{"domain", {0, rounds}}, {"nice", false}});
    channel["axis"] = {{"tickMinStep", 1}, {"format", "d"}};
    return channel;
  };
  const auto y = [&](const char* field) {
    Json channel =
        Quantity(field, "", {{"domain", {-0.5, rows - 0.5}}, {"reverse", true}, {"nice", false}});
    channel["title"] = nullptr;
    channel["axis"] = {{"values", values}, {"labelExpr", OneLine(names) + "[datum.value]"}};
    return channel;
  };
  Json lines{{"mark", {{"type", "rule"}, {"strokeWidth", 1.4}, {"tooltip", nullptr}}},
             {"encoding",
              {{"x", x("start")},
               {"x2", {{"field", "end"}}},
               {"y", y("from")},
               {"y2", {{"field", "to"}}}}}};
  // The number of the chunk beside its sender, if a step has the width.
  const char* shown = "scale('x', 1) - scale('x', 0) > 16 + 6 * length(datum.chunk) ? 1 : 0";
  Json chunks{
      {"mark",
       {{"type", "text"},
        {"align", "left"},
        {"dx", 6},
        {"dy", -7},
        {"fontSize", 11},
        {"color", "var(--quiet)"},
        {"opacity", {{"expr", shown}}},
        {"tooltip", nullptr}}},
      {"encoding",
       {{"x", x("start")}, {"y", y("from")}, {"text", {{"field", "chunk"}}}, {"color", nullptr}}}};
  Json layers = Json::array({std::move(lines), std::move(chunks)});
  layers.push_back(Json{{"mark", Mark("point", {{"filled", true}, {"size", 44}})}});
  constexpr int kRow = 34, kLeast = 120;
  chart.spec = Layered(std::move(layers),
                       {{"x", x("end")},
                        {"y", y("to")},
                        {"color", ColourBy("what", {{"adds it", "--c1"}, {"stores it", "--c0"}})}},
                       2, std::max(kLeast, kRow * rows));
  chart.spec["encoding"]["color"]["legend"]["title"] = "the receiver of a chunk";
  return chart;
}

PageSection StepsSection(const CollectiveSteps& steps) {
  PageSection section{.heading = fmt::format("Messages of the {} algorithm", steps.algorithm)};
  section.paragraphs = {fmt::format(
      "Each line is a message: a rank sends a chunk of the data to another rank{}. All messages "
      "have the same length in the chart, regardless of size and link. The forecast uses the "
      "algorithm for sizes from {}.",
      steps.channels == 1 ? ""
                          : fmt::format(", in one of {} channels. Each other channel sends another "
                                        "part of each chunk, in a different order",
                                        steps.channels),
      FormatBytes(steps.size))};
  AnswerTable table{{{"step", ""},
                     {"from", "", kLeft},
                     {"to", "", kLeft},
                     {"chunk", ""},
                     {"the receiver", "", kLeft}}};
  for (const collective::SentChunk& message : steps.messages) {
    table.Add({Plain(message.round + 1), steps.participants[static_cast<std::size_t>(message.from)],
               steps.participants[static_cast<std::size_t>(message.to)],
               ChunkText(message.chunk, steps), message.reduce ? "adds it" : "stores it"});
  }
  section.chart = MessagesChart(steps);
  section.tables.push_back({.caption = "Every message", .table = table.ToTable(), .folded = true});
  return section;
}

}  // namespace

std::string CollectivePage(const scenario::Scenario& scenario, const CollectiveForecast& forecast,
                           const std::vector<CollectiveSteps>& steps) {
  Page page = PageOf(scenario, "Forecast of one collective");
  page.asked.insert(page.asked.begin(), {"collective", About(forecast)});
  page.asked.emplace_back("network", kNetworks[static_cast<std::size_t>(forecast.network)]);
  const auto best = std::max_element(forecast.rows.begin(), forecast.rows.end(),
                                     [&](const CollectiveRow& a, const CollectiveRow& b) {
                                       return forecast.BusBandwidth(a) < forecast.BusBandwidth(b);
                                     });
  const CollectiveRow& first = forecast.rows.front();
  page.verdict = fmt::format(
      "The collective {} takes {} for {}, and reaches a bus bandwidth of up to {:.2f} GB/s.",
      Name(forecast.op), FormatTime(first.time), FormatBytes(first.size),
      forecast.BusBandwidth(*best));
  page.answer = {
      {.label = "Largest bus bandwidth",
       .value = fmt::format("{:.2f} GB/s", forecast.BusBandwidth(*best)),
       .more = fmt::format("at {}, in {}", FormatBytes(best->size), FormatTime(best->time))},
      {.label = "Time for the smallest message",
       .value = FormatTime(first.time),
       .more = FormatBytes(first.size)}};
  page.sections = {BandwidthSection(forecast)};
  if (const Table faster = FasterChoices(forecast); !faster.rows().empty()) {
    page.sections.push_back(
        {.heading = "Faster than NCCL's choice",
         .paragraphs = {"NCCL chooses an algorithm and a protocol from its own constants. "
                        "According to the cost formulas without measured times, another choice is "
                        "faster (communication.nccl_algo, nccl_proto)."},
         .tables = {{.caption = "Sizes with a faster choice", .table = faster}}});
  }
  for (const CollectiveSteps& of_algorithm : steps) {
    page.sections.push_back(StepsSection(of_algorithm));
  }
  if (steps.empty()) {
    page.sections.push_back(
        {.heading = "Messages",
         .paragraphs = {
             fmt::format("The page draws messages only for up to {} ranks, but the collective has "
                         "{} ranks. To draw the messages of 8 ranks, add --ranks 8 --nodes 1.",
                         forecast::kMostDrawnRanks, Grouped(forecast.ranks))}});
  }
  return PageHtml(page);
}

}  // namespace stepcast::report

#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/time.h"
#include "src/report/answer.h"
#include "src/report/answers.h"

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
std::string FasterChoicesText(const CollectiveForecast& forecast) {
  Table table({{"size", Align::kRight},
               {"NCCL's choice", Align::kLeft},
               {"time us"},
               {"faster", Align::kLeft},
               {"time us"}});
  bool any = false;
  for (const CollectiveRow& row : forecast.rows) {
    if (!row.faster) continue;
    any = true;
    table.AddRow({FormatBytes(row.size), row.algorithm + " " + row.protocol.value_or("-"),
                  fmt::format("{:.2f}", InMicroseconds(row.faster->of_own)),
                  row.faster->algorithm + " " + row.faster->protocol,
                  fmt::format("{:.2f}", InMicroseconds(row.faster->time))});
  }
  if (!any) return "";
  return "\nNCCL chooses an algorithm and a protocol from its own constants. By the cost formula, "
         "without\nmeasured curves, another choice is faster (communication.nccl_algo, "
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

const char* NetworkName(scenario::Fidelity network) {
  switch (network) {
    case scenario::Fidelity::kAnalytic:
      return "analytic";
    case scenario::Fidelity::kFlow:
      return "flow";
    case scenario::Fidelity::kMessage:
      return "message";
  }
  return "";
}

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
                     {"nine of ten us", csv ? "" : "time_range_us"},
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

}  // namespace

std::string CollectiveText(const std::string& name, const CollectiveForecast& forecast) {
  std::string out = fmt::format(
      "{}\n\n{}{} over {} ranks on {}{}, sizes and bandwidths as nccl-tests defines them{}\n\n",
      name,
      forecast.groups == 1 ? "" : fmt::format("{} groups at once: ", Grouped(forecast.groups)),
      Name(forecast.op), Grouped(forecast.ranks),
      forecast.nodes == 1 ? "1 node" : fmt::format("{} nodes", Grouped(forecast.nodes)),
      forecast.group == "all" || forecast.group == "part"
          ? ""
          : fmt::format(" (group {})", forecast.group),
      forecast.network == scenario::Fidelity::kAnalytic
          ? ""
          : fmt::format("\nnetwork: {}, on the cluster's links", NetworkName(forecast.network)));
  return out + Rows(forecast, false).Text() + FasterChoicesText(forecast);
}

std::string CollectiveCsv(const CollectiveForecast& forecast) { return Rows(forecast, true).Csv(); }

std::string CollectiveJson(const std::string& name, const CollectiveForecast& forecast) {
  return Text(Json{{"stepcast", 1},
                   {"scenario", name},
                   {"op", Name(forecast.op)},
                   {"network", NetworkName(forecast.network)},
                   {"group", forecast.group},
                   {"groups", forecast.groups},
                   {"ranks", forecast.ranks},
                   {"nodes", forecast.nodes},
                   {"rows", Rows(forecast, false).ToJson()}});
}

}  // namespace stepcast::report

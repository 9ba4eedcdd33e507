#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/time.h"
#include "src/report/answers.h"
#include "src/report/json.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using forecast::CollectiveForecast;
using forecast::CollectiveRow;

// A division by a power of ten is rounded correctly; a product with 1e-6 is not.
double InMicroseconds(Time time) {
  constexpr double kPicoseconds = 1e6;
  return static_cast<double>(time.picoseconds()) / kPicoseconds;
}

std::string ChannelsText(const CollectiveRow& row) {
  return row.channels ? fmt::format("{}", *row.channels) : "-";
}

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
  return "\nNCCL chooses by its own constants; by the formula of prices, without what was "
         "measured, "
         "another\nalgorithm or protocol is faster (communication.nccl_algo, nccl_proto):\n" +
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

std::string RangeText(const CollectiveRow& row) {
  if (!row.range) return "-";
  return fmt::format("{:.2f} to {:.2f}", InMicroseconds(row.range->low),
                     InMicroseconds(row.range->high));
}

Json RangeJson(const CollectiveRow& row) {
  if (!row.range) return Json();
  return Json{{"low", InMicroseconds(row.range->low)}, {"high", InMicroseconds(row.range->high)}};
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
  Table table({{"size B"},
               {"size", Align::kRight},
               {"time us"},
               {"nine of ten us"},
               {"algbw GB/s"},
               {"busbw GB/s"},
               {"algorithm", Align::kLeft},
               {"protocol", Align::kLeft},
               {"channels"},
               {"cost is", Align::kLeft}});
  for (const CollectiveRow& row : forecast.rows) {
    table.AddRow({fmt::format("{}", row.size.count()), FormatBytes(row.size),
                  fmt::format("{:.2f}", InMicroseconds(row.time)), RangeText(row),
                  fmt::format("{:.2f}", forecast.AlgorithmBandwidth(row)),
                  fmt::format("{:.2f}", forecast.BusBandwidth(row)), row.algorithm,
                  row.protocol.value_or("-"), ChannelsText(row), cost::Name(row.provenance)});
  }
  return out + table.ToString() + FasterChoicesText(forecast);
}

std::string CollectiveCsv(const CollectiveForecast& forecast) {
  std::string out = CsvRecord({"op", "ranks", "nodes", "size_bytes", "time_us", "time_low_us",
                               "time_high_us", "algbw_gb_s", "busbw_gb_s", "algorithm", "protocol", "channels", "provenance"});
  for (const CollectiveRow& row : forecast.rows) {
    out += CsvRecord(
        {std::string(Name(forecast.op)), fmt::format("{}", forecast.ranks),
         fmt::format("{}", forecast.nodes), fmt::format("{}", row.size.count()),
         fmt::format("{}", InMicroseconds(row.time)),
         row.range ? fmt::format("{}", InMicroseconds(row.range->low)) : "",
         row.range ? fmt::format("{}", InMicroseconds(row.range->high)) : "",
         fmt::format("{}", forecast.AlgorithmBandwidth(row)),
         fmt::format("{}", forecast.BusBandwidth(row)), row.algorithm, row.protocol.value_or(""),
         row.channels ? fmt::format("{}", *row.channels) : "", cost::Name(row.provenance)});
  }
  return out;
}

std::string CollectiveJson(const std::string& name, const CollectiveForecast& forecast) {
  Json rows = Json::array();
  for (const CollectiveRow& row : forecast.rows) {
    rows.push_back(Json{{"size_bytes", row.size.count()},
                        {"time_us", InMicroseconds(row.time)},
                        {"time_range_us", RangeJson(row)},
                        {"algbw_gb_s", forecast.AlgorithmBandwidth(row)},
                        {"busbw_gb_s", forecast.BusBandwidth(row)},
                        {"algorithm", row.algorithm},
                        {"protocol", row.protocol ? Json(*row.protocol) : Json()},
                        {"channels", row.channels ? Json(*row.channels) : Json()},
                        {"provenance", cost::Name(row.provenance)},
                        {"faster_choice", FasterChoiceJson(row)}});
  }
  return Text(Json{{"stepcast", 1},
                   {"scenario", name},
                   {"op", Name(forecast.op)},
                   {"network", NetworkName(forecast.network)},
                   {"group", forecast.group},
                   {"groups", forecast.groups},
                   {"ranks", forecast.ranks},
                   {"nodes", forecast.nodes},
                   {"rows", std::move(rows)}});
}

}  // namespace stepcast::report

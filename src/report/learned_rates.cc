#include "src/report/learned_rates.h"

#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/json.h"
#include "src/report/table.h"

namespace stepcast::report {

std::string LearnedRatesText(const LearnedRates& learned) {
  std::string out = fmt::format("learned    from step {} of {} rank{} in {}\n\n", learned.number,
                                learned.ranks, learned.ranks == 1 ? "" : "s", learned.source);
  Table rates({{"part", Align::kLeft},
               {"calls"},
               {"forecast"},
               {"traced ms"},
               {"forecast ms"},
               {"times as long"}});
  constexpr int kDigits = 3;
  for (const LearnedRate& rate : learned.rates) {
    rates.AddRow({rate.part, std::to_string(rate.traced_calls),
                  std::to_string(rate.forecast_calls), Milliseconds(rate.traced),
                  Milliseconds(rate.forecast), Decimal(rate.factor(), kDigits)});
  }
  out += rates.ToString() + "\n";
  for (const LearnedTable& table : learned.tables) {
    out += fmt::format("{} of {} ranks on {} node{}: {} size{}\n", Name(table.collective),
                       table.ranks, table.nodes, table.nodes == 1 ? "" : "s", table.sizes,
                       table.sizes == 1 ? "" : "s");
  }
  for (const std::string& note : learned.notes) out += "note: " + note + "\n";
  out += fmt::format("\nstep time  traced {}, forecast {}", FormatTime(learned.traced),
                     FormatTime(learned.forecast));
  if (learned.learned) out += fmt::format(", with these rates {}", FormatTime(*learned.learned));
  return out + (learned.written.empty()
                    ? "\nno profile is written: name a file with --output\n"
                    : fmt::format("\nwritten    {}: --set calibration={} uses it\n",
                                  learned.written, learned.written));
}

std::string LearnedRatesJson(const LearnedRates& learned) {
  Json rates = Json::array();
  for (const LearnedRate& rate : learned.rates) {
    rates.push_back({{"part", rate.part},
                     {"traced_calls", rate.traced_calls},
                     {"forecast_calls", rate.forecast_calls},
                     {"traced_s", JsonSeconds(rate.traced)},
                     {"forecast_s", JsonSeconds(rate.forecast)},
                     {"factor", rate.factor()}});
  }
  Json tables = Json::array();
  for (const LearnedTable& table : learned.tables) {
    tables.push_back({{"collective", Name(table.collective)},
                      {"ranks", table.ranks},
                      {"nodes", table.nodes},
                      {"sizes", table.sizes}});
  }
  return Text(Json{{"stepcast", 1},
                   {"source", learned.source},
                   {"step", learned.number},
                   {"ranks", learned.ranks},
                   {"rates", std::move(rates)},
                   {"collectives", std::move(tables)},
                   {"notes", learned.notes},
                   {"traced_step_s", JsonSeconds(learned.traced)},
                   {"forecast_step_s", JsonSeconds(learned.forecast)},
                   {"learned_step_s", learned.learned ? JsonSeconds(*learned.learned) : Json()},
                   {"written", learned.written}});
}

}  // namespace stepcast::report

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"

namespace stepcast::report {

namespace {

using enum Align;

AnswerTable RateRows(const LearnedRates& learned) {
  constexpr int kDigits = 3;
  AnswerTable table{{{"part", "part", kLeft},
                     {"calls", "traced_calls"},
                     {"forecast", "forecast_calls"},
                     {"traced ms", "traced_s"},
                     {"forecast ms", "forecast_s"},
                     {"times as long", "factor"}}};
  for (const LearnedRate& rate : learned.rates) {
    table.Add({rate.part, Plain(rate.traced_calls), Plain(rate.forecast_calls), rate.traced,
               rate.forecast, Fixed(rate.factor(), kDigits)});
  }
  return table;
}

AnswerTable Collectives(const LearnedRates& learned) {
  AnswerTable table{Keys("collective ranks nodes sizes")};
  for (const LearnedTable& one : learned.tables) {
    table.Add({Name(one.collective), one.ranks, one.nodes, one.sizes});
  }
  return table;
}

}  // namespace

std::string LearnedRatesText(const LearnedRates& learned) {
  std::string out = fmt::format("learned    from step {} of {} rank{} in {}\n\n", learned.number,
                                learned.ranks, learned.ranks == 1 ? "" : "s", learned.source);
  out += RateRows(learned).Text() + "\n";
  for (const LearnedTable& table : learned.tables) {
    out += fmt::format("{} of {} ranks on {} node{}: {} size{}\n", Name(table.collective),
                       table.ranks, table.nodes, table.nodes == 1 ? "" : "s", table.sizes,
                       table.sizes == 1 ? "" : "s");
  }
  for (const std::string& note : learned.notes) out += "note: " + note + "\n";
  out += fmt::format("\nstep time  traced {}, forecast {}", FormatTime(learned.traced),
                     FormatTime(learned.forecast));
  if (learned.learned)
    out += fmt::format(", with the learned rates {}", FormatTime(*learned.learned));
  return out + (learned.written.empty()
                    ? "\n"
                      "no profile was written; to write a profile, add --output FILE\n"
                    : fmt::format("\nwritten    {}; to use the profile: --set calibration={}\n",
                                  learned.written, learned.written));
}

std::string LearnedRatesJson(const LearnedRates& learned) {
  return Text(Json{{"stepcast", 1},
                   {"source", learned.source},
                   {"step", learned.number},
                   {"ranks", learned.ranks},
                   {"rates", RateRows(learned).ToJson()},
                   {"collectives", Collectives(learned).ToJson()},
                   {"notes", learned.notes},
                   {"traced_step_s", JsonSeconds(learned.traced)},
                   {"forecast_step_s", JsonSeconds(learned.forecast)},
                   {"learned_step_s", learned.learned ? JsonSeconds(*learned.learned) : Json()},
                   {"written", learned.written}});
}

}  // namespace stepcast::report

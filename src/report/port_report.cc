#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/plan_rows.h"

namespace stepcast::report {
namespace {

using enum Align;

// The extra time of the ported plan over the best on its cluster, as a fraction. None if one of the
// two is not acceptable.
std::optional<double> Loss(const PlanReport& report) {
  const forecast::Forecast& ported = report.port->ported.forecast;
  if (report.best.empty() || !ported.memory.fits) return std::nullopt;
  return TokensPerSecond(report.best.front()) / ported.tokens_per_second - 1;
}

std::string LossText(const PlanReport& report) {
  const std::optional<double> loss = Loss(report);
  if (!loss) {
    return report.best.empty()
               ? "no plan in the search meets the goal on this cluster\n"
               : "on this cluster, the ported plan does not fit, but the best plan fits\n";
  }
  constexpr double kNothing = 0.0005;
  if (*loss < kNothing)
    return "no plan in the search is better on this cluster than the ported plan\n";
  return fmt::format(
      "the ported plan takes {} % longer per token than the best plan for this cluster\n",
      Decimal(kHundred * *loss, 1));
}

AnswerTable Sides(const PlanReport& report) {
  const PortAnswer& port = *report.port;
  const auto needed = [](const forecast::Forecast& forecast) {
    return forecast.memory.reserved + forecast.memory.outside;
  };
  const ByteUnit unit = UnitFor(std::max(needed(port.from.forecast), needed(port.ported.forecast)));
  AnswerTable table{{{"", "", kLeft},
                     {"", "cluster"},
                     {"GPUs", "gpus"},
                     {"step ms", "step_time_s"},
                     {"tokens/s", "tokens_per_s"},
                     {"tokens/s/GPU", "tokens_per_s_per_gpu"},
                     {fmt::format("needs {}", unit.name), "needed_bytes"},
                     {fmt::format("of {}", unit.name), "capacity_bytes"},
                     {"memory", "verdict", kLeft}}};
  for (const PortSide* side : {&port.from, &port.ported}) {
    const forecast::Forecast& forecast = side->forecast;
    table.Add({side == &port.from ? "original cluster" : "ported", side->cluster,
               forecast::TrainedStepOf(forecast).gpus, forecast.step_time,
               Fixed(forecast.tokens_per_second, 0), Fixed(forecast.tokens_per_second_per_gpu, 1),
               Amount(unit, needed(forecast)), Amount(unit, forecast.memory.capacity),
               Name(forecast.memory.verdict())});
  }
  if (report.best.empty()) return table;
  const PlanRow& best = report.best.front();
  table.Add({"best plan", "", best.facts.gpus, best.outcome.step_time,
             Fixed(TokensPerSecond(best), 0), Fixed(best.outcome.tokens_per_second_per_gpu, 1),
             Amount(unit, Needed(best.outcome)), Amount(unit, best.facts.capacity),
             Name(best.outcome.verdict)});
  return table;
}

AnswerTable Changes(const PortAnswer& port) {
  AnswerTable table{{{"setting that changes", "key", kLeft},
                     {"from", "from", kLeft},
                     {"to", "to", kLeft},
                     {"why", "why", kLeft}}};
  for (const PortChange& change : port.changes) {
    table.Add({change.key, WordOr(change.from), WordOr(change.to), change.why});
  }
  return table;
}

}  // namespace

std::string PortText(const PlanReport& report) {
  if (!report.port) return "";
  const PortAnswer& port = *report.port;
  std::string out =
      fmt::format("ported from  {}\nto           {}\n\n", port.from.cluster, port.ported.cluster);
  out += port.changes.empty() ? "every setting of the plan also works on this cluster\n\n"
                              : Changes(port).Text() + "\n";
  return out + Sides(report).Text() + LossText(report) + "\n";
}

Json PortJson(const PlanReport& report) {
  if (!report.port) return {};
  Json sides = Sides(report).ToJson();
  const std::optional<double> loss = Loss(report);
  return Json{{"from", sides[0]},
              {"ported", sides[1]},
              {"set", report.port->set},
              {"changes", Changes(*report.port).ToJson()},
              {"loss", loss ? Json(*loss) : Json()}};
}

}  // namespace stepcast::report

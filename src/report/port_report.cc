#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/json.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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
               : "the ported plan does not fit on this cluster; the best plan does\n";
  }
  constexpr double kNothing = 0.0005;
  if (*loss < kNothing)
    return "no plan in the search is better on this cluster than the ported plan\n";
  return fmt::format(
      "the ported plan takes {} % longer per token than the best plan for this cluster\n",
      Decimal(kHundred * *loss, 1));
}

void AddSide(const PortSide& side, const char* name, ByteUnit unit, Table& table) {
  const forecast::Forecast& forecast = side.forecast;
  const forecast::MemoryForecast& memory = forecast.memory;
  table.AddRow({name, Grouped(forecast::TrainedStepOf(forecast).gpus),
                Milliseconds(forecast.step_time), Decimal(forecast.tokens_per_second, 0),
                Decimal(forecast.tokens_per_second_per_gpu, 1),
                In(unit, memory.reserved + memory.outside), In(unit, memory.capacity),
                Name(memory.verdict())});
}

Json SideJson(const PortSide& side) {
  const forecast::Forecast& forecast = side.forecast;
  const forecast::MemoryForecast& memory = forecast.memory;
  return Json{{"cluster", side.cluster},
              {"gpus", forecast::TrainedStepOf(forecast).gpus},
              {"step_time_s", JsonSeconds(forecast.step_time)},
              {"tokens_per_s", forecast.tokens_per_second},
              {"tokens_per_s_per_gpu", forecast.tokens_per_second_per_gpu},
              {"needed_bytes", (memory.reserved + memory.outside).count()},
              {"capacity_bytes", memory.capacity.count()},
              {"verdict", Name(memory.verdict())}};
}

}  // namespace

std::string PortText(const PlanReport& report) {
  if (!report.port) return "";
  const PortAnswer& port = *report.port;
  std::string out =
      fmt::format("ported from  {}\nto           {}\n\n", port.from.cluster, port.ported.cluster);
  if (port.changes.empty()) {
    out += "every setting of the plan also works on this cluster\n\n";
  } else {
    Table changes({{"setting that changes", Align::kLeft},
                   {"from", Align::kLeft},
                   {"to", Align::kLeft},
                   {"why", Align::kLeft}});
    for (const PortChange& change : port.changes) {
      changes.AddRow({change.key, change.from.empty() ? "-" : change.from,
                      change.to.empty() ? "-" : change.to, change.why});
    }
    out += changes.ToString() + "\n";
  }
  const auto needed = [](const forecast::Forecast& forecast) {
    return forecast.memory.reserved + forecast.memory.outside;
  };
  const ByteUnit unit = UnitFor(std::max(needed(port.from.forecast), needed(port.ported.forecast)));
  Table table({{"", Align::kLeft},
               {"GPUs"},
               {"step ms"},
               {"tokens/s"},
               {"tokens/s/GPU"},
               {fmt::format("needs {}", unit.name)},
               {fmt::format("of {}", unit.name)},
               {"memory", Align::kLeft}});
  AddSide(port.from, "where it is from", unit, table);
  AddSide(port.ported, "ported", unit, table);
  if (!report.best.empty()) {
    const PlanRow& best = report.best.front();
    table.AddRow({"the best here", Grouped(best.facts.gpus), Milliseconds(best.outcome.step_time),
                  Decimal(TokensPerSecond(best), 0),
                  Decimal(best.outcome.tokens_per_second_per_gpu, 1),
                  In(unit, best.outcome.reserved + best.outcome.outside),
                  In(unit, best.facts.capacity), Name(best.outcome.verdict)});
  }
  return out + table.ToString() + LossText(report) + "\n";
}

Json PortJson(const PlanReport& report) {
  if (!report.port) return {};
  Json changes = Json::array();
  for (const PortChange& change : report.port->changes) {
    changes.push_back({{"key", change.key},
                       {"from", change.from.empty() ? Json() : Json(change.from)},
                       {"to", change.to.empty() ? Json() : Json(change.to)},
                       {"why", change.why}});
  }
  const std::optional<double> loss = Loss(report);
  return Json{{"from", SideJson(report.port->from)},
              {"ported", SideJson(report.port->ported)},
              {"set", report.port->set},
              {"changes", std::move(changes)},
              {"loss", loss ? Json(*loss) : Json()}};
}

}  // namespace stepcast::report

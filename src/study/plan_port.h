#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/report/plan_report.h"
#include "src/scenario/scenario.h"

// Carries a scenario's plan over to another topology.
namespace stepcast::study {

struct PortQuestion {
  std::string scenario;
  std::vector<std::string> set;       // "KEY=VALUE"
  std::string to;                     // a topology file, or a name
  std::optional<std::int64_t> nodes;  // there; none: as many as have no more GPUs than the plan's
};

struct PlanPort {
  scenario::Scenario from, ported;
  std::vector<std::string> set;  // PortQuestion::set and what makes `ported` of the scenario
  std::vector<report::PortChange> changes;
};

// The plan keeps its model, its global batch and every setting that the rules allow on the other
// cluster. Degrees of parallelism, virtual stages and the micro-batch become divisors of what they
// were, as few of them as possible and the outermost first; another setting that is refused
// becomes its default. What describes the old cluster goes: idle GPUs, slow links and devices,
// nodes of other kinds, and a calibration profile of another GPU type.
//
// Errors: those of the scenario, of the topology and of what neither changes (a precision that the
// GPUs lack); where no such plan is legal, the rules that the plan as it was breaks there.
Result<PlanPort> PortPlan(const PortQuestion& question);

// With the forecasts of both. Errors: those of forecasts.
Result<report::PortAnswer> ForecastPort(const PlanPort& port);

}  // namespace stepcast::study

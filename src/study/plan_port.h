#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/report/plan_report.h"
#include "src/scenario/scenario.h"

// Ports a scenario's plan to another topology.
namespace stepcast::study {

struct PortQuestion {
  std::string scenario;
  std::vector<std::string> set;       // "KEY=VALUE"
  std::string to;                     // a topology file, or a name
  std::optional<std::int64_t> nodes;  // not set: the most nodes with at most the plan's number of
                                      // GPUs
};

struct PlanPort {
  scenario::Scenario from, ported;
  std::vector<std::string> set;  // PortQuestion::set, and overrides for `ported`
  std::vector<report::PortChange> changes;
};

// Ports a scenario's plan, with its model, its global batch and every setting that is legal on the
// new cluster. Degrees of parallelism, virtual stages and the micro-batch size become divisors of
// their old values. As few of these values as possible change, starting with the outermost axis.
// Any other illegal setting gets its default.
//
// Settings that describe the old cluster are removed: idle GPUs, slow links and devices, nodes of
// other types, and a calibration profile of another GPU type.
//
// Errors: the errors of the scenario and of the topology, and settings that a port never changes,
// such as a precision that the GPUs do not support. If no ported plan is legal: the rules that the
// original plan breaks on the new cluster.
Result<PlanPort> PortPlan(const PortQuestion& question);

// Forecasts both plans of a port. Errors: the errors of forecasts.
Result<report::PortAnswer> ForecastPort(const PlanPort& port);

}  // namespace stepcast::study

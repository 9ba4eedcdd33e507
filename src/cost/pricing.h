#pragma once

#include <string>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// One program being priced: what the pricers of its kernels, copies and collectives share.
namespace stepcast::cost {

struct Pricing {
  // `textbook`: no start latencies and no issue costs (framework `reference`). Both outlive it.
  Pricing(const program::Program& program, const scenario::Scenario& scenario, bool textbook);

  // One cause is reported once, at the first operation that it hits.
  void Report(std::string code, Location location, std::string message, std::string hint);
  void ReportEndless(const std::string& what);
  void ReportNoLinkCosts(const std::string& what);

  const program::Program& program;
  const scenario::Scenario& scenario;
  const bool reference;
  const calibration::KernelCosts* kernels = nullptr;  // null: nothing can be priced by roofline
  const calibration::LinkCosts* links = nullptr;
  Location profile;
  Diagnostics diagnostics;
  Prices prices;
};

// A day or more: some bandwidth is far too small.
bool Endless(const Demand& demand);

}  // namespace stepcast::cost

#pragma once

#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/cost/copy_price.h"
#include "src/cost/demand.h"
#include "src/cost/priced_machine.h"
#include "src/cost/prices.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// The state of pricing one program, for the pricers of kernels, copies and collectives.

struct Pricing {
  // If `textbook` is true, prices have no start latencies and no issue costs (framework
  // `reference`). The program and the scenario must outlive this object.
  Pricing(const program::Program& program, const scenario::Scenario& scenario, bool textbook);

  // Reports an error once for each cause, at the first operation with this error.
  void Report(std::string code, Location location, std::string message, std::string hint);
  void ReportEndless(const std::string& what);
  void ReportNoLinkCosts(const std::string& what);

  const program::Program& program;
  const scenario::Scenario& scenario;
  const bool reference;
  const calibration::KernelCosts* kernels = nullptr;  // null: roofline prices are impossible
  const calibration::LinkCosts* links = nullptr;
  Location profile;
  Diagnostics diagnostics;
  Prices prices;
};

// Returns whether the operation takes a day or more, which means that some bandwidth is far too
// small.
bool Endless(const Demand& demand);

// Prices the copies of a program.
class CopyPricer {
 public:
  explicit CopyPricer(Pricing& pricing) : pricing_(pricing) {}

  void PriceCopies();
  Demand PriceOneCopy(const program::Copy& copy);

 private:
  // Returns the measured curve for copies in a direction, or null. Copies without a device take no
  // time.
  const calibration::Curve* MeasuredCopies(program::CopyDirection direction) const;

  Pricing& pricing_;
  std::optional<HostLink> host_link_;
};

// Prices the program's collectives and the messages of its exchanges, without contention. If there
// are no errors, also sets the shares of single links. `copies` prices the messages that a rank
// sends to itself.
void PriceCommunication(Pricing& pricing, PricedMachine& machine, CopyPricer& copies);

}  // namespace stepcast::cost

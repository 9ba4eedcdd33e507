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

// State of pricing one program, shared by the pricers of kernels, copies and collectives.

struct Pricing {
  // `textbook`: omits start latencies and issue costs (framework `reference`). The program and the
  // scenario must outlive this object.
  Pricing(const program::Program& program, const scenario::Scenario& scenario, bool textbook);

  // Reports an error. Each cause is reported once, at the first operation affected.
  void Report(std::string code, Location location, std::string message, std::string hint);
  void ReportEndless(const std::string& what);
  void ReportNoLinkCosts(const std::string& what);

  const program::Program& program;
  const scenario::Scenario& scenario;
  const bool reference;
  const calibration::KernelCosts* kernels = nullptr;  // null: roofline prices are not possible
  const calibration::LinkCosts* links = nullptr;
  Location profile;
  Diagnostics diagnostics;
  Prices prices;
};

// Whether the operation takes a day or more because some bandwidth is far too small.
bool Endless(const Demand& demand);

// Prices the program's copies.
class CopyPricer {
 public:
  explicit CopyPricer(Pricing& pricing) : pricing_(pricing) {}

  void PriceCopies();
  Demand PriceOneCopy(const program::Copy& copy);

 private:
  // Returns the measured curve for copies in a direction; null if there is none. Copies cost time
  // only with a device.
  const calibration::Curve* MeasuredCopies(program::CopyDirection direction) const;

  Pricing& pricing_;
  std::optional<HostLink> host_link_;
};

// Prices the program's collectives and the messages of its exchanges, uncontended. If there were no
// errors, also sets their shares of links that others use at the same time. `copies` prices
// messages from a rank to itself.
void PriceCommunication(Pricing& pricing, PricedMachine& machine, CopyPricer& copies);

}  // namespace stepcast::cost

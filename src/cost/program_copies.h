#pragma once

#include <optional>

#include "src/calibration/calibration.h"
#include "src/cost/copy_price.h"
#include "src/cost/pricing.h"
#include "src/program/program.h"

namespace stepcast::cost {

// Prices the program's copies.
class CopyPricer {
 public:
  explicit CopyPricer(Pricing& pricing) : pricing_(pricing) {}

  void PriceCopies();
  Demand PriceOneCopy(const program::Copy& copy);

 private:
  // What was measured for copies in a direction; only a device has copies that cost something.
  const calibration::Curve* MeasuredCopies(program::CopyDirection direction) const;

  Pricing& pricing_;
  std::optional<HostLink> host_link_;
};

}  // namespace stepcast::cost

#pragma once

#include <optional>
#include <string_view>

#include "src/base/rates.h"
#include "src/calibration/calibration.h"

// Profiles of GPU types of which nothing was measured: another type of the same architecture stands
// in, whose multiprocessors run the same kernels at the same parts of their peak.
namespace stepcast::calibration {

// How much less is known of a GPU type than of the one whose profile stands in for it: its
// residuals count so many times, but that of memory, which says nothing of the GPU.
inline constexpr double kStandInResiduals = 2;

struct StandIn {
  std::string_view profile;  // calibration/<profile>.yaml
  FlopRate peak;             // in 16 bits, of the device that its kernels.power is of
};

// Returns the profile that stands in for a GPU type which has none of its own. It is chosen by
// compute capability (90 means 9.0), or by name where a device has none (0). The result is empty
// where no profile of that kind is shipped.
std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability);

// `profile`, which stands in, as that of `gpu`, whose peak in 16 bits is `peak`: it holds for that
// type, too, and its residuals are kStandInResiduals times as large. The device draws power in
// proportion to its peak: it has more or fewer multiprocessors, or slower tensor cores.
Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak);

}  // namespace stepcast::calibration

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/rates.h"
#include "src/calibration/calibration.h"
#include "src/calibration/plausible.h"

namespace stepcast::calibration {

// Which measured table holds for a group.

// The table for exactly this key, or null: groups of other shapes say nothing reliable.
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes);

// For a group on a flat cluster, whose devices are nodes of their own, wherever they really are:
// the table for as many nodes as ranks, else the one for the most nodes among those for so many
// ranks, or null.
const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks);

// Which of the sections that every forecast needs a profile does not have: "kernels", "links",
// "memory".
std::vector<std::string_view> MissingSections(const Calibration& profile);

// Takes from `defaults`, the profile of the GPU type, what `profile` lacks: whole sections, what a
// `kernels` section that was measured leaves out (Complete), hosts' costs by framework, and how far
// forecasts of anybody's runs are off, which is no measurement of one machine. Returns what was
// taken of sections: "links", "kernels.memory_efficiency".
std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile);

// What a data sheet says of the device that a profile is used for.
struct DeviceSheet {
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount> peak;  // by DataType; zero: none
  bool separate = true;                       // a host launches its kernels (not host-cpu)
};

// Figures that this device cannot have, though another may:
//  * kernels that move 256 MiB or more (no cache holds so much) faster than the memory does;
//  * attention faster than the peak of its data type;
//  * launches, or the shortest kernel, in no time at all, where a host launches.
// Products are compared with the peak by cost::Price (cost.faster-than-device).
std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet);

// Profiles of GPU types of which nothing was measured: another type of the same architecture stands
// in, whose multiprocessors run the same kernels at the same parts of their peak.

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

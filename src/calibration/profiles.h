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

// Finds the measured table that applies to a group.

// Returns the table with exactly this key. Null if this table does not exist, because tables of
// other group shapes are not reliable.
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes);

// Returns the table for a group on a flat cluster. There, every device counts as a node, wherever
// it really is. The result is the table for this number of ranks in which every rank is a node. If
// this table does not exist, it is the table with the most nodes. Null if no table has this number
// of ranks.
const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks);

// Returns a table for `ranks` ranks that is made from the table for the most similar number of
// ranks. For a flat cluster without a link. The part of its times that grows with the bytes is
// scaled by the bytes on the wire of a ring. The rest of its times is scaled by the steps of a
// ring. None for exchanges, broadcast and reduce, or if there is no such table.
std::optional<CollectiveTable> TableFromOtherRanks(const std::vector<CollectiveTable>& tables,
                                                   CollectiveKind collective, int ranks);

// Returns the required sections that a profile lacks, such as "kernels", "links" or "memory".
std::vector<std::string_view> MissingSections(const Calibration& profile);

// Fills gaps in `profile` from `defaults`, the profile of the GPU type. It fills whole sections,
// and values that a measured section `kernels` lacks (Complete). It also fills host costs by
// framework and residuals between sources, which do not belong to one machine. Returns the names of
// filled sections and values, such as "links" or "kernels.memory_efficiency".
std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile);

// The data sheet of the device for which a profile is used.
struct DeviceSheet {
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount> peak;  // by DataType; zero: none
  bool separate = true;                       // a host launches the device's kernels (false for
                                              // host-cpu)
};

// Returns values that are impossible on this device:
//   - kernels that move 256 MiB or more (beyond any cache) faster than the memory;
//   - attention faster than the peak of its data type;
//   - launches, or the shortest kernel, that take no time, if a host launches kernels.
// Products are not checked, because cost::Price compares them with the peak
// (cost.faster-than-device).
std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet);

// Provides stand-in profiles for GPU types without measurements. A stand-in is the profile of
// another type of the same architecture. Its multiprocessors run the same kernels at the same
// fraction of their peak.

// The factor by which a stand-in profile's residuals are multiplied. Only the residual of memory is
// unchanged, because it does not depend on the GPU.
inline constexpr double kStandInResiduals = 2;

struct StandIn {
  std::string_view profile;  // calibration/<profile>.yaml
  FlopRate peak;             // 16-bit peak of the device to which kernels.power refers
};

// Returns the profile to use for a GPU type without its own profile. The profile is chosen by
// compute capability (90 means 9.0) or, if a device has no compute capability (0), by name. None if
// no suitable profile is shipped.
std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability);

// Returns a copy of `profile` for GPU type `gpu`, whose 16-bit peak is `peak`. The copy is also
// valid for that type; its residuals are multiplied by kStandInResiduals. Power scales with the
// peak, because the device has more or fewer multiprocessors, or slower tensor cores.
Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak);

}  // namespace stepcast::calibration

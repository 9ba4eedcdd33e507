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

// Finds the measured table for a group.

// Returns the table with exactly this key, or null. Tables of other group shapes are not used,
// because they do not predict the group's times reliably.
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes);

// Returns the table for a group on a flat cluster, where each device is a separate node. Prefers
// the table for `ranks` ranks on `ranks` nodes, then the table for `ranks` ranks on the most nodes.
// Null if no table has this number of ranks.
const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks);

// Derives a table for `ranks` ranks from the table with the most similar number of ranks, for a
// flat cluster without link. The part of each time that grows with bytes is scaled by the bytes
// that a ring sends; the rest is scaled by the number of steps of a ring. Returns none for
// exchanges, broadcast and reduce, and if there is no table.
std::optional<CollectiveTable> TableFromOtherRanks(const std::vector<CollectiveTable>& tables,
                                                   CollectiveKind collective, int ranks);

// Returns the required sections that a profile lacks, such as "kernels", "links" or "memory".
std::vector<std::string_view> MissingSections(const Calibration& profile);

// Fills missing parts of `profile` from `defaults`, the profile of the GPU type:
//   - missing sections
//   - missing values of a measured section `kernels` (Complete)
//   - host costs by framework, and residuals between sources, which do not depend on the machine
//
// Returns the names of filled sections and values, such as "links" or "kernels.memory_efficiency".
std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile);

// The data sheet of a profile's device.
struct DeviceSheet {
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount> peak;  // indexed by DataType; zero: not supported
  bool separate = true;  // false for host-cpu: no host launches kernels on a separate device
};

// Returns the values that are impossible on this device:
//   - kernels that move 256 MiB or more (beyond any cache) faster than the memory bandwidth;
//   - attention faster than the peak of its data type;
//   - launches, or the shortest kernel, that take no time, if a host launches kernels.
//
// Does not check matrix multiplications, which cost::Price compares with the peak
// (cost.faster-than-device).
std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet);

// Finds a substitute profile for a GPU type without measurements: a profile of the same
// architecture. Both GPU types are assumed to run kernels at the same fraction of their peak.

// The residuals of a substitute profile are multiplied by this factor, except the residual of
// memory, which does not depend on the GPU.
inline constexpr double kStandInResiduals = 2;

struct StandIn {
  std::string_view profile;  // calibration/<profile>.yaml
  FlopRate peak;             // 16-bit peak of the measured device, to scale kernels.power
};

// Returns the substitute profile for a GPU type, by compute capability (90 means 9.0), or by name
// if the device has no compute capability (0). None if no shipped profile is suitable.
std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability);

// Returns a copy of `profile` for the GPU type `gpu` with the 16-bit peak `peak`. In the copy,
// `gpu` is added to the GPU types, residuals are multiplied by kStandInResiduals, and the power
// draw is scaled with the peak.
Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak);

}  // namespace stepcast::calibration

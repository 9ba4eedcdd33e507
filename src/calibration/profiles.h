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

// Returns the table with exactly this key, or null, because other group shapes are not reliable.
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes);

// Returns the table for a group on a flat cluster, where every device counts as a node, wherever it
// really is. This is the table for this number of ranks in which every rank is a node or, if there
// is none, the table with the most nodes. Null if no table has this number of ranks.
const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks);

// For a flat cluster without a link: a table for `ranks` ranks, from the table for the most similar
// number of ranks. Of its times, the part that grows with the bytes is scaled by the bytes on the
// wire of a ring, and the rest by the steps of a ring. None for exchanges, broadcast and reduce, or
// without such a table.
std::optional<CollectiveTable> TableFromOtherRanks(const std::vector<CollectiveTable>& tables,
                                                   CollectiveKind collective, int ranks);

// Returns the required sections that a profile lacks: "kernels", "links", "memory".
std::vector<std::string_view> MissingSections(const Calibration& profile);

// Fills gaps in `profile` from `defaults`, the profile of the GPU type: whole sections, values
// missing in a measured `kernels` section (Complete), host costs by framework, and residuals
// between sources, which do not belong to one machine. Returns the names of filled sections and
// values: "links", "kernels.memory_efficiency".
std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile);

// The data sheet of the device for which a profile is used.
struct DeviceSheet {
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount> peak;  // by DataType; zero: none
  bool separate = true;                       // a host launches the device's kernels (false for
                                              // host-cpu)
};

// Returns values that are impossible on this device:
// - kernels that move 256 MiB or more (beyond any cache) faster than the memory;
// - attention faster than the peak of its data type;
// - launches, or the shortest kernel, that take no time, if a host launches.
// Products are not checked: cost::Price compares them with the peak (cost.faster-than-device).
std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet);

// Provides stand-in profiles for GPU types without measurements. A stand-in is the profile of
// another type of the same architecture, whose multiprocessors run the same kernels at the same
// fraction of their peak.

// The factor for a stand-in profile's residuals, except the residual of memory, which does not
// depend on the GPU.
inline constexpr double kStandInResiduals = 2;

struct StandIn {
  std::string_view profile;  // calibration/<profile>.yaml
  FlopRate peak;             // 16-bit peak of the device to which kernels.power refers
};

// Returns the profile to use for a GPU type without its own profile. It is chosen by compute
// capability (90 means 9.0) or, if a device has none (0), by name. None if no suitable profile is
// shipped.
std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability);

// Returns a copy of `profile` for GPU type `gpu`, whose 16-bit peak is `peak`. The copy is also
// valid for that type, with residuals multiplied by kStandInResiduals. Power scales with the peak,
// because the device has more or fewer multiprocessors, or slower tensor cores.
Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak);

}  // namespace stepcast::calibration

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/session.h"
#include "src/calibration/calibration.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// Measures the cost of operations on a backend, and creates a calibration profile.
namespace stepcast::calibrate {

// A part of a calibration that can be measured separately. kLaunch and kMemory are always included
// if another part adds values to the section `kernels` of the profile.
enum class Part : std::uint8_t {
  kLaunch,        // issue and start of kernels; with several ranks, also issue of collectives
  kMemory,        // memory-bound kernels, by bytes
  kGemm,          // matrix multiplications by m, n, k, data type and layout; and the sustained
                  // clock if the device reports its power
  kAttention,     // attention by heads, sequence length, head size and data type, in both
                  // directions
  kOptimizer,     // fused AdamW, by bytes
  kCopies,        // copies in each direction, and in both directions at once
  kCollectives,   // each kind of collective, by size and shape of group
  kInterference,  // kernels and collectives at the same time
};
inline constexpr Part kParts[] = {Part::kLaunch,      Part::kMemory,      Part::kGemm,
                                  Part::kAttention,   Part::kOptimizer,   Part::kCopies,
                                  Part::kCollectives, Part::kInterference};
std::string_view Name(Part part);  // the name in options: "launch", "gemm", ...
std::optional<Part> PartFromName(std::string_view name);

struct Options {
  bool quick = false;  // coarser grids and fewer repetitions
  // The approximate duration of the calibration. Zero: 90 s if quick, otherwise 20 min. Kernels,
  // copies and interference are measured first. Collectives get the remaining time, at least a
  // quarter. Below 10 min, kernels are measured as with `quick`.
  Time time;
  std::vector<Part> parts;      // empty: all parts
  std::vector<DataType> types;  // types of matrix multiplications and attention; empty: fp32, bf16
  // The layouts of matrix multiplications. One layout suffices if the time does not depend on the
  // layout. fp8 is measured only in the forward layout.
  std::vector<ProductLayout> layouts = {ProductLayout::kForward};
  Bytes cache;  // last-level cache of the device; the optimizer's operands are larger
  std::vector<CollectiveKind> collectives;  // empty: all kinds; with `quick`, all except broadcast
  // The range of sizes of collectives. Zero: from 1 KiB to 256 MiB (with `quick`, to 64 MiB).
  Bytes from, to;
  std::vector<int> group_sizes;  // ranks in groups that communicate; empty: all sizes that
                                 // kernel_measurements.h finds
  std::string name;              // name of the profile
  std::string gpu;               // the profile's GPU type; empty: unknown
  // The first entries of the provenance. `machine`: machine, driver and libraries. `run`: date,
  // command and version. A stored state is valid only if its `machine` entries equal these entries.
  std::vector<std::pair<std::string, std::string>> machine;
  std::vector<std::pair<std::string, std::string>> run;
  std::string state;  // stored state of an interrupted calibration, on rank 0; empty: none
  Observer observer;
  // Returns the current state of rank 0's device. If the function is null or returns none, the
  // state is unknown. Either all ranks have this function, or no rank has it.
  std::function<std::optional<runtime::DeviceHealth>()> health;
  // Returns the seconds since the calibration began, on rank 0. If null, the clock is used.
  std::function<double()> elapsed;
};

// A straight line fitted to measurements, for display.
struct Fitted {
  std::string what;  // for example "all_reduce over 4 ranks on 4 nodes"
  std::size_t points = 0;
  double start = 0;     // value at size 0, in seconds
  double per_unit = 0;  // seconds per byte
  double residual = 0;  // median of |line - point| / point
};

struct Outcome {
  calibration::Calibration profile;
  std::vector<Fitted> fits;
  std::vector<std::string> warnings;  // sentences without a period
  // Why nothing was measured: the stored state is invalid or from another machine. Empty if
  // something was measured.
  std::string refused;
  // If not zero, nothing was measured because no group has this number of ranks. `groups_of` lists
  // the possible numbers.
  int no_group_of = 0;
  std::vector<int> groups_of;
};

// Measures the costs and returns a profile. All ranks call this function together, with equal
// options except `observer` and `state`. All ranks get the same outcome.
runtime::Attempt<Outcome> Calibrate(runtime::Job& job, const Runner& runner,
                                    const Options& options);

}  // namespace stepcast::calibrate

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

// A part of a calibration that can be selected. kLaunch and kMemory are always measured with other
// parts that add values to the profile's section `kernels`.
enum class Part : std::uint8_t {
  kLaunch,        // issue and start of kernels; with several ranks, also issue of collectives
  kMemory,        // memory-bound kernels, by bytes
  kGemm,          // matrix multiplications by m, n, k, data type and layout; sustained clock
  kAttention,     // attention by heads, sequence length, head size, data type and direction
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
  // The approximate duration of the calibration. Zero: 90 s with `quick`, otherwise 20 min.
  // Kernels, copies and interference are measured first. Collectives get the remaining time, but at
  // least a quarter of the total. Below 10 min, kernels are measured as with `quick`.
  Time time;
  std::vector<Part> parts;      // empty: all parts
  std::vector<DataType> types;  // for matrix multiplications and attention; empty: fp32, bf16
  // The layouts of matrix multiplications to measure. One layout is sufficient if the time does not
  // depend on the layout. fp8 is measured only in the forward layout.
  std::vector<ProductLayout> layouts = {ProductLayout::kForward};
  Bytes cache;  // last-level cache of the device; the optimizer's operands are larger
  std::vector<CollectiveKind> collectives;  // empty: all kinds; with `quick`, all except broadcast
  // The range of sizes of collectives. Zero: 1 KiB to 256 MiB (with `quick`, to 64 MiB).
  Bytes from, to;
  std::vector<int> group_sizes;  // ranks per group; empty: all possible numbers
  std::string name;              // name of the profile
  std::string gpu;               // the profile's GPU type; empty: unknown
  // The first entries of the provenance. `machine`: machine, driver and libraries. `run`: date,
  // command and version. A stored state is used only if `machine` has not changed.
  std::vector<std::pair<std::string, std::string>> machine;
  std::vector<std::pair<std::string, std::string>> run;
  std::string state;  // state of an interrupted calibration, on rank 0; empty: none
  Observer observer;
  // Returns the current state of rank 0's device, or none if the state is unknown. Must be null on
  // all ranks or on no rank; null means unknown.
  std::function<std::optional<runtime::DeviceHealth>()> health;
  // Returns the seconds since the calibration began, on rank 0. Null: reads the system clock.
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
  // If not empty: why nothing was measured. The stored state is invalid or from another machine.
  std::string refused;
  // If not zero, nothing was measured because no group has this number of ranks. `groups_of`
  // contains the possible numbers of ranks.
  int no_group_of = 0;
  std::vector<int> groups_of;
};

// Measures the costs and returns a profile. All ranks call this function together, with equal
// options except `observer` and `state`. All ranks get the same result.
runtime::Attempt<Outcome> Calibrate(runtime::Job& job, const Runner& runner,
                                    const Options& options);

}  // namespace stepcast::calibrate

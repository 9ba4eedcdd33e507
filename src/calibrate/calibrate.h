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
#include "src/runtime/device_health.h"
#include "src/runtime/job.h"

// Measures what operations cost where a backend runs them, and makes a profile of it.
namespace stepcast::calibrate {

// A part of a calibration that can be measured by itself. Launch and memory are also measured with
// any other part that makes a profile's section of kernels.
enum class Part : std::uint8_t {
  kLaunch,       // issue and start of kernels; with several ranks issue of collectives
  kMemory,       // memory-bound kernels by bytes
  kGemm,         // matrix products by m, n, k, for each data type and layout; and, where the device
                 // tells what it draws, the clock that they hold
  kAttention,    // by heads, sequence and head size, for each data type, forward and backward
  kOptimizer,    // fused AdamW by bytes
  kCopies,       // each direction, and both at once
  kCollectives,  // each kind, by size, for each shape of group
  kInterference,  // kernels beside collectives
};
inline constexpr Part kParts[] = {Part::kLaunch,      Part::kMemory,      Part::kGemm,
                                  Part::kAttention,   Part::kOptimizer,   Part::kCopies,
                                  Part::kCollectives, Part::kInterference};
std::string_view Name(Part part);  // "launch", "gemm", ...
std::optional<Part> PartFromName(std::string_view name);

struct Options {
  bool quick = false;  // coarser and less often repeated
  // About how long to measure; zero: 90 s when quick, else 20 min. What kernels, copies and
  // interference leave of it, a quarter at least, is for collectives. Below 10 min kernels are
  // measured as when quick.
  Time time;
  std::vector<Part> parts;      // empty: all
  std::vector<DataType> types;  // of products and attention; empty: fp32 and bf16
  // Of products; one suffices where they take the same time. fp8 has the forward's alone.
  std::vector<ProductLayout> layouts = {ProductLayout::kForward};
  Bytes cache;  // of the device: the optimizer's operands come from beyond it
  std::vector<CollectiveKind> collectives;  // empty: all; quick: all but broadcast
  // Of collectives; from 1 KiB to 256 MiB (quick: 64 MiB) when zero.
  Bytes from, to;
  std::vector<int> group_sizes;  // of the groups that communicate; empty: all that kernel_measurements.h finds
  std::string name;              // the profile's
  std::string gpu;               // its GPU type; empty: not known
  // The beginning of the provenance: machine, driver, libraries, date, command, version. Results of
  // a state hold where the entries of `machine` are the same.
  std::vector<std::pair<std::string, std::string>> machine;
  std::vector<std::pair<std::string, std::string>> run;
  std::string state;  // of an interrupted calibration; empty: none. Rank 0's counts.
  Observer observer;
  // The present state of rank 0's device; null, or nothing: it has none. All ranks have one, or
  // none has.
  std::function<std::optional<runtime::DeviceHealth>()> health;
  // Seconds since the calibration began, on rank 0; null: by the clock.
  std::function<double()> elapsed;
};

// A straight line through what was measured, for people: start and rate.
struct Fitted {
  std::string what;  // "all_reduce over 4 ranks on 4 nodes"
  std::size_t points = 0;
  double start = 0;     // seconds
  double per_unit = 0;  // seconds a byte
  double residual = 0;  // median of |line - point| / point
};

struct Outcome {
  calibration::Calibration profile;
  std::vector<Fitted> fits;
  std::vector<std::string> warnings;  // sentences without full stop
  // Not empty: nothing was measured, for this reason: the state is none, or another machine's.
  std::string refused;
  // Not zero: nothing was measured, because there are no groups of so many ranks; there are these.
  int no_group_of = 0;
  std::vector<int> groups_of;
};

// All ranks call this together, each with options that differ in nothing but observer and state.
// All get the same outcome.
runtime::Attempt<Outcome> Calibrate(runtime::Job& job, const Runner& runner,
                                    const Options& options);

}  // namespace stepcast::calibrate

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/transport.h"
#include "src/base/version.h"

namespace stepcast::calibration {

// The path of a collective's data. Each path has its own overheads.
enum class WireClass : std::uint8_t { kLl, kLl128, kSimple, kSwitch };
inline constexpr std::array kWireClasses = {WireClass::kLl, WireClass::kLl128, WireClass::kSimple,
                                            WireClass::kSwitch};
constexpr std::string_view Name(WireClass wire) {  // the names of files
  constexpr std::string_view kNames[] = {"ll", "ll128", "simple", "switch"};
  return kNames[static_cast<std::size_t>(wire)];
}

// The time of a collective, computed from the latency and transfer time of NCCL's tuner. The tuner
// is meant for choosing algorithms, and its times are too short for messages below about 64 MiB.
// With x bytes on each channel:
//
//   time = launch + latency (1 + stretch x / (x + half)) + transfer / efficiency
//
// A message of less than `half` bytes per channel is one slice and pays each hop once. A longer
// message is divided into slices, and the pipeline through the hops stalls at its start and end.
struct CollectiveLaw {
  struct Ramp {
    double stretch = 0;
    double half = 1;        // bytes per channel
    double efficiency = 1;  // above 1 if the tuner underestimates the links
    // Returns the factor by which the latency is multiplied.
    double StretchOf(double bytes_per_channel) const {
      return 1 + stretch * bytes_per_channel / (bytes_per_channel + half);
    }
    friend bool operator==(const Ramp&, const Ramp&) = default;
  };
  Time launch;
  std::array<Ramp, kWireClasses.size()> ramp{};

  const Ramp& Of(WireClass wire) const { return ramp[static_cast<std::size_t>(wire)]; }
  friend bool operator==(const CollectiveLaw&, const CollectiveLaw&) = default;
};

// Published measurements of collectives: calibration/collectives/*.yaml. The profiles of GPU types
// name these files. src/cost/nccl_price.h describes how forecasts use them, and `stepcast validate
// collectives` reports the accuracy. docs/formats.md documents the format.

using TimePoint = std::pair<Bytes, Time>;

// An algorithm that the source states for sizes in [from, to].
struct DocumentedChoice {
  Bytes from, to;
  std::string algorithm;  // as in forecasts: "ring", "nvls"
  std::string protocol;   // "LL", "LL128", "Simple"; empty: not stated
};

// The measurements of one collective on one shape of group. Sizes are counted as in nccl-tests.
// Each list is sorted by size.
struct CollectiveCurve {
  Location location;  // for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::string algorithm;             // forced by the user; empty: NCCL chose
  std::vector<TimePoint> fit;        // may be read by forecasts
  std::vector<TimePoint> held_back;  // for judging forecasts, which never read them
  std::vector<TimePoint> uncertain;  // shown, but neither read nor counted
  std::vector<DocumentedChoice> documented;
};

// The measurements of one source on one kind of machine.
struct CurveFile {
  std::string name;
  std::string source;
  std::string machine;
  std::string topology;     // file of a similar machine, for forecasts to compare
  Version nccl;             // the release, stated or assumed
  std::string rule;         // how points were divided into fit, held back and uncertain
  std::string not_counted;  // why points do not count in accuracy; empty: they count
  bool nvlink = true;       // GPUs of a node are connected by NVLink; false: by PCIe
  Bandwidth inside;         // NVLinks or PCIe link of a GPU, one direction; zero: not stated
  Bandwidth network;        // all network cards of a node, one direction; zero: a single node
  Transport transport = Transport::kInfiniband;  // if there is a network
  std::vector<CollectiveCurve> curves;
};

}  // namespace stepcast::calibration

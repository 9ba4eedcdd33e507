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

// How a collective's data are sent, which determines the overhead: by NCCL protocol, or through an
// NVLink switch.
enum class WireClass : std::uint8_t { kLl, kLl128, kSimple, kSwitch };
inline constexpr std::array kWireClasses = {WireClass::kLl, WireClass::kLl128, WireClass::kSimple,
                                            WireClass::kSwitch};
constexpr std::string_view Name(WireClass wire) {  // the names in files
  constexpr std::string_view kNames[] = {"ll", "ll128", "simple", "switch"};
  return kNames[static_cast<std::size_t>(wire)];
}

// Computes the time of a collective from the latency and transfer time of NCCL's tuner. The tuner's
// times are too short for messages below about 64 MiB. With x bytes per channel:
//
//   time = launch + latency (1 + stretch x / (x + half)) + transfer / efficiency
//
// A message of less than `half` bytes per channel is one slice and has the latency of each hop
// once. A longer message is divided into slices, and the pipeline over the hops stalls at its start
// and end.
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

// Published measurements of collectives: calibration/collectives/*.yaml (format: docs/formats.md).
// The profiles of GPU types list these files. For their use in forecasts, see
// src/cost/nccl_price.h; for the accuracy, run `stepcast validate collectives`.

using TimePoint = std::pair<Bytes, Time>;

// The algorithm that NCCL uses for sizes in [from, to], as stated by the source.
struct DocumentedChoice {
  Bytes from, to;
  std::string algorithm;  // name as in forecasts: "ring", "nvls"
  std::string protocol;   // "LL", "LL128", "Simple"; empty: not stated
};

// The measurements of one collective on one shape of group. Sizes are defined as in nccl-tests.
// Each list is sorted by size.
struct CollectiveCurve {
  Location location;  // position in the file, for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::string algorithm;             // selected by the user of the benchmark; empty: chosen by NCCL
  std::vector<TimePoint> fit;        // forecasts may read these points
  std::vector<TimePoint> held_back;  // only to judge forecasts, which never read these points
  std::vector<TimePoint> uncertain;  // shown, but not used
  std::vector<DocumentedChoice> documented;
};

// The measurements from one source on one kind of machine.
struct CurveFile {
  std::string name;
  std::string source;
  std::string machine;
  std::string topology;     // topology file of a similar machine, to compare forecasts
  Version nccl;             // the NCCL release, stated or assumed
  std::string rule;         // how points were divided into fit, held_back and uncertain
  std::string not_counted;  // why statistics exclude the points; empty: included
  bool nvlink = true;       // true: NVLink connects the GPUs of a node; false: PCIe
  Bandwidth inside;         // NVLink or PCIe bandwidth of a GPU, one direction; zero: not stated
  Bandwidth network;        // sum of a node's network cards, one direction; zero: a single node
  Transport transport = Transport::kInfiniband;  // ignored for a single node
  std::vector<CollectiveCurve> curves;
};

}  // namespace stepcast::calibration

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

// What a collective's data passes through: each has its own overheads.
enum class WireClass : std::uint8_t { kLl, kLl128, kSimple, kSwitch };
inline constexpr std::array kWireClasses = {WireClass::kLl, WireClass::kLl128, WireClass::kSimple,
                                            WireClass::kSwitch};
constexpr std::string_view Name(WireClass wire) {  // the names of files
  constexpr std::string_view kNames[] = {"ll", "ll128", "simple", "switch"};
  return kNames[static_cast<std::size_t>(wire)];
}

// How long a collective takes for which NCCL's tuner reckons a latency and a transfer time. The
// tuner is made for choosing, and is too fast for messages below some 64 MiB. With x bytes on each
// channel:
//
//   time = launch + latency (1 + stretch x / (x + half)) + transfer / efficiency
//
// A message of less than `half` bytes a channel is one slice and pays each hop once; a longer one
// is cut into slices, and the pipeline through the hops stalls at its start and end.
struct CollectiveLaw {
  struct Ramp {
    double stretch = 0;
    double half = 1;        // bytes per channel
    double efficiency = 1;  // above 1 where the tuner underrates the links
    // What latency is multiplied by.
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
// name the files that are theirs; src/cost/nccl_price.h says how forecasts use them, `stepcast
// validate collectives` what comes of it. Format: docs/formats.md.

using TimePoint = std::pair<Bytes, Time>;

// A choice of algorithm that the source documents, for sizes in [from, to].
struct DocumentedChoice {
  Bytes from, to;
  std::string algorithm;  // as forecasts name it: "ring", "nvls"
  std::string protocol;   // "LL", "LL128", "Simple"; empty: not said
};

// One collective on one group shape. Sizes by nccl-tests' convention; each list ascends by size.
struct CollectiveCurve {
  Location location;  // for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::string algorithm;             // the user forced it; empty: NCCL chose
  std::vector<TimePoint> fit;        // forecasts may read these
  std::vector<TimePoint> held_back;  // forecasts are judged by these, and never read them
  std::vector<TimePoint> uncertain;  // shown, neither read nor counted
  std::vector<DocumentedChoice> documented;
};

// What one source measured on one kind of machine.
struct CurveFile {
  std::string name;
  std::string source;
  std::string machine;
  std::string topology;     // a file like that machine, for forecasts to be held against it
  Version nccl;             // the release, or the one supposed
  std::string rule;         // how points were divided into fit, held back and uncertain
  std::string not_counted;  // why none of it counts; empty: it does
  bool nvlink = true;       // GPUs of a node meet over NVLink, else PCIe
  Bandwidth inside;         // all NVLinks of a GPU, or its PCIe link, one direction; zero: not said
  Bandwidth network;        // of all cards of a node, one direction; zero: one node alone
  Transport transport = Transport::kInfiniband;  // where there is a network
  std::vector<CollectiveCurve> curves;
};

}  // namespace stepcast::calibration

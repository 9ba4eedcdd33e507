#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "src/base/time.h"

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

}  // namespace stepcast::calibration

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/time.h"

// What an operation asks of the machine. Cost code answers with demands and says where they come
// from; only the engine turns demands into an end time, because rates change when operations share
// a resource.
//
// A demand has two parts, one after the other: a fixed `latency`, in which the operation holds its
// stream and nothing else, and `work`, in which it uses resources. Alone it takes latency + work.
// An operation's share of a resource is what it uses of the rate that it could reach there alone:
// the resource that limits it has share 1, and one that it would need for 30 % of its time has 0.3.
// Two operations whose shares of some resource add up to more than 1 cannot both run at full rate.
// How multiprocessors are shared depends on the operations' occupancy (engine/shared_resources.h,
// "What persists").
// A share above 1 is of a link that sibling groups use in step with the operation: the work then
// takes so many times as long, and uses the other resources at a rate as much lower.
namespace stepcast::cost {

// Where a figure comes from, best first.
enum class Provenance : std::uint8_t {
  kGiven,         // an input of the scenario (layer lists)
  kMeasured,      // a measured point of a profile
  kInterpolated,  // between measured points
  kExtrapolated,  // below the first or beyond the last measured point
  kTransferred,   // measured on a group of another shape, or as a collective of the same pattern
  kModelled,      // a formula with sourced constants
};
const char* Name(Provenance provenance);  // "given", "measured", ...

// What the operations of one device share.
enum class Resource : std::uint8_t {
  kCompute,   // streaming multiprocessors
  kMemory,    // device memory bandwidth
  kScaleUp,   // NVLink or PCIe to the GPUs of the node, egress
  kNetwork,   // the GPU's share of the node's NICs, egress
  kHostLink,  // PCIe between host and device
  // Ingress, which only messages of exchanges name: they use their sender's egress and their
  // receiver's ingress. Collectives receive as much as they send, so that their share of egress
  // stands for both.
  kScaleUpIn,
  kNetworkIn,
  // Single links that groups share (priced_machine.h): so many in the node, then so many that lead to
  // the network.
  kNodeLinks,
  kNetworkLinks = kNodeLinks + 4,
};
inline constexpr int kResources = static_cast<int>(Resource::kNetworkLinks) + 4;

// What the resource is a part of: kScaleUp or kNetwork for ingress and single links, else itself.
constexpr Resource KindOf(Resource resource) {
  if (resource >= Resource::kNetworkLinks || resource == Resource::kNetworkIn) {
    return Resource::kNetwork;
  }
  if (resource >= Resource::kNodeLinks || resource == Resource::kScaleUpIn) {
    return Resource::kScaleUp;
  }
  return resource;
}

// How the thread blocks of an operation take multiprocessors.
enum class Occupancy : std::uint8_t {
  kTurns,       // blocks come and go, so that others get their turn
  kPersistent,  // one block for each multiprocessor that it wants, as long as it runs
  // A collective's: nothing else runs where they are. Messages, and what waits for others, count as
  // kTurns: no pipeline that is published shows more (docs/accuracy.md, "Tensor
  // parallelism: what is missing").
  kHolds,
};

struct Demand {
  Time latency{};                          // fixed part: start-up, hops; uses nothing
  Time work{};                             // time of the rest when nothing else runs
  std::array<double, kResources> share{};  // while in `work`; not negative
  Provenance provenance = Provenance::kModelled;
  Occupancy occupancy = Occupancy::kTurns;

  // The greatest share, at least 1.
  double hindrance() const { return std::max(1.0, *std::max_element(share.begin(), share.end())); }
  // How long the work takes when nothing but the operation's own shares hinders it.
  Time work_alone() const {
    const double by = hindrance();
    if (by == 1) return work;
    constexpr double kLongest = 1e18;  // eleven days: prices of a day are refused
    return Picoseconds(static_cast<std::int64_t>(
        std::min(by * static_cast<double>(work.picoseconds()), kLongest)));
  }
  Time alone() const { return latency + work_alone(); }
};

}  // namespace stepcast::cost

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/time.h"

// The resources that an operation needs, with the provenance of the values. Only the engine
// computes end times from demands, because operations that share a resource slow one another.
//
// A demand has two parts, one after the other. During the fixed `latency`, the operation occupies
// its stream but no resource. During `work`, the operation uses resources. An uncontended operation
// takes latency + work. The share of a resource is the fraction of `work` for which the operation
// needs it; the limiting resource has share 1. If the shares of concurrent operations add up to
// more than 1 for some resource, they slow one another. For the sharing of multiprocessors, see
// engine/shared_resources.h, "Persistent activities".
//
// If sibling groups use a link at the same time as the operation, the link's share can exceed 1. A
// share above 1 lengthens the work by this factor, and the work uses other resources at a rate that
// is lower by the same factor.
namespace stepcast::cost {

// The source of a value, best source first.
enum class Provenance : std::uint8_t {
  kGiven,         // an input of the scenario (layer lists)
  kMeasured,      // a measured point of a profile
  kInterpolated,  // between measured points
  kExtrapolated,  // below the first or beyond the last measured point
  kTransferred,   // measured for another group shape, or for a collective with the same traffic
  kModelled,      // a formula with sourced constants
};
const char* Name(Provenance provenance);  // "given", "measured", ...

// The resources that the operations of one device share.
enum class Resource : std::uint8_t {
  kCompute,   // multiprocessors (SMs)
  kMemory,    // device memory bandwidth
  kScaleUp,   // outgoing traffic over NVLink or PCIe to the GPUs of the node
  kNetwork,   // outgoing traffic over the GPU's part of the node's NICs
  kHostLink,  // PCIe between host and device
  // Incoming traffic over the links of kScaleUp and kNetwork. Only messages of exchanges use the
  // resources for incoming traffic. Collectives receive as much as they send, so their outgoing
  // share represents both directions.
  kScaleUpIn,
  kNetworkIn,
  // Single links that several groups use (priced_machine.h): first the links in the node, then the
  // links to the network.
  kNodeLinks,
  kNetworkLinks = kNodeLinks + 4,
};
inline constexpr int kResources = static_cast<int>(Resource::kNetworkLinks) + 4;

// Returns kScaleUp or kNetwork for incoming traffic and single links, otherwise `resource` itself.
constexpr Resource KindOf(Resource resource) {
  if (resource >= Resource::kNetworkLinks || resource == Resource::kNetworkIn) {
    return Resource::kNetwork;
  }
  if (resource >= Resource::kNodeLinks || resource == Resource::kScaleUpIn) {
    return Resource::kScaleUp;
  }
  return resource;
}

// How the thread blocks of an operation occupy multiprocessors.
enum class Occupancy : std::uint8_t {
  kTurns,       // thread blocks start and end, so operations alternate
  kPersistent,  // one block on each multiprocessor that the operation uses, until it ends
  // The operation reserves its multiprocessors; no other operation runs on them. Used for
  // collectives. Messages, and operations that wait for other operations, use kTurns.
  kHolds,
};

struct Demand {
  Time latency{};                          // fixed part (start-up, hops); uses no resource
  Time work{};                             // uncontended time of the remaining part
  std::array<double, kResources> share{};  // indexed by Resource, during `work`; not negative
  Provenance provenance = Provenance::kModelled;
  Occupancy occupancy = Occupancy::kTurns;

  // Returns the factor by which the operation's own shares lengthen its work: the largest share,
  // but at least 1.
  double hindrance() const { return std::max(1.0, *std::max_element(share.begin(), share.end())); }
  // Returns the duration of the work without contention.
  Time uncontended_work() const {
    const double by = hindrance();
    if (by == 1) return work;
    constexpr double kLongest = 1e18;  // in ps, 11.6 days; operations of a day or more are errors
    return Picoseconds(static_cast<std::int64_t>(
        std::min(by * static_cast<double>(work.picoseconds()), kLongest)));
  }
  Time uncontended() const { return latency + uncontended_work(); }
};

}  // namespace stepcast::cost

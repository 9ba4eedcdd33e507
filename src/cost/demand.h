#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/time.h"

// The resources that an operation needs. Cost code returns demands with their provenance. Only the
// engine computes end times from demands, because rates change when operations share a resource.
//
// A demand has two parts, one after the other. During the fixed `latency`, the operation holds its
// stream and uses nothing else. During `work`, it uses resources. Uncontended it takes latency +
// work. An operation's share of a resource is relative to the rate that the operation could reach
// on this resource alone. The limiting resource has share 1. A resource that is needed for 30 % of
// the time has share 0.3. Two operations whose shares of some resource add up to more than 1 cannot
// both run at full rate. How multiprocessors are shared depends on the operations' occupancy
// (engine/shared_resources.h, "What persists").
//
// A share above 1 is for a link that sibling groups use in step with the operation. The work then
// takes that many times as long, and uses the other resources at a rate lower by the same factor.
namespace stepcast::cost {

// The source of a figure. The best source comes first.
enum class Provenance : std::uint8_t {
  kGiven,         // an input of the scenario (layer lists)
  kMeasured,      // a measured point of a profile
  kInterpolated,  // between measured points
  kExtrapolated,  // below the first or beyond the last measured point
  kTransferred,   // measured on a group of another shape, or for a collective with the same pattern
  kModelled,      // a formula with sourced constants
};
const char* Name(Provenance provenance);  // "given", "measured", ...

// The resources that the operations of one device share.
enum class Resource : std::uint8_t {
  kCompute,   // streaming multiprocessors
  kMemory,    // device memory bandwidth
  kScaleUp,   // NVLink or PCIe to the GPUs of the node, egress
  kNetwork,   // the GPU's part of the node's NICs, egress
  kHostLink,  // PCIe between host and device
  // The ingress of the links kScaleUp and kNetwork. Only messages of exchanges use these: a message
  // uses its sender's egress and its receiver's ingress. Collectives receive as much as they send,
  // so their egress share stands for both directions.
  kScaleUpIn,
  kNetworkIn,
  // Single links that groups share (priced_machine.h): first the links in the node, then the links
  // to the network.
  kNodeLinks,
  kNetworkLinks = kNodeLinks + 4,
};
inline constexpr int kResources = static_cast<int>(Resource::kNetworkLinks) + 4;

// Returns the resource of which this resource is a part. This is kScaleUp or kNetwork for ingress
// and single links, otherwise the resource itself.
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
  kTurns,       // blocks start and end, so other operations get their turn
  kPersistent,  // one block for each multiprocessor that the operation wants, until it ends
  // The operation holds its multiprocessors, and no other operation runs on them. Collectives use
  // this. Messages and operations that wait for others use kTurns, because no published pipeline
  // shows more (docs/accuracy.md, "Tensor parallelism: what is missing").
  kHolds,
};

struct Demand {
  Time latency{};                          // fixed part: start-up, hops; uses nothing
  Time work{};                             // time of the rest, uncontended
  std::array<double, kResources> share{};  // during `work`; not negative
  Provenance provenance = Provenance::kModelled;
  Occupancy occupancy = Occupancy::kTurns;

  // Returns the factor by which the operation's own shares lengthen its work: the largest share, at
  // least 1.
  double hindrance() const { return std::max(1.0, *std::max_element(share.begin(), share.end())); }
  // Returns the time of the work if only the operation's own shares limit it.
  Time uncontended_work() const {
    const double by = hindrance();
    if (by == 1) return work;
    constexpr double kLongest = 1e18;  // eleven days: prices of a day or more are errors
    return Picoseconds(static_cast<std::int64_t>(
        std::min(by * static_cast<double>(work.picoseconds()), kLongest)));
  }
  Time uncontended() const { return latency + uncontended_work(); }
};

}  // namespace stepcast::cost

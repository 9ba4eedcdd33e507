#include "src/topology/rings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "src/base/check.h"

namespace stepcast::topology {
namespace {

// [Link::id]: number of channels that cross it.
using Loads = std::vector<double>;

void AddRoute(const Route& route, Loads& loads) {
  for (const Share& share : route.shares) {
    loads[static_cast<std::size_t>(share.link)] += share.share;
  }
}

// Bandwidth of one channel on the narrowest link of a route.
double NarrowestRate(const NodeRoutes& routes, const Route& route, const Loads& loads) {
  double rate = std::numeric_limits<double>::infinity();
  for (const Share& share : route.shares) {
    const double capacity =
        static_cast<double>(routes.link(share.link).bandwidth.bytes_per_second());
    rate = std::min(rate, capacity / loads[static_cast<std::size_t>(share.link)]);
  }
  return rate;
}

Bandwidth WholeBytes(double bytes_per_second) {
  return Bandwidth::BytesPerSecond(std::llround(bytes_per_second));
}

Route Joined(Route first, const Route& second) {
  first.distance.latency += second.distance.latency;
  first.distance.hops += second.distance.hops;
  first.nvlink = first.nvlink && second.nvlink;
  first.shares.insert(first.shares.end(), second.shares.begin(), second.shares.end());
  return first;
}

// The direct NVLink route if there is one. Otherwise the route through the member with the most
// NVLinks to both, the first of several. Otherwise the shortest route.
Route HopBetween(const NodeRoutes& routes, const std::vector<int>& gpus, int from, int to) {
  Route direct = routes.BetweenGpus(from, to);
  if (direct.nvlink) return direct;
  int relay = -1, widest = 0;
  for (const int gpu : gpus) {
    const int width = std::min(routes.DirectNvLinks(from, gpu), routes.DirectNvLinks(gpu, to));
    if (width <= widest) continue;
    relay = gpu;
    widest = width;
  }
  if (relay < 0) return direct;
  return Joined(routes.BetweenGpus(from, relay), routes.BetweenGpus(relay, to));
}

Cycle CycleOver(const NodeRoutes& routes, std::vector<int> gpus) {
  Cycle cycle;
  cycle.hops.reserve(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    cycle.hops.push_back(HopBetween(routes, gpus, gpus[i], gpus[(i + 1) % gpus.size()]));
  }
  cycle.gpus = std::move(gpus);
  return cycle;
}

NodeRings Measured(const NodeRoutes& routes, std::vector<Cycle> cycles) {
  NodeRings rings;
  Loads loads(static_cast<std::size_t>(routes.links()));
  for (const Cycle& cycle : cycles) {
    for (const Route& hop : cycle.hops) AddRoute(hop, loads);
  }
  double rate = std::numeric_limits<double>::infinity();
  rings.nvlink = true;
  for (const Cycle& cycle : cycles) {
    for (const Route& hop : cycle.hops) {
      rate = std::min(rate, NarrowestRate(routes, hop, loads));
      rings.latency = std::max(rings.latency, hop.distance.latency);
      rings.nvlink = rings.nvlink && hop.nvlink;
    }
  }
  rings.bandwidth = WholeBytes(rate * static_cast<double>(cycles.size()));
  rings.cycles = std::move(cycles);
  rings.loads = std::move(loads);
  return rings;
}

// Lays rings over NVLinks that join GPUs directly. Each ring takes one link between consecutive
// GPUs, in both directions. `relays`: if two GPUs are not joined, the ring takes one link to and
// one from a third GPU.
class DirectRings {
 public:
  DirectRings(const NodeRoutes& routes, const std::vector<int>& gpus, bool relays)
      : gpus_(gpus), size_(gpus.size()), relays_(relays), free_(size_ * size_) {
    for (std::size_t a = 0; a < size_; ++a) {
      for (std::size_t b = 0; b < size_; ++b) {
        if (a != b) free_[a * size_ + b] = routes.DirectNvLinks(gpus[a], gpus[b]);
      }
    }
  }

  // Positions in `gpus`, one vector per ring.
  std::vector<std::vector<int>> Find() {
    std::vector<std::vector<int>> found;
    while (found.size() < kMostRings) {
      order_.assign(1, 0);
      visited_.assign(size_, false);
      visited_[0] = true;
      steps_left_ = static_cast<int>(std::max(4 * size_, kMostLooks / size_));
      if (!Extend()) break;
      std::vector<int> ring;
      for (std::size_t position : order_) ring.push_back(gpus_[position]);
      found.push_back(ring);
      if (size_ > 2) {
        std::reverse(ring.begin() + 1, ring.end());
        found.push_back(std::move(ring));
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t kMostRings = 32;
  // Limits the search for one ring; every step looks at all GPUs.
  static constexpr std::size_t kMostLooks = 400'000;

  // Depth first, the widest remaining connection first, so that the remaining links stay balanced.
  // Returns false, with the links unchanged, if there is no ring.
  bool Extend() {
    const std::size_t last = order_.back();
    if (order_.size() == size_) return Take(last, 0).has_value();
    if (--steps_left_ < 0) return false;
    std::vector<std::size_t> next;
    for (std::size_t i = 1; i < size_; ++i) {
      const std::size_t candidate = (last + i) % size_;
      if (!visited_[candidate]) next.push_back(candidate);
    }
    std::stable_sort(next.begin(), next.end(), [&](std::size_t a, std::size_t b) {
      return free_[last * size_ + a] > free_[last * size_ + b];
    });
    for (std::size_t candidate : next) {
      const std::optional<std::size_t> over = Take(last, candidate);
      if (!over) continue;
      visited_[candidate] = true;
      order_.push_back(candidate);
      if (Extend()) return true;
      order_.pop_back();
      visited_[candidate] = false;
      Use(last, *over, -1);
      if (*over != candidate) Use(*over, candidate, -1);
    }
    return false;
  }

  // Reserves a link from a to b, and a link from b to a for the ring in the other direction.
  // Returns the device that the link reaches: b itself, or a relay. None if there is no connection.
  std::optional<std::size_t> Take(std::size_t a, std::size_t b) {
    if (free_[a * size_ + b] > 0) {
      Use(a, b, 1);
      return b;
    }
    for (std::size_t relay = 0; relays_ && relay < size_; ++relay) {
      if (free_[a * size_ + relay] <= 0 || free_[relay * size_ + b] <= 0) continue;
      Use(a, relay, 1);
      Use(relay, b, 1);
      return relay;
    }
    return std::nullopt;
  }

  void Use(std::size_t a, std::size_t b, int links) {
    free_[a * size_ + b] -= links;
    if (size_ > 2) free_[b * size_ + a] -= links;
  }

  const std::vector<int>& gpus_;
  std::size_t size_;
  bool relays_;
  std::vector<int> free_;  // [a * size + b]: unused links from a to b
  std::vector<std::size_t> order_;
  std::vector<bool> visited_;
  int steps_left_ = 0;
};

bool Near(const NodeRoutes& routes, int gpu, int owner, int nic) {
  return routes.ReachesNic(gpu, nic) &&
         routes.DistanceToNic(gpu, nic) <= routes.DistanceToNic(owner, nic);
}

// The GPU of `gpus` that owns the NIC; if several do, the nearest.
int OwnerOf(const NodeRoutes& routes, const std::vector<int>& gpus, int nic) {
  int owner = -1;
  for (int gpu : gpus) {
    const std::vector<int>& own = routes.NicsOf(gpu);
    if (std::find(own.begin(), own.end(), nic) == own.end()) continue;
    if (owner < 0 || routes.DistanceToNic(gpu, nic) < routes.DistanceToNic(owner, nic)) {
      owner = gpu;
    }
  }
  STEPCAST_CHECK(owner >= 0, "every rail must belong to a GPU of the group");
  return owner;
}

Route Reversed(Route route) {
  for (Share& share : route.shares) share.link ^= 1;
  return route;
}

// The route of one channel through a node.
struct Passage {
  const Cycle* cycle = nullptr;  // null: a single GPU
  std::size_t left_out = 0;      // the hop of the cycle that the network replaces
  bool backward = false;         // runs against the cycle
  Route entry;
  Route exit;
};

Passage PassageOf(const NodeRoutes& routes, int owner, int nic, const Cycle* cycle) {
  Passage passage;
  passage.cycle = cycle;
  if (cycle == nullptr) {
    passage.entry = routes.FromNic(nic, owner);
    passage.exit = routes.ToNic(owner, nic);
    return passage;
  }
  const std::vector<int>& gpus = cycle->gpus;
  const std::size_t size = gpus.size();
  const std::size_t at = static_cast<std::size_t>(
      std::distance(gpus.begin(), std::find(gpus.begin(), gpus.end(), owner)));
  const std::size_t before = (at + size - 1) % size;
  const int next = gpus[(at + 1) % size];
  const int previous = gpus[before];
  if (Near(routes, next, owner, nic)) {  // next, ..., owner
    passage.left_out = at;
    passage.entry = routes.FromNic(nic, next);
    passage.exit = routes.ToNic(owner, nic);
  } else if (Near(routes, previous, owner, nic)) {  // previous, ..., owner, against the cycle
    passage.left_out = before;
    passage.backward = true;
    passage.entry = routes.FromNic(nic, previous);
    passage.exit = routes.ToNic(owner, nic);
  } else {  // owner, ..., previous, and from there to the NIC
    passage.left_out = before;
    passage.entry = routes.FromNic(nic, owner);
    const Route& detour = cycle->hops[before];
    passage.exit = detour.nvlink || !routes.ReachesNic(previous, nic)
                       ? Joined(detour, routes.ToNic(owner, nic))
                       : routes.ToNic(previous, nic);
  }
  return passage;
}

}  // namespace

NodeRings BuildNodeRings(const NodeRoutes& routes, const std::vector<int>& gpus) {
  STEPCAST_CHECK(!gpus.empty(), "a ring has members");
  if (gpus.size() == 1) {
    NodeRings none;
    none.loads.resize(static_cast<std::size_t>(routes.links()));
    return none;
  }
  NodeRings best = Measured(routes, {CycleOver(routes, gpus)});
  std::vector<std::vector<int>> found = DirectRings(routes, gpus, false).Find();
  if (found.empty()) found = DirectRings(routes, gpus, true).Find();
  std::vector<Cycle> direct;
  for (std::vector<int>& ring : found) direct.push_back(CycleOver(routes, std::move(ring)));
  if (!direct.empty()) {
    NodeRings laid = Measured(routes, std::move(direct));
    if (laid.bandwidth > best.bandwidth) best = std::move(laid);
  }
  return best;
}

std::vector<int> RailsOf(const NodeRoutes& routes, const std::vector<int>& gpus) {
  std::set<int> rails;
  for (int gpu : gpus) rails.insert(routes.NicsOf(gpu).begin(), routes.NicsOf(gpu).end());
  return {rails.begin(), rails.end()};
}

NodeTraffic BuildNodeTraffic(const NodeRoutes& routes, const std::vector<int>& gpus,
                             const NodeRings& rings, Bandwidth port, int channels) {
  const std::vector<int> rails = RailsOf(routes, gpus);
  STEPCAST_CHECK(!rails.empty() && channels >= static_cast<int>(rails.size()),
                 "every rail must have at least one channel");
  NodeTraffic traffic;
  Loads loads(static_cast<std::size_t>(routes.links()));
  std::vector<int> port_loads(static_cast<std::size_t>(routes.nics()));
  std::vector<Passage> passages;
  passages.reserve(static_cast<std::size_t>(channels));
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const int nic = rails[c % rails.size()];
    const Cycle* cycle = rings.cycles.empty() ? nullptr : &rings.cycles[c % rings.cycles.size()];
    Passage passage = PassageOf(routes, OwnerOf(routes, gpus, nic), nic, cycle);
    for (std::size_t i = 0; cycle != nullptr && i < cycle->hops.size(); ++i) {
      if (i == passage.left_out) continue;
      for (const Share& share : cycle->hops[i].shares) {
        loads[static_cast<std::size_t>(passage.backward ? share.link ^ 1 : share.link)] +=
            share.share;
      }
    }
    AddRoute(passage.entry, loads);
    AddRoute(passage.exit, loads);
    ++port_loads[static_cast<std::size_t>(nic)];
    traffic.rails.push_back(nic);
    traffic.exit_latency.push_back(passage.exit.distance.latency);
    traffic.entry_latency.push_back(passage.entry.distance.latency);
    passages.push_back(std::move(passage));
  }

  traffic.intra_rate = std::numeric_limits<double>::infinity();
  traffic.inter_rate = std::numeric_limits<double>::infinity();
  for (const Passage& passage : passages) {
    traffic.inter_rate = std::min({traffic.inter_rate, NarrowestRate(routes, passage.entry, loads),
                                   NarrowestRate(routes, passage.exit, loads)});
  }
  for (int load : port_loads) {
    if (load == 0) continue;
    traffic.inter_rate =
        std::min(traffic.inter_rate, static_cast<double>(port.bytes_per_second()) / load);
  }
  // Channels may cross a hop in either direction, so only links that carry load count.
  for (const Cycle& cycle : rings.cycles) {
    for (const Route& hop : cycle.hops) {
      for (const Route& way : {hop, Reversed(hop)}) {
        for (const Share& share : way.shares) {
          const double load = loads[static_cast<std::size_t>(share.link)];
          if (load == 0) continue;
          traffic.intra_rate = std::min(
              traffic.intra_rate,
              static_cast<double>(routes.link(share.link).bandwidth.bytes_per_second()) / load);
        }
      }
    }
  }
  traffic.loads = std::move(loads);
  return traffic;
}

}  // namespace stepcast::topology

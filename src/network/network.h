#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "tl/expected.hpp"

// The links between the places of a collective's participants, and the routes over these links.
namespace stepcast::network {

// A set of links of a network, numbered in order of insertion. Clearing takes constant time, so the
// set is suitable for few links of a large network (Briggs and Torczon 1993, "An Efficient
// Representation for Sparse Sets").
class LinkSet {
 public:
  // `links` is the number of links of the network.
  explicit LinkSet(int links) : number_(static_cast<std::size_t>(links)) {}

  void Clear() { links_.clear(); }
  // Returns the index of the link in links(). Adds the link if it is not in the set.
  std::uint32_t Add(int link) {
    std::uint32_t& number = number_[static_cast<std::size_t>(link)];
    if (number >= links_.size() || links_[number] != link) {
      number = static_cast<std::uint32_t>(links_.size());
      links_.push_back(link);
    }
    return number;
  }
  const std::vector<int>& links() const { return links_; }  // in order of insertion

 private:
  std::vector<std::uint32_t> number_;  // indexed by link; undefined for links outside the set
  std::vector<int> links_;
};

// A link in one direction.
struct Link {
  int from = 0;  // index of a device
  int to = 0;
  Time latency{};
  Bandwidth bandwidth{};
  bool nvlink = false;
};

// A link, and the fraction of a transfer that uses it.
struct Share {
  int link = 0;
  double part = 1;
};

// A route from one place to another. A transfer uses every link of its route at once, at the rate
// of the slowest link, and arrives `latency` after it has left. If several routes are equally
// short, each transmits a fraction in proportion to its bandwidth. In the fabric, WayChoice selects
// the routes.
struct Path {
  Time latency{};
  std::vector<Share> shares{};
};

// An error in a network's description.
struct Fault {
  std::string message;
  std::string hint;
  int change = -1;  // index of the invalid LinkChange; -1: none (cluster_network.h)
};

// How transfers are divided among equally short routes through the fabric.
struct WayChoice {
  enum class By : std::uint8_t {
    kAll,          // each route transmits a fraction
    kDestination,  // one route per destination, assigned in order
    kHash,         // one route per connection between two places
  };
  By by = By::kAll;
  int connections = 1;     // connections between two places, equally loaded
  std::uint64_t seed = 0;  // seed of the hash
};

// Devices, directed links, and places. A place is a rank's GPU, or a set of switches that reduce
// and multicast together. Immutable. There is a route between any two ranks. A node's switches may
// be reachable only from the node's own ranks.
class Network {
 public:
  // The devices, links and places of a new network.
  class Description {
   public:
    // Adds a device and returns its index. `forwards` is true for switches, CPUs and NICs. GPUs are
    // only ends of routes, except relays (Router::Find). `node` is -1 for the fabric. Routes
    // between two places use only the fabric and the nodes of these places. Names appear in faults
    // and reports.
    int AddDevice(std::string name, bool forwards, int node = -1);
    // Adds a link in one direction. Both devices must exist.
    void AddLink(const Link& link);
    void AddBothWays(const Link& link);
    // Sets the total bandwidth of the links between two devices, in each direction. Without a
    // bandwidth, removes the links. Returns false if no such link exists.
    bool Change(std::string_view from, std::string_view to, std::optional<Bandwidth> bandwidth);
    void Choose(const WayChoice& choice) { choice_ = choice; }
    // Adds a place: one device or several equivalent devices. Returns the index of the place.
    int AddPlace(std::vector<int> devices);

   private:
    friend class Network;
    struct Device {
      std::string name;
      bool forwards = false;
      int node = -1;
    };
    std::vector<Device> devices_;
    std::vector<Link> links_;
    std::vector<std::vector<int>> places_;
    WayChoice choice_;
  };

  // Returns a network, or all errors: links without bandwidth or with a negative latency, places
  // without a link, and a disconnected topology.
  static tl::expected<Network, std::vector<Fault>> Make(Description description);

  int places() const { return static_cast<int>(description_.places_.size()); }
  int links() const { return static_cast<int>(description_.links_.size()); }
  const Link& link(int id) const { return description_.links_[static_cast<std::size_t>(id)]; }
  // Returns whether both ends of the link belong to the same node.
  bool IsInsideNode(int id) const;
  std::string LinkName(int id) const;  // for example, "node0/gpu1 to node0/nvswitch0"
  std::string PlaceName(int place) const;
  bool Forwards(int place) const;  // true: the place consists of switches, not a rank's GPU

  // Finds routes. Reuses memory and results between calls. Not thread-safe.
  class Router;

 private:
  explicit Network(Description description);
  std::vector<Fault> FaultsOfParts() const;

  const std::vector<int>& DevicesOf(int place) const {
    return description_.places_[static_cast<std::size_t>(place)];
  }

  Description description_;
  // The links from and to each device, by device. `onward_` has no links to devices that are only
  // ends of routes, so that a search does not visit every GPU behind a switch.
  std::vector<std::vector<int>> onward_;
  std::vector<std::vector<int>> in_;
};

class Network::Router {
 public:
  explicit Router(const Network& network) : network_(network), crossed_(network.links()) {}
  // Finds the route with the lowest latency. Among routes with equal latency, the route with the
  // fewest links is chosen. Fails if there is no route. A route from a place to itself has no
  // links.
  //  - Between nodes, latency inside the nodes is compared first. A message therefore uses the
  //    cards nearest to the sender and to the receiver (ncclTopoGetNetDev, src/graph/topo.cc of
  //    NVIDIA/nccl), even if a path through the CPUs to the receiver's rail is shorter.
  //   - Two places connected by NVLink use only NVLink, even if another route has less latency.
  //     (NCCL also prefers some kinds of paths to others, src/graph/paths.cc.)
  //  - If two places have no NVLink to each other or to a common switch, but NVLinks to another
  //    GPU, this GPU relays: the first GPU with the largest NVLink bandwidth. A route has at most
  //    one relay (PATH_NVB in NCCL, P2P_INTERMEDIATE in src/transport/p2p.cc). NCCL uses only ranks
  //    of the communicator as relays; in this model, any GPU of the node may relay.
  tl::expected<Path, Fault> Find(int from, int to);
  // Returns an empty set of links, for functions that process routes.
  LinkSet& NoLinks() {
    crossed_.Clear();
    return crossed_;
  }

 private:
  struct Distance {
    Time inside;  // latency inside nodes; zero between places of one node
    Time latency;
    int hops = 0;
    friend constexpr auto operator<=>(const Distance&, const Distance&) = default;
    friend Distance operator+(const Distance& a, const Distance& b) {
      return {a.inside + b.inside, a.latency + b.latency, a.hops + b.hops};
    }
  };
  static constexpr int kNoHop = -1;
  struct Visit {
    std::uint32_t search = 0;  // the search for which the other fields are valid
    Distance distance;
    std::vector<int> over;  // links that reach the device at this distance
    int hop = kNoHop;       // index in Known::hops, while routes are traced back
    // A switch is an entry if a link connects it to the target's node. `entry_of` is the last
    // search in which this device is an entry. `from_entry` is the distance from this device to the
    // target in that search.
    std::uint32_t entry_of = 0;
    Distance from_entry;
  };
  // All shortest routes between two places. Equivalent pairs of places have the same routes, but
  // the fractions of a transfer on these routes may differ and are not stored.
  struct Known {
    enum class Of : std::uint8_t { kNetwork, kFrom, kTo };
    struct Way {
      Of of = Of::kNetwork;
      int link = 0;         // index in the network, or in the node's links
      int before = kNoHop;  // hop at the link's other end; kNoHop: start of a route
    };
    // A device on the routes, and the links of the routes to this device.
    struct Hop {
      double ending = 0;  // fraction of the transfer, 0 to 1, that ends here
      bool chooses =
          false;  // the hop's links come from the fabric, which uses only one link per message
      std::vector<Way> ways;
    };
    Time latency;
    std::vector<Hop> hops;  // each hop precedes the hops from which its links come
  };

  void FindCopies();
  // Replaces the links of the two nodes in `known` by indices that are valid in every copy of these
  // nodes.
  void Generalise(Known& known, int node_from, int node_to) const;
  // Returns the path between two places, from the known routes between equivalent places.
  Path Between(const Known& known, int from, int to);
  int NodeOf(int place) const;

  tl::expected<Known, Fault> Look(int from, int to);
  std::optional<Known> Search(int from, int to, bool nvlink_only);
  struct Query;  // the ends of a search, and the links it may use
  // Returns the distance of the shortest route, or none. For each device on the route, stores in
  // `visits_` how it is reached.
  std::optional<Distance> FindNearest(Query& query);
  // Finds the entries of the target's node and their distances to the target, so that the search
  // ignores switches without a short enough route. Does nothing within one node.
  void FindEntries(Query& query);
  void ReachNeighbours(Query& query, int device, const Distance& distance);
  Distance LengthOf(const Query& query, int link) const;
  // Returns all routes with the length `nearest`.
  Known TraceBack(const Query& query, const Distance& nearest);
  // Returns the total bandwidth of the links of the shortest routes to the device.
  double BandwidthInto(int device) const;
  // Returns a route through a third GPU with NVLinks to both places, or none.
  std::optional<Known> Relay(int from, int to) const;
  // Starts a search from these devices.
  void Begin(const std::vector<int>& devices);
  void Reach(int device, const Distance& distance, int link);
  // Removes and returns the nearest device that was reached but not visited, or none.
  std::optional<std::pair<Distance, int>> TakeNearest();
  // Sets `parts_` to the fractions of a transfer on the links in `links_`, which lead to one hop.
  // `arriving` is the fraction of the transfer that reaches this hop.
  void Divide(int from, int to, bool chooses, double arriving);

  // The largest number of entries in `known_`. If it is exceeded, `known_` is cleared.
  static constexpr std::size_t kMostKnown = 65'536;

  const Network& network_;
  // Equivalent places and links. Clusters consist of copies of a node, and a route uses only the
  // fabric and the nodes at its ends. Routes between copies below the same switches are equivalent.
  std::vector<int> alike_;  // indexed by place: equal for corresponding places of copies of a node
  std::vector<std::vector<int>> links_of_;  // by node: links, in the same order in all copies
  std::unordered_map<std::uint64_t, Known> known_;  // indexed by equivalent places
  std::vector<Visit> visits_;                       // by device; empty before the first search
  std::uint32_t search_ = 0;
  std::vector<std::pair<Distance, int>> open_;  // heap, nearest first
  LinkSet crossed_;
  // Temporary data of the current path: the fraction that reaches each hop, the links of a hop, and
  // the fractions on these links.
  std::vector<double> arriving_, parts_;
  std::vector<int> links_;
  std::vector<std::size_t> ways_;  // indices in links_, sorted by link
};

}  // namespace stepcast::network

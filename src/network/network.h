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
#include "src/network/link_set.h"
#include "tl/expected.hpp"

// Links between the places where a collective's participants are, and the routes over them.
namespace stepcast::network {

// One direction of a link.
struct Link {
  int from = 0;  // devices
  int to = 0;
  Time latency{};
  Bandwidth bandwidth{};
  bool nvlink = false;
};

// The part of a transfer that crosses a link.
struct Share {
  int link = 0;
  double part = 1;
};

// A route from one place to another. A transfer cuts through: it is on every link of its route at
// once, at the rate of the narrowest, and reaches the other end `latency` after it has left. No
// switch takes a whole message in before it sends it on. Where several routes are equally short
// each carries a part, in proportion to the bandwidth of its links; through the fabric as WayChoice
// says.
struct Path {
  Time latency{};
  std::vector<Share> shares{};
};

// A mistake in a network's description.
struct Fault {
  std::string message;
  std::string hint;
  int change = -1;  // the number of the LinkChange that is wrong; -1: none (cluster_network.h)
};

// Which of several equally short ways through the fabric a transfer takes.
struct WayChoice {
  enum class By : std::uint8_t {
    kAll,          // every one carries a part
    kDestination,  // one for each destination, dealt out in order
    kHash,         // one for each connection between two places
  };
  By by = By::kAll;
  int connections = 1;     // of two places; each carries as much
  std::uint64_t seed = 0;  // of the hash
};

// Devices, directed links, and places: a rank's GPU, or the switches that reduce and multicast
// together. Immutable. Every rank's place reaches every other's; a node's switches may lie where
// only the node's own ranks reach them.
class Network {
 public:
  // A network's devices, links and places.
  class Description {
   public:
    // `forwards`: a switch, a CPU or a NIC; GPUs end routes, but for what they relay
    // (Router::Find). `node` is -1 for the fabric; routes
    // between two places lead through their own nodes and the fabric. Names appear in faults and
    // reports.
    int AddDevice(std::string name, bool forwards, int node = -1);
    // One direction; both ends exist.
    void AddLink(const Link& link);
    void AddBothWays(const Link& link);
    // The links between two devices, both ways, carry `bandwidth` together each way from now on;
    // none: they are taken away. False where there is no such link.
    bool Change(std::string_view from, std::string_view to, std::optional<Bandwidth> bandwidth);
    void Choose(const WayChoice& choice) { choice_ = choice; }
    // A place on one device, or spread over several alike. Places are numbered from 0.
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

  // All that is wrong: links without bandwidth or with a negative latency, places without a link,
  // and a topology in several parts.
  static tl::expected<Network, std::vector<Fault>> Make(Description description);

  int places() const { return static_cast<int>(description_.places_.size()); }
  int links() const { return static_cast<int>(description_.links_.size()); }
  const Link& link(int id) const { return description_.links_[static_cast<std::size_t>(id)]; }
  // Both ends belong to the same node: not to the fabric.
  bool IsInsideNode(int id) const;
  std::string LinkName(int id) const;  // "node0/gpu1 to node0/nvswitch0"
  std::string PlaceName(int place) const;
  bool Forwards(int place) const;  // on devices that forward: not a rank's

  // Finds routes; keeps its working memory between calls. One thread at a time.
  class Router;

 private:
  explicit Network(Description description);
  std::vector<Fault> FaultsOfParts() const;

  const std::vector<int>& DevicesOf(int place) const {
    return description_.places_[static_cast<std::size_t>(place)];
  }

  Description description_;
  // [device]: links. Those into devices that end routes are left out of `onward_`, so that a switch
  // with thousands of GPUs is not searched GPU by GPU.
  std::vector<std::vector<int>> onward_;
  std::vector<std::vector<int>> in_;
};

class Network::Router {
 public:
  explicit Router(const Network& network) : network_(network), crossed_(network.links()) {}
  // Shortest by latency, then by links crossed. Between nodes first by the latency inside them: a
  // message leaves by the sender's nearest cards and arrives by the receiver's (ncclTopoGetNetDev,
  // src/graph/topo.cc of NVIDIA/nccl), even where the processors are a nearer way to the other's
  // rail than the fabric. Two places that NVLink joins use nothing else, whatever its latency (NCCL
  // ranks kinds of paths in the same way, src/graph/paths.cc). Where NVLink joins neither them nor
  // a switch between them, but both with another GPU, that one relays: of several the one over the
  // widest NVLinks, then the first, and never two in a row (PATH_NVB there, P2P_INTERMEDIATE in
  // src/transport/p2p.cc). NCCL asks only ranks of the communicator; here any GPU of the node may.
  // Of a place on itself: nothing is crossed. Fails where no route leads there.
  tl::expected<Path, Fault> Find(int from, int to);
  // Empty, for whatever goes over the routes that were found.
  LinkSet& NoLinks() {
    crossed_.Clear();
    return crossed_;
  }

 private:
  struct Distance {
    Time inside;  // of the latency, that of links inside nodes; between places of one node none
    Time latency;
    int hops = 0;
    friend constexpr auto operator<=>(const Distance&, const Distance&) = default;
    friend Distance operator+(const Distance& a, const Distance& b) {
      return {a.inside + b.inside, a.latency + b.latency, a.hops + b.hops};
    }
  };
  static constexpr int kNoHop = -1;
  struct Visit {
    std::uint32_t search = 0;  // the one that the rest belongs to
    Distance distance;
    std::vector<int> over;  // the links by which it is reached in this distance
    int hop = kNoHop;       // of Known, while the routes are traced back
    // An entry is a switch that a link joins to the target's node. `entry_of` is the search that
    // found this device to be one, and `from_entry` the distance from there to the target.
    std::uint32_t entry_of = 0;
    Distance from_entry;
  };
  // All nearest routes between two places, which are the same for all pairs of places alike. How a
  // transfer divides among them may differ from pair to pair, and is not kept.
  struct Known {
    enum class Of : std::uint8_t { kNetwork, kFrom, kTo };
    struct Way {
      Of of = Of::kNetwork;
      int link = 0;         // in the network, or among those of the node
      int before = kNoHop;  // the hop at the link's other end; kNoHop where routes begin there
    };
    // A device on the way, and the links by which the routes come to it.
    struct Hop {
      double ending = 0;  // the part of the transfer, 0 to 1, that ends here
      bool chooses =
          false;  // its ways lead through the fabric, which sends a message over one of them
      std::vector<Way> ways;
    };
    Time latency;
    std::vector<Hop> hops;  // a hop stands before those that its ways come from
  };

  void FindCopies();
  // Writes links of the two nodes in `known` as links of any of the nodes' copies.
  void Generalise(Known& known, int node_from, int node_to) const;
  // Gives the path between two places over routes that are known of places alike.
  Path Between(const Known& known, int from, int to);
  int NodeOf(int place) const;

  tl::expected<Known, Fault> Look(int from, int to);
  std::optional<Known> Search(int from, int to, bool nvlink_only);
  struct Query;  // what one search looks for: its ends, and which links it may use
  // The distance of the nearest route, and in `visits_` how every device on the way is reached.
  std::optional<Distance> FindNearest(Query& query);
  // Finds the entries of the target's node and their distances to the target, so that the search
  // can leave out switches from which no route is as near. It does nothing within one node.
  void FindEntries(Query& query);
  void ReachNeighbours(Query& query, int device, const Distance& distance);
  Distance LengthOf(const Query& query, int link) const;
  // Gives all routes whose length is `nearest`.
  Known TraceBack(const Query& query, const Distance& nearest);
  // The sum of the bandwidths of the links by which the nearest routes reach the device.
  double BandwidthInto(int device) const;
  // The route over the NVLinks of a third GPU that both ends are connected to; none where there is
  // no such GPU.
  std::optional<Known> Relay(int from, int to) const;
  // Begins a search from these devices.
  void Begin(const std::vector<int>& devices);
  void Reach(int device, const Distance& distance, int link);
  // Takes the nearest device that was reached and not taken yet; none if all were.
  std::optional<std::pair<Distance, int>> TakeNearest();
  // Sets `parts_` to the parts of a transfer that `links_` carry to a hop, at which the part
  // `arriving` comes together.
  void Divide(int from, int to, bool chooses, double arriving);

  // Beyond so many all are forgotten.
  static constexpr std::size_t kMostKnown = 65'536;

  const Network& network_;
  // Clusters are made of copies of a node, and a route leads through the nodes at its ends and the
  // fabric alone: between copies that hang on the same switches it is a copy, too.
  std::vector<int> alike_;                  // [place]: equal for the same place in copies of a node
  std::vector<std::vector<int>> links_of_;  // [node]: in the same order in its copies
  std::unordered_map<std::uint64_t, Known> known_;  // by places alike
  std::vector<Visit> visits_;                       // [device], once there was a search
  std::uint32_t search_ = 0;
  std::vector<std::pair<Distance, int>> open_;  // a heap, nearest first
  LinkSet crossed_;
  // Of the path at hand: what arrives at each hop, a hop's links, and their parts.
  std::vector<double> arriving_, parts_;
  std::vector<int> links_;
  std::vector<std::size_t> ways_;  // in the order of their links
};

}  // namespace stepcast::network

#include "src/network/network.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::network {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }

// Mixes every bit of the number into every bit of the result (splitmix64).
std::uint64_t Mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

}  // namespace

int Network::Description::AddDevice(std::string name, bool forwards, int node) {
  devices_.push_back({std::move(name), forwards, node});
  return static_cast<int>(devices_.size()) - 1;
}

void Network::Description::AddLink(const Link& link) {
  const auto devices = static_cast<int>(devices_.size());
  STEPCAST_CHECK(link.from >= 0 && link.from < devices && link.to >= 0 && link.to < devices &&
                     link.from != link.to,
                 "a link must connect two devices");
  links_.push_back(link);
}

void Network::Description::AddBothWays(const Link& link) {
  AddLink(link);
  Link back = link;
  std::swap(back.from, back.to);
  AddLink(back);
}

bool Network::Description::Change(std::string_view from, std::string_view to,
                                  std::optional<Bandwidth> bandwidth) {
  const auto joins = [&](const Link& link, std::string_view a, std::string_view b) {
    return devices_[static_cast<std::size_t>(link.from)].name == a &&
           devices_[static_cast<std::size_t>(link.to)].name == b;
  };
  const auto changes = [&](const Link& link) {
    return joins(link, from, to) || joins(link, to, from);
  };
  const auto parallel = std::count_if(links_.begin(), links_.end(),
                                      [&](const Link& link) { return joins(link, from, to); });
  if (parallel == 0) return false;
  if (!bandwidth) {
    std::erase_if(links_, changes);
    return true;
  }
  for (Link& link : links_) {
    if (!changes(link)) continue;
    link.bandwidth = Bandwidth::BytesPerSecond(
        std::max<std::int64_t>(1, bandwidth->bytes_per_second() / parallel));
  }
  return true;
}

int Network::Description::AddPlace(std::vector<int> devices) {
  STEPCAST_CHECK(!devices.empty(), "every participant must be placed on a device");
  places_.push_back(std::move(devices));
  return static_cast<int>(places_.size()) - 1;
}

Network::Network(Description description)
    : description_(std::move(description)),
      onward_(description_.devices_.size()),
      in_(description_.devices_.size()) {
  for (int id = 0; id < links(); ++id) {
    in_[At(link(id).to)].push_back(id);
    if (description_.devices_[At(link(id).to)].forwards) onward_[At(link(id).from)].push_back(id);
  }
}

tl::expected<Network, std::vector<Fault>> Network::Make(Description description) {
  Network network(std::move(description));
  std::vector<Fault> faults;
  for (int id = 0; id < network.links(); ++id) {
    const Link& link = network.link(id);
    if (link.bandwidth <= Bandwidth()) {
      faults.push_back({fmt::format("a link has no bandwidth: {}: {} B/s", network.LinkName(id),
                                    link.bandwidth.bytes_per_second()),
                        "add a bandwidth to the link, or remove the link if it has failed"});
    }
    if (link.latency < Time()) {
      faults.push_back({fmt::format("the latency of link {} is negative: {} ps",
                                    network.LinkName(id), link.latency.picoseconds()),
                        "write a latency of zero or more"});
    }
  }
  if (faults.empty()) faults = network.FaultsOfParts();
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return network;
}

bool Network::IsInsideNode(int id) const {
  const int node = description_.devices_[At(link(id).from)].node;
  return node >= 0 && node == description_.devices_[At(link(id).to)].node;
}

std::string Network::LinkName(int id) const {
  return fmt::format("{} to {}", description_.devices_[At(link(id).from)].name,
                     description_.devices_[At(link(id).to)].name);
}

std::string Network::PlaceName(int place) const {
  return description_.devices_[At(DevicesOf(place).front())].name;
}

bool Network::Forwards(int place) const {
  return description_.devices_[At(DevicesOf(place).front())].forwards;
}

// Every rank must reach the first one and be reached from it, through forwarding devices. The nodes
// of two ranks are joined only by the fabric, so the search need not know the pair.
std::vector<Fault> Network::FaultsOfParts() const {
  if (places() < 2) return {};
  const auto reached_from_first = [this](bool backwards) {
    std::vector<std::vector<int>> next(description_.devices_.size());
    for (const Link& link : description_.links_) {
      if (backwards) {
        next[At(link.to)].push_back(link.from);
      } else {
        next[At(link.from)].push_back(link.to);
      }
    }
    std::vector<bool> reached(description_.devices_.size());
    std::vector<int> open = DevicesOf(0);
    for (const int device : open) reached[At(device)] = true;
    for (bool first = true; !open.empty(); first = false) {
      std::vector<int> further;
      for (const int device : open) {
        if (!first && !description_.devices_[At(device)].forwards) continue;
        for (const int neighbour : next[At(device)]) {
          if (reached[At(neighbour)]) continue;
          reached[At(neighbour)] = true;
          further.push_back(neighbour);
        }
      }
      open = std::move(further);
    }
    return reached;
  };
  const std::vector<bool> from_first = reached_from_first(false);
  const std::vector<bool> to_first = reached_from_first(true);

  std::vector<Fault> faults;
  std::vector<int> cut_off;
  for (int place = 0; place < places(); ++place) {
    bool linked = false;
    bool joined = false;
    for (const int device : DevicesOf(place)) {
      linked = linked || !in_[At(device)].empty();
      joined = joined || (from_first[At(device)] && to_first[At(device)]);
    }
    if (place == 0 || Forwards(place)) joined = true;
    if (!linked) {
      faults.push_back({fmt::format("no link connects a participant: {}", PlaceName(place)),
                        "connect the participant to a switch or to the other participants"});
    } else if (!joined) {
      cut_off.push_back(place);
    }
  }
  if (!cut_off.empty() && faults.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(cut_off.size(), 4); ++i) {
      names += (i == 0 ? "" : ", ") + PlaceName(cut_off[i]);
    }
    if (cut_off.size() > 4) names += fmt::format(" and {} more", cut_off.size() - 4);
    faults.push_back({fmt::format("the topology has unconnected parts: no route leads in both "
                                  "directions between {} and {}",
                                  PlaceName(0), names),
                      "connect the parts with a link or a switch"});
  }
  return faults;
}

int Network::Router::NodeOf(int place) const {
  return network_.description_.devices_[At(network_.DevicesOf(place).front())].node;
}

void Network::Router::FindCopies() {
  const auto& devices = network_.description_.devices_;
  int nodes = 0;
  for (const auto& device : devices) nodes = std::max(nodes, device.node + 1);
  std::vector<int> index(devices.size());  // among the devices of its node
  std::vector<int> size(At(nodes));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].node >= 0) index[i] = size[At(devices[i].node)]++;
  }
  // [node] a description of its links: its own devices by index, other devices unchanged.
  std::vector<std::vector<std::int64_t>> looks(At(nodes));
  links_of_.assign(At(nodes), {});
  for (int id = 0; id < network_.links(); ++id) {
    const Link& link = network_.link(id);
    const int ends[] = {devices[At(link.from)].node, devices[At(link.to)].node};
    for (int end = 0; end < 2; ++end) {
      const int node = ends[end];
      if (node < 0 || (end == 1 && node == ends[0])) continue;
      links_of_[At(node)].push_back(id);
      std::vector<std::int64_t>& look = looks[At(node)];
      for (const int device : {link.from, link.to}) {
        const bool own = devices[At(device)].node == node;
        look.push_back(own ? index[At(device)] : -1 - device);
      }
      look.push_back(link.latency.picoseconds());
      look.push_back(link.bandwidth.bytes_per_second());
      look.push_back(link.nvlink ? 1 : 0);
    }
  }
  std::map<std::vector<std::int64_t>, int> kinds;
  std::vector<int> kind_of;  // [node]
  for (std::vector<std::int64_t>& look : looks) {
    kind_of.push_back(kinds.emplace(std::move(look), static_cast<int>(kinds.size())).first->second);
  }
  std::map<std::pair<int, int>, int> numbers;
  for (int place = 0; place < network_.places(); ++place) {
    const std::vector<int>& on = network_.DevicesOf(place);
    const int node = NodeOf(place);
    const bool copied = on.size() == 1 && node >= 0;
    const auto key =
        copied ? std::pair(kind_of[At(node)], index[At(on.front())]) : std::pair(-1, place);
    alike_.push_back(numbers.emplace(key, static_cast<int>(numbers.size())).first->second);
  }
}

void Network::Router::Generalise(Known& known, int node_from, int node_to) const {
  const auto look = [&](Known::Way& way, int node, Known::Of of) {
    if (node < 0 || way.of != Known::Of::kNetwork) return;
    const std::vector<int>& links = links_of_[At(node)];
    const auto found = std::lower_bound(links.begin(), links.end(), way.link);
    if (found == links.end() || *found != way.link) return;
    way.of = of;
    way.link = static_cast<int>(found - links.begin());
  };
  for (Known::Hop& hop : known.hops) {
    for (Known::Way& way : hop.ways) {
      look(way, node_from, Known::Of::kFrom);
      look(way, node_to, Known::Of::kTo);
    }
  }
}

// Backward from the end of the routes, so that everything arriving at a hop is known when it is
// divided among the links into it.
Path Network::Router::Between(const Known& known, int from, int to) {
  const int node_from = NodeOf(from), node_to = NodeOf(to);
  const auto link_of = [&](const Known::Way& way) {
    if (way.of == Known::Of::kNetwork) return way.link;
    return links_of_[At(way.of == Known::Of::kFrom ? node_from : node_to)][At(way.link)];
  };
  Path path{.latency = known.latency, .shares = {}};
  arriving_.clear();
  for (const Known::Hop& hop : known.hops) arriving_.push_back(hop.ending);
  for (std::size_t h = 0; h < known.hops.size(); ++h) {
    const Known::Hop& hop = known.hops[h];
    if (arriving_[h] == 0) continue;
    links_.clear();
    for (const Known::Way& way : hop.ways) links_.push_back(link_of(way));
    Divide(from, to, hop.chooses, arriving_[h]);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (parts_[i] == 0) continue;
      path.shares.push_back({links_[i], parts_[i]});
      if (hop.ways[i].before != kNoHop) arriving_[At(hop.ways[i].before)] += parts_[i];
    }
  }
  return path;
}

tl::expected<Path, Fault> Network::Router::Find(int from, int to) {
  if (from == to) return Path();
  if (alike_.empty()) FindCopies();
  const int node_from = NodeOf(from), node_to = NodeOf(to);
  const std::uint64_t key = static_cast<std::uint64_t>(alike_[At(from)]) << 32 |
                            static_cast<std::uint64_t>(alike_[At(to)]) << 1 |
                            (node_from == node_to ? 1 : 0);
  if (const auto known = known_.find(key); known != known_.end()) {
    return Between(known->second, from, to);
  }
  auto routes = Look(from, to);
  if (!routes) return tl::unexpected(std::move(routes.error()));
  Generalise(*routes, node_from, node_to);
  if (known_.size() == kMostKnown) known_.clear();
  return Between(known_.emplace(key, *std::move(routes)).first->second, from, to);
}

tl::expected<Network::Router::Known, Fault> Network::Router::Look(int from, int to) {
  const std::vector<int>& sources = network_.DevicesOf(from);
  const std::vector<int>& targets = network_.DevicesOf(to);
  // One switch connects both places, so there is only one route.
  if (sources.size() == 1 && targets.size() == 1) {
    const std::vector<int>& out = network_.onward_[At(sources[0])];
    const std::vector<int>& in = network_.in_[At(targets[0])];
    if (out.size() == 1 && in.size() == 1) {
      const Link& up = network_.link(out[0]);
      const Link& down = network_.link(in[0]);
      if (up.to == down.from) {
        const auto whole = [](int link) {
          return Known::Hop{.ending = 1, .chooses = false, .ways = {{.link = link}}};
        };
        return Known{.latency = up.latency + down.latency, .hops = {whole(out[0]), whole(in[0])}};
      }
    }
  }
  std::optional<Known> routes = Search(from, to, /*nvlink_only=*/true);
  if (!routes && sources.size() == 1 && targets.size() == 1) {
    routes = Relay(sources[0], targets[0]);
  }
  if (!routes) routes = Search(from, to, /*nvlink_only=*/false);
  if (routes) return *std::move(routes);
  return tl::unexpected(
      Fault{fmt::format("there is no route from {} to {}", network_.PlaceName(from),
                        network_.PlaceName(to)),
            "connect the devices with a link or a switch, or use another algorithm"});
}

std::optional<Network::Router::Known> Network::Router::Relay(int from, int to) const {
  struct Bundle {  // the parallel NVLinks from one device to another
    std::vector<int> links;
    Time latency;
    std::int64_t bandwidth = 0;
  };
  const auto between = [&](int a, int b) {
    Bundle bundle;
    for (const int id : network_.in_[At(b)]) {
      const Link& link = network_.link(id);
      if (link.from != a || !link.nvlink) continue;
      bundle.links.push_back(id);
      bundle.latency = std::max(bundle.latency, link.latency);
      bundle.bandwidth += link.bandwidth.bytes_per_second();
    }
    return bundle;
  };
  std::set<int> relays;  // GPUs with an NVLink to the target
  for (const int id : network_.in_[At(to)]) {
    const Link& link = network_.link(id);
    const bool gpu = !network_.description_.devices_[At(link.from)].forwards;
    if (link.nvlink && gpu) relays.insert(link.from);
  }
  std::optional<std::pair<Bundle, Bundle>> widest;
  const auto width = [](const std::pair<Bundle, Bundle>& way) {
    return std::min(way.first.bandwidth, way.second.bandwidth);
  };
  for (const int relay : relays) {
    const std::pair<Bundle, Bundle> way(between(from, relay), between(relay, to));
    if (way.first.links.empty()) continue;
    if (!widest || width(way) > width(*widest)) widest = way;
  }
  if (!widest) return std::nullopt;
  Known routes;
  for (const Bundle* bundle : {&widest->first, &widest->second}) {
    routes.latency += bundle->latency;
    Known::Hop& hop = routes.hops.emplace_back(Known::Hop{.ending = 1, .ways = {}});
    for (const int id : bundle->links) hop.ways.push_back({.link = id});
  }
  return routes;
}

void Network::Router::Begin(const std::vector<int>& devices) {
  ++search_;
  open_.clear();
  visits_.resize(network_.description_.devices_.size());
  for (const int device : devices) Reach(device, {}, -1);
}

std::optional<std::pair<Network::Router::Distance, int>> Network::Router::TakeNearest() {
  while (!open_.empty()) {
    const std::pair<Distance, int> nearest = open_.front();
    std::pop_heap(open_.begin(), open_.end(), std::greater<>());
    open_.pop_back();
    // A shorter route to the device may have been found since the device was queued.
    if (nearest.first <= visits_[At(nearest.second)].distance) return nearest;
  }
  return std::nullopt;
}

void Network::Router::Reach(int device, const Distance& distance, int link) {
  Visit& visit = visits_[At(device)];
  if (visit.search != search_ || distance < visit.distance) {
    visit.search = search_;
    visit.distance = distance;
    visit.over.clear();
    visit.hop = kNoHop;
    open_.emplace_back(distance, device);
    std::push_heap(open_.begin(), open_.end(), std::greater<>());
  } else if (distance > visit.distance) {
    return;
  }
  if (link >= 0) visit.over.push_back(link);
}

void Network::Router::Divide(int from, int to, bool chooses, double arriving) {
  parts_.assign(links_.size(), 0);
  if (links_.size() == 1) {
    parts_[0] = arriving;
    return;
  }
  const auto bandwidth = [&](int id) {
    return static_cast<double>(network_.link(id).bandwidth.bytes_per_second());
  };
  if (!chooses) {
    double sum = 0;
    for (const int id : links_) sum += bandwidth(id);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      parts_[i] = arriving * bandwidth(links_[i]) / sum;
    }
    return;
  }
  // Ways are numbered by their links, independent of the order in which the search finds them.
  ways_.resize(links_.size());
  std::iota(ways_.begin(), ways_.end(), std::size_t{0});
  std::sort(ways_.begin(), ways_.end(),
            [&](std::size_t a, std::size_t b) { return links_[a] < links_[b]; });
  const WayChoice& choice = network_.description_.choice_;
  if (choice.by == WayChoice::By::kDestination) {
    // The ports of a leaf are the ports of all its nodes, or one of each of its nodes.
    parts_[ways_[At(to + NodeOf(to)) % ways_.size()]] = arriving;
    return;
  }
  const std::uint64_t pair = static_cast<std::uint64_t>(from) << 32 | static_cast<unsigned>(to);
  for (int connection = 0; connection < choice.connections; ++connection) {
    const std::uint64_t hash =
        Mixed(Mixed(Mixed(choice.seed) ^ pair) ^ static_cast<std::uint64_t>(connection));
    parts_[ways_[hash % ways_.size()]] += arriving / choice.connections;
  }
}

// A search for a route.
struct Network::Router::Query {
  int from;                // a place
  int node_from, node_to;  // of the devices of both
  const std::vector<int>& targets;
  bool nvlink_only;
  // From a switch of the fabric that is no entry (Visit::entry_of), the target is at least
  // `least_on` away. There is a route of length `known`, if that is set.
  Distance least_on{};
  std::optional<Distance> known{};
  std::uint32_t entries = 0;  // the search that found the entries; 0: there are none

  bool Admits(const Link& link) const { return !nvlink_only || link.nvlink; }
  void Know(const Distance& route) { known = known ? std::min(*known, route) : route; }
  // Whether a route that reaches such a switch after `to_switch` can be a shortest one.
  bool MayLeadOver(const Distance& to_switch) const {
    return !known || to_switch + least_on <= *known;
  }
};

std::optional<Network::Router::Known> Network::Router::Search(int from, int to, bool nvlink_only) {
  const auto& devices = network_.description_.devices_;
  const std::vector<int>& targets = network_.DevicesOf(to);
  Query query{.from = from,
              .node_from = devices[At(network_.DevicesOf(from).front())].node,
              .node_to = devices[At(targets.front())].node,
              .targets = targets,
              .nvlink_only = nvlink_only};
  const std::optional<Distance> nearest = FindNearest(query);
  if (!nearest) return std::nullopt;
  return TraceBack(query, *nearest);
}

Network::Router::Distance Network::Router::LengthOf(const Query& query, int link) const {
  const Time latency = network_.link(link).latency;
  const bool inside = query.node_from != query.node_to && network_.IsInsideNode(link);
  return {inside ? latency : Time(), latency, 1};
}

// Dijkstra's algorithm, backward from the targets to the borders of their node.
void Network::Router::FindEntries(Query& query) {
  if (query.node_to < 0 || query.node_from == query.node_to) return;
  const auto& devices = network_.description_.devices_;
  Begin(query.targets);
  std::vector<int> entries;
  while (const auto taken = TakeNearest()) {
    const auto [distance, device] = *taken;
    if (devices[At(device)].node != query.node_to) {
      visits_[At(device)].entry_of = search_;
      visits_[At(device)].from_entry = distance;
      entries.push_back(device);
      continue;
    }
    for (const int id : network_.in_[At(device)]) {
      const Link& link = network_.link(id);
      if (query.Admits(link) && devices[At(link.from)].forwards) {
        Reach(link.from, distance + LengthOf(query, id), id);
      }
    }
  }
  if (entries.empty()) return;
  query.entries = search_;
  std::optional<Distance> least_into;
  for (const int entry : entries) {
    for (const int id : network_.in_[At(entry)]) {
      const Distance own = LengthOf(query, id);
      least_into = least_into ? std::min(*least_into, own) : own;
    }
  }
  query.least_on =
      visits_[At(entries.front())].from_entry + least_into.value_or(Distance());  // the nearest one
}

// Dijkstra's algorithm.
std::optional<Network::Router::Distance> Network::Router::FindNearest(Query& query) {
  FindEntries(query);
  Begin(network_.DevicesOf(query.from));
  std::optional<Distance> nearest;
  while (const auto taken = TakeNearest()) {
    const auto [distance, device] = *taken;
    if (nearest && distance > *nearest) break;
    if (std::find(query.targets.begin(), query.targets.end(), device) != query.targets.end()) {
      nearest = distance;
      continue;
    }
    ReachNeighbours(query, device, distance);
  }
  return nearest;
}

// Entries come first: once one is reached, a route's length is known, and hardly any other switch
// of the fabric can be on a shorter one.
void Network::Router::ReachNeighbours(Query& query, int device, const Distance& distance) {
  const auto& devices = network_.description_.devices_;
  for (const bool entries : {true, false}) {
    for (const int id : network_.onward_[At(device)]) {
      const Link& link = network_.link(id);
      const Visit& visit = visits_[At(link.to)];
      const int node = devices[At(link.to)].node;
      const bool entry = visit.entry_of == query.entries && query.entries > 0;
      if (entry != entries || !query.Admits(link)) continue;
      if (node >= 0 && node != query.node_from && node != query.node_to) continue;
      const Distance there = distance + LengthOf(query, id);
      if (entry) query.Know(there + visit.from_entry);
      if (!entry && node < 0 && !query.MayLeadOver(there)) continue;
      Reach(link.to, there, id);
    }
  }
  for (const int target : query.targets) {
    if (devices[At(target)].forwards) continue;  // reached like any switch
    for (const int id : network_.in_[At(target)]) {
      const Link& link = network_.link(id);
      if (link.from == device && query.Admits(link)) {
        Reach(target, distance + LengthOf(query, id), id);
      }
    }
  }
}

double Network::Router::BandwidthInto(int device) const {
  double sum = 0;
  for (const int link : visits_[At(device)].over) {
    sum += static_cast<double>(network_.link(link).bandwidth.bytes_per_second());
  }
  return sum;
}

// Backward along all shortest routes, farthest device first.
Network::Router::Known Network::Router::TraceBack(const Query& query, const Distance& nearest) {
  const auto& devices = network_.description_.devices_;
  open_.clear();
  const auto add = [&](int device) {
    Visit& visit = visits_[At(device)];
    // Routes begin at devices that no link reaches.
    if (visit.over.empty() || visit.hop != kNoHop) return;
    visit.hop = 0;  // the number follows
    open_.emplace_back(visit.distance, device);
  };
  double total = 0;
  for (const int target : query.targets) {
    const Visit& visit = visits_[At(target)];
    if (visit.search != search_ || visit.distance != nearest) continue;
    add(target);
    total += BandwidthInto(target);
  }
  const std::size_t ends = open_.size();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    for (const int id : visits_[At(open_[i].second)].over) add(network_.link(id).from);
  }
  const std::vector<std::pair<Distance, int>> targets(open_.begin(),
                                                      open_.begin() + static_cast<long>(ends));
  std::sort(open_.begin(), open_.end(), std::greater<>());
  Known routes{.latency = nearest.latency, .hops = std::vector<Known::Hop>(open_.size())};
  for (std::size_t h = 0; h < open_.size(); ++h) {
    visits_[At(open_[h].second)].hop = static_cast<int>(h);
  }
  for (const auto& [distance, target] : targets) {
    routes.hops[At(visits_[At(target)].hop)].ending = ends == 1 ? 1 : BandwidthInto(target) / total;
  }
  const auto in_fabric = [&](int device) { return devices[At(device)].node < 0; };
  for (std::size_t h = 0; h < open_.size(); ++h) {
    const int device = open_[h].second;
    Known::Hop& hop = routes.hops[h];
    hop.chooses = network_.description_.choice_.by != WayChoice::By::kAll && in_fabric(device);
    for (const int id : visits_[At(device)].over) {
      const int before = network_.link(id).from;
      hop.chooses = hop.chooses && in_fabric(before);
      hop.ways.push_back({.link = id, .before = visits_[At(before)].hop});
    }
  }
  return routes;
}

}  // namespace stepcast::network

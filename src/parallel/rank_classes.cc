#include "src/parallel/rank_classes.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// A graph with labels on nodes and edges.
struct LabelledGraph {
  struct Edge {
    int a = 0;
    int b = 0;
    std::int64_t label = 0;
  };
  std::vector<std::int64_t> labels;  // [node]
  std::vector<Edge> edges;           // both ways
};

// A node's view: its color, and the labels and colors at the other ends of its edges. The latter
// have no order, so a 128-bit sum of hashes represents them. Among some hundred thousand nodes, a
// collision is as unlikely as a memory fault.
struct View {
  std::uint64_t colour = 0;
  std::array<std::uint64_t, 2> seen{};
  friend bool operator==(const View&, const View&) = default;
};

struct ViewHash {
  std::size_t operator()(const View& view) const {
    return static_cast<std::size_t>(view.seen[0] ^ view.seen[1] * 3 ^ view.colour << 17);
  }
};

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection that mixes well.
std::uint64_t Mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

template <typename Keys, typename Hash>
std::size_t NumberOff(const Keys& keys, std::vector<int>& colours) {
  std::unordered_map<typename Keys::value_type, int, Hash> numbers;
  colours.clear();
  for (const auto& key : keys) {
    colours.push_back(numbers.emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return numbers.size();
}

// The coarsest stable coloring: nodes of one color have the same label and, for each color and edge
// label, the same number of such neighbors. Colors are numbered by first node. (Color refinement,
// also called the 1-dimensional Weisfeiler-Leman algorithm; the classes are the coarsest equitable
// partition. It runs rounds over all edges until nothing changes, some ten if all nodes are within
// a few edges of each other.)
std::vector<int> StableColours(const LabelledGraph& graph) {
  const std::size_t nodes = graph.labels.size();
  const auto is_node = [&](int node) {
    return node >= 0 && static_cast<std::size_t>(node) < nodes;
  };
  std::vector<std::uint64_t> label;  // [edge], mixed
  label.reserve(graph.edges.size());
  for (const LabelledGraph::Edge& edge : graph.edges) {
    STEPCAST_CHECK(is_node(edge.a) && is_node(edge.b),
                   "every edge of the graph must connect two "
                   "of its nodes");
    label.push_back(Mixed(static_cast<std::uint64_t>(edge.label)));
  }
  std::vector<int> colours;
  std::vector<View> views(nodes);
  std::vector<std::uint64_t> mixed(nodes);  // colours
  std::size_t before = 0;
  std::size_t count =
      NumberOff<std::vector<std::int64_t>, std::hash<std::int64_t>>(graph.labels, colours);
  while (count != before) {
    before = count;
    for (std::size_t node = 0; node < nodes; ++node) {
      const auto colour = static_cast<std::uint64_t>(colours[node]);
      views[node] = {.colour = colour, .seen = {}};
      mixed[node] = Mixed(~colour);
    }
    for (std::size_t i = 0; i < graph.edges.size(); ++i) {
      const auto a = static_cast<std::size_t>(graph.edges[i].a);
      const auto b = static_cast<std::size_t>(graph.edges[i].b);
      const auto see = [&](View& view, std::uint64_t colour) {
        const std::uint64_t sight = Mixed(colour + label[i]);
        view.seen[0] += sight;
        view.seen[1] += Mixed(sight);
      };
      see(views[a], mixed[b]);
      see(views[b], mixed[a]);
    }
    count = NumberOff<std::vector<View>, ViewHash>(views, colours);
  }
  return colours;
}

// The kind of a graph node, so that a rank and a link never have the same color.
enum class NodeKind : std::int64_t { kRank, kMeeting, kLink };

}  // namespace

std::vector<Meeting> GroupMeetings(std::span<const GroupLayout> layouts) {
  std::vector<Meeting> meetings;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (const std::vector<int>& group : layouts[layout].Groups()) {
      Meeting& meeting = meetings.emplace_back();
      meeting.label = static_cast<std::int64_t>(layout);
      meeting.ranks.reserve(group.size());
      for (const int rank : group) meeting.ranks.push_back({.to = rank});
    }
  }
  return meetings;
}

Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const Meeting> meetings,
                  std::span<const std::int64_t> link_labels) {
  LabelledGraph graph;
  std::map<std::pair<NodeKind, std::int64_t>, std::int64_t> labels;
  const auto add_node = [&](NodeKind kind, std::int64_t label) {
    const auto next = static_cast<std::int64_t>(labels.size());
    graph.labels.push_back(labels.emplace(std::pair(kind, label), next).first->second);
    return static_cast<int>(graph.labels.size()) - 1;
  };
  const auto ranks = static_cast<int>(rank_labels.size());
  const auto links = static_cast<int>(link_labels.size());
  for (const std::int64_t label : rank_labels) add_node(NodeKind::kRank, label);
  for (const std::int64_t label : link_labels) add_node(NodeKind::kLink, label);
  const int first_meeting = ranks + links;
  for (const Meeting& meeting : meetings) {
    const int node = add_node(NodeKind::kMeeting, meeting.label);
    for (const Meeting::Edge& rank : meeting.ranks) {
      STEPCAST_CHECK(rank.to >= 0 && rank.to < ranks,
                     "each member of a collective must be a rank "
                     "of the cluster");
      graph.edges.push_back({rank.to, node, rank.label});
    }
    for (const Meeting::Edge& link : meeting.links) {
      STEPCAST_CHECK(link.to >= 0 && link.to < links,
                     "a collective must load only links of the "
                     "network");
      graph.edges.push_back({ranks + link.to, node, link.label});
    }
  }
  const std::vector<int> colours = StableColours(graph);

  // The number of a colour among those of its kind, in the order of first nodes.
  const auto renumbered = [&](int begin, int end) {
    std::map<int, int> numbers;
    std::vector<int> result;
    for (int node = begin; node < end; ++node) {
      const int colour = colours[static_cast<std::size_t>(node)];
      result.push_back(numbers.emplace(colour, static_cast<int>(numbers.size())).first->second);
    }
    return result;
  };
  Classes classes;
  classes.class_of = renumbered(0, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto number = static_cast<std::size_t>(classes.class_of[static_cast<std::size_t>(rank)]);
    if (number == classes.ranks.size()) classes.ranks.emplace_back();
    classes.ranks[number].push_back(rank);
  }
  classes.link_colours = renumbered(ranks, first_meeting);
  classes.meeting_colours = renumbered(first_meeting, static_cast<int>(graph.labels.size()));
  return classes;
}

}  // namespace stepcast::parallel

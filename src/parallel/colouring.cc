#include "src/parallel/colouring.h"

#include <array>
#include <cstddef>
#include <unordered_map>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// What a node sees: its own colour, and the labels and colours at the other ends of its edges. Of
// those, which come in any order, a sum of 128 bits of hashes stands for all: that two nodes of
// some hundred thousand that see different things have the same is as likely as a fault of the
// memory.
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

}  // namespace

std::vector<int> StableColours(const LabelledGraph& graph) {
  const std::size_t nodes = graph.labels.size();
  const auto is_node = [&](int node) {
    return node >= 0 && static_cast<std::size_t>(node) < nodes;
  };
  std::vector<std::uint64_t> label;  // [edge], mixed
  label.reserve(graph.edges.size());
  for (const LabelledGraph::Edge& edge : graph.edges) {
    STEPCAST_CHECK(is_node(edge.a) && is_node(edge.b), "an edge joins two nodes");
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

}  // namespace stepcast::parallel

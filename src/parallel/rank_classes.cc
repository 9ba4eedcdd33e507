#include "src/parallel/rank_classes.h"

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/parallel/colouring.h"

namespace stepcast::parallel {
namespace {

// What a node of the graph is, so that a rank and a link never have one colour.
enum class Kind : std::int64_t { kRank, kGroup, kLink };

}  // namespace

Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const GroupLayout> layouts,
                  std::span<const std::int64_t> link_labels, std::span<const LinkUse> uses) {
  LabelledGraph graph;
  std::map<std::pair<Kind, std::int64_t>, std::int64_t> labels;
  const auto add_node = [&](Kind kind, std::int64_t label) {
    const auto next = static_cast<std::int64_t>(labels.size());
    graph.labels.push_back(labels.emplace(std::pair(kind, label), next).first->second);
    return static_cast<int>(graph.labels.size()) - 1;
  };
  const auto ranks = static_cast<int>(rank_labels.size());
  for (const std::int64_t label : rank_labels) add_node(Kind::kRank, label);
  std::map<std::pair<int, int>, int> node_of_group;
  std::vector<int> first_group;  // [layout]
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    STEPCAST_CHECK(layouts[layout].ranks() == ranks, "a layout is over the ranks that there are");
    first_group.push_back(static_cast<int>(graph.labels.size()));
    for (const std::vector<int>& group : layouts[layout].Groups()) {
      const int node = add_node(Kind::kGroup, static_cast<std::int64_t>(layout));
      node_of_group.emplace(std::pair(static_cast<int>(layout), group.front()), node);
      for (const int rank : group) graph.edges.push_back({rank, node, 0});
    }
  }
  const auto first_link = static_cast<int>(graph.labels.size());
  for (const std::int64_t label : link_labels) add_node(Kind::kLink, label);
  for (const LinkUse& use : uses) {
    const auto group = node_of_group.find({use.layout, use.first_rank});
    STEPCAST_CHECK(group != node_of_group.end() && use.link >= 0 &&
                       use.link < static_cast<int>(link_labels.size()),
                   "a use is of a link, by a group");
    graph.edges.push_back({group->second, first_link + use.link, use.load});
  }
  const std::vector<int> colours = StableColours(graph);

  // A colour's number among those of its kind, in the order of first nodes.
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
    if (number == classes.classes.size()) classes.classes.push_back({.representative = rank});
    classes.classes[number].ranks.push_back(rank);
  }
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    classes.group_colours.push_back(
        renumbered(first_group[layout], first_group[layout] + layouts[layout].groups()));
  }
  classes.link_colours = renumbered(first_link, static_cast<int>(graph.labels.size()));
  return classes;
}

}  // namespace stepcast::parallel

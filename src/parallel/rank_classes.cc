#include "src/parallel/rank_classes.h"

#include <cstddef>
#include <map>
#include <utility>

#include "src/base/check.h"
#include "src/parallel/colouring.h"

namespace stepcast::parallel {
namespace {

// What a node of the graph is, so that a rank and a link never have one colour.
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
      STEPCAST_CHECK(rank.to >= 0 && rank.to < ranks, "those who meet are ranks");
      graph.edges.push_back({rank.to, node, rank.label});
    }
    for (const Meeting::Edge& link : meeting.links) {
      STEPCAST_CHECK(link.to >= 0 && link.to < links, "what a meeting loads is a link");
      graph.edges.push_back({ranks + link.to, node, link.label});
    }
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
    if (number == classes.ranks.size()) classes.ranks.emplace_back();
    classes.ranks[number].push_back(rank);
  }
  classes.link_colours = renumbered(ranks, first_meeting);
  classes.meeting_colours = renumbered(first_meeting, static_cast<int>(graph.labels.size()));
  return classes;
}

}  // namespace stepcast::parallel

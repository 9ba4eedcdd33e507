#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/parallel/group_layout.h"

// Classes of ranks that behave identically. One rank can represent its class.
namespace stepcast::parallel {

// The collectives of one group, or the messages from one rank to another rank, with the load on
// shared links.
struct Meeting {
  struct Edge {
    int to = 0;  // a rank, or the number of a link
    // For a rank: its role, such as sender. For a link: a number that is equal for equal loads.
    std::int64_t label = 0;
  };
  std::int64_t label = 0;  // meetings with different labels are known to differ
  std::vector<Edge> ranks{};
  std::vector<Edge> links{};
};

// Returns one meeting for each group. The groups are in the order of the layouts and, within a
// layout, in the order of GroupLayout::Groups. The label is the index of the layout.
std::vector<Meeting> GroupMeetings(std::span<const GroupLayout> layouts);

struct Classes {
  // The ranks of each class, in ascending order. The lowest rank represents the class. Classes are
  // ordered by their lowest ranks.
  std::vector<std::vector<int>> ranks;
  std::vector<int> class_of;  // [rank]
  // The colors of the meetings and of the links. Two meetings of the same color have ranks of the
  // same classes, and put equal loads on links of the same colors.
  std::vector<int> meeting_colours;  // [meeting]
  std::vector<int> link_colours;     // [link]
};

// Returns the coarsest stable coloring of ranks, meetings and shared links. All ranks of a class
// are in meetings of the same colors, which put equal loads on links of the same colors. With
// max-min fair sharing, all ranks of a class then behave identically, so one rank per class can be
// simulated. `rank_labels[rank]` are known differences between ranks, such as the plan's label or
// the kind of device. `link_labels[link]` are known differences between links, such as bandwidth.
Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const Meeting> meetings,
                  std::span<const std::int64_t> link_labels);

}  // namespace stepcast::parallel

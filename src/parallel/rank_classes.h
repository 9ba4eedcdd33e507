#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/parallel/group_layout.h"

// Classes of ranks, each of which one of its ranks can represent.
namespace stepcast::parallel {

// A joint activity of ranks, with the load that it puts on shared links: the collectives of a
// group, or the messages from one rank to another.
struct Meeting {
  struct Edge {
    int to = 0;  // a rank, or a link by an arbitrary number
    // of a rank: its role; of a link: its load in any unit, with equal labels for equal loads
    std::int64_t label = 0;
  };
  std::int64_t label = 0;  // known differences from other meetings
  std::vector<Edge> ranks{};
  std::vector<Edge> links{};
};

// One meeting for each group, layout after layout, each in the order of GroupLayout::Groups. The
// label is the layout's index.
std::vector<Meeting> GroupMeetings(std::span<const GroupLayout> layouts);

struct Classes {
  // [class]: its ranks, ascending. The lowest rank represents the class; classes are sorted by it.
  std::vector<std::vector<int>> ranks;
  std::vector<int> class_of;  // [rank]
  // Meetings of one color have ranks of the same classes, and put equal loads on links of the same
  // colors.
  std::vector<int> meeting_colours;  // [meeting]
  std::vector<int> link_colours;     // [link]
};

// The coarsest stable coloring of ranks, meetings and shared links: all ranks of a class are in
// meetings of the same colors, which put equal loads on links of the same colors. With max-min fair
// sharing, all ranks of a class therefore behave alike. One rank of each class can be simulated,
// with multiplicities: links of one color carry equal traffic from meetings of each color.
// `rank_labels`: [rank] known differences between ranks: the plan's label, the kind of device.
// `link_labels`: [link] known differences between links, such as bandwidth.
Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const Meeting> meetings,
                  std::span<const std::int64_t> link_labels);

}  // namespace stepcast::parallel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/parallel/group_layout.h"

// Ranks that may stand for one another.
namespace stepcast::parallel {

// Ranks that do something together, and what that puts on links that others may use, too: a group
// its collectives, two ranks the messages from one to the other.
struct Meeting {
  struct Edge {
    int to = 0;              // a rank; a link, by any number
    std::int64_t label = 0;  // the rank's part in it; the load, in any unit: equal loads are equal
  };
  std::int64_t label = 0;  // what is known to tell it from others
  std::vector<Edge> ranks{};
  std::vector<Edge> links{};
};

// One for each group, layout after layout, each in the order of GroupLayout::Groups. The label is
// the layout's number.
std::vector<Meeting> GroupMeetings(std::span<const GroupLayout> layouts);

struct Classes {
  // [class] Its ranks, ascending. The lowest stands for all; classes are in the order of these.
  std::vector<std::vector<int>> ranks;
  std::vector<int> class_of;  // [rank]
  // Meetings of one colour have ranks of the same classes, and load links of the same colours
  // alike.
  std::vector<int> meeting_colours;  // [meeting]
  std::vector<int> link_colours;     // [link]
};

// The coarsest stable colouring of ranks, of where they meet, and of shared links. All ranks of a
// class are in meetings of the same colours, and those on links of the same colours with the same
// loads; so what happens to one of them, when links are divided max-min fairly, happens to all, and
// one of each class may be simulated, with multiplicities: a link of a colour carries the same from
// meetings of each colour. `rank_labels`: [rank] what is known to tell ranks apart: the label
// that the plan gives it, the kind of its device. `link_labels`: [link], as a bandwidth.
Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const Meeting> meetings,
                  std::span<const std::int64_t> link_labels);

}  // namespace stepcast::parallel

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/parallel/group_layout.h"

// Ranks that may stand for one another.
namespace stepcast::parallel {

// What a group puts on a link that others may use, too.
struct LinkUse {
  int layout = 0;         // index of the group's layout
  int first_rank = 0;     // which group of that layout: its lowest rank
  int link = 0;           // any number; links are told apart by it
  std::int64_t load = 0;  // in any unit: equal loads are equal
};

struct RankClass {
  int representative = 0;  // its lowest rank
  std::vector<int> ranks{};  // ascending
};

struct Classes {
  std::vector<RankClass> classes;  // by representative
  std::vector<int> class_of;       // [rank]
  // By layout: groups of one colour have ranks of the same classes, and links of the same colours.
  std::vector<std::vector<int>> group_colours;  // [layout][group, by lowest rank]
  std::vector<int> link_colours;                // [link]
};

// The coarsest stable colouring of ranks, their groups and shared links. All ranks of a class are
// in groups of the same colours, and those on links of the same colours with the same loads; so
// what happens to one of them, when links are divided max-min fairly, happens to all, and one of
// each class may be simulated, with multiplicities. `rank_labels`: [rank] what is known to tell
// ranks apart: pipeline stage, kind of device. `link_labels`: [link], as a bandwidth. Layouts are
// over the same ranks.
Classes ClassesOf(std::span<const std::int64_t> rank_labels, std::span<const GroupLayout> layouts,
                  std::span<const std::int64_t> link_labels, std::span<const LinkUse> uses);

}  // namespace stepcast::parallel

#pragma once

#include <string>
#include <vector>

// Which groups of ranks collectives are measured on.
namespace stepcast::calibrate {

// Disjoint groups of one shape that together hold all ranks; they communicate at the same time, as
// the groups of a training step do.
struct GroupShape {
  int ranks = 0;  // of each group
  int nodes = 0;  // that each group spans
  std::vector<std::vector<int>> groups;
};

// By the node of each rank. All ranks; the ranks of each node; one rank of each node; then
// neighbours in groups of every divisor of the number of ranks, and ranks that far apart (the shard
// and replica groups of hybrid sharding). A profile has one table for each number of ranks and
// nodes, so each pair comes once. Groups of one rank are left out.
std::vector<GroupShape> ShapesOf(const std::vector<int>& node_of_rank);

}  // namespace stepcast::calibrate

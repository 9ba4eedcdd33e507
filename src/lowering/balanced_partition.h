#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Shares elements out among ranks so that two ways to group them are both cut evenly: at ZeRO-3
// with buckets, gradients are reduced by bucket and parameters gathered by unit, and a rank must
// end up with the same elements of both.
namespace stepcast::lowering {

// The elements that a row (a bucket) and a column (a unit) have in common.
struct Cell {
  int row = 0;
  int column = 0;
  std::int64_t elements = 0;
};

// shares[c][r]: how many of cell c's elements rank r gets. No rank gets more than ceil(S / ranks)
// of any row or column, S being all its elements.
//
// Every rank gets floor(elements / ranks) of a cell; what is left over are edges of a bipartite
// multigraph between rows and columns, to be coloured with the ranks so that no vertex sees a
// colour more often than it must. Vertices of more than `ranks` edges are split; then a proper
// edge colouring exists (Koenig 1916) and is found by flipping alternating paths.
std::vector<std::vector<std::int64_t>> BalancedPartition(std::span<const Cell> cells, int ranks);

}  // namespace stepcast::lowering

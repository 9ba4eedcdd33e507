#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast::parallel {

// A graph whose nodes and edges have labels: what is known of them.
struct LabelledGraph {
  struct Edge {
    int a = 0;
    int b = 0;
    std::int64_t label = 0;
  };
  std::vector<std::int64_t> labels;  // [node]
  std::vector<Edge> edges;           // both ways
};

// The coarsest stable colouring: nodes of one colour have the same label and, for each colour and
// edge label, the same number of such neighbours. Colours are numbered in the order of their first
// nodes. (Colour refinement, also called the 1-dimensional Weisfeiler-Leman algorithm; the classes
// are the coarsest equitable partition. Rounds until nothing changes, each in the time that looking
// at all edges takes; some ten where all is a few edges from all.)
std::vector<int> StableColours(const LabelledGraph& graph);

}  // namespace stepcast::parallel

#include "src/lowering/balanced_partition.h"

#include <array>
#include <map>
#include <utility>

namespace stepcast::lowering {
namespace {

// A proper colouring of a bipartite multigraph's edges, each vertex having at most as many edges as
// there are colours.
class EdgeColouring {
 public:
  explicit EdgeColouring(int colours) : colours_(colours) {}

  int AddVertex() {
    edge_of_.emplace_back(colours_, kNone);
    return static_cast<int>(edge_of_.size()) - 1;
  }

  void AddEdge(int row, int column) {
    const int edge = static_cast<int>(ends_.size());
    ends_.push_back({row, column});
    colour_.push_back(kNone);
    const int colour = FreeAt(row);
    if (edge_of_[column][colour] != kNone) Flip(column, colour, FreeAt(column));
    Paint(edge, colour);
  }

  int colour(int edge) const { return colour_[edge]; }

 private:
  static constexpr int kNone = -1;

  int FreeAt(int vertex) const {
    int colour = 0;
    while (edge_of_[vertex][colour] != kNone) ++colour;
    return colour;
  }

  void Paint(int edge, int colour) {
    colour_[edge] = colour;
    for (const int vertex : ends_[edge]) edge_of_[vertex][colour] = edge;
  }

  // Exchanges two colours along the path that leaves `vertex` with colour `taken`; `free` is not
  // seen there. The graph is bipartite, so the path never reaches the row that lacks `taken`.
  void Flip(int vertex, int taken, int free) {
    std::vector<int> path;
    for (int colour = taken; edge_of_[vertex][colour] != kNone;
         colour = colour == taken ? free : taken) {
      const int edge = edge_of_[vertex][colour];
      path.push_back(edge);
      vertex = ends_[edge][0] == vertex ? ends_[edge][1] : ends_[edge][0];
    }
    for (const int edge : path) {
      for (const int end : ends_[edge]) edge_of_[end][colour_[edge]] = kNone;
    }
    for (const int edge : path) Paint(edge, colour_[edge] == taken ? free : taken);
  }

  const int colours_;
  std::vector<std::vector<int>> edge_of_;  // by vertex and colour
  std::vector<std::array<int, 2>> ends_;   // by edge: row, column
  std::vector<int> colour_;                // by edge
};

// The vertices of a row or column; each takes as many edges as there are colours.
struct SplitVertex {
  int vertex = 0;
  int edges = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> BalancedPartition(std::span<const Cell> cells, int ranks) {
  EdgeColouring colouring(ranks);
  std::map<int, SplitVertex> rows, columns;
  const auto vertex_of = [&](std::map<int, SplitVertex>& side, int key) {
    const auto [found, is_new] = side.try_emplace(key);
    SplitVertex& split = found->second;
    if (is_new || split.edges == ranks) split = {colouring.AddVertex(), 0};
    ++split.edges;
    return split.vertex;
  };
  std::vector<std::vector<std::int64_t>> shares;
  std::vector<std::size_t> cell_of_edge;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    shares.emplace_back(ranks, cells[c].elements / ranks);
    for (std::int64_t i = 0; i < cells[c].elements % ranks; ++i) {
      const int row = vertex_of(rows, cells[c].row);
      colouring.AddEdge(row, vertex_of(columns, cells[c].column));
      cell_of_edge.push_back(c);
    }
  }
  for (std::size_t edge = 0; edge < cell_of_edge.size(); ++edge) {
    ++shares[cell_of_edge[edge]][colouring.colour(static_cast<int>(edge))];
  }
  return shares;
}

}  // namespace stepcast::lowering

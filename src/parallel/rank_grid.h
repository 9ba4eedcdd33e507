#pragma once

#include <array>
#include <vector>

#include "src/parallel/axis.h"
#include "src/parallel/group_layout.h"

namespace stepcast::parallel {

// The number of ranks along each axis, and the coordinates of each rank. The number of a rank is a
// mixed-radix number; its lowest digit is the coordinate along the fastest axis. Neighboring ranks
// are on one node, so the axis with the most communication should be the fastest.
class RankGrid {
 public:
  struct Dimension {
    Axis axis = Axis::kReplica;
    int degree = 1;
  };
  // The coordinates of a rank, indexed by axis. 0 along axes that the grid does not have.
  using Coordinates = std::array<int, kAxes>;

  // Creates a grid. The fastest axis comes first, each axis occurs at most once, and degrees are at
  // least 1. The number of ranks is the product of the degrees.
  explicit RankGrid(std::vector<Dimension> dimensions);

  int ranks() const { return ranks_; }
  int Degree(Axis axis) const;     // 1 along axes that the grid does not have
  int Degree(AxisSet axes) const;  // the size of a group along these axes

  Coordinates At(int rank) const;
  int Rank(const Coordinates& at) const;

  // Returns the groups along `axes`. The ranks of a group have equal coordinates along all other
  // axes.
  GroupLayout Layout(AxisSet axes) const;
  std::vector<int> Group(int rank, AxisSet axes) const { return Layout(axes).Ranks(rank); }

 private:
  std::vector<Dimension> dimensions_;
  int ranks_ = 1;
};

// The two grids of a plan's ranks. The experts of a mixture use the expert grid, which rearranges
// the ranks of a pipeline stage. All other tensors use the dense grid. The two grids have the same
// degree along Axis::kPipeline and the same pipeline groups.
class Grids {
 public:
  // Creates the grids. `expert` has only the axes of kExpertAxes and Axis::kPipeline.
  Grids(RankGrid dense, RankGrid expert);

  const RankGrid& dense() const { return dense_; }
  const RankGrid& expert() const { return expert_; }
  int ranks() const { return dense_.ranks(); }
  // Returns the grid that has `axes`, which must all be in one grid. If `axes` is empty, returns
  // the dense grid.
  const RankGrid& Of(AxisSet axes) const;
  int Degree(AxisSet axes) const { return Of(axes).Degree(axes); }
  GroupLayout Layout(AxisSet axes) const { return Of(axes).Layout(axes); }
  // Returns the coordinates of the rank along all axes of both grids.
  RankGrid::Coordinates At(int rank) const;

 private:
  RankGrid dense_, expert_;
};

}  // namespace stepcast::parallel

#pragma once

#include <array>
#include <vector>

#include "src/parallel/axis.h"
#include "src/parallel/group_layout.h"

namespace stepcast::parallel {

// How many ranks there are along each axis, and which rank stands where: a mixed-radix number whose
// lowest digit is the coordinate along the fastest axis. Neighbouring ranks are on one node, so
// what communicates most stands first.
class RankGrid {
 public:
  struct Dimension {
    Axis axis = Axis::kReplica;
    int degree = 1;
  };
  // [axis]; 0 along axes that the grid does not have.
  using Coordinates = std::array<int, kAxes>;

  // Fastest axis first, each at most once; degrees of 1 or more. The degrees' product is the number
  // of ranks.
  explicit RankGrid(std::vector<Dimension> dimensions);

  int ranks() const { return ranks_; }
  int Degree(Axis axis) const;     // 1 along axes that it does not have
  int Degree(AxisSet axes) const;  // their product: the size of a group

  Coordinates At(int rank) const;
  int Rank(const Coordinates& at) const;

  // The groups along some axes: the ranks whose other coordinates are the same.
  GroupLayout Layout(AxisSet axes) const;
  std::vector<int> Group(int rank, AxisSet axes) const { return Layout(axes).Ranks(rank); }

 private:
  std::vector<Dimension> dimensions_;
  int ranks_ = 1;
};

// The two grids on which the ranks of a plan stand. Layers of a mixture's experts fold the ranks of
// a pipeline stage anew; everything else stands on the dense grid. Pipeline groups are the same
// ranks in both, whose degrees along Axis::kPipeline are equal.
class Grids {
 public:
  // `expert` has the axes of kExpertAxes and Axis::kPipeline alone.
  Grids(RankGrid dense, RankGrid expert);

  const RankGrid& dense() const { return dense_; }
  const RankGrid& expert() const { return expert_; }
  int ranks() const { return dense_.ranks(); }
  // The grid that has these axes. They are of one grid; those of none are the dense grid's.
  const RankGrid& Of(AxisSet axes) const;
  int Degree(AxisSet axes) const { return Of(axes).Degree(axes); }
  GroupLayout Layout(AxisSet axes) const { return Of(axes).Layout(axes); }
  // Along all axes of both grids.
  RankGrid::Coordinates At(int rank) const;

 private:
  RankGrid dense_, expert_;
};

}  // namespace stepcast::parallel

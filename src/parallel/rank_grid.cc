#include "src/parallel/rank_grid.h"

#include <cstddef>
#include <utility>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

std::size_t Place(Axis axis) { return static_cast<std::size_t>(axis); }

}  // namespace

RankGrid::RankGrid(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {
  AxisSet seen;
  for (const Dimension& dimension : dimensions_) {
    STEPCAST_CHECK(dimension.degree >= 1, "an axis must have at least one rank");
    STEPCAST_CHECK(!seen.Has(dimension.axis), "an axis must occur only once");
    seen = seen | dimension.axis;
    ranks_ *= dimension.degree;
  }
}

int RankGrid::Degree(Axis axis) const { return Degree(AxisSet(axis)); }

int RankGrid::Degree(AxisSet axes) const {
  int degree = 1;
  for (const Dimension& dimension : dimensions_) {
    if (axes.Has(dimension.axis)) degree *= dimension.degree;
  }
  return degree;
}

RankGrid::Coordinates RankGrid::At(int rank) const {
  STEPCAST_CHECK(rank >= 0 && rank < ranks_, "a rank must be in the grid");
  Coordinates at{};
  for (const Dimension& dimension : dimensions_) {
    at[Place(dimension.axis)] = rank % dimension.degree;
    rank /= dimension.degree;
  }
  return at;
}

int RankGrid::Rank(const Coordinates& at) const {
  int rank = 0;
  int stride = 1;
  for (const Dimension& dimension : dimensions_) {
    const int coordinate = at[Place(dimension.axis)];
    STEPCAST_CHECK(coordinate >= 0 && coordinate < dimension.degree,
                   "coordinates must be within the grid of ranks");
    rank += coordinate * stride;
    stride *= dimension.degree;
  }
  return rank;
}

Grids::Grids(RankGrid dense, RankGrid expert)
    : dense_(std::move(dense)), expert_(std::move(expert)) {
  STEPCAST_CHECK(dense_.ranks() == expert_.ranks(),
                 "the dense grid and the expert grid must have "
                 "the same ranks");
  STEPCAST_CHECK(dense_.Layout(Axis::kPipeline) == expert_.Layout(Axis::kPipeline),
                 "pipeline groups must have the same ranks in both grids");
}

const RankGrid& Grids::Of(AxisSet axes) const { return Meet(axes, kExpertAxes) ? expert_ : dense_; }

RankGrid::Coordinates Grids::At(int rank) const {
  RankGrid::Coordinates at = dense_.At(rank);
  const RankGrid::Coordinates among_experts = expert_.At(rank);
  for (int axis = 0; axis < kAxes; ++axis) {
    if (kExpertAxes.Has(static_cast<Axis>(axis))) {
      at[static_cast<std::size_t>(axis)] = among_experts[static_cast<std::size_t>(axis)];
    }
  }
  return at;
}

GroupLayout RankGrid::Layout(AxisSet axes) const {
  std::vector<GroupLayout::Dimension> along;
  int stride = 1;
  for (const Dimension& dimension : dimensions_) {
    if (axes.Has(dimension.axis)) along.push_back({stride, dimension.degree});
    stride *= dimension.degree;
  }
  return GroupLayout(ranks_, along);
}

}  // namespace stepcast::parallel

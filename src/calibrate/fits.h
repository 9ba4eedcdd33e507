#pragma once

#include <utility>
#include <vector>

// Fits that outliers hardly move. They are small enough to be written out; a fitting library would
// earn its place with models of more than a line.
namespace stepcast::calibrate {

struct Line {
  double at_zero = 0;
  double slope = 0;
};

// Theil and Sen: the slope is the median of the slopes between all pairs of points, the value at
// zero the median of what that slope leaves over. Up to 29 % of the points may be anywhere.
// Requires two points of different x; quadratic in the number of points.
Line FitLine(const std::vector<std::pair<double, double>>& points);

// A start-up cost and a rate through (size, time): Theil and Sen's line in which each point counts
// relatively, so that large sizes do not drown small ones: the start is the median over the lower
// third of the sizes, the slope the median over the upper third, each given the other.
Line FitStartAndRate(const std::vector<std::pair<double, double>>& points);

// The non-decreasing values nearest to `values` in the least-squares sense: neighbours that fall
// are pooled to their mean (Ayer et al. 1955, "pool adjacent violators"). Times of growing work do
// not fall; where measured ones do, noise or a change of algorithm lies between.
std::vector<double> NonDecreasing(std::vector<double> values);

}  // namespace stepcast::calibrate

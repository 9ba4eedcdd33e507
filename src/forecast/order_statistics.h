#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The largest of several draws.
namespace stepcast::forecast {

// Of each value, in ascending order, the probability that it is the largest of so many draws, where
// `probabilities` are those of one draw and add up to one: F(i)^n - F(i - 1)^n.
std::vector<double> OfLargest(std::span<const double> probabilities, double draws);

// Each of `ranks` takes the mean of `draws` values: the expectation of the largest of these means.
// Means are rounded to a grid of 512 steps between the smallest and the largest value, which keeps
// the expectation of one rank's exactly and makes the largest one's too large, if at all: by less
// than a step.
double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks);

}  // namespace stepcast::forecast

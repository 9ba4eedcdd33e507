#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The largest of several draws.
namespace stepcast::forecast {

// The probability of each value that it is the largest of `draws` independent draws. The values are
// in ascending order, and `probabilities` are those of one draw, which add up to one. The result is
// F(i)^n - F(i - 1)^n, F being their running sum and n the number of draws.
std::vector<double> OfLargest(std::span<const double> probabilities, double draws);

// Each of `ranks` takes the mean of `draws` values: the expectation of the largest of these means.
// Means are rounded to a grid of 512 steps between the smallest and the largest value, which keeps
// the expectation of one rank's exactly and makes the largest one's too large, if at all: by less
// than a step.
double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks);

}  // namespace stepcast::forecast

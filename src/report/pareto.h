#pragma once

#include <cstddef>
#include <vector>

namespace stepcast::report {

// Which points no other beats: less is better in both, and at least as good in both with one better
// is beaten. Points that are equal are all on the front.
std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace stepcast::report

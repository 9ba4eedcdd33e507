#pragma once

#include <compare>

namespace stepcast {

// A software release as comparable numbers: "2.6" is {2, 6}.
struct Version {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};

}  // namespace stepcast

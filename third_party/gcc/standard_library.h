// What most sources include, directly or not: precompiled by gcc.bzl. No source includes this file. Each source pays
// for its size: without <filesystem>, which two dozen include, it is a seventh smaller.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "tl/expected.hpp"

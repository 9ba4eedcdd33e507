#pragma once

#include <array>
#include <numeric>
#include <string_view>

#include "src/base/bytes.h"
#include "src/forecast/values.h"
#include "src/program/program.h"

namespace stepcast::report {

// The names of memory categories in tables. The keys of the JSON documents are these names followed
// by "_bytes".
inline constexpr std::array<std::string_view, program::kCategories> kCategoryNames = {
    "parameters", "gradients", "optimizer", "activations", "communication", "workspace"};

inline Bytes Total(const forecast::BytesByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes());
}

}  // namespace stepcast::report

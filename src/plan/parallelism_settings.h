#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/plan/parallelism.h"
#include "src/plan/setting.h"

// The settings of `parallelism` as a table (setting.h): the degrees of the axes, and what belongs
// to one of them. Defaults that depend on other settings are in request.cc.
namespace stepcast::plan {

using ParallelismSetting = Setting<ParallelismRequest, Parallelism>;

// In the order of the resolved scenario.
std::span<const ParallelismSetting> ParallelismSettings();

// The ranks of an axis of the table; as requested, or 1.
std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis);
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis);

// False: it belongs to an axis of one rank.
inline bool DoesSomething(const ParallelismSetting& setting, const ParallelismRequest& request) {
  return setting.without.empty() || DegreeOf(request, setting.without) > 1;
}

}  // namespace stepcast::plan

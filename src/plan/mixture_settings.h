#pragma once

#include <span>

#include "src/plan/mixture.h"
#include "src/plan/setting.h"

// The settings of `experts` as a table (setting.h). Defaults, which are the framework's, are in
// request.cc.
namespace stepcast::plan {

using MixtureSetting = Setting<MixtureRequest, Mixture>;

// In the order of the resolved scenario.
std::span<const MixtureSetting> MixtureSettings();

}  // namespace stepcast::plan

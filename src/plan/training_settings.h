#pragma once

#include <span>

#include "src/plan/setting.h"
#include "src/plan/training.h"

// The settings of `training` as a table (setting.h). Defaults that depend on other settings are in
// request.cc.
namespace stepcast::plan {

using TrainingSetting = Setting<TrainingRequest, Training>;

// In the order of documents and of the resolved scenario.
std::span<const TrainingSetting> TrainingSettings();

}  // namespace stepcast::plan

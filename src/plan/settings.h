#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/plan/data_parallel.h"
#include "src/plan/mixture.h"
#include "src/plan/parallelism.h"
#include "src/plan/setting.h"
#include "src/plan/training.h"

namespace stepcast::plan {

// The settings of `data_parallel` as a table (setting.h). request.cc and src/plan/frameworks have
// the defaults that depend on other settings.

using DataParallelSetting = Setting<DataParallelRequest, DataParallel>;

// In the order of the documents and of the resolved scenario.
std::span<const DataParallelSetting> DataParallelSettings();
// Whether the framework has the setting. The table must have it.
bool Has(Framework framework, std::string_view key);
// Whether the setting also has an effect in the plan.
bool HasEffect(const DataParallel& data_parallel, std::string_view key);

// The settings of `experts` as a table (setting.h). request.cc has the defaults, which depend on
// the framework.

using MixtureSetting = Setting<MixtureRequest, Mixture>;

// In the order of the resolved scenario.
std::span<const MixtureSetting> MixtureSettings();

// The settings of `parallelism` as a table (setting.h): the degrees of the axes, and the settings
// that belong to one of them. request.cc has the defaults that depend on other settings.

using ParallelismSetting = Setting<ParallelismRequest, Parallelism>;

// In the order of the resolved scenario.
std::span<const ParallelismSetting> ParallelismSettings();

// The ranks of an axis of the table: as requested, or 1.
std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis);
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis);

// The settings of `training` as a table (setting.h). request.cc has the defaults that depend on
// other settings.

using TrainingSetting = Setting<TrainingRequest, Training>;

// In the order of the documents and of the resolved scenario.
std::span<const TrainingSetting> TrainingSettings();

}  // namespace stepcast::plan

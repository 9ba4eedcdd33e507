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

// The settings of `data_parallel` as a table (setting.h). Defaults that depend on other settings
// are in request.cc.

using DataParallelSetting = Setting<DataParallelRequest, DataParallel>;

// In the order of documents and of the resolved scenario.
std::span<const DataParallelSetting> DataParallelSettings();
// The framework has a setting that the table has.
bool Has(Framework framework, std::string_view key);
// And it does something in the plan.
bool HasEffect(const DataParallel& data_parallel, std::string_view key);

// The settings of `experts` as a table (setting.h). Defaults, which are the framework's, are in
// request.cc.

using MixtureSetting = Setting<MixtureRequest, Mixture>;

// In the order of the resolved scenario.
std::span<const MixtureSetting> MixtureSettings();

// The settings of `parallelism` as a table (setting.h): the degrees of the axes, and what belongs
// to one of them. Defaults that depend on other settings are in request.cc.

using ParallelismSetting = Setting<ParallelismRequest, Parallelism>;

// In the order of the resolved scenario.
std::span<const ParallelismSetting> ParallelismSettings();

// The ranks of an axis of the table; as requested, or 1.
std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis);
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis);

// The settings of `training` as a table (setting.h). Defaults that depend on other settings are in
// request.cc.

using TrainingSetting = Setting<TrainingRequest, Training>;

// In the order of documents and of the resolved scenario.
std::span<const TrainingSetting> TrainingSettings();

}  // namespace stepcast::plan

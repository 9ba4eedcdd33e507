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

// Returns the settings in the order of the documents and of the resolved scenario.
std::span<const DataParallelSetting> DataParallelSettings();
// Returns whether the framework has the setting. The key must be in the table.
bool Has(Framework framework, std::string_view key);
// Returns whether the setting has an effect in the plan.
bool HasEffect(const DataParallel& data_parallel, std::string_view key);

// The settings of `experts` as a table (setting.h). The defaults, which depend on the framework,
// are in request.cc.

using MixtureSetting = Setting<MixtureRequest, Mixture>;

// Returns the settings in the order of the resolved scenario.
std::span<const MixtureSetting> MixtureSettings();

// The settings of `parallelism` as a table (setting.h): the degrees of the axes, and settings of
// one axis. request.cc has the defaults that depend on other settings.

using ParallelismSetting = Setting<ParallelismRequest, Parallelism>;

// Returns the settings in the order of the resolved scenario.
std::span<const ParallelismSetting> ParallelismSettings();

// Returns the number of ranks along an axis of the table: as requested, or 1.
std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis);
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis);

// The settings of `training` as a table (setting.h). Defaults that depend on other settings are in
// request.cc.

using TrainingSetting = Setting<TrainingRequest, Training>;

// Returns the settings in the order of the documents and of the resolved scenario.
std::span<const TrainingSetting> TrainingSettings();

// Calls visit(section, settings) for each of the four tables.
template <typename Visit>
void ForEachSection(const Visit& visit) {
  visit(std::string_view("training"), TrainingSettings());
  visit(std::string_view("parallelism"), ParallelismSettings());
  visit(std::string_view("experts"), MixtureSettings());
  visit(std::string_view("data_parallel"), DataParallelSettings());
}

}  // namespace stepcast::plan

#pragma once

#include <span>
#include <string_view>

#include "src/plan/data_parallel.h"
#include "src/plan/setting.h"

// The settings of `data_parallel` as a table (setting.h). Defaults that depend on other settings
// are in request.cc.
namespace stepcast::plan {

using DataParallelSetting = Setting<DataParallelRequest, DataParallel>;

// In the order of documents and of the resolved scenario.
std::span<const DataParallelSetting> DataParallelSettings();
// The framework has a setting that the table has.
bool Has(Framework framework, std::string_view key);
// And it does something in the plan.
bool HasEffect(const DataParallel& data_parallel, std::string_view key);

}  // namespace stepcast::plan

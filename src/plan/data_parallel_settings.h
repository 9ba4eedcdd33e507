#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "src/plan/data_parallel.h"

// The settings of `data_parallel` as a table, a row each: how it is written, where it is kept,
// which frameworks have it and at which ZeRO stages it does something, what a search tries, what
// documents say of it. The reader, the rule that refuses settings of other frameworks, the warnings
// about settings without effect, the resolved scenario, the plan space and the table of
// docs/formats.md follow from the rows.
namespace stepcast::plan {

// How a framework has a setting.
struct SettingUse {
  Framework framework = Framework::kReference;
  // ZeRO stages at which it does something; first beyond last: it is taken and does nothing.
  int first_stage = 0, last_stage = 3;
  const char* note = "";  // for documents: "with overlap"
  // Values that a search tries, if what it tries does not depend on model and cluster
  // (planner/plan_space.cc).
  std::vector<const char*> tried = {};

  bool HasEffect(int stage) const { return stage >= first_stage && stage <= last_stage; }
};

// How a value is written, and where it is kept.
struct SwitchSetting {
  std::optional<bool> DataParallelRequest::*given;
  bool DataParallel::*value;
};
struct CountSetting {
  std::optional<std::int64_t> DataParallelRequest::*given;
  std::int64_t DataParallel::*value;
  std::int64_t least, most;
};
struct WordSetting {
  std::span<const char* const> words;
  bool (*is_given)(const DataParallelRequest& request);
  void (*give)(DataParallelRequest& request, std::optional<std::size_t> word);
  void (*apply)(const DataParallelRequest& request,
                DataParallel& plan);  // requires that it is given
  std::size_t (*word)(const DataParallel& plan);
};
// A notation of its own, which the reader and the resolved scenario have by its key.
struct OwnSetting {
  bool (*is_given)(const DataParallelRequest& request);
};

struct DataParallelSetting {
  const char* key;  // "bucket_size"
  std::variant<SwitchSetting, CountSetting, WordSetting, OwnSetting> type;
  std::vector<SettingUse> uses;
  const char* values;         // for documents, in Markdown
  const char* default_value;  // likewise

  bool IsGiven(const DataParallelRequest& request) const;
  // nullptr: the framework does not have it.
  const SettingUse* UseOf(Framework framework) const;
  bool HasEffect(Framework framework, int stage) const;
};

// In the order of documents and of the resolved scenario.
std::span<const DataParallelSetting> DataParallelSettings();
// nullptr: there is none of this name.
const DataParallelSetting* FindDataParallelSetting(std::string_view key);
// The framework has a setting that the table has.
bool Has(Framework framework, std::string_view key);

// Puts what was said in the place of defaults: switches, counts and words.
void ApplyGiven(const DataParallelRequest& request, DataParallel& plan);

}  // namespace stepcast::plan

#pragma once

#include <string>
#include <vector>

#include "src/forecast/values.h"
#include "src/scenario/resolved.h"

// The settings in which two plans differ, in the order of reports.
namespace stepcast::report {

struct SettingPair {
  std::string key;   // dotted: "data_parallel.zero_stage"
  std::string a, b;  // as in a scenario file; "" where the plan has no such key
};

// The keys of the resolved scenarios whose values differ, those of `a` first.
std::vector<SettingPair> DifferentSettings(const scenario::Resolved& a,
                                           const scenario::Resolved& b);

// The collectives of the same kind and group; null where a plan has none.
struct CollectivePair {
  const forecast::CollectiveSummary* a = nullptr;
  const forecast::CollectiveSummary* b = nullptr;
  const forecast::CollectiveSummary& any() const { return a != nullptr ? *a : *b; }
};

// Those of `a` in its order, then those that only `b` has.
std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b);

}  // namespace stepcast::report

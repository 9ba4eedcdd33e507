#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {

// Every value that the reader takes for a key that has a choice of words, true and false, or few
// whole numbers, in the order in which the reader names them. A rule of the plan may still refuse
// some of them. `path` and `overrides` are a scenario's, as for Load. Errors: there is no such key,
// the key has no finite set of values (sweep.no-finite-set), the scenario cannot be read.
Result<std::vector<std::string>> ValuesOf(std::string_view key, const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputCache& cache);

// The value of a dotted key, as the scenario is written and overridden; nothing: it does not have
// the key.
std::optional<std::string> WrittenValue(std::string_view key, const std::string& path,
                                        const std::vector<std::string>& overrides,
                                        InputCache& cache);

}  // namespace stepcast::scenario

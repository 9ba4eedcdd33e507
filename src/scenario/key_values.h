#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {

// Returns all values that the reader accepts for a key, in the reader's order: words, booleans or a
// small range of integers. Some values may be illegal for the plan. `path` and `overrides` are as
// for Load. Errors: an unknown key, a key without a finite set of values (sweep.no-finite-set), or
// an unreadable scenario.
Result<std::vector<std::string>> ValuesOf(std::string_view key, const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputCache& cache);

// Returns the value of a dotted key in the scenario with its overrides. No value if the key is
// missing.
std::optional<std::string> WrittenValue(std::string_view key, const std::string& path,
                                        const std::vector<std::string>& overrides,
                                        InputCache& cache);

}  // namespace stepcast::scenario

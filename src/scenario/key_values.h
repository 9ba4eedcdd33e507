#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {

// All values that the reader accepts for a key with a choice of words, with true and false, or with
// few whole numbers, in the reader's order. A rule of the plan may still refuse some of them.
// `path` and `overrides` as for Load. Errors: an unknown key, a key without a finite set of values
// (sweep.no-finite-set), an unreadable scenario.
Result<std::vector<std::string>> ValuesOf(std::string_view key, const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputCache& cache);

// The value of a dotted key in the scenario with its overrides; nothing if it does not have the
// key.
std::optional<std::string> WrittenValue(std::string_view key, const std::string& path,
                                        const std::vector<std::string>& overrides,
                                        InputCache& cache);

}  // namespace stepcast::scenario

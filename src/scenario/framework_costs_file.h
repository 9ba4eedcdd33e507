#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/base/kernel.h"
#include "src/calibration/calibration.h"
#include "src/scenario/document.h"

// Host costs of frameworks' code as YAML, calibration/hosts/*.yaml:
//
//   name: frameworks
//   host: ...                                                # the reference host, in words
//   dispatch:                                                # by framework, each may be missing
//     megatron: {module: 112 us, autograd: 28 us}
//
// Times are at most 100 ms.
namespace stepcast::scenario {

// The key `dispatch` of `reader`.
std::map<std::string, Dispatch, std::less<>> ReadDispatchCosts(MappingReader& reader);

std::optional<calibration::FrameworkCosts> ReadFrameworkCosts(const Node& node,
                                                              Diagnostics& diagnostics);
Result<calibration::FrameworkCosts> LoadFrameworkCosts(const std::string& path);

}  // namespace stepcast::scenario

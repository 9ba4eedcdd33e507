#include "src/scenario/framework_costs_file.h"

#include <utility>

#include "src/base/time.h"
#include "src/plan/framework.h"

namespace stepcast::scenario {
namespace {

constexpr Time kLongest = Milliseconds(100);

Time ReadCost(MappingReader& times, std::string_view key, Diagnostics& diagnostics) {
  const auto node = times.ReadNode(key, Need::kRequired, "a time, such as 20 us");
  if (!node) return Time();
  const auto time = ReadTime(*node, Zero::kAllowed, diagnostics);
  if (time && *time > kLongest) {
    diagnostics.push_back({"calibration.implausible", node->location(),
                           "a kernel costs the host at most 100 ms: " + node->Described(),
                           "check the unit"});
  }
  return time.value_or(Time());
}

}  // namespace

std::map<std::string, Dispatch, std::less<>> ReadDispatchCosts(MappingReader& reader) {
  std::map<std::string, Dispatch, std::less<>> costs;
  auto by_framework = reader.ReadMapping("dispatch", Need::kRequired);
  if (!by_framework) return costs;
  for (const plan::FrameworkTraits& traits : plan::kFrameworkTraits) {
    if (traits.textbook) continue;
    const char* framework = traits.name;
    auto times = by_framework->ReadMapping(framework, Need::kOptional);
    if (!times) continue;
    costs[framework] = {.module = ReadCost(*times, "module", reader.diagnostics()),
                        .autograd = ReadCost(*times, "autograd", reader.diagnostics())};
    times->Finish();
  }
  by_framework->Finish();
  return costs;
}

std::optional<calibration::FrameworkCosts> ReadFrameworkCosts(const Node& node,
                                                              Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  calibration::FrameworkCosts costs;
  costs.name = reader.ReadText("name", Need::kRequired).value_or("");
  costs.host = reader.ReadText("host", Need::kRequired).value_or("");
  costs.dispatch = ReadDispatchCosts(reader);
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  return costs;
}

Result<calibration::FrameworkCosts> LoadFrameworkCosts(const std::string& path) {
  Diagnostics diagnostics;
  if (const std::optional<Node> node = ReadDocument(path, diagnostics)) {
    auto costs = ReadFrameworkCosts(*node, diagnostics);
    if (costs && diagnostics.empty()) return *std::move(costs);
  }
  return tl::make_unexpected(std::move(diagnostics));
}

}  // namespace stepcast::scenario

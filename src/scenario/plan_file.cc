#include "src/scenario/plan_file.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/other_files.h"

namespace stepcast::scenario {
namespace {

constexpr const char* kVersionKey = "stepcast_plan";
constexpr const char* kScenarioKey = "scenario";

bool IsPlan(const Node& document) {
  const auto& entries = document.tree()->entries;
  return std::any_of(entries.begin(), entries.end(),
                     [](const YamlNode::Entry& entry) { return entry.key == kVersionKey; });
}

}  // namespace

std::optional<Node> ScenarioOfPlan(const Node& document, Diagnostics& diagnostics) {
  if (!IsPlan(document)) {
    std::optional<Diagnostic> other = OtherFile(document);
    if (!other) return document;
    diagnostics.push_back(*std::move(other));
    return std::nullopt;
  }
  MappingReader reader(document, diagnostics);
  const std::optional<Node> version =
      reader.ReadNode(kVersionKey, Need::kRequired, "the version of the plan format, 1");
  if (version.has_value()) {
    const auto number = ReadInteger(*version, {0, 1'000'000}, diagnostics);
    if (number.has_value() && *number != kPlanVersion) {
      reader.Report(kVersionKey, "plan.version",
                    fmt::format("this program reads version {} of the plan format, not {}",
                                kPlanVersion, *number),
                    "write the plan anew with --emit, from the scenario that it was made of");
      return std::nullopt;  // its keys may mean something else
    }
  }
  const std::optional<Node> scenario =
      reader.ReadNode(kScenarioKey, Need::kRequired, "the scenario, a mapping");
  reader.Finish();
  if (reader.failed() || !scenario.has_value()) return std::nullopt;
  // Paths in messages are those of a scenario file, which --set takes, too.
  return Node(scenario->tree(), "");
}

Resolved PlanOf(const Resolved& scenario) {
  return {Resolved::Mapping{{kVersionKey, Resolved{kPlanVersion}}, {kScenarioKey, scenario}}};
}

}  // namespace stepcast::scenario

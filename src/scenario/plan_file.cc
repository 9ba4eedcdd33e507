#include "src/scenario/plan_file.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {
// Identifies a document that was given as a scenario but is something else: another program's
// configuration (DeepSpeed's, accelerate's), a model, a topology or a calibration profile, or a
// file without any section of a scenario (file.not-a-scenario). Nothing if it has such a section.
std::optional<Diagnostic> OtherFile(const Node& document);

namespace {

struct KindOfFile {
  std::string_view key;  // that such files have
  std::string_view what;
  std::string_view hint;
};

constexpr std::string_view kAsModel = "write the path of this file in a scenario: 'model: PATH'";
constexpr std::string_view kAsTopology =
    "write the path of this file in a scenario: 'cluster: {topology: PATH}'";
constexpr std::string_view kAsProfile =
    "write the path of this file in a scenario: 'calibration: PATH'";
constexpr std::string_view kInit = "";  // what reads it is `stepcast init`

// Configurations of programs that can be imported: keys that no scenario has.
constexpr KindOfFile kPrograms[] = {
    {"zero_optimization", "a configuration of DeepSpeed", kInit},
    {"train_micro_batch_size_per_gpu", "a configuration of DeepSpeed", kInit},
    {"train_batch_size", "a configuration of DeepSpeed", kInit},
    {"distributed_type", "a configuration of accelerate", kInit},
    {"base_model", "a configuration of axolotl", kInit},
    {"metric_logger", "a recipe of torchtune", kInit},
    {"model_name_or_path", "a configuration of Hugging Face's Trainer", kInit},
    {"per_device_train_batch_size", "a configuration of Hugging Face's Trainer", kInit},
    {"MODEL_ARGS", "a list of Megatron-LM's arguments", kInit},
    {"trainer", "a configuration of NeMo", kInit},
};

constexpr KindOfFile kKinds[] = {
    {"model_type", "a config.json of Hugging Face", kAsModel},
    {"hidden_size", "a model file", kAsModel},
    {"layers", "a model file", kAsModel},
    {"node", "a topology", kAsTopology},
    {"devices", "a topology", kAsTopology},
    {"provenance", "a calibration profile", kAsProfile},
};

}  // namespace

std::optional<Diagnostic> OtherFile(const Node& document) {
  const auto has = [&](std::string_view key) { return Child(*document.tree(), key) != nullptr; };
  const auto told = [&](const KindOfFile& kind) {
    return Diagnostic{"file.not-a-scenario", document.location(),
                      fmt::format("this file is {}, not a scenario: the file has the key {}",
                                  kind.what, Quoted(kind.key)),
                      kind.hint.empty()
                          ? fmt::format("convert this file to a scenario: stepcast init {} -o "
                                        "scenario.yaml",
                                        document.file())
                          : std::string(kind.hint)};
  };
  if (has("stepcast")) return std::nullopt;
  for (const KindOfFile& kind : kPrograms) {
    if (has(kind.key)) return told(kind);
  }
  for (const char* section : {"model", "cluster", "training", "data_parallel"}) {
    if (has(section)) return std::nullopt;
  }
  for (const KindOfFile& kind : kKinds) {
    if (has(kind.key)) return told(kind);
  }
  const bool list = document.kind() == NodeKind::kSequence;
  if (!list && document.tree()->entries.empty()) return std::nullopt;
  return Diagnostic{
      "file.not-a-scenario", document.location(),
      list ? std::string("this file contains a list, not a scenario")
           : fmt::format(
                 "this file is not a scenario: it has no key of a scenario, and its first key is "
                 "{}",
                 Quoted(document.tree()->entries.front().key)),
      fmt::format(
          "write a scenario with 'stepcast: 1', model, cluster, training and data_parallel; if the "
          "file configures another program, convert the file: stepcast init {}",
          document.file())};
}

namespace {

constexpr const char* kVersionKey = "stepcast_plan";
constexpr const char* kScenarioKey = "scenario";

}  // namespace

std::optional<Node> ScenarioOfPlan(const Node& document, Diagnostics& diagnostics) {
  if (Child(*document.tree(), kVersionKey) == nullptr) {
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
      reader.Report(
          kVersionKey, "plan.version",
          fmt::format("this program reads version {} of the plan format, not "
                      "version {}",
                      kPlanVersion, *number),
          "write the plan again from its scenario: stepcast simulate SCENARIO --emit FOLDER");
      return std::nullopt;  // its keys may mean something else
    }
  }
  const std::optional<Node> scenario =
      reader.ReadNode(kScenarioKey, Need::kRequired, "the scenario, a mapping");
  reader.Finish();
  if (reader.failed() || !scenario.has_value()) return std::nullopt;
  // Paths in messages are paths of a scenario file, which --set also accepts.
  return Node(scenario->tree(), "");
}

Resolved PlanOf(const Resolved& scenario) {
  return {Resolved::Mapping{{kVersionKey, Resolved{kPlanVersion}}, {kScenarioKey, scenario}}};
}

}  // namespace stepcast::scenario

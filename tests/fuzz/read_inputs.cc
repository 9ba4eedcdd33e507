#include "tests/fuzz/read_inputs.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/foreign/import.h"
#include "src/formats/huggingface.h"
#include "src/formats/imported_topology.h"
#include "src/formats/kineto.h"
#include "src/formats/nccl_tests.h"
#include "src/formats/nccl_tests_profile.h"
#include "src/formats/nccl_topology.h"
#include "src/formats/nvidia_smi_topology.h"
#include "src/report/calibration_yaml.h"
#include "src/report/layer_list_yaml.h"
#include "src/report/topology_yaml.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/document.h"
#include "src/scenario/load.h"
#include "src/scenario/model_file.h"
#include "src/scenario/resolved_scenario.h"
#include "src/scenario/topology_file.h"

namespace stepcast::fuzz {
namespace {

using scenario::Node;

// Every mistake says what it is, where it stands and prints on lines of its own.
void CheckMistakes(const Diagnostics& mistakes) {
  for (const Diagnostic& mistake : mistakes) {
    STEPCAST_CHECK(
        !mistake.code.empty() && !mistake.message.empty() && !mistake.location.file.empty(),
        "a diagnostic is complete");
    STEPCAST_CHECK(mistake.message.find('\n') == std::string::npos &&
                       mistake.hint.find('\n') == std::string::npos,
                   "a diagnostic's sentences stay on one line");
  }
  STEPCAST_CHECK(mistakes.empty() == Format(mistakes).empty(), "mistakes are printed");
}

// Reads `text` as one document and gives it to `read`, which returns an optional.
template <typename Read>
auto ReadDocumentWith(std::string_view text, Read read)
    -> decltype(read(std::declval<const Node&>(), std::declval<Diagnostics&>())) {
  Diagnostics mistakes;
  const std::optional<Node> root = scenario::ParseDocument(text, "fuzz.yaml", mistakes);
  STEPCAST_CHECK(root.has_value() || !mistakes.empty(), "text without a tree has a mistake");
  if (!root.has_value()) {
    CheckMistakes(mistakes);
    return std::nullopt;
  }
  auto value = read(*root, mistakes);
  STEPCAST_CHECK(value.has_value() || !mistakes.empty(), "what cannot be used has a mistake");
  CheckMistakes(mistakes);
  return value;
}

std::vector<std::string> Overrides(std::string_view text) {
  constexpr std::string_view kMark = "#--set ";
  std::vector<std::string> options;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.substr(0, kMark.size()) == kMark) options.emplace_back(line.substr(kMark.size()));
    begin = end + 1;
  }
  return options;
}

}  // namespace

void ReadScenario(std::string_view text) {
  // Shipped models and clusters take milliseconds to build, so they are kept for a while; not
  // forever, because every new inline mapping is kept as well.
  static std::unique_ptr<scenario::InputCache> cache;
  static int uses = 0;
  if (cache == nullptr || ++uses % 1000 == 0) cache = std::make_unique<scenario::InputCache>();

  const auto first = scenario::LoadText(text, "fuzz.yaml", Overrides(text), *cache);
  if (!first.has_value()) {
    STEPCAST_CHECK(!first.error().empty(), "what cannot be loaded has a mistake");
    CheckMistakes(first.error());
    return;
  }
  const std::string resolved = scenario::ToJson(first->resolved);
  const auto second = scenario::LoadText(resolved, "fuzz.yaml", {}, *cache);
  if (!second.has_value()) {
    std::fprintf(stderr, "%s\n%s", resolved.c_str(), Format(second.error()).c_str());
  }
  STEPCAST_CHECK(second.has_value(), "what was resolved loads");
  STEPCAST_CHECK(scenario::ToJson(second->resolved) == resolved, "it resolves to itself");
}

void ReadModel(std::string_view text) {
  ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadModel(node, mistakes);
  });
  const auto config = formats::ParseHuggingFaceConfig(text, "config.json");
  if (!config.has_value()) {
    STEPCAST_CHECK(!config.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(config.error());
  }
}

void ReadTopology(std::string_view text) {
  const auto topology = ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadTopology(node, mistakes);
  });
  if (!topology.has_value()) return;
  Diagnostics mistakes;
  const bool flat = std::holds_alternative<topology::FlatCluster>(topology->description);
  scenario::BuildCluster(*topology, flat ? std::optional<std::int64_t>() : 2, {"fuzz.yaml", 1, 1},
                         mistakes);
  CheckMistakes(mistakes);
}

void ReadCalibration(std::string_view text) {
  ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadCalibration(node, mistakes);
  });
}

namespace {

void CheckImport(const Result<formats::ImportedTopology>& imported) {
  if (!imported.has_value()) {
    STEPCAST_CHECK(!imported.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(imported.error());
    return;
  }
  const std::string text = report::TopologyYaml("imported", "machine", imported->notes,
                                                imported->node_type, imported->fabric);
  const auto read = ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadTopology(node, mistakes);
  });
  STEPCAST_CHECK(read.has_value(), "what was imported reads back");
}

formats::ImportOptions Given() {
  formats::ImportOptions options;
  options.gpu = "h100-sxm";
  options.nic_speed = Bandwidth::GigabytesPerSecond(50);
  return options;
}

}  // namespace

void ReadNcclTopology(std::string_view text) {
  CheckImport(formats::ParseNcclTopology(text, "fuzz.xml", {}));
  CheckImport(formats::ParseNcclTopology(text, "fuzz.xml", Given()));
}

void ReadNvidiaSmi(std::string_view text) {
  CheckImport(formats::ParseNvidiaSmiTopology(text, "fuzz.txt", Given()));
}

void ReadKineto(std::string_view text) {
  const auto step = formats::ParseKineto(text, "trace.json", std::nullopt);
  if (!step.has_value()) {
    STEPCAST_CHECK(!step.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(step.error());
    return;
  }
  Diagnostics mistakes;
  const auto document =
      scenario::ParseDocument(report::LayerListYaml("traced", *step), "model.yaml", mistakes);
  STEPCAST_CHECK(document.has_value() && mistakes.empty(), "what was imported is a document");
  const auto read = scenario::ReadModel(*document, mistakes);
  for (const Diagnostic& mistake : mistakes) {
    STEPCAST_CHECK(mistake.code == "model.too-large" || mistake.code == "input.out-of-range",
                   "what was imported reads back, unless it is too large");
  }
  STEPCAST_CHECK(read.has_value() || !mistakes.empty(), "a model, or why there is none");
}

void ReadNcclTests(std::string_view text) {
  const auto runs = formats::ParseNcclTests(text, "fuzz.log");
  if (!runs.has_value()) {
    STEPCAST_CHECK(!runs.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(runs.error());
    return;
  }
  formats::NcclTestsOptions options;
  options.collective = CollectiveKind::kAllReduce;
  options.ranks = 2;
  options.ranks_per_node = 1;
  options.name = "imported";
  const auto imported = formats::ProfileOf(*runs, options);
  if (!imported.has_value()) {
    CheckMistakes(imported.error());
    return;
  }
  const auto read = ReadDocumentWith(report::CalibrationYaml(imported->profile),
                                     [](const Node& node, Diagnostics& mistakes) {
                                       return scenario::ReadCalibration(node, mistakes);
                                     });
  STEPCAST_CHECK(read.has_value(), "what was imported reads back");
}

void ReadForeign(std::string_view text) {
  for (const char* extension : {"toml", "sh", "py", "yaml"}) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() /
        ("stepcast-foreign-" + std::to_string(getpid()) + "." + extension);
    std::ofstream(path, std::ios::binary) << text;
    const auto imported =
        foreign::Import({.files = {path.string()}, .model = "llama3.1-8b", .cluster = "dgx-h100"});
    std::filesystem::remove(path);
    if (!imported.has_value()) {
      STEPCAST_CHECK(!imported.error().empty(), "what cannot be read has a mistake");
      CheckMistakes(imported.error());
      continue;
    }
    Diagnostics mistakes;
    const auto document = scenario::ParseDocument(imported->scenario.text, "fuzz.yaml", mistakes);
    if (!mistakes.empty()) {
      std::fprintf(stderr, "%s\n%s", imported->scenario.text.c_str(), Format(mistakes).c_str());
    }
    STEPCAST_CHECK(document.has_value() && mistakes.empty(), "what is written is a document");
  }
}

}  // namespace stepcast::fuzz

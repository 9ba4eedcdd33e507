#include "src/scenario/other_files.h"

#include <algorithm>
#include <string_view>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

struct KindOfFile {
  std::string_view key;  // that such files have
  std::string_view what;
  std::string_view hint;
};

constexpr std::string_view kInData =
    "a scenario's data_parallel takes its keys: {framework: deepspeed, zero_stage: 3, deepspeed: "
    "{...}}";
constexpr std::string_view kAsModel = "a scenario names it: 'model: PATH'";
constexpr std::string_view kAsTopology = "a scenario names it: 'cluster: {topology: PATH}'";
constexpr std::string_view kAsProfile = "a scenario names it: 'calibration: PATH'";
constexpr std::string_view kOwnWords =
    "state what it says in a scenario; docs/formats.md has the keys";

constexpr KindOfFile kKinds[] = {
    {"zero_optimization", "a configuration of DeepSpeed", kInData},
    {"train_micro_batch_size_per_gpu", "a configuration of DeepSpeed", kInData},
    {"train_batch_size", "a configuration of DeepSpeed", kInData},
    {"model_type", "a config.json of Hugging Face", kAsModel},
    {"distributed_type", "a configuration of accelerate", kOwnWords},
    {"base_model", "a configuration of axolotl", kOwnWords},
    {"hidden_size", "a model file", kAsModel},
    {"layers", "a model file", kAsModel},
    {"node", "a topology", kAsTopology},
    {"devices", "a topology", kAsTopology},
    {"provenance", "a calibration profile", kAsProfile},
};

}  // namespace

std::optional<Diagnostic> OtherFile(const Node& document) {
  const auto has = [&document](std::string_view key) {
    const auto& entries = document.tree()->entries;
    return std::any_of(entries.begin(), entries.end(),
                       [key](const YamlNode::Entry& entry) { return entry.key == key; });
  };
  for (const char* section : {"stepcast", "model", "cluster", "training", "data_parallel"}) {
    if (has(section)) return std::nullopt;
  }
  for (const KindOfFile& kind : kKinds) {
    if (!has(kind.key)) continue;
    return Diagnostic{
        "file.not-a-scenario", document.location(),
        fmt::format("this is {}, not a scenario: it has the key {}", kind.what, Quoted(kind.key)),
        std::string(kind.hint)};
  }
  return std::nullopt;
}

}  // namespace stepcast::scenario

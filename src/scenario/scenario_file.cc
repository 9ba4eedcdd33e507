#include "src/scenario/scenario_file.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/scenario/machine.h"
#include "src/scenario/plan_sections.h"

namespace stepcast::scenario {
// Names of scenario keys in other programs.

// Adds suggestions to the hints of unknown keys and values. `first`: the first diagnostic that
// belongs to the scenario file `root`.
void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics);

namespace {

// Terms of the field, of DeepSpeed, Megatron-LM, torchtitan and transformers.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"mbs", "training.micro_batch_size"},
    {"micro_batch", "training.micro_batch_size"},
    {"local_batch_size", "training.micro_batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch_size"},
    {"gbs", "training.global_batch_size"},
    {"batch_size", "training.global_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"ga", "training.gradient_accumulation"},
    {"grad_acc", "training.gradient_accumulation"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"seq", "training.sequence_length"},
    {"seq_len", "training.sequence_length"},
    {"seq_length", "training.sequence_length"},
    {"seqlen", "training.sequence_length"},
    {"max_seq_length", "training.sequence_length"},
    {"dtype", "training.precision"},
    {"gradient_checkpointing", "training.activation_checkpointing"},
    {"recompute", "training.activation_checkpointing"},
    {"dp", "parallelism.data"},
    {"data_parallel_size", "parallelism.data"},
    {"tp", "parallelism.tensor"},
    {"tensor_parallel", "parallelism.tensor"},
    {"tensor_parallel_size", "parallelism.tensor"},
    {"tensor_parallel_degree", "parallelism.tensor"},
    {"tensor_model_parallel_size", "parallelism.tensor"},
    {"pp", "parallelism.pipeline"},
    {"pipeline_parallel", "parallelism.pipeline"},
    {"pipeline_parallel_size", "parallelism.pipeline"},
    {"pipeline_parallel_degree", "parallelism.pipeline"},
    {"pipeline_model_parallel_size", "parallelism.pipeline"},
    {"vpp", "parallelism.virtual_stages"},
    {"cp", "parallelism.context"},
    {"context_parallel_size", "parallelism.context"},
    {"context_parallel_degree", "parallelism.context"},
    {"ep", "parallelism.expert"},
    {"expert_model_parallel_size", "parallelism.expert"},
    {"zero", "data_parallel.zero_stage"},
    {"stage", "data_parallel.zero_stage"},
    {"num_nodes", "cluster.nodes"},
    {"nnodes", "cluster.nodes"},
};
// Keys of the sections that plan_sections.h does not read.
constexpr std::pair<std::string_view, std::string_view> kOtherSections[] = {
    {"cluster", "gpu"},
    {"cluster", "gpus"},
    {"cluster", "topology"},
    {"cluster", "nodes"},
    {"cluster", "network"},
    {"cluster", "collective_algorithm"},
    {"cluster", "routing"},
    {"cluster", "routing_seed"},
    {"cluster", "slow_links"},
    {"cluster", "slow_devices"},
    {"cluster", "other_nodes"},
    {"communication", "nccl_algo"},
    {"communication", "nccl_proto"},
    {"communication", "nccl_collnet"},
};
// Names of values in other programs.
struct OtherValue {
  std::string_view key, word;  // dotted; as it is written elsewhere, in small letters
  std::string_view meant;      // "bf16", or other settings with it: "fsdp2, zero_stage: 3"
};
constexpr OtherValue kOtherValues[] = {
    {"training.precision", "bfloat16", "bf16"},
    {"training.precision", "float16", "fp16"},
    {"training.precision", "half", "fp16"},
    {"training.precision", "float32", "fp32"},
    {"training.precision", "bf16-mixed", "bf16"},
    {"training.precision", "float8", "fp8"},
    {"training.parameter_dtype", "bfloat16", "bf16"},
    {"training.parameter_dtype", "float32", "fp32"},
    {"training.reduce_dtype", "bfloat16", "bf16"},
    {"training.reduce_dtype", "float32", "fp32"},
    {"training.gradient_dtype", "bfloat16", "bf16"},
    {"training.gradient_dtype", "float32", "fp32"},
    {"training.attention", "fa2", "flash"},
    {"training.attention", "flash2", "flash"},
    {"training.attention", "flash_attention_2", "flash"},
    {"training.attention", "fa3", "flash3"},
    {"training.attention", "flash_attention_3", "flash3"},
    {"training.attention", "flex_attention", "flex"},
    {"training.attention", "eager", "math_fp32"},
    {"training.attention", "unfused", "math"},
    {"training.loss", "liger", "chunked"},
    {"training.loss", "chunked_nll", "chunked"},
    {"training.loss", "cce", "cut"},
    {"training.loss", "cut_cross_entropy", "cut"},
    {"training.loss", "hf", "huggingface"},
    {"training.loss", "te", "fused"},
    {"training.loss", "megatron", "in_place"},
    {"training.activation_checkpointing", "true", "full"},
    {"training.activation_checkpointing", "false", "none"},
    {"training.activation_checkpointing", "op", "selective_op"},
    {"training.optimizer", "adam", "adamw"},
    {"training.optimizer", "adamw_torch", "adamw"},
    {"training.optimizer", "adamw_torch_fused", "adamw, optimizer_implementation: fused"},
    {"data_parallel.framework", "fsdp", "fsdp2', or 'fsdp1"},
    {"data_parallel.framework", "fully_shard", "fsdp2"},
    {"data_parallel.framework", "torchtitan", "fsdp2"},
    {"data_parallel.framework", "megatron-lm", "megatron"},
    {"data_parallel.framework", "mcore", "megatron"},
    {"data_parallel.framework", "nemo", "megatron"},
    {"data_parallel.framework", "pytorch", "ddp', or 'fsdp2"},
    {"data_parallel.framework", "torch", "ddp', or 'fsdp2"},
    {"data_parallel.framework", "zero1", "deepspeed, zero_stage: 1"},
    {"data_parallel.framework", "zero2", "deepspeed, zero_stage: 2"},
    {"data_parallel.framework", "zero3", "deepspeed, zero_stage: 3"},
};
constexpr std::string_view kPlanSections[] = {
    "training", "parallelism", "experts", "data_parallel", "data_parallel.deepspeed", "software"};

// Handles the keys below `node`, down to keys of nested sections. Appends the suggestions to
// `found`.
void Suggest(const Node& node, int deepest, std::size_t first, std::vector<std::string>& found,
             Diagnostics& diagnostics) {
  if (node.kind() != NodeKind::kMapping) return;
  for (const YamlNode::Entry& entry : node.tree()->entries) {
    const std::string path =
        node.path().empty() ? entry.key : fmt::format("{}.{}", node.path(), entry.key);
    const std::string said = fmt::format("unknown key: {}", Quoted(path));
    for (std::size_t i = first; i < diagnostics.size(); ++i) {
      Diagnostic& diagnostic = diagnostics[i];
      if (diagnostic.code == "input.unknown-word" && entry.value->kind == NodeKind::kScalar &&
          diagnostic.message.starts_with(Quoted(path) + " must be one of")) {
        if (const std::string meant = ValueMeant(path, entry.value->scalar); !meant.empty()) {
          diagnostic.hint = fmt::format("did you mean '{}'?", meant);
        }
        continue;
      }
      if (diagnostic.code != "input.unknown-key" || diagnostic.message != said) continue;
      const std::string meant = KeyMeant(path);
      if (meant.empty()) continue;
      diagnostic.hint = fmt::format("did you mean '{}'?", meant);
      found.push_back(meant);
    }
    if (deepest > 1) Suggest(Node(entry.value, path), deepest - 1, first, found, diagnostics);
  }
}

}  // namespace

std::string KeyMeant(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  const auto other = std::find_if(std::begin(kOtherWords), std::end(kOtherWords),
                                  [last](const auto& word) { return word.first == last; });
  if (other != std::end(kOtherWords)) return std::string(other->second);
  for (const std::string_view section : kPlanSections) {
    if (ReaderOf(section, last)) return fmt::format("{}.{}", section, last);
  }
  for (const auto& [section, key] : kOtherSections) {
    if (key == last) return fmt::format("{}.{}", section, key);
  }
  return "";
}

std::string ValueMeant(std::string_view path, std::string_view value) {
  std::string word(value);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto other = std::find_if(
      std::begin(kOtherValues), std::end(kOtherValues),
      [&](const OtherValue& known) { return known.key == path && known.word == word; });
  return other == std::end(kOtherValues) ? "" : std::string(other->meant);
}

void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics) {
  constexpr int kDeepest = 3;  // data_parallel.deepspeed.reduce_bucket_size
  if (first == diagnostics.size()) return;
  std::vector<std::string> found;
  Suggest(root, kDeepest, first, found, diagnostics);
  // A key under another name is not reported as missing too.
  const auto begin = diagnostics.begin() + static_cast<std::ptrdiff_t>(first);
  const auto told = [&found](const Diagnostic& diagnostic) {
    return diagnostic.code == "input.missing-key" &&
           std::any_of(found.begin(), found.end(), [&](const std::string& key) {
             return diagnostic.message.find(Quoted(key)) != std::string::npos;
           });
  };
  diagnostics.erase(std::remove_if(begin, diagnostics.end(), told), diagnostics.end());
}

namespace {

constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

void ReadFormatVersion(MappingReader& reader, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("stepcast", Need::kRequired, "the version of the format, 1");
  if (!node.has_value()) return;
  const auto version = ReadInteger(*node, {0, 1'000'000}, diagnostics);
  if (version.has_value() && *version != kFormatVersion) {
    reader.Report("stepcast", "scenario.version",
                  fmt::format("this program reads version {} of the scenario format, not version "
                              "{}",
                              kFormatVersion, *version),
                  fmt::format("write stepcast: {}", kFormatVersion));
  }
}

// A path, or the mapping that could be in that file.
std::optional<Node> ReadSource(MappingReader& reader, std::string_view key, Need need,
                               Diagnostics& diagnostics) {
  const std::optional<Node> node = reader.ReadNode(key, need, "a path, or a mapping");
  if (!node.has_value() || node->kind() == NodeKind::kMapping) return node;
  if (node->kind() == NodeKind::kScalar) {
    if (!ReadText(*node, diagnostics).has_value()) return std::nullopt;
    return node;
  }
  reader.Report(key, node->kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
                fmt::format("{} needs a path or a mapping, not {}", Quoted(reader.PathOf(key)),
                            node->Described()),
                "write a path, or a mapping");
  return std::nullopt;
}

void ReadSlowLink(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto from = reader.ReadText("from", Need::kRequired);
  auto to = reader.ReadText("to", Need::kRequired);
  const auto bandwidth = reader.ReadBandwidth("bandwidth", Need::kOptional);
  reader.Finish();
  if (reader.failed() || !from || !to) return;
  file.slow_links.push_back({*std::move(from), *std::move(to), bandwidth, node.location()});
}

void ReadSlowDevice(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto device = reader.ReadText("device", Need::kRequired);
  const auto speed = reader.ReadDecimal("speed", Need::kRequired, {.least = 0.01, .most = 1});
  reader.Finish();
  if (reader.failed() || !device || !speed) return;
  file.slow_devices.push_back(
      {.device = *std::move(device), .speed = *speed, .location = node.location()});
}

void ReadOtherNodes(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto topology = ReadSource(reader, "topology", Need::kRequired, diagnostics);
  auto calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  const auto nodes = reader.ReadInteger("nodes", Need::kRequired, kNodeRange);
  reader.Finish();
  if (reader.failed() || !topology || !nodes) return;
  file.other_nodes.push_back(
      {*std::move(topology), std::move(calibration), *nodes, node.location()});
}

// `devices`: a number of GPUs, or `plan`.
std::optional<DevicesRequest> ReadDevices(MappingReader& reader, Diagnostics& diagnostics) {
  const auto node = reader.ReadNode("devices", Need::kOptional,
                                    "a number of GPUs, or the word "
                                    "plan");
  if (!node) return std::nullopt;
  if (IsWord(*node, "plan")) return DevicesRequest();
  const auto count = ReadInteger(*node, kDeviceRange, diagnostics);
  return count ? std::optional(DevicesRequest{count}) : std::nullopt;
}

// Reports a cluster that is described twice: by `gpu` or `gpus`, and by a key of a topology.
// `devices: plan` states no number.
bool IsDescribedOnce(const MappingReader& reader, const ScenarioFile& file,
                     Diagnostics& diagnostics) {
  const bool of_plan = file.devices && !file.devices->count;
  const char* own = reader.Has("gpu") ? "gpu" : "gpus";
  for (const char* key : {"topology", "nodes", "devices"}) {
    if (!reader.Has(key) || (of_plan && std::string_view(key) == "devices")) continue;
    diagnostics.push_back(
        {"scenario.two-clusters", reader.LocationOf(own),
         fmt::format("the scenario describes the cluster twice, with the key {} and "
                     "with the key {}",
                     Quoted(own), Quoted(key)),
         "keep only gpu and gpus, or only topology, nodes and devices"});
    return false;
  }
  return true;
}

// `gpu` and `gpus`, which replace `topology`, `nodes` and a number of `devices`.
void TakeMachine(const MappingReader& reader, const std::string& gpu, std::int64_t gpus,
                 ScenarioFile& file, Diagnostics& diagnostics) {
  auto machine = MachineOf(gpu, gpus, reader.LocationOf("gpu"), diagnostics);
  if (!machine) return;
  file.topology.emplace(std::move(machine->topology), "cluster.topology");
  file.nodes = machine->nodes;
  if (file.devices) {
    file.devices->most = gpus;
  } else if (machine->devices) {
    file.devices = DevicesRequest{machine->devices};
  }
  file.machine = std::move(machine->taken);
}

void ReadCluster(MappingReader& reader, ScenarioFile& file, Diagnostics& diagnostics) {
  const auto gpu = reader.ReadText("gpu", Need::kOptional);
  const auto gpus = reader.ReadInteger("gpus", Need::kOptional, kDeviceRange);
  file.topology = ReadSource(reader, "topology", Need::kOptional, diagnostics);
  file.nodes = reader.ReadInteger("nodes", Need::kOptional, kNodeRange);
  file.devices = ReadDevices(reader, diagnostics);
  if (gpu || gpus) {
    if (IsDescribedOnce(reader, file, diagnostics)) {
      if (gpu)
        TakeMachine(reader, *gpu, gpus.value_or(1), file, diagnostics);
      else
        reader.ReadText("gpu", Need::kRequired);
    }
  } else if (!reader.Has("topology")) {
    ReadSource(reader, "topology", Need::kRequired, diagnostics);
  }
  file.algorithm = reader.ReadNamed(
      "collective_algorithm", Need::kOptional,
      {CollectiveAlgorithm::kAuto, CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree});
  file.network = reader.ReadWord<Fidelity>("network", Need::kOptional,
                                           {{"analytic", Fidelity::kAnalytic},
                                            {"flow", Fidelity::kFlow},
                                            {"message", Fidelity::kMessage}});
  file.routing.choice = ReadRouting(reader, "routing");
  file.routing.seed = reader.ReadInteger("routing_seed", Need::kOptional, {0, kMostSeed});
  if (const auto links = reader.ReadSequence("slow_links", Need::kOptional)) {
    for (const Node& node : *links) ReadSlowLink(node, file, diagnostics);
  }
  if (const auto devices = reader.ReadSequence("slow_devices", Need::kOptional)) {
    for (const Node& node : *devices) ReadSlowDevice(node, file, diagnostics);
  }
  if (const auto kinds = reader.ReadSequence("other_nodes", Need::kOptional)) {
    for (const Node& node : *kinds) ReadOtherNodes(node, file, diagnostics);
  }
  reader.Finish();
}

// NCCL's environment variables, as keys of the scenario.
void ReadCommunication(MappingReader& reader, ScenarioFile& file, Diagnostics& diagnostics) {
  const auto take = [&](auto parsed, auto& allowed) {
    if (parsed) {
      allowed = *std::move(parsed);
    } else {
      diagnostics.insert(diagnostics.end(), parsed.error().begin(), parsed.error().end());
    }
  };
  file.nccl_algo = reader.ReadText("nccl_algo", Need::kOptional);
  if (file.nccl_algo) {
    take(nccl::ParseAlgorithms(*file.nccl_algo, reader.LocationOf("nccl_algo")),
         file.nccl_overrides.algorithms);
  }
  file.nccl_proto = reader.ReadText("nccl_proto", Need::kOptional);
  if (file.nccl_proto) {
    take(nccl::ParseProtocols(*file.nccl_proto, reader.LocationOf("nccl_proto")),
         file.nccl_overrides.protocols);
  }
  file.nccl_collnet = reader.ReadBoolean("nccl_collnet", Need::kOptional);
  reader.Finish();
}

}  // namespace

ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics) {
  ScenarioFile file;
  const std::size_t first = diagnostics.size();
  MappingReader reader(root, diagnostics);
  ReadFormatVersion(reader, diagnostics);
  file.name = reader.ReadText("name", Need::kOptional);
  file.model = ReadSource(reader, "model", Need::kRequired, diagnostics);
  if (auto cluster = reader.ReadMapping("cluster", Need::kRequired)) {
    ReadCluster(*cluster, file, diagnostics);
  }
  file.calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  file.calibration_of_another_gpu =
      reader.ReadBoolean("calibration_of_another_gpu", Need::kOptional);
  if (auto software = reader.ReadMapping("software", Need::kOptional)) {
    ReadSoftware(*software, file.request);
  }
  if (auto communication = reader.ReadMapping("communication", Need::kOptional)) {
    ReadCommunication(*communication, file, diagnostics);
  }
  if (auto training = reader.ReadMapping("training", Need::kRequired)) {
    ReadTraining(*training, file.request);
  }
  if (auto parallelism = reader.ReadMapping("parallelism", Need::kOptional)) {
    ReadParallelism(*parallelism, file.request);
  }
  if (auto experts = reader.ReadMapping("experts", Need::kOptional)) {
    ReadExperts(*experts, file.request);
  }
  if (auto data_parallel = reader.ReadMapping("data_parallel", Need::kRequired)) {
    ReadDataParallel(*data_parallel, file.request);
  }
  reader.Finish();
  SuggestKeysMeant(root, first, diagnostics);
  return file;
}

}  // namespace stepcast::scenario

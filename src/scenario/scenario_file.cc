#include "src/scenario/scenario_file.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
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
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
// Names of scenario keys in other programs.

// Adds suggestions to the hints of unknown keys and values. `first`: the first diagnostic that
// belongs to the scenario file `root`.
void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics);

namespace {

// Other programs' words for a key: terms of the field, of DeepSpeed, Megatron-LM, torchtitan and
// transformers. In these tables, words are separated by spaces.
struct OtherWords {
  std::string_view words;
  std::string_view meant;  // the dotted key
};
constexpr OtherWords kOtherWords[] = {
    {"mbs micro_batch local_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu",
     "training.micro_batch_size"},
    {"gbs batch_size train_batch_size", "training.global_batch_size"},
    {"ga grad_acc gradient_accumulation_steps", "training.gradient_accumulation"},
    {"seq seq_len seq_length seqlen max_seq_length", "training.sequence_length"},
    {"dtype", "training.precision"},
    {"gradient_checkpointing recompute", "training.activation_checkpointing"},
    {"dp data_parallel_size", "parallelism.data"},
    {"tp tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size",
     "parallelism.tensor"},
    {"pp pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
     "pipeline_model_parallel_size",
     "parallelism.pipeline"},
    {"vpp", "parallelism.virtual_stages"},
    {"cp context_parallel_size context_parallel_degree", "parallelism.context"},
    {"ep expert_model_parallel_size", "parallelism.expert"},
    {"zero stage", "data_parallel.zero_stage"},
    {"num_nodes nnodes", "cluster.nodes"},
};
// Keys of the sections that plan_sections.h does not read.
constexpr std::pair<std::string_view, std::string_view> kOtherSections[] = {
    {"cluster",
     "gpu gpus topology nodes network collective_algorithm routing routing_seed slow_links "
     "slow_devices other_nodes"},
    {"communication", "nccl_algo nccl_proto nccl_collnet"},
};
// Names of values in other programs.
struct OtherValues {
  std::string_view keys, words;  // dotted keys; the words in small letters
  std::string_view meant;        // "bf16", or other settings with it: "fsdp2, zero_stage: 3"
};
constexpr OtherValues kOtherValues[] = {
    {"training.precision training.parameter_dtype training.reduce_dtype training.gradient_dtype",
     "bfloat16", "bf16"},
    {"training.precision", "bf16-mixed", "bf16"},
    {"training.precision", "float16 half", "fp16"},
    {"training.precision training.parameter_dtype training.reduce_dtype training.gradient_dtype",
     "float32", "fp32"},
    {"training.precision", "float8", "fp8"},
    {"training.attention", "fa2 flash2 flash_attention_2", "flash"},
    {"training.attention", "fa3 flash_attention_3", "flash3"},
    {"training.attention", "flex_attention", "flex"},
    {"training.attention", "eager", "math_fp32"},
    {"training.attention", "unfused", "math"},
    {"training.loss", "liger chunked_nll", "chunked"},
    {"training.loss", "cce cut_cross_entropy", "cut"},
    {"training.loss", "hf", "huggingface"},
    {"training.loss", "te", "fused"},
    {"training.loss", "megatron", "in_place"},
    {"training.activation_checkpointing", "true", "full"},
    {"training.activation_checkpointing", "false", "none"},
    {"training.activation_checkpointing", "op", "selective_op"},
    {"training.optimizer", "adam adamw_torch", "adamw"},
    {"training.optimizer", "adamw_torch_fused", "adamw, optimizer_implementation: fused"},
    {"data_parallel.framework", "fsdp", "fsdp2', or 'fsdp1"},
    {"data_parallel.framework", "fully_shard torchtitan", "fsdp2"},
    {"data_parallel.framework", "megatron-lm mcore nemo", "megatron"},
    {"data_parallel.framework", "pytorch torch", "ddp', or 'fsdp2"},
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
  for (const OtherWords& other : kOtherWords) {
    if (HasWord(other.words, last)) return std::string(other.meant);
  }
  for (const std::string_view section : kPlanSections) {
    if (ReaderOf(section, last)) return fmt::format("{}.{}", section, last);
  }
  for (const auto& [section, keys] : kOtherSections) {
    if (HasWord(keys, last)) return fmt::format("{}.{}", section, last);
  }
  return "";
}

std::string ValueMeant(std::string_view path, std::string_view value) {
  std::string word(value);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const OtherValues& other : kOtherValues) {
    if (HasWord(other.keys, path) && HasWord(other.words, word)) return std::string(other.meant);
  }
  return "";
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
      reader.ReadNode("stepcast", Need::kRequired, "the version of the format: 'stepcast: 1'");
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

std::optional<SlowLink> ReadSlowLink(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  SlowLink slow{.from = {}, .to = {}, .bandwidth = {}, .location = node.location()};
  reader.Required("from", slow.from);
  reader.Required("to", slow.to);
  reader.Optional("bandwidth", slow.bandwidth);
  reader.Finish();
  return reader.failed() ? std::nullopt : std::optional(std::move(slow));
}

std::optional<SlowDevice> ReadSlowDevice(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  SlowDevice slow{.device = {}, .location = node.location()};
  reader.Required("device", slow.device);
  reader.Required("speed", slow.speed, {.least = 0.01, .most = 1});
  reader.Finish();
  return reader.failed() ? std::nullopt : std::optional(std::move(slow));
}

std::optional<OtherNodes> ReadOtherNodes(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto topology = ReadSource(reader, "topology", Need::kRequired, diagnostics);
  auto calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  const auto nodes = reader.ReadInteger("nodes", Need::kRequired, kNodeRange);
  reader.Finish();
  if (reader.failed() || !topology || !nodes) return std::nullopt;
  return OtherNodes{*std::move(topology), std::move(calibration), *nodes, node.location()};
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
  reader.Optional(
      "collective_algorithm", file.algorithm,
      {CollectiveAlgorithm::kAuto, CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree});
  reader.Optional("network", file.network,
                  {{"analytic", Fidelity::kAnalytic},
                   {"flow", Fidelity::kFlow},
                   {"message", Fidelity::kMessage}});
  file.routing.choice = ReadRouting(reader, "routing");
  reader.Optional("routing_seed", file.routing.seed, {0, kMostSeed});
  reader.List("slow_links", Need::kOptional, file.slow_links, ReadSlowLink);
  reader.List("slow_devices", Need::kOptional, file.slow_devices, ReadSlowDevice);
  reader.List("other_nodes", Need::kOptional, file.other_nodes, ReadOtherNodes);
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
  reader.Optional("nccl_algo", file.nccl_algo);
  if (file.nccl_algo) {
    take(nccl::ParseAlgorithms(*file.nccl_algo, reader.LocationOf("nccl_algo")),
         file.nccl_overrides.algorithms);
  }
  reader.Optional("nccl_proto", file.nccl_proto);
  if (file.nccl_proto) {
    take(nccl::ParseProtocols(*file.nccl_proto, reader.LocationOf("nccl_proto")),
         file.nccl_overrides.protocols);
  }
  reader.Optional("nccl_collnet", file.nccl_collnet);
}

}  // namespace

ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics) {
  ScenarioFile file;
  const std::size_t first = diagnostics.size();
  MappingReader reader(root, diagnostics);
  ReadFormatVersion(reader, diagnostics);
  const auto section = [&](std::string_view key, Need need,
                           void (*read)(MappingReader & reader, plan::Request & request)) {
    reader.Section(key, need, [&](MappingReader& fields) { read(fields, file.request); });
  };
  reader.Optional("name", file.name);
  file.model = ReadSource(reader, "model", Need::kRequired, diagnostics);
  reader.Section("cluster", Need::kRequired,
                 [&](MappingReader& cluster) { ReadCluster(cluster, file, diagnostics); });
  file.calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  reader.Optional("calibration_of_another_gpu", file.calibration_of_another_gpu);
  section("software", Need::kOptional, ReadSoftware);
  reader.Section("communication", Need::kOptional, [&](MappingReader& communication) {
    ReadCommunication(communication, file, diagnostics);
  });
  section("training", Need::kRequired, ReadTraining);
  section("parallelism", Need::kOptional, ReadParallelism);
  section("experts", Need::kOptional, ReadExperts);
  section("data_parallel", Need::kRequired, ReadDataParallel);
  reader.Finish();
  SuggestKeysMeant(root, first, diagnostics);
  return file;
}

}  // namespace stepcast::scenario

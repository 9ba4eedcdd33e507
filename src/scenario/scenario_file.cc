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
// Adds suggestions to the hints of unknown keys and values. `first`: the first diagnostic that
// belongs to the scenario file `root`.
void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics);

namespace {

// Other programs' words for a key: terms of the field, of PyTorch, DeepSpeed, Megatron-LM,
// torchtitan and transformers. In these tables, words are separated by spaces.
struct OtherWords {
  std::string_view words;
  std::string_view meant;  // the dotted key, or "KEY=VALUE" as in SettingMeant
  std::string_view meaning = {};
};
constexpr OtherWords kOtherWords[] = {
    {"mbs micro_batch microbatch microbatch_size micro_batchsize local_batch_size "
     "per_device_train_batch_size train_micro_batch_size_per_gpu",
     "training.micro_batch_size"},
    {"batch batch_size", "training.micro_batch_size", "sequences of a rank in each forward pass"},
    {"batch batch_size", "training.global_batch_size", "sequences of all ranks in a step"},
    {"gbs global_batch train_batch_size", "training.global_batch_size"},
    {"ga grad_acc grad_accum accumulation_steps gradient_accumulation_steps",
     "training.gradient_accumulation"},
    {"seq seq_len seq_length seqlen max_seq_len max_seq_length sequence_len context_length",
     "training.sequence_length"},
    {"dtype torch_dtype", "training.precision"},
    {"bf16", "training.precision=bf16"},
    {"fp16", "training.precision=fp16"},
    {"fp8", "training.precision=fp8"},
    {"gradient_checkpointing recompute recomputation checkpointing",
     "training.activation_checkpointing"},
    {"attn attn_implementation attention_backend", "training.attention"},
    {"flash_attention flash_attn use_flash_attn", "training.attention=flash"},
    {"torch_compile", "training.compile"},
    {"optim", "training.optimizer"},
    {"clip_grad grad_clip max_grad_norm", "training.gradient_clipping"},
    {"dp dp_size data_parallel data_parallel_size", "parallelism.data"},
    {"tp tp_size tensor_parallel tensor_parallel_size tensor_parallel_degree "
     "tensor_model_parallel_size",
     "parallelism.tensor"},
    {"pp pp_size pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
     "pipeline_model_parallel_size",
     "parallelism.pipeline"},
    {"vpp", "parallelism.virtual_stages"},
    {"cp cp_size context_parallel context_parallel_size context_parallel_degree",
     "parallelism.context"},
    {"ep ep_size expert_parallel expert_parallel_size expert_model_parallel_size",
     "parallelism.expert"},
    {"sp", "parallelism.sequence_parallel"},
    {"pipeline_schedule pipeline_parallel_schedule", "parallelism.schedule"},
    {"zero zero_optimization stage", "data_parallel.zero_stage"},
    {"sharding_strategy fsdp_sharding_strategy", "data_parallel.zero_stage",
     "FULL_SHARD is 3, SHARD_GRAD_OP is 2, NO_SHARD is 0"},
    {"bucket_cap_mb ddp_bucket_cap_mb", "data_parallel.bucket_size=* MiB"},
    {"num_nodes nnodes", "cluster.nodes"},
    {"gpus_per_node num_gpus_per_node nproc_per_node num_gpus world_size", "cluster.devices",
     "the GPUs of all nodes together"},
};
// Keys of the sections that plan_sections.h does not read.
constexpr std::pair<std::string_view, std::string_view> kOtherSections[] = {
    {"cluster",
     "gpu gpus topology nodes network collective_algorithm routing routing_seed slow_links "
     "slow_devices other_nodes"},
    {"communication", "nccl_algo nccl_proto nccl_collnet"},
};
// Examples for keys whose values are mappings.
constexpr std::pair<std::string_view, std::string_view> kMappings[] = {
    {"training.lora", "{rank: 16, targets: q_proj v_proj}"},
    {"training.lengths", "{batching: packed, histogram: [[512, 70], [2048, 30]]}"},
    {"training.data_loading", "{time: 5 ms}"},
    {"training.checkpoint_saving", "{every: 1000, bandwidth: 10 GB/s}"},
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

// A setting as an option or as a line of the file that contains the value.
std::string Written(std::string_view key, std::string_view value, const YamlNode& where) {
  const bool in_file = where.position.location().line > 0;
  return fmt::format("{}{}{}", key, in_file ? ": " : "=", value);
}

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
      if (diagnostic.message.starts_with(Quoted(path) + " needs a mapping") &&
          !ExampleOf(path).empty()) {
        diagnostic.hint =
            fmt::format("write for example '{}'", Written(path, ExampleOf(path), *entry.value));
        continue;
      }
      if (diagnostic.code != "input.unknown-key" || diagnostic.message != said) continue;
      std::string hint;
      for (const SettingMeant& meant : SettingsMeant(path)) {
        hint += fmt::format(
            "{}'{}'", hint.empty() ? "did you mean " : ", or ",
            meant.value.empty()
                ? meant.key
                : Written(meant.key, meant.ValueFor(entry.value->scalar), *entry.value));
        if (!meant.meaning.empty()) hint += fmt::format(" ({})", meant.meaning);
        found.push_back(meant.key);
      }
      if (!hint.empty()) diagnostic.hint = hint + "?";
    }
    if (deepest > 1) Suggest(Node(entry.value, path), deepest - 1, first, found, diagnostics);
  }
}

}  // namespace

std::string SettingMeant::ValueFor(std::string_view given) const {
  if (value.empty() || given == "false") return std::string(given);
  std::string text = value;
  if (text.starts_with('*')) text.replace(0, 1, given.empty() ? "25" : given);
  return text;
}

std::vector<SettingMeant> SettingsMeant(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  std::vector<SettingMeant> meant;
  for (const OtherWords& other : kOtherWords) {
    if (!HasWord(other.words, last)) continue;
    const std::size_t sign = std::min(other.meant.find('='), other.meant.size());
    meant.push_back(
        {.key = std::string(other.meant.substr(0, sign)),
         .value = std::string(other.meant.substr(std::min(sign + 1, other.meant.size()))),
         .meaning = std::string(other.meaning)});
  }
  if (!meant.empty()) return meant;
  for (const std::string_view section : kPlanSections) {
    if (ReaderOf(section, last)) return {{.key = fmt::format("{}.{}", section, last)}};
  }
  for (const auto& [section, keys] : kOtherSections) {
    if (HasWord(keys, last)) return {{.key = fmt::format("{}.{}", section, last)}};
  }
  return {};
}

std::string_view ExampleOf(std::string_view key) {
  for (const auto& [name, example] : kMappings) {
    if (name == key) return example;
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
bool IsDescribedOnce(const MappingReader& reader, const ScenarioFile& file, std::string_view gpu,
                     std::int64_t gpus, Diagnostics& diagnostics) {
  const bool of_plan = file.devices && !file.devices->count;
  const char* own = reader.Has("gpu") ? "gpu" : "gpus";
  for (const char* key : {"topology", "nodes", "devices"}) {
    if (!reader.Has(key) || (of_plan && std::string_view(key) == "devices")) continue;
    diagnostics.push_back(
        {"scenario.two-clusters", reader.LocationOf(own),
         fmt::format("the scenario describes the cluster twice, with the key {} and "
                     "with the key {}",
                     Quoted(own), Quoted(key)),
         fmt::format("keep only gpu and gpus, or only topology, nodes and devices; as an option, "
                     "write for example --gpus '{} x {}'",
                     gpus * file.nodes.value_or(1), gpu)});
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
    constexpr std::int64_t kUsual = 8;  // of a node
    if (IsDescribedOnce(reader, file, gpu.value_or("h100-sxm"), gpus.value_or(kUsual),
                        diagnostics)) {
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

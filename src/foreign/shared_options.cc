#include "src/foreign/shared_options.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/scenario/source_names.h"

namespace stepcast::foreign {
namespace {

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// The program's spelling of an option of FSDP: the one in the file or, if there is none, one that
// the program accepts. Empty if the program lacks the option.
std::string FsdpOption(const Reading& reading, std::string_view name) {
  std::string accepted;
  for (const char* form :
       {"fsdp_config.fsdp_{}_policy", "fsdp_config.fsdp_{}", "fsdp_config.{}", "fsdp_{}"}) {
    std::string option = fmt::format(fmt::runtime(form), name);
    if (!reading.HasRule(option)) continue;
    if (reading.Stated(option) != nullptr) return option;
    accepted = std::move(option);
  }
  return accepted;
}

void ReadStrategy(Reading& reading, bool second, std::string_view because_of) {
  const std::string strategy = FsdpOption(reading, "sharding_strategy");
  const std::string reshards = FsdpOption(reading, "reshard_after_forward");
  const std::string name = Upper(reading.Text(strategy));
  const std::string_view option = reading.Stated(strategy) != nullptr ? strategy : because_of;
  const bool keeps = name == "SHARD_GRAD_OP" || name == "2" || name == "HYBRID_SHARD_ZERO2" ||
                     name == "_HYBRID_SHARD_ZERO2" || name == "5";
  const bool hybrid = name.find("HYBRID") != std::string::npos || name == "4" || name == "5";
  if (name == "NO_SHARD" || name == "3") {
    reading.Set("data_parallel.framework", "ddp", option);
    reading.Set("data_parallel.zero_stage", "0", option);
    return;
  }
  const auto reshard = reading.Get(reshards);
  // FSDP1's sharding strategy may be given in place of the switch.
  const std::string by_switch = reshard ? Upper(reshard->text) : "";
  const bool kept = keeps || by_switch == "FALSE" || by_switch == "SHARD_GRAD_OP";
  reading.Set("data_parallel.framework", second ? "fsdp2" : "fsdp1", because_of);
  reading.Set("data_parallel.zero_stage", kept ? "2" : "3", kept && !keeps ? reshards : option);
  if (!hybrid) return;
  if (const auto gpus = reading.gpus_per_node()) {
    reading.Set("data_parallel.shard_group_size", *gpus, option, "a node");
  }
}

void ReadSwitch(Reading& reading, std::string_view name, std::string_view key) {
  const std::string option = FsdpOption(reading, name);
  if (reading.Stated(option) == nullptr) return;
  reading.Set(key, reading.IsOn(option), option);
}

}  // namespace

void ReadFsdp(Reading& reading, std::string_view because_of) {
  const bool second = reading.Integer(FsdpOption(reading, "version")).value_or(1) == 2;
  ReadStrategy(reading, second, because_of);
  reading.SetIfOn("data_parallel.cpu_offload", "true", FsdpOption(reading, "offload_params"));
  // accelerate/accelerator.py: with mixed precision, trained parameters are converted to FP32.
  reading.draft().Assume("training.parameter_dtype", "fp32",
                         "accelerate stores trained parameters in FP32");
  const std::string policy = FsdpOption(reading, "auto_wrap_policy");
  const std::string wrap = Upper(reading.Text(policy));
  if (wrap == "NO_WRAP") reading.Set("data_parallel.units", "model", policy);
  if (wrap == "SIZE_BASED_WRAP") reading.Omit(policy, "each block is a separate FSDP unit");
  reading.SetIfOn("training.activation_checkpointing", "full",
                  FsdpOption(reading, "activation_checkpointing"));
  if (second) return;
  constexpr std::string_view kPrefetch =
      "BACKWARD_PRE=pre BACKWARD_POST=post NO_PREFETCH=none 1=pre 2=post";
  const std::string prefetch = FsdpOption(reading, "backward_prefetch");
  if (const auto word = WordFor(kPrefetch, Upper(reading.Text(prefetch)))) {
    reading.Set("data_parallel.backward_prefetch", std::string(*word), prefetch);
  }
  ReadSwitch(reading, "forward_prefetch", "data_parallel.forward_prefetch");
  ReadSwitch(reading, "use_orig_params", "data_parallel.use_orig_params");
  ReadSwitch(reading, "limit_all_gathers", "data_parallel.limit_all_gathers");
}

void ReadCopies(Reading& reading, std::string_view option, std::int64_t copies,
                std::string remark) {
  std::int64_t others = std::clamp<std::int64_t>(copies, 1, 1'000);
  for (const char* axis : {"parallelism.tensor", "parallelism.pipeline", "parallelism.context"}) {
    others *= reading.draft().Degree(axis);
  }
  if (!reading.devices() || *reading.devices() % others != 0) {
    reading.Wrong(option, "the size of a shard group depends on the number of GPUs",
                  "add the cluster: --cluster NAME --nodes N");
    return;
  }
  reading.Set("data_parallel.shard_group_size", *reading.devices() / others, option,
              std::move(remark));
}

void AskForFile(Reading& reading, std::string_view option, std::string_view what) {
  const Value& file = reading.Stated(option)->value;
  const std::string& own = reading.document().file;
  // Relative to the file that names it.
  const std::string path = (std::filesystem::path(own).parent_path() / file.text).string();
  reading.Wrong(option,
                fmt::format("the {} configuration {} is missing on the command line", what,
                            Quoted(file.Shown())),
                fmt::format("add the file to the command: {} {}", own, path));
}

void ReadClipping(Reading& reading, std::string_view option) {
  const auto norm = reading.Get(option);
  if (!norm || !norm->Number()) return;
  reading.Set("training.gradient_clipping", *norm->Number() > 0 ? ScenarioWords(*norm) : "none",
              option);
}

void ReadDegrees(Reading& reading, const DegreeOptions& options) {
  const auto degree = [&reading](std::string_view option) {
    return std::max<std::int64_t>(reading.Integer(option).value_or(1), 1);
  };
  const std::int64_t shards = degree(options.shard), replicas = degree(options.replicate);
  const auto set = [&](std::string_view option, const char* key) {
    if (degree(option) > 1) reading.Set(key, degree(option), option);
  };
  set(options.tensor, "parallelism.tensor");
  set(options.context, "parallelism.context");
  set(options.expert, "parallelism.expert");
  // Ranks of expert parallelism are data-parallel for all other layers.
  const std::int64_t data = shards * replicas * degree(options.expert);
  if (shards > 1 || replicas > 1) {
    reading.Set("parallelism.data", data, shards > 1 ? options.shard : options.replicate,
                replicas > 1 ? "shards times replicas" : "");
  }
  if (shards > 1 && replicas > 1) {
    reading.Set("data_parallel.shard_group_size", shards, options.shard);
  }
}

void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of) {
  Draft& draft = reading.draft();
  const bool packed = batching == "packed";
  if (packed && draft.Covers("training.document_length")) return;
  if (draft.Has("training.lengths.histogram")) {
    if (reading.Stated(because_of) != nullptr) {
      reading.Set("training.lengths.batching", std::string(batching), because_of);
    } else {
      draft.Assume("training.lengths.batching", std::string(batching),
                   fmt::format("not set in {}", reading.document().file));
    }
    return;
  }
  if (draft.Covers("training.lengths")) return;
  reading.Omit(
      because_of,
      fmt::format(
          "the forecast step time is too long, because {}. {}",
          packed ? "attention covers the full sequence" : "every sequence has the maximum length",
          packed && draft.Degree("parallelism.context") > 1
              // Documents of different lengths are not modelled with context parallelism.
              ? "Specify the mean length of samples: --set training.document_length=512"
              : fmt::format("Specify the lengths of samples as [tokens, samples] pairs: --set "
                            "'training.lengths.histogram=[[512, 70], [2048, 30]]'{}",
                            packed ? ", or --set training.document_length=512" : "")));
}

namespace {

// Options of torchrun, accelerate and DeepSpeed with the same meaning, in all their spellings.
constexpr std::string_view kNodes[] = {"launcher.nnodes", "launcher.num_machines",
                                       "launcher.num-machines", "launcher.num_nodes",
                                       "launcher.num-nodes"};
constexpr std::string_view kProcesses[] = {"launcher.nproc-per-node", "launcher.nproc_per_node",
                                           "launcher.num_gpus", "launcher.num-gpus"};

// The option that is stated as a number; null if there is none. An unknown variable is not a
// mistake, since --nodes can give the number.
const Setting* Stated(const Reading& reading, std::span<const std::string_view> options) {
  for (const std::string_view option : options) {
    const Setting* setting = reading.Stated(option);
    if (setting == nullptr || !setting->value.unknown.empty()) continue;
    if (setting->value.Integer().value_or(0) > 0) return setting;
  }
  return nullptr;
}

}  // namespace

void ReadLauncher(Reading& reading) {
  const Setting* nodes = Stated(reading, kNodes);
  if (nodes != nullptr) {
    reading.Set("cluster.nodes", *nodes->value.Integer(), nodes->name);
  }
  const Setting* processes = Stated(reading, kProcesses);
  const auto devices = reading.devices();
  // Without a number of nodes, torchrun starts processes on one node, and other launchers on all.
  if (processes != nullptr && devices) {
    const std::int64_t of_node = *processes->value.Integer();
    // The number of nodes on the command line also applies to the script's processes.
    const std::int64_t started_on = reading.draft().Degree("cluster.nodes");
    const std::int64_t of_job = started_on * std::min<std::int64_t>(of_node, 10'000);
    if (of_job < *devices) {
      reading.Set("cluster.devices", of_job, processes->name,
                  fmt::format("{} processes on each of {} nodes", of_node, started_on));
    } else if (of_job > *devices) {
      reading.draft().Note(fmt::format(
          "the script starts {} processes, but the cluster has {} GPUs", of_job, *devices));
    }
  }
  const std::string allocator = reading.Text("env.PYTORCH_CUDA_ALLOC_CONF");
  if (allocator.find("expandable_segments:True") != std::string::npos) {
    reading.Set("software.expandable_segments", "true", "env.PYTORCH_CUDA_ALLOC_CONF");
  }
}

namespace {

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

void ReadHubModel(Reading& reading, std::string_view option) {
  const std::string name = reading.Text(option);
  if (name.empty() || reading.draft().Has("model")) return;
  // A folder or a config.json, relative to the file that names it or to the working directory.
  const std::string folder = std::filesystem::path(reading.document().file).parent_path().string();
  for (const std::string& from : {folder, std::string()}) {
    const auto found = scenario::FindSource(name, from, scenario::SourceKind::kModel);
    std::error_code error;
    if (!found || !std::filesystem::is_regular_file(*found, error)) continue;
    reading.Set("model", *found, option);
    return;
  }
  const std::string lower = Lower(name);
  const std::string last = lower.substr(lower.rfind('/') + 1);
  if (const auto shipped = ModelOfTheHub(name)) {
    reading.Set("model", *shipped, option, name);
    return;
  }
  // One of our files with the model's name.
  if (scenario::FindSource(last, "", scenario::SourceKind::kModel)) {
    reading.Set("model", last, option, name);
    return;
  }
  reading.draft().NameModel(name);
}

void ReadHubOptimizer(Reading& reading, std::string_view option) {
  const std::string name = reading.Text(option);
  const std::string_view key = "training.optimizer";
  const std::string_view implementation = "training.optimizer_implementation";
  if (name == "sgd") {
    reading.Set(key, "sgd", option);
    return;
  }
  // transformers/trainer_optimizer.py: names of bitsandbytes and torchao.
  const bool adamw_8bit = name == "adamw_8bit" || name == "adamw_bnb_8bit" ||
                          name == "adamw_torch_8bit" || name == "paged_adamw_8bit";
  if (adamw_8bit && !reading.under_deepspeed()) {
    reading.Set(key, "adamw_8bit", option);
    if (name.starts_with("paged"))
      reading.Omit(option, "optimizer states remain in the memory of the device");
    return;
  }
  reading.Set(key, "adamw", option);
  if (name.find("8bit") != std::string::npos || name.find("4bit") != std::string::npos) {
    reading.Omit(option,
                 "the optimizer's moments are stored in FP32, so the memory forecast is too high");
  } else if (name.find("paged") != std::string::npos) {
    reading.Omit(option, "optimizer states remain in the memory of the device");
  } else if (!name.starts_with("adam")) {
    reading.Omit(option, "the optimizer is AdamW");
  } else if (name == "adamw_torch_fused" || name == "adamw_apex_fused") {
    // DeepSpeed replaces it by its own optimizer.
    if (!reading.under_deepspeed()) reading.Set(implementation, "fused", option);
  }
}

void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of) {
  constexpr std::string_view kAttention =
      "flash_attention_2=flash flash_attention_3=flash3 eager=math_fp32 sdpa= auto= fa2=flash "
      "fa3=flash3 disabled=math_fp32 kernels-community/flash-attn2=flash "
      "kernels-community/vllm-flash-attn3=flash3";
  const std::string name = reading.Text(attention);
  if (!name.empty()) {
    const auto word = WordFor(kAttention, name);
    if (!word) {
      reading.Omit(attention, "PyTorch chooses the attention kernel");
    } else if (!word->empty()) {
      reading.Set("training.attention", std::string(*word), attention);
    }
  }
  for (const char* key : {"training.norm", "training.rotary", "training.activation_function"}) {
    if (liger) {
      reading.Set(key, "fused", because_of, "Liger's kernels");
    } else {
      reading.draft().Assume(key, "huggingface", "transformers' own kernels");
    }
  }
}

void ReadHubExperts(Reading& reading) {
  const Draft& draft = reading.draft();
  const Entry* framework = draft.Find("data_parallel.framework");
  const bool shards = framework != nullptr && framework->value == "fsdp2";
  if (!shards || reading.experts().value_or(0) == 0) return;
  if (draft.Degree("parallelism.expert") > 1) return;  // layers of another library
  reading.draft().Assume("experts.implementation", "transformers", "transformers' own layers");
}

void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss) {
  if (reading.draft().Degree("parallelism.tensor") > 1) {
    reading.Omit(
        because_of,
        "all logits of a micro-batch are in memory at once, so the memory forecast is too high");
    return;
  }
  reading.Set("training.loss", std::string(loss), because_of);
}

void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout) {
  const auto columns = reading.Integer(rank);
  if (!columns) return;
  reading.Set("training.lora.rank", *columns, rank);
  const Setting* stated = reading.Stated(targets);
  std::vector<std::string> names;
  bool all = stated == nullptr;
  if (stated != nullptr) {
    names = stated->value.Words();
    all = !names.empty() && (names.front() == "all" || names.front() == "all-linear");
  }
  if (all || names.empty()) {
    names = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  }
  reading.Set("training.lora.targets", fmt::format("{}", fmt::join(names, " ")), targets);
  reading.SetNumber("training.lora.dropout", dropout);
}

}  // namespace stepcast::foreign

#include "src/scenario/plan_sections.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/data_parallel_settings.h"

namespace stepcast::scenario {
namespace {

// Generous: no machine is larger, and products of them stay inside 64 bits.
constexpr IntegerRange kRanks = {1, 10'000'000};
constexpr IntegerRange kSequences = {1, 1'000'000'000};
constexpr IntegerRange kTokens = {1, std::int64_t{1} << 20};
constexpr IntegerRange kElements = {0, 1'000'000'000'000'000};

// A key of a section. `read` sets what it stands for anew, from a mapping that may hold other keys,
// too.
struct SectionKey {
  std::string_view name;
  void (*read)(MappingReader& reader, plan::Request& request);
};

// The types that values are kept and reduced in; 8 bits are for computing only.
std::optional<DataType> ReadKeptType(MappingReader& reader, std::string_view key) {
  return reader.ReadWord<DataType>(
      key, Need::kOptional,
      {{"fp32", DataType::kFp32}, {"bf16", DataType::kBf16}, {"fp16", DataType::kFp16}});
}

std::optional<plan::Version> ToVersion(std::optional<std::pair<int, int>> numbers) {
  if (!numbers.has_value()) return std::nullopt;
  return plan::Version{numbers->first, numbers->second};
}

constexpr SectionKey kSoftwareKeys[] = {
    {"torch",
     [](MappingReader& reader, plan::Request& request) {
       request.torch = ToVersion(reader.ReadVersion("torch", Need::kOptional));
     }},
    {"nccl",
     [](MappingReader& reader, plan::Request& request) {
       request.nccl = ToVersion(reader.ReadVersion("nccl", Need::kOptional));
     }},
    {"expandable_segments",
     [](MappingReader& reader, plan::Request& request) {
       request.expandable_segments = reader.ReadBoolean("expandable_segments", Need::kOptional);
     }},
    {"driver",
     [](MappingReader& reader, plan::Request& request) {
       request.driver = ToVersion(reader.ReadVersion("driver", Need::kOptional));
     }},
};

// `checkpointed_blocks`: `all`, or a part such as 1/2.
void ReadShare(MappingReader& reader, plan::Request& request) {
  const auto text = reader.ReadText("checkpointed_blocks", Need::kOptional);
  if (!text) return;
  if (*text == "all") {
    request.checkpointed_blocks = model::Share();
    return;
  }
  constexpr std::int64_t kMost = 1000;
  model::Share share{0, 0};
  std::int64_t* number = &share.part;
  bool good = true;
  for (const char c : *text) {
    if (c == '/' && number == &share.part && share.part > 0) {
      number = &share.of;
    } else if (c >= '0' && c <= '9' && *number <= kMost) {
      *number = *number * 10 + (c - '0');
    } else {
      good = false;
    }
  }
  if (good && share.part >= 1 && share.part <= share.of && share.of <= kMost) {
    request.checkpointed_blocks = share;
    return;
  }
  reader.Report("checkpointed_blocks", "input.not-a-part",
                fmt::format("{} needs all, or a part such as 1/2: '{}'",
                            Quoted(reader.PathOf("checkpointed_blocks")), *text),
                "write all, or k/n with 1 <= k <= n <= 1000; 1/k is every k-th block");
}

// `gradient_clipping`: a norm, or the word `none`.
void ReadGradientClipping(MappingReader& reader, plan::Request& request, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("gradient_clipping", Need::kOptional, "a norm such as 1.0, or none");
  request.gradient_clipping.reset();
  if (!node.has_value()) return;
  if (node->kind() == NodeKind::kScalar && node->scalar() == "none") return;
  request.gradient_clipping = ReadDecimal(*node, {1e-6, 1e6}, diagnostics);
}

void ReadDataLoading(MappingReader& reader, plan::Request& request) {
  plan::DataLoading loading;
  loading.time = reader.ReadTime("time", Need::kRequired, Zero::kAllowed).value_or(Time());
  loading.workers =
      reader.ReadInteger("workers", Need::kOptional, {0, 4096}).value_or(loading.workers);
  loading.prefetch =
      reader.ReadInteger("prefetch", Need::kOptional, {1, 4096}).value_or(loading.prefetch);
  loading.pin_memory =
      reader.ReadBoolean("pin_memory", Need::kOptional).value_or(loading.pin_memory);
  loading.bytes = reader.ReadBytes("bytes", Need::kOptional, Zero::kAllowed);
  if (loading.workers == 0 && reader.Has("prefetch") && !reader.failed()) {
    // As torch.utils.data.DataLoader has it, whatever the number.
    reader.Report("prefetch", "plan.data-loading",
                  fmt::format("prefetch is {} and workers is 0: without workers nothing is made "
                              "ahead",
                              loading.prefetch),
                  "write workers: 1 or more, or leave prefetch out");
  }
  reader.Finish();
  if (!reader.failed()) request.data_loading = loading;
}

void ReadCheckpointSaving(MappingReader& reader, plan::Request& request) {
  const auto every = reader.ReadInteger("every", Need::kRequired, {1, 1'000'000'000});
  const auto mode = reader.ReadWord<plan::CheckpointMode>(
      "mode", Need::kOptional,
      {{"sync", plan::CheckpointMode::kSync}, {"async", plan::CheckpointMode::kAsync}});
  const auto bandwidth = reader.ReadBandwidth("bandwidth", Need::kRequired);
  reader.Finish();
  if (!every || !bandwidth || reader.failed()) return;
  request.checkpoint_saving = {
      .every = *every, .mode = mode.value_or(plan::CheckpointMode::kSync), .bandwidth = *bandwidth};
}

std::optional<Dispatch> ReadDispatch(MappingReader& reader) {
  const auto module = reader.ReadTime("module", Need::kRequired, Zero::kAllowed);
  const auto autograd = reader.ReadTime("autograd", Need::kRequired, Zero::kAllowed);
  reader.Finish();
  if (!module || !autograd) return std::nullopt;
  return Dispatch{.module = *module, .autograd = *autograd};
}

std::optional<model::Implementation> ReadImplementation(MappingReader& reader,
                                                        std::string_view key) {
  using model::Implementation;
  return reader.ReadWord<Implementation>(
      key, Need::kOptional,
      {{"eager", Implementation::kEager},
       {"fused", Implementation::kFused},
       {"compiled", Implementation::kCompiled},
       {"apex", Implementation::kApex},
       {"transformer_engine", Implementation::kTransformerEngine},
       {"huggingface", Implementation::kHuggingFace}});
}

constexpr SectionKey kTrainingKeys[] = {
    {"sequence_length",
     [](MappingReader& reader, plan::Request& request) {
       request.sequence_length = reader.ReadInteger("sequence_length", Need::kRequired, kTokens);
     }},
    {"micro_batch_size",
     [](MappingReader& reader, plan::Request& request) {
       request.micro_batch_size =
           reader.ReadInteger("micro_batch_size", Need::kRequired, kSequences);
     }},
    {"gradient_accumulation",
     [](MappingReader& reader, plan::Request& request) {
       request.gradient_accumulation =
           reader.ReadInteger("gradient_accumulation", Need::kOptional, kSequences);
     }},
    {"global_batch_size",
     [](MappingReader& reader, plan::Request& request) {
       request.global_batch_size =
           reader.ReadInteger("global_batch_size", Need::kOptional, kSequences);
       if (reader.node().kind() == NodeKind::kMapping && !reader.Has("gradient_accumulation") &&
           !reader.Has("global_batch_size")) {
         reader.Report(
             "gradient_accumulation", "input.missing-key",
             fmt::format("missing key: {} or {}", Quoted(reader.PathOf("gradient_accumulation")),
                         Quoted(reader.PathOf("global_batch_size"))),
             "add one of them with an integer; gbs = mbs x grad_acc x dp");
       }
     }},
    {"precision",
     [](MappingReader& reader, plan::Request& request) {
       request.precision = reader.ReadWord<DataType>("precision", Need::kRequired,
                                                     {{"bf16", DataType::kBf16},
                                                      {"fp16", DataType::kFp16},
                                                      {"fp32", DataType::kFp32},
                                                      {"tf32", DataType::kTf32},
                                                      {"fp8", DataType::kFp8}});
     }},
    {"parameter_dtype",
     [](MappingReader& reader, plan::Request& request) {
       request.parameter_dtype = ReadKeptType(reader, "parameter_dtype");
     }},
    {"gradient_dtype",
     [](MappingReader& reader, plan::Request& request) {
       request.gradient_dtype = ReadKeptType(reader, "gradient_dtype");
     }},
    {"reduce_dtype",
     [](MappingReader& reader, plan::Request& request) {
       request.reduce_dtype = ReadKeptType(reader, "reduce_dtype");
     }},
    {"optimizer",
     [](MappingReader& reader, plan::Request& request) {
       request.optimizer = reader.ReadWord<plan::Optimizer>(
           "optimizer", Need::kRequired,
           {{"adamw", plan::Optimizer::kAdamW}, {"sgd", plan::Optimizer::kSgd}});
     }},
    {"optimizer_implementation",
     [](MappingReader& reader, plan::Request& request) {
       request.optimizer_implementation = reader.ReadWord<plan::OptimizerImplementation>(
           "optimizer_implementation", Need::kOptional,
           {{"fused", plan::OptimizerImplementation::kFused},
            {"foreach", plan::OptimizerImplementation::kForeach},
            {"single", plan::OptimizerImplementation::kSingle}});
     }},
    {"activation_checkpointing",
     [](MappingReader& reader, plan::Request& request) {
       request.activation_checkpointing = reader.ReadWord<model::Checkpointing>(
           "activation_checkpointing", Need::kOptional,
           {{"none", model::Checkpointing::kNone},
            {"selective", model::Checkpointing::kSelective},
            {"selective_op", model::Checkpointing::kSelectiveOp},
            {"full", model::Checkpointing::kFull}});
     }},
    {"checkpointed_blocks",
     [](MappingReader& reader, plan::Request& request) { ReadShare(reader, request); }},
    {"activation_offload",
     [](MappingReader& reader, plan::Request& request) {
       request.activation_offload = reader.ReadBoolean("activation_offload", Need::kOptional);
     }},
    {"attention",
     [](MappingReader& reader, plan::Request& request) {
       request.attention =
           reader.ReadWord<model::Attention>("attention", Need::kOptional,
                                             {{"flash", model::Attention::kFlash},
                                              {"flash1", model::Attention::kFlash1},
                                              {"flash3", model::Attention::kFlash3},
                                              {"math", model::Attention::kMath},
                                              {"math_fp32", model::Attention::kMathFp32},
                                              {"fused_softmax", model::Attention::kFusedSoftmax}});
     }},
    {"checkpoint_early_stop",
     [](MappingReader& reader, plan::Request& request) {
       request.checkpoint_early_stop = reader.ReadBoolean("checkpoint_early_stop", Need::kOptional);
     }},
    {"compile",
     [](MappingReader& reader, plan::Request& request) {
       request.compile = reader.ReadBoolean("compile", Need::kOptional);
     }},
    {"loss",
     [](MappingReader& reader, plan::Request& request) {
       request.loss = reader.ReadWord<model::Loss>("loss", Need::kOptional,
                                                   {{"eager", model::Loss::kEager},
                                                    {"in_place", model::Loss::kInPlace},
                                                    {"fused", model::Loss::kFused}});
     }},
    {"host_waits",
     [](MappingReader& reader, plan::Request& request) {
       request.host_waits =
           reader.ReadWord<plan::HostWaits>("host_waits", Need::kOptional,
                                            {{"never", plan::HostWaits::kNever},
                                             {"step", plan::HostWaits::kStep},
                                             {"update", plan::HostWaits::kUpdate},
                                             {"micro_batch", plan::HostWaits::kMicroBatch},
                                             {"phase", plan::HostWaits::kPhase}});
     }},
    {"gradient_clipping",
     [](MappingReader& reader, plan::Request& request) {
       ReadGradientClipping(reader, request, reader.diagnostics());
     }},
    {"data_loading",
     [](MappingReader& reader, plan::Request& request) {
       if (auto loading = reader.ReadMapping("data_loading", Need::kOptional)) {
         ReadDataLoading(*loading, request);
       }
     }},
    {"checkpoint_saving",
     [](MappingReader& reader, plan::Request& request) {
       if (auto saving = reader.ReadMapping("checkpoint_saving", Need::kOptional)) {
         ReadCheckpointSaving(*saving, request);
       }
     }},
    {"norm", [](MappingReader& reader,
                plan::Request& request) { request.norm = ReadImplementation(reader, "norm"); }},
    {"rotary",
     [](MappingReader& reader, plan::Request& request) {
       request.rotary = ReadImplementation(reader, "rotary");
     }},
    {"activation_function",
     [](MappingReader& reader, plan::Request& request) {
       request.activation_function = ReadImplementation(reader, "activation_function");
     }},
    {"repeat_kv",
     [](MappingReader& reader, plan::Request& request) {
       request.repeat_kv = reader.ReadBoolean("repeat_kv", Need::kOptional);
     }},
    {"step_barrier",
     [](MappingReader& reader, plan::Request& request) {
       request.step_barrier = reader.ReadBoolean("step_barrier", Need::kOptional);
     }},
    {"dispatch",
     [](MappingReader& reader, plan::Request& request) {
       if (auto dispatch = reader.ReadMapping("dispatch", Need::kOptional)) {
         request.dispatch = ReadDispatch(*dispatch);
       }
     }},
};

// Smaller, so that the product of all five stays inside 64 bits.
constexpr IntegerRange kAxis = {1, 10'000};
constexpr SectionKey kParallelismKeys[] = {
    {"data",
     [](MappingReader& reader, plan::Request& request) {
       request.data = reader.ReadInteger("data", Need::kOptional, kRanks);
     }},
    {"tensor",
     [](MappingReader& reader, plan::Request& request) {
       request.tensor = reader.ReadInteger("tensor", Need::kOptional, kAxis);
     }},
    {"sequence_parallel",
     [](MappingReader& reader, plan::Request& request) {
       request.sequence_parallel = reader.ReadBoolean("sequence_parallel", Need::kOptional);
     }},
    {"pipeline",
     [](MappingReader& reader, plan::Request& request) {
       request.pipeline = reader.ReadInteger("pipeline", Need::kOptional, kAxis);
     }},
    {"schedule",
     [](MappingReader& reader, plan::Request& request) {
       const auto name = reader.ReadText("schedule", Need::kOptional);
       if (!name) return;
       if (parallel::FindSchedule(*name) == nullptr && !name->ends_with(".csv")) {
         reader.Report("schedule", "input.unknown-word",
                       fmt::format("{} must be one of {}: '{}'", Quoted(reader.PathOf("schedule")),
                                   parallel::NamesOfSchedules(), *name),
                       "or name a file of actions: mine.csv (stepcast schedule --print csv)");
         return;
       }
       request.schedule = *name;
     }},
    {"virtual_stages",
     [](MappingReader& reader, plan::Request& request) {
       request.virtual_stages = reader.ReadInteger("virtual_stages", Need::kOptional, {1, 64});
     }},
    {"stage_layers",
     [](MappingReader& reader, plan::Request& request) {
       const auto nodes = reader.ReadSequence("stage_layers", Need::kOptional);
       if (!nodes) return;
       std::vector<std::int64_t> layers;
       for (const Node& node : *nodes) {
         if (const auto count = ReadInteger(node, kAxis, reader.diagnostics())) {
           layers.push_back(*count);
         }
       }
       if (layers.size() == nodes->size()) request.stage_layers = std::move(layers);
     }},
    {"context",
     [](MappingReader& reader, plan::Request& request) {
       request.context = reader.ReadInteger("context", Need::kOptional, kAxis);
     }},
    {"expert",
     [](MappingReader& reader, plan::Request& request) {
       request.expert = reader.ReadInteger("expert", Need::kOptional, kAxis);
     }},
};

// `bucket_size`: a size, or the word `unit`.
void ReadBucketSize(MappingReader& reader, plan::Request& request, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("bucket_size", Need::kOptional, "a number of bytes, or unit");
  if (!node.has_value()) return;
  if (node->kind() == NodeKind::kScalar && node->scalar() == "unit") {
    request.bucket_size = plan::PerUnit{};
  } else if (const auto bytes = ReadBytes(*node, Zero::kAllowed, diagnostics)) {
    request.bucket_size = *bytes;
  }
}

// `reshard_after_forward`: true, false, or a number of ranks.
void ReadReshard(MappingReader& reader, plan::Request& request, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("reshard_after_forward", Need::kOptional, "true, false or a number of ranks");
  if (!node.has_value()) return;
  const bool number =
      node->kind() == NodeKind::kScalar && !node->scalar().empty() &&
      (node->scalar()[0] == '-' || (node->scalar()[0] >= '0' && node->scalar()[0] <= '9'));
  if (number) {
    if (const auto ranks = ReadInteger(*node, kRanks, diagnostics)) {
      request.reshard_after_forward = plan::ReshardAfterForward(*ranks);
    }
  } else if (const auto whether = ReadBoolean(*node, diagnostics)) {
    request.reshard_after_forward = plan::ReshardAfterForward(*whether);
  }
}

// DeepSpeed's own settings, by its own names.
void ReadDeepSpeedKey(const auto& setting, MappingReader& reader,
                      plan::DeepSpeedRequest& deepspeed) {
  auto& given = deepspeed.*setting.given;
  using Given = typename std::remove_reference_t<decltype(given)>::value_type;
  if constexpr (std::is_same_v<Given, bool>) {
    given = reader.ReadBoolean(setting.key, Need::kOptional);
  } else if constexpr (std::is_same_v<Given, plan::OffloadDevice>) {
    given = reader.ReadWord<plan::OffloadDevice>(setting.key, Need::kOptional,
                                                 {{"none", plan::OffloadDevice::kNone},
                                                  {"cpu", plan::OffloadDevice::kCpu},
                                                  {"nvme", plan::OffloadDevice::kNvme}});
  } else {
    given = reader.ReadInteger(setting.key, Need::kOptional, kElements);
  }
}

// Calls `visit` for each setting in turn.
template <typename Visit>
void ForEachDeepSpeedKey(Visit visit) {
  for (const auto& setting : plan::kDeepSpeedSizes) visit(setting);
  for (const auto& setting : plan::kDeepSpeedSwitches) visit(setting);
  for (const auto& setting : plan::kDeepSpeedOffload) visit(setting);
}

void ReadDeepSpeed(MappingReader& reader, plan::Request& request) {
  plan::DeepSpeedRequest& deepspeed = request.deepspeed.emplace();
  ForEachDeepSpeedKey([&](const auto& setting) { ReadDeepSpeedKey(setting, reader, deepspeed); });
  reader.Finish();
}

// The state of PyTorch's PowerSGD hook, by its own names.
void ReadPowerSgd(MappingReader& reader, plan::Request& request) {
  plan::PowerSgdRequest& powersgd = request.powersgd.emplace();
  powersgd.rank = reader.ReadInteger("matrix_approximation_rank", Need::kOptional, {1, 65'536});
  powersgd.start_iteration =
      reader.ReadInteger("start_powerSGD_iter", Need::kOptional, {0, 1'000'000'000});
  powersgd.min_compression_rate =
      reader.ReadDecimal("min_compression_rate", Need::kOptional, {0, 1e9});
  powersgd.error_feedback = reader.ReadBoolean("use_error_feedback", Need::kOptional);
  powersgd.warm_start = reader.ReadBoolean("warm_start", Need::kOptional);
  reader.Finish();
}

// A word of a list, by its position.
std::optional<std::size_t> ReadOneOf(std::span<const char* const> words, std::string_view key,
                                     Need need, MappingReader& reader) {
  const std::vector<std::string_view> texts(words.begin(), words.end());
  const std::optional<Node> node =
      reader.ReadNode(key, need, fmt::format("one of {}", fmt::join(texts, ", ")));
  return node ? ReadWordIndex(*node, texts, reader.diagnostics()) : std::nullopt;
}

void ReadFramework(MappingReader& reader, plan::Request& request) {
  std::vector<const char*> names;
  for (const plan::FrameworkTraits& traits : plan::kFrameworkTraits) names.push_back(traits.name);
  request.framework.reset();
  if (const auto word = ReadOneOf(names, "framework", Need::kRequired, reader)) {
    request.framework = plan::kFrameworks[*word];
  }
}

// Keys of data_parallel that are in every plan, and settings with a notation of their own.
constexpr SectionKey kDataParallelKeys[] = {
    {"zero_stage",
     [](MappingReader& reader, plan::Request& request) {
       if (const auto stage = reader.ReadInteger("zero_stage", Need::kRequired, {0, 3})) {
         request.zero_stage = static_cast<int>(*stage);
       }
     }},
    {"framework", ReadFramework},
    {"bucket_size",
     [](MappingReader& reader, plan::Request& request) {
       ReadBucketSize(reader, request, reader.diagnostics());
     }},
    {"first_bucket_size",
     [](MappingReader& reader, plan::Request& request) {
       request.first_bucket_size =
           reader.ReadBytes("first_bucket_size", Need::kOptional, Zero::kAllowed);
     }},
    {"reshard_after_forward",
     [](MappingReader& reader, plan::Request& request) {
       ReadReshard(reader, request, reader.diagnostics());
     }},
    {"powersgd",
     [](MappingReader& reader, plan::Request& request) {
       if (auto powersgd = reader.ReadMapping("powersgd", Need::kOptional)) {
         ReadPowerSgd(*powersgd, request);
       }
     }},
    {"deepspeed",
     [](MappingReader& reader, plan::Request& request) {
       if (auto deepspeed = reader.ReadMapping("deepspeed", Need::kOptional)) {
         ReadDeepSpeed(*deepspeed, request);
       }
     }},
};

const SectionKey* FindKey(std::span<const SectionKey> keys, std::string_view name) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const SectionKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

// A row of the table of settings.
void ReadSetting(const plan::DataParallelSetting& setting, MappingReader& reader,
                 plan::Request& request) {
  if (const auto* type = std::get_if<plan::SwitchSetting>(&setting.type)) {
    request.*type->given = reader.ReadBoolean(setting.key, Need::kOptional);
  } else if (const auto* count = std::get_if<plan::CountSetting>(&setting.type)) {
    request.*count->given =
        reader.ReadInteger(setting.key, Need::kOptional, {count->least, count->most});
  } else if (const auto* word = std::get_if<plan::WordSetting>(&setting.type)) {
    word->give(request, ReadOneOf(word->words, setting.key, Need::kOptional, reader));
  } else {
    const SectionKey* own = FindKey(kDataParallelKeys, setting.key);
    STEPCAST_CHECK(own != nullptr, "a notation of its own has a reader");
    own->read(reader, request);
  }
}

void ReadSection(std::span<const SectionKey> keys, MappingReader& reader, plan::Request& request) {
  for (const SectionKey& key : keys) key.read(reader, request);
  reader.Finish();
}

}  // namespace

void ReadSoftware(MappingReader& reader, plan::Request& request) {
  ReadSection(kSoftwareKeys, reader, request);
}
void ReadTraining(MappingReader& reader, plan::Request& request) {
  ReadSection(kTrainingKeys, reader, request);
}
void ReadParallelism(MappingReader& reader, plan::Request& request) {
  ReadSection(kParallelismKeys, reader, request);
}
void ReadDataParallel(MappingReader& reader, plan::Request& request) {
  for (const char* key : {"zero_stage", "framework"}) {
    FindKey(kDataParallelKeys, key)->read(reader, request);
  }
  for (const plan::DataParallelSetting& setting : plan::DataParallelSettings()) {
    ReadSetting(setting, reader, request);
  }
  reader.Finish();
}

ReadKey ReaderOf(std::string_view section, std::string_view key) {
  if (section == "data_parallel.deepspeed") {
    ReadKey read;
    ForEachDeepSpeedKey([&](const auto& setting) {
      if (setting.key != key) return;
      read = [&setting](MappingReader& reader, plan::Request& request) {
        if (!request.deepspeed) request.deepspeed.emplace();
        ReadDeepSpeedKey(setting, reader, *request.deepspeed);
      };
    });
    return read;
  }
  if (section == "data_parallel") {
    if (const plan::DataParallelSetting* setting = plan::FindDataParallelSetting(key)) {
      return [setting](MappingReader& reader, plan::Request& request) {
        ReadSetting(*setting, reader, request);
      };
    }
  }
  std::span<const SectionKey> keys;
  if (section == "software") keys = kSoftwareKeys;
  if (section == "training") keys = kTrainingKeys;
  if (section == "parallelism") keys = kParallelismKeys;
  if (section == "data_parallel") keys = kDataParallelKeys;
  const SectionKey* found = FindKey(keys, key);
  return found == nullptr ? ReadKey() : ReadKey(found->read);
}

}  // namespace stepcast::scenario

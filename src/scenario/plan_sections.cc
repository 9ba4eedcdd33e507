#include "src/scenario/plan_sections.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
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
#include "src/model/lora.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/settings.h"
#include "src/plan/withdrawn.h"

namespace stepcast::scenario {
namespace {

// Generous limits: no machine is larger, and their products fit in 64 bits.
constexpr IntegerRange kRanks = {1, 10'000'000};
constexpr IntegerRange kSequences = {1, 1'000'000'000};
constexpr IntegerRange kElements = {0, 1'000'000'000'000'000};

// Replaces the value of a key, from a mapping that may also have other keys.
using ReadFunction = void (*)(MappingReader& reader, std::string_view key, plan::Request& request);

// A key of a section.
struct SectionKey {
  std::string_view name;
  ReadFunction read;
};

template <auto member>
void ReadFlag(MappingReader& reader, std::string_view key, plan::Request& request) {
  request.*member = reader.ReadBoolean(key, Need::kOptional);
}

// A mapping, whose own keys `read` reads.
template <auto read>
void ReadBelow(MappingReader& reader, std::string_view key, plan::Request& request) {
  if (auto below = reader.ReadMapping(key, Need::kOptional)) read(*below, request);
}

constexpr SectionKey kSoftwareKeys[] = {
    {"torch",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.torch = reader.ReadVersion(key, Need::kOptional, "2.11");
     }},
    {"nccl",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.nccl = reader.ReadVersion(key, Need::kOptional, "2.27");
     }},
    {"expandable_segments", ReadFlag<&plan::Request::expandable_segments>},
    {"cuda_device_max_connections",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.cuda_device_max_connections = reader.ReadInteger(key, Need::kOptional, {1, 32});
     }},
    {"driver",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.driver = reader.ReadVersion(key, Need::kOptional, "550.0");
     }},
};

// A number in the text, from 1 to 1000.
std::optional<std::int64_t> Counted(std::string_view text) {
  constexpr std::int64_t kMost = 1000;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 1 && number <= kMost ? std::optional(number) : std::nullopt;
}

// `checkpointed_blocks`: `all`, a fraction such as 1/2, or "first 4".
void ReadShare(MappingReader& reader, std::string_view key, plan::Request& request) {
  constexpr std::string_view kFirst = "first ";
  const auto text = reader.ReadText(key, Need::kOptional);
  request.checkpointed_blocks.reset();
  if (!text) return;
  const std::string_view word = *text;
  if (word == "all") {
    request.checkpointed_blocks = model::Share();
  } else if (word.starts_with(kFirst)) {
    if (const auto first = Counted(word.substr(kFirst.size()))) {
      request.checkpointed_blocks = model::Share{1, 1, *first};
    }
  } else if (const std::size_t slash = word.find('/'); slash != std::string_view::npos) {
    const auto part = Counted(word.substr(0, slash));
    const auto of = Counted(word.substr(slash + 1));
    if (part && of && *part <= *of) request.checkpointed_blocks = model::Share{*part, *of};
  }
  if (request.checkpointed_blocks) return;
  reader.Report(key, "input.not-a-part",
                fmt::format("{} must be all or a fraction such as 1/2, not '{}'",
                            Quoted(reader.PathOf(key)), *text),
                "write all, first k, or k/n with 1 <= k <= n <= 1000, for example 1/2 for every "
                "second block");
}

void ReadRecomputedModules(MappingReader& reader, std::string_view key, plan::Request& request) {
  const auto words = reader.ReadWords(key, Need::kOptional);
  request.recompute_modules.reset();
  if (!words) return;
  model::RecomputedModules modules{.core_attn = false};
  for (const std::string& word : *words) {
    const auto* known = std::find_if(std::begin(model::kRecomputedModuleNames),
                                     std::end(model::kRecomputedModuleNames),
                                     [&](const auto& entry) { return word == entry.name; });
    if (known == std::end(model::kRecomputedModuleNames)) {
      reader.Report(
          key, "input.unknown-word",
          fmt::format("{} contains an unknown module for selective recomputation: {}",
                      Quoted(reader.PathOf(key)), Quoted(word)),
          "write one or more of core_attn mlp layernorm moe moe_act mla_up_proj, separated by one "
          "space, or as a list");
      return;
    }
    modules.*known->member = true;
  }
  request.recompute_modules = modules;
}

// `gradient_clipping`: a norm, or the word `none`.
void ReadGradientClipping(MappingReader& reader, std::string_view key, plan::Request& request) {
  const std::optional<Node> node =
      reader.ReadNode(key, Need::kOptional, "a maximum norm, such as 1.0, or the word none");
  request.gradient_clipping.reset();
  if (!node.has_value()) return;
  if (IsWord(*node, "none")) return;
  request.gradient_clipping = ReadDecimal(*node, {1e-6, 1e6}, reader.diagnostics());
}

void ReadDataLoading(MappingReader& reader, plan::Request& request) {
  plan::DataLoading loading;
  reader.Required("time", loading.time);
  reader.Optional("workers", loading.workers, {0, 4096});
  reader.Optional("prefetch", loading.prefetch, {1, 4096});
  reader.Optional("pin_memory", loading.pin_memory);
  reader.Optional("bytes", loading.bytes);
  if (loading.workers == 0 && reader.Has("prefetch") && !reader.failed()) {
    // As in torch.utils.data.DataLoader, with any number.
    reader.Report(
        "prefetch", "plan.data-loading",
        fmt::format("prefetch is {}, but workers is 0, so no process loads data in advance",
                    loading.prefetch),
        "write workers: 1 or more, or omit prefetch");
  }
  reader.Finish();
  if (!reader.failed()) request.data_loading = loading;
}

void ReadCheckpointSaving(MappingReader& reader, plan::Request& request) {
  plan::CheckpointSaving saving;
  reader.Required("every", saving.every, {1, 1'000'000'000});
  reader.Optional("mode", saving.mode, {plan::CheckpointMode::kSync, plan::CheckpointMode::kAsync});
  reader.Required("bandwidth", saving.bandwidth);
  reader.Finish();
  if (!reader.failed()) request.checkpoint_saving = saving;
}

void ReadLora(MappingReader& reader, plan::Request& request) {
  model::Lora lora;
  const auto rank = reader.ReadInteger("rank", Need::kRequired, {1, model::kMostRank});
  std::optional<std::vector<std::string>> targets;
  if (const auto node = reader.ReadNode("targets", Need::kRequired,
                                        "names of layers, such as q_proj v_proj; as an option: "
                                        "--set 'training.lora.targets=q_proj v_proj'")) {
    targets = ReadWords(*node, reader.diagnostics());
  }
  reader.Optional("dropout", lora.dropout, {0, 0.99});
  reader.Optional("all_to_all", lora.all_to_all);
  std::vector<std::string> names;
  for (const auto& known : model::kAdaptedLayerNames) names.emplace_back(known.name);
  for (const std::string& word : targets.value_or(std::vector<std::string>())) {
    const auto* known =
        std::find_if(std::begin(model::kAdaptedLayerNames), std::end(model::kAdaptedLayerNames),
                     [&](const auto& entry) { return word == entry.name; });
    if (known == std::end(model::kAdaptedLayerNames)) {
      reader.Report("targets", "input.unknown-word",
                    fmt::format("{} contains an unknown linear layer: {}",
                                Quoted(reader.PathOf("targets")), Quoted(word)),
                    fmt::format("write one or more of {}, separated by one space, or as a list",
                                fmt::join(names, " ")));
      continue;
    }
    lora.targets.*known->member = true;
  }
  reader.Finish();
  // Set even after mistakes, so that the other rules know that there are adapters.
  lora.rank = rank.value_or(0);
  if (lora.targets == model::AdaptedLayers()) lora.targets.linear_qkv = true;
  request.lora = lora;
}

// `histogram`: sample lengths in tokens, with weights, as in [[512, 70], [4096, 30]].
model::SampleLengths ReadHistogram(const std::vector<Node>& rows, MappingReader& reader) {
  constexpr std::size_t kMostLengths = 64;  // padded ones are forecasts each
  constexpr IntegerRange kTokens = {1, std::int64_t{1} << 24, 512};
  constexpr DecimalRange kWeights = {1e-9, 1e18};
  if (rows.empty() || rows.size() > kMostLengths) {
    reader.Report("histogram", "input.lengths",
                  fmt::format("{} needs 1 to {} lengths: {}", Quoted(reader.PathOf("histogram")),
                              kMostLengths, rows.size()),
                  "divide the lengths into groups, and write the longest length and the weight of "
                  "each group: [[512, 70], [4096, 30]]");
    return {};
  }
  model::SampleLengths histogram;
  for (const Node& row : rows) {
    const auto pair = ReadSequence(row, reader.diagnostics());
    if (!pair) continue;
    if (pair->size() != 2) {
      reader.diagnostics().push_back(
          {.code = "input.lengths",
           .location = row.location(),
           .message = fmt::format("{} needs two numbers, a number of tokens and a weight, but has "
                                  "{}",
                                  Quoted(row.path()), pair->size()),
           .hint = "for example, write [512, 70] if 70 samples, or 70 % of all samples, have 512 "
                   "tokens"});
      continue;
    }
    const auto tokens = ReadInteger((*pair)[0], kTokens, reader.diagnostics());
    const auto weight = ReadDecimal((*pair)[1], kWeights, reader.diagnostics());
    if (tokens && weight) histogram.push_back({*tokens, *weight});
  }
  std::sort(histogram.begin(), histogram.end());
  const auto twice =
      std::adjacent_find(histogram.begin(), histogram.end(),
                         [](const auto& a, const auto& b) { return a.tokens == b.tokens; });
  if (twice != histogram.end()) {
    reader.Report("histogram", "input.lengths",
                  fmt::format("{} contains a length twice: {}", Quoted(reader.PathOf("histogram")),
                              twice->tokens),
                  "keep one entry with this length, and add the weights of the entries");
  }
  return histogram;
}

void ReadLengths(MappingReader& reader, plan::Request& request) {
  plan::Lengths lengths;
  reader.Required("batching", lengths.batching,
                  {plan::Batching::kPacked, plan::Batching::kPadded, plan::Batching::kByLength});
  const bool known = !reader.failed();
  if (const auto rows = reader.ReadSequence("histogram", Need::kRequired)) {
    lengths.histogram = ReadHistogram(*rows, reader);
  }
  reader.Finish();
  if (known && !lengths.histogram.empty()) request.lengths = std::move(lengths);
}

void ReadDispatch(MappingReader& reader, plan::Request& request) {
  Dispatch dispatch;
  reader.Required("module", dispatch.module);
  reader.Required("autograd", dispatch.autograd);
  request.dispatch = reader.failed() ? std::nullopt : std::optional(dispatch);
  reader.Finish();
}

// Settings of `training` with a special notation.
constexpr SectionKey kTrainingKeys[] = {
    {"global_batch_size",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.global_batch_size = reader.ReadInteger(key, Need::kOptional, kSequences);
       if (reader.node().kind() == NodeKind::kMapping && !reader.Has("gradient_accumulation") &&
           !reader.Has(key)) {
         reader.Report(
             "gradient_accumulation", "input.missing-key",
             fmt::format("one of the keys {} and {} is missing",
                         Quoted(reader.PathOf("gradient_accumulation")),
                         Quoted(reader.PathOf("global_batch_size"))),
             "add one of the two keys, as an integer; global batch = micro-batch x accumulation x "
             "data-parallel ranks");
       }
     }},
    {"recompute_modules", ReadRecomputedModules},
    {"checkpointed_blocks", ReadShare},
    {"gradient_clipping", ReadGradientClipping},
    {"data_loading", ReadBelow<ReadDataLoading>},
    {"checkpoint_saving", ReadBelow<ReadCheckpointSaving>},
    {"lora", ReadBelow<ReadLora>},
    {"lengths",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.lengths.reset();
       ReadBelow<ReadLengths>(reader, key, request);
     }},
    {"frozen_dtype",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.frozen_dtype = reader.ReadWord<DataType>(
           key, Need::kOptional,
           {DataType::kFp32, DataType::kBf16, DataType::kFp16, DataType::kFp8});
     }},
    {"dispatch", ReadBelow<ReadDispatch>},
};

// The same for `experts`.
constexpr double kMostImbalance = 10'000;
constexpr SectionKey kExpertKeys[] = {
    {"imbalance",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.imbalance = reader.ReadDecimal(key, Need::kOptional, {1, kMostImbalance});
     }},
    {"capacity_factor",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.capacity_factor = reader.ReadDecimal(key, Need::kOptional, {0.01, kMostImbalance});
     }},
};

// The same for `parallelism`.
constexpr SectionKey kParallelismKeys[] = {
    {"schedule",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       const auto name = reader.ReadText(key, Need::kOptional);
       if (!name) return;
       if (parallel::FindSchedule(*name) == nullptr && !name->ends_with(".csv")) {
         reader.Report(key, "input.unknown-word",
                       fmt::format("{} must be one of {}: '{}'", Quoted(reader.PathOf(key)),
                                   parallel::NamesOfSchedules(), *name),
                       "write the name of a schedule, or the path of a file of actions such as "
                       "mine.csv; to create an example, run stepcast schedule --print csv");
         return;
       }
       request.schedule = *name;
     }},
    {"stage_layers",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       const auto given = reader.ReadNode(key, Need::kOptional, "a list, or a layout");
       if (!given) return;
       if (given->kind() == NodeKind::kScalar) {
         const auto layout = ReadText(*given, reader.diagnostics());
         if (!layout) return;
         auto blocks = ParseStageLayout(*layout);
         if (blocks) {
           request.stage_layers = *std::move(blocks);
         } else {
           reader.Report(key, "input.stage-layout",
                         fmt::format("the layout of stages is not valid, because {} (layout: {})",
                                     blocks.error(), Quoted(*layout)),
                         "write a list of blocks, [3, 3, 2, 0], or a layout: Ettt|ttt|tt|L");
         }
         return;
       }
       const auto nodes = ReadSequence(*given, reader.diagnostics());
       if (!nodes) return;
       std::vector<std::int64_t> layers;
       for (const Node& node : *nodes) {
         if (const auto count = ReadInteger(node, {0, 10'000}, reader.diagnostics())) {
           layers.push_back(*count);
         }
       }
       if (layers.size() == nodes->size()) request.stage_layers = std::move(layers);
     }},
};

// `bucket_size`: a size, or the word `unit`.
void ReadBucketSize(MappingReader& reader, std::string_view key, plan::Request& request) {
  const std::optional<Node> node =
      reader.ReadNode(key, Need::kOptional, "a number of bytes, or the word unit");
  if (!node.has_value()) return;
  if (IsWord(*node, "unit")) {
    request.bucket_size = plan::PerUnit{};
  } else if (const auto bytes = ReadBytes(*node, Zero::kAllowed, reader.diagnostics())) {
    request.bucket_size = *bytes;
  }
}

// `reshard_after_forward`: true, false, or a number of ranks.
void ReadReshard(MappingReader& reader, std::string_view key, plan::Request& request) {
  const std::optional<Node> node =
      reader.ReadNode(key, Need::kOptional, "true, false or a number of ranks");
  if (!node.has_value()) return;
  const bool number =
      node->kind() == NodeKind::kScalar && !node->scalar().empty() &&
      (node->scalar()[0] == '-' || (node->scalar()[0] >= '0' && node->scalar()[0] <= '9'));
  if (number) {
    if (const auto ranks = ReadInteger(*node, kRanks, reader.diagnostics())) {
      request.reshard_after_forward = plan::ReshardAfterForward(*ranks);
    }
  } else if (const auto whether = ReadBoolean(*node, reader.diagnostics())) {
    request.reshard_after_forward = plan::ReshardAfterForward(*whether);
  }
}

// A number of elements, also in the notation of DeepSpeed's files: 5e8.
std::optional<std::int64_t> ReadElements(const char* key, MappingReader& reader) {
  const std::optional<Node> node = reader.ReadNode(key, Need::kOptional, "a number of elements");
  if (!node) return std::nullopt;
  if (node->kind() == NodeKind::kScalar && node->scalar() == "auto") {
    reader.Report(
        key, "input.auto",
        fmt::format(
            "{} is 'auto': Hugging Face computes the value from the model, but stepcast does not",
            Quoted(reader.PathOf(key))),
        "remove the key to use the default of DeepSpeed, or let stepcast compute the value: "
        "stepcast init FILE.json");
    return std::nullopt;
  }
  const bool exponent = node->kind() == NodeKind::kScalar && !node->quoted() &&
                        node->scalar().find_first_of("eE") != std::string::npos;
  if (!exponent) return ReadInteger(*node, kElements, reader.diagnostics());
  const auto number = ReadDecimal(*node, {.least = 0, .most = 1e15}, reader.diagnostics());
  if (!number) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(*number));
}

// DeepSpeed's settings, with its names.
void ReadDeepSpeedKey(const auto& setting, MappingReader& reader,
                      plan::DeepSpeedRequest& deepspeed) {
  auto& given = deepspeed.*setting.given;
  using Given = typename std::remove_reference_t<decltype(given)>::value_type;
  if constexpr (std::is_same_v<Given, bool>) {
    given = reader.ReadBoolean(setting.key, Need::kOptional);
  } else if constexpr (std::is_same_v<Given, plan::OffloadDevice>) {
    given = reader.ReadWord<Given>(setting.key, Need::kOptional,
                                   {Given::kNone, Given::kCpu, Given::kNvme});
  } else {
    given = ReadElements(setting.key, reader);
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

// The settings of PyTorch's PowerSGD hook, with its names.
void ReadPowerSgd(MappingReader& reader, plan::Request& request) {
  plan::PowerSgdRequest& powersgd = request.powersgd.emplace();
  reader.Optional("matrix_approximation_rank", powersgd.rank, {1, 65'536});
  reader.Optional("start_powerSGD_iter", powersgd.start_iteration, {0, 1'000'000'000});
  reader.Optional("min_compression_rate", powersgd.min_compression_rate, {0, 1e9});
  reader.Optional("use_error_feedback", powersgd.error_feedback);
  reader.Optional("warm_start", powersgd.warm_start);
  reader.Finish();
}

// Whether the key or its value was removed from the format; if so, reports it.
bool RefuseWithdrawn(std::string_view key, MappingReader& reader) {
  if (!reader.Has(key)) return false;
  const Node node = *reader.ReadNode(key, Need::kOptional, "");
  for (const plan::Withdrawn& withdrawn : plan::kWithdrawn) {
    const bool scalar = node.kind() == NodeKind::kScalar;
    if (withdrawn.path != reader.PathOf(key)) continue;
    if (!withdrawn.word.empty() && !(scalar && node.scalar() == withdrawn.word)) continue;
    reader.Report(key, "plan.no-longer-modelled",
                  fmt::format("this version of stepcast does not support {}: {}", withdrawn.what,
                              node.Described()),
                  withdrawn.hint);
    return true;
  }
  return false;
}

// The index of a word in a list.
std::optional<std::size_t> ReadOneOf(const std::vector<std::string_view>& words,
                                     std::string_view key, Need need, MappingReader& reader) {
  return RefuseWithdrawn(key, reader) ? std::nullopt : reader.ReadOneOf(key, need, words);
}

void ReadFramework(MappingReader& reader, std::string_view key, plan::Request& request) {
  std::vector<std::string_view> names;
  for (const plan::FrameworkTraits& traits : plan::kFrameworkTraits) names.push_back(traits.name);
  request.framework.reset();
  if (const auto word = ReadOneOf(names, key, Need::kRequired, reader)) {
    request.framework = plan::kFrameworks[*word];
  }
}

// Keys of data_parallel that every plan has, and settings with a special notation.
constexpr SectionKey kDataParallelKeys[] = {
    {"zero_stage",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       if (const auto stage = reader.ReadInteger(key, Need::kRequired, {0, 3})) {
         request.zero_stage = static_cast<int>(*stage);
       }
     }},
    {"framework", ReadFramework},
    {"bucket_size", ReadBucketSize},
    {"first_bucket_size",
     [](MappingReader& reader, std::string_view key, plan::Request& request) {
       request.first_bucket_size = reader.ReadBytes(key, Need::kOptional, Zero::kAllowed);
     }},
    {"reshard_after_forward", ReadReshard},
    {"powersgd", ReadBelow<ReadPowerSgd>},
    {"deepspeed", ReadBelow<ReadDeepSpeed>},
};

const SectionKey* FindKey(std::span<const SectionKey> keys, std::string_view name) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const SectionKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

// Reads a row of a settings table. `own`: readers of special notations.
template <typename Given, typename Kept>
void ReadSetting(const plan::Setting<Given, Kept>& setting, std::span<const SectionKey> own,
                 MappingReader& reader, plan::Request& request) {
  const Need need = setting.required ? Need::kRequired : Need::kOptional;
  if (const auto* type = std::get_if<plan::SwitchSetting<Given, Kept>>(&setting.type)) {
    request.*type->given = reader.ReadBoolean(setting.key, need);
  } else if (const auto* count = std::get_if<plan::CountSetting<Given, Kept>>(&setting.type)) {
    request.*count->given =
        reader.ReadInteger(setting.key, need, {count->least, count->most, count->example});
  } else if (const auto* word = std::get_if<plan::WordSetting<Given, Kept>>(&setting.type)) {
    word->give(request, ReadOneOf(word->words, setting.key, need, reader));
  } else {
    const SectionKey* notation = FindKey(own, setting.key);
    STEPCAST_CHECK(notation != nullptr, "every setting with its own notation must have a reader");
    notation->read(reader, setting.key, request);
  }
}

void ReadSettings(const auto& settings, std::span<const SectionKey> own, MappingReader& reader,
                  plan::Request& request) {
  for (const auto& setting : settings) ReadSetting(setting, own, reader, request);
}

// Empty if the table has no such row.
ReadKey ReaderOfSetting(const auto& settings, std::string_view key,
                        std::span<const SectionKey> own) {
  const auto* setting = plan::FindSetting(settings, key);
  if (setting == nullptr) return {};
  return [setting, own](MappingReader& reader, plan::Request& request) {
    ReadSetting(*setting, own, reader, request);
  };
}

void ReadSection(std::span<const SectionKey> keys, MappingReader& reader, plan::Request& request) {
  for (const SectionKey& key : keys) key.read(reader, key.name, request);
}

}  // namespace

void ReadSoftware(MappingReader& reader, plan::Request& request) {
  ReadSection(kSoftwareKeys, reader, request);
}
void ReadTraining(MappingReader& reader, plan::Request& request) {
  ReadSettings(plan::TrainingSettings(), kTrainingKeys, reader, request);
}
void ReadParallelism(MappingReader& reader, plan::Request& request) {
  ReadSettings(plan::ParallelismSettings(), kParallelismKeys, reader, request);
  RefuseWithdrawn("vocabulary", reader);
}
void ReadExperts(MappingReader& reader, plan::Request& request) {
  ReadSettings(plan::MixtureSettings(), kExpertKeys, reader, request);
}
void ReadDataParallel(MappingReader& reader, plan::Request& request) {
  for (const char* key : {"zero_stage", "framework"}) {
    FindKey(kDataParallelKeys, key)->read(reader, key, request);
  }
  ReadSettings(plan::DataParallelSettings(), kDataParallelKeys, reader, request);
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
  if (section == "training") return ReaderOfSetting(plan::TrainingSettings(), key, kTrainingKeys);
  if (section == "parallelism") {
    return ReaderOfSetting(plan::ParallelismSettings(), key, kParallelismKeys);
  }
  if (section == "experts") return ReaderOfSetting(plan::MixtureSettings(), key, kExpertKeys);
  if (section == "data_parallel") {
    ReadKey read = ReaderOfSetting(plan::DataParallelSettings(), key, kDataParallelKeys);
    if (read) return read;
  }
  std::span<const SectionKey> keys;
  if (section == "software") keys = kSoftwareKeys;
  if (section == "data_parallel") keys = kDataParallelKeys;
  const SectionKey* found = FindKey(keys, key);
  if (found == nullptr) return {};
  return [found](MappingReader& reader, plan::Request& request) {
    found->read(reader, found->name, request);
  };
}

}  // namespace stepcast::scenario

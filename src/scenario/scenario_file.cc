#include "src/scenario/scenario_file.h"

#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

constexpr std::int64_t kFormatVersion = 1;

// Generous: no machine is larger, and products of them stay inside 64 bits.
constexpr IntegerRange kRanks = {1, 10'000'000};
constexpr IntegerRange kSequences = {1, 1'000'000'000};
constexpr IntegerRange kTokens = {1, std::int64_t{1} << 20};
constexpr IntegerRange kUnits = {0, 1'000'000};
constexpr IntegerRange kElements = {0, 1'000'000'000'000'000};

// The types that values are kept and reduced in; 8 bits are for computing only.
std::optional<DataType> ReadKeptType(MappingReader& reader, std::string_view key) {
  return reader.ReadWord<DataType>(
      key, Need::kOptional,
      {{"fp32", DataType::kFp32}, {"bf16", DataType::kBf16}, {"fp16", DataType::kFp16}});
}

void ReadFormatVersion(MappingReader& reader, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("stepcast", Need::kRequired, "the version of the format, 1");
  if (!node.has_value()) return;
  const auto version = ReadInteger(*node, {0, 1'000'000}, diagnostics);
  if (version.has_value() && *version != kFormatVersion) {
    reader.Report("stepcast", "scenario.version",
                  fmt::format("this program reads version {} of the scenario format, not {}",
                              kFormatVersion, *version),
                  fmt::format("write stepcast: {}", kFormatVersion));
  }
}

// A path, or the mapping that could stand in that file.
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
                "name a file, or write the mapping in its place");
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

void ReadCluster(MappingReader& reader, ScenarioFile& file, Diagnostics& diagnostics) {
  file.topology = ReadSource(reader, "topology", Need::kRequired, diagnostics);
  file.nodes = reader.ReadInteger("nodes", Need::kOptional, {1, 100'000});
  file.algorithm = reader.ReadWord<CollectiveAlgorithm>("collective_algorithm", Need::kOptional,
                                                        {{"auto", CollectiveAlgorithm::kAuto},
                                                         {"ring", CollectiveAlgorithm::kRing},
                                                         {"tree", CollectiveAlgorithm::kTree}});
  file.network = reader.ReadWord<Fidelity>("network", Need::kOptional,
                                           {{"analytic", Fidelity::kAnalytic},
                                            {"flow", Fidelity::kFlow},
                                            {"message", Fidelity::kMessage}});
  if (const auto links = reader.ReadSequence("slow_links", Need::kOptional)) {
    for (const Node& node : *links) ReadSlowLink(node, file, diagnostics);
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

std::optional<plan::Version> ToVersion(std::optional<std::pair<int, int>> numbers) {
  if (!numbers.has_value()) return std::nullopt;
  return plan::Version{numbers->first, numbers->second};
}

void ReadSoftware(MappingReader& reader, plan::Request& request) {
  request.torch = ToVersion(reader.ReadVersion("torch", Need::kOptional));
  request.nccl = ToVersion(reader.ReadVersion("nccl", Need::kOptional));
  request.expandable_segments = reader.ReadBoolean("expandable_segments", Need::kOptional);
  request.driver = ToVersion(reader.ReadVersion("driver", Need::kOptional));
  reader.Finish();
}

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

void ReadTraining(MappingReader& reader, plan::Request& request, Diagnostics& diagnostics) {
  request.sequence_length = reader.ReadInteger("sequence_length", Need::kRequired, kTokens);
  request.micro_batch_size = reader.ReadInteger("micro_batch_size", Need::kRequired, kSequences);
  request.gradient_accumulation =
      reader.ReadInteger("gradient_accumulation", Need::kOptional, kSequences);
  request.global_batch_size = reader.ReadInteger("global_batch_size", Need::kOptional, kSequences);
  if (reader.node().kind() == NodeKind::kMapping && !reader.Has("gradient_accumulation") &&
      !reader.Has("global_batch_size")) {
    reader.Report(
        "gradient_accumulation", "input.missing-key",
        fmt::format("missing key: {} or {}", Quoted(reader.PathOf("gradient_accumulation")),
                    Quoted(reader.PathOf("global_batch_size"))),
        "add one of them with an integer; gbs = mbs x grad_acc x dp");
  }
  request.precision = reader.ReadWord<DataType>("precision", Need::kRequired,
                                                {{"bf16", DataType::kBf16},
                                                 {"fp16", DataType::kFp16},
                                                 {"fp32", DataType::kFp32},
                                                 {"tf32", DataType::kTf32},
                                                 {"fp8", DataType::kFp8}});
  request.parameter_dtype = ReadKeptType(reader, "parameter_dtype");
  request.gradient_dtype = ReadKeptType(reader, "gradient_dtype");
  request.reduce_dtype = ReadKeptType(reader, "reduce_dtype");
  request.optimizer = reader.ReadWord<plan::Optimizer>(
      "optimizer", Need::kRequired,
      {{"adamw", plan::Optimizer::kAdamW}, {"sgd", plan::Optimizer::kSgd}});
  request.optimizer_implementation = reader.ReadWord<plan::OptimizerImplementation>(
      "optimizer_implementation", Need::kOptional,
      {{"fused", plan::OptimizerImplementation::kFused},
       {"foreach", plan::OptimizerImplementation::kForeach},
       {"single", plan::OptimizerImplementation::kSingle}});
  request.activation_checkpointing =
      reader.ReadWord<model::Checkpointing>("activation_checkpointing", Need::kOptional,
                                            {{"none", model::Checkpointing::kNone},
                                             {"selective", model::Checkpointing::kSelective},
                                             {"selective_op", model::Checkpointing::kSelectiveOp},
                                             {"full", model::Checkpointing::kFull}});
  ReadShare(reader, request);
  request.activation_offload = reader.ReadBoolean("activation_offload", Need::kOptional);
  request.attention =
      reader.ReadWord<model::Attention>("attention", Need::kOptional,
                                        {{"flash", model::Attention::kFlash},
                                         {"flash1", model::Attention::kFlash1},
                                         {"flash3", model::Attention::kFlash3},
                                         {"math", model::Attention::kMath},
                                         {"fused_softmax", model::Attention::kFusedSoftmax}});
  request.checkpoint_early_stop = reader.ReadBoolean("checkpoint_early_stop", Need::kOptional);
  request.compile = reader.ReadBoolean("compile", Need::kOptional);
  request.loss = reader.ReadWord<model::Loss>("loss", Need::kOptional,
                                              {{"eager", model::Loss::kEager},
                                               {"in_place", model::Loss::kInPlace},
                                               {"fused", model::Loss::kFused}});
  request.host_waits =
      reader.ReadWord<plan::HostWaits>("host_waits", Need::kOptional,
                                       {{"never", plan::HostWaits::kNever},
                                        {"step", plan::HostWaits::kStep},
                                        {"update", plan::HostWaits::kUpdate},
                                        {"micro_batch", plan::HostWaits::kMicroBatch},
                                        {"phase", plan::HostWaits::kPhase}});
  ReadGradientClipping(reader, request, diagnostics);
  if (auto loading = reader.ReadMapping("data_loading", Need::kOptional)) {
    ReadDataLoading(*loading, request);
  }
  if (auto saving = reader.ReadMapping("checkpoint_saving", Need::kOptional)) {
    ReadCheckpointSaving(*saving, request);
  }
  request.staged_norm_sums = reader.ReadBoolean("staged_norm_sums", Need::kOptional);
  request.step_barrier = reader.ReadBoolean("step_barrier", Need::kOptional);
  if (auto dispatch = reader.ReadMapping("dispatch", Need::kOptional)) {
    request.dispatch = ReadDispatch(*dispatch);
  }
  reader.Finish();
}

void ReadParallelism(MappingReader& reader, plan::Request& request) {
  request.data = reader.ReadInteger("data", Need::kOptional, kRanks);
  // Smaller, so that the product of all five stays inside 64 bits.
  constexpr IntegerRange kAxis = {1, 10'000};
  request.tensor = reader.ReadInteger("tensor", Need::kOptional, kAxis);
  request.pipeline = reader.ReadInteger("pipeline", Need::kOptional, kAxis);
  request.context = reader.ReadInteger("context", Need::kOptional, kAxis);
  request.expert = reader.ReadInteger("expert", Need::kOptional, kAxis);
  reader.Finish();
}

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
void ReadDeepSpeed(MappingReader& reader, plan::Request& request) {
  plan::DeepSpeedRequest& deepspeed = request.deepspeed.emplace();
  for (const auto& setting : plan::kDeepSpeedSizes) {
    deepspeed.*setting.given = reader.ReadInteger(setting.key, Need::kOptional, kElements);
  }
  for (const auto& setting : plan::kDeepSpeedSwitches) {
    deepspeed.*setting.given = reader.ReadBoolean(setting.key, Need::kOptional);
  }
  for (const auto& setting : plan::kDeepSpeedOffload) {
    deepspeed.*setting.given =
        reader.ReadWord<plan::OffloadDevice>(setting.key, Need::kOptional,
                                             {{"none", plan::OffloadDevice::kNone},
                                              {"cpu", plan::OffloadDevice::kCpu},
                                              {"nvme", plan::OffloadDevice::kNvme}});
  }
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

void ReadDataParallel(MappingReader& reader, plan::Request& request, Diagnostics& diagnostics) {
  if (const auto stage = reader.ReadInteger("zero_stage", Need::kRequired, {0, 3})) {
    request.zero_stage = static_cast<int>(*stage);
  }
  request.framework =
      reader.ReadWord<plan::Framework>("framework", Need::kRequired,
                                       {{"reference", plan::Framework::kReference},
                                        {"ddp", plan::Framework::kDdp},
                                        {"fsdp1", plan::Framework::kFsdp1},
                                        {"fsdp2", plan::Framework::kFsdp2},
                                        {"deepspeed", plan::Framework::kDeepSpeed},
                                        {"megatron", plan::Framework::kMegatron},
                                        {"internevo", plan::Framework::kInternEvo}});
  request.overlap = reader.ReadBoolean("overlap", Need::kOptional);
  ReadBucketSize(reader, request, diagnostics);
  request.first_bucket_size =
      reader.ReadBytes("first_bucket_size", Need::kOptional, Zero::kAllowed);
  request.prefetch = reader.ReadInteger("prefetch", Need::kOptional, kUnits);
  ReadReshard(reader, request, diagnostics);
  request.accumulate_unsharded = reader.ReadBoolean("accumulate_unsharded", Need::kOptional);
  request.shard_group_size = reader.ReadInteger("shard_group_size", Need::kOptional, kRanks);
  request.overlap_param_gather = reader.ReadBoolean("overlap_param_gather", Need::kOptional);
  request.gradient_as_bucket_view = reader.ReadBoolean("gradient_as_bucket_view", Need::kOptional);
  request.find_unused_parameters = reader.ReadBoolean("find_unused_parameters", Need::kOptional);
  request.units = reader.ReadWord<plan::WrappedUnits>(
      "units", Need::kOptional,
      {{"block", plan::WrappedUnits::kBlock}, {"layer", plan::WrappedUnits::kLayer}});
  request.comm_hook =
      reader.ReadWord<plan::CommHook>("comm_hook", Need::kOptional,
                                      {{"none", plan::CommHook::kNone},
                                       {"fp16_compress", plan::CommHook::kFp16Compress},
                                       {"bf16_compress", plan::CommHook::kBf16Compress},
                                       {"powerSGD", plan::CommHook::kPowerSgd}});
  if (auto powersgd = reader.ReadMapping("powersgd", Need::kOptional)) {
    ReadPowerSgd(*powersgd, request);
  }
  request.backward_prefetch =
      reader.ReadWord<plan::BackwardPrefetch>("backward_prefetch", Need::kOptional,
                                              {{"pre", plan::BackwardPrefetch::kPre},
                                               {"post", plan::BackwardPrefetch::kPost},
                                               {"none", plan::BackwardPrefetch::kNone}});
  request.forward_prefetch = reader.ReadBoolean("forward_prefetch", Need::kOptional);
  request.limit_all_gathers = reader.ReadBoolean("limit_all_gathers", Need::kOptional);
  request.use_orig_params = reader.ReadBoolean("use_orig_params", Need::kOptional);
  if (auto deepspeed = reader.ReadMapping("deepspeed", Need::kOptional)) {
    ReadDeepSpeed(*deepspeed, request);
  }
  reader.Finish();
}

}  // namespace

ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics) {
  ScenarioFile file;
  MappingReader reader(root, diagnostics);
  ReadFormatVersion(reader, diagnostics);
  file.name = reader.ReadText("name", Need::kOptional);
  file.model = ReadSource(reader, "model", Need::kRequired, diagnostics);
  if (auto cluster = reader.ReadMapping("cluster", Need::kRequired)) {
    ReadCluster(*cluster, file, diagnostics);
  }
  file.calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  if (auto software = reader.ReadMapping("software", Need::kOptional)) {
    ReadSoftware(*software, file.request);
  }
  if (auto communication = reader.ReadMapping("communication", Need::kOptional)) {
    ReadCommunication(*communication, file, diagnostics);
  }
  if (auto training = reader.ReadMapping("training", Need::kRequired)) {
    ReadTraining(*training, file.request, diagnostics);
  }
  if (auto parallelism = reader.ReadMapping("parallelism", Need::kOptional)) {
    ReadParallelism(*parallelism, file.request);
  }
  if (auto data_parallel = reader.ReadMapping("data_parallel", Need::kRequired)) {
    ReadDataParallel(*data_parallel, file.request, diagnostics);
  }
  reader.Finish();
  return file;
}

}  // namespace stepcast::scenario

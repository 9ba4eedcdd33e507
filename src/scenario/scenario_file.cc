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
  reader.Finish();
}

std::optional<Dispatch> ReadDispatch(MappingReader& reader) {
  const auto module = reader.ReadTime("module", Need::kRequired, Zero::kAllowed);
  const auto autograd = reader.ReadTime("autograd", Need::kRequired, Zero::kAllowed);
  reader.Finish();
  if (!module || !autograd) return std::nullopt;
  return Dispatch{.module = *module, .autograd = *autograd};
}

void ReadTraining(MappingReader& reader, plan::Request& request) {
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
       {"foreach", plan::OptimizerImplementation::kForeach}});
  request.activation_checkpointing =
      reader.ReadWord<model::Checkpointing>("activation_checkpointing", Need::kOptional,
                                            {{"none", model::Checkpointing::kNone},
                                             {"selective", model::Checkpointing::kSelective},
                                             {"selective_op", model::Checkpointing::kSelectiveOp},
                                             {"full", model::Checkpointing::kFull}});
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
  request.staged_norm_sums = reader.ReadBoolean("staged_norm_sums", Need::kOptional);
  request.step_barrier = reader.ReadBoolean("step_barrier", Need::kOptional);
  request.phase_timers = reader.ReadBoolean("phase_timers", Need::kOptional);
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
    ReadTraining(*training, file.request);
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

#include "src/plan/legality.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/training_settings.h"

namespace stepcast::plan {
namespace {

class Checker {
 public:
  Checker(const Request& request, const Facts& facts) : request_(request), facts_(facts) {}

  std::vector<Violation> Run() {
    CheckVersions();
    CheckSequence();
    CheckPrecision();
    CheckAxes();
    CheckDevices();
    CheckBatch();
    CheckFramework();
    CheckLoop();
    CheckKeys("training", TrainingSettings());
    CheckKeys("data_parallel", DataParallelSettings());
    CheckBuckets();
    CheckShards();
    CheckReshard();
    CheckCommHook();
    CheckHostWork();
    return std::move(violations_);
  }

 private:
  void Add(std::string key, std::string code, std::string message, std::string hint) {
    violations_.push_back({std::move(key), std::move(code), std::move(message), std::move(hint)});
  }

  bool Is(Framework framework) const { return request_.framework == framework; }

  void CheckVersion(const char* name, std::optional<Version> version, Version oldest,
                    Version newest) {
    if (!version || (*version >= oldest && *version <= newest)) return;
    Add(fmt::format("software.{}", name), "plan.version-not-modelled",
        fmt::format("the rules of {} are known from {}.{} to {}.{}, not for {}.{}", name,
                    oldest.major, oldest.minor, newest.major, newest.minor, version->major,
                    version->minor),
        "name the nearest version in that range");
  }

  void CheckVersions() {
    CheckVersion("torch", request_.torch, kOldestTorch, kNewestTorch);
    CheckVersion("nccl", request_.nccl, kOldestNccl, kNewestNccl);
    CheckVersion("driver", request_.driver, kOldestDriver, {kNewestDriver.major, 999});
    // FullyShardedDataParallel left its prototype in PyTorch 1.12. PyTorch 2.4 is the first release
    // that lists fully_shard per parameter (as a prototype).
    if (Is(Framework::kFsdp1)) CheckFirstVersion(Framework::kFsdp1, {1, 12});
    if (Is(Framework::kFsdp2)) CheckFirstVersion(Framework::kFsdp2, {2, 4});
    if (Is(Framework::kFsdp1)) CheckFsdp1Settings();
  }

  bool IsOlderThan(Version version) const {
    return request_.torch && *request_.torch >= kOldestTorch && *request_.torch < version;
  }

  void CheckFirstVersion(Framework framework, Version first) {
    if (!IsOlderThan(first)) return;
    Add("software.torch", "plan.version-without-framework",
        fmt::format("{} came with torch {}.{}, not yet in {}.{}", plan::Name(framework),
                    first.major, first.minor, request_.torch->major, request_.torch->minor),
        fmt::format("name torch {}.{} or later, or another framework", first.major, first.minor));
  }

  // torch/distributed/fsdp/fully_sharded_data_parallel.py of each release.
  void CheckFsdp1Settings() {
    const auto check = [&](bool used, const char* setting, Version first) {
      if (!used || !IsOlderThan(first) || IsOlderThan({1, 12})) return;
      Add(fmt::format("data_parallel.{}", setting), "plan.version-without-setting",
          fmt::format("{} of fsdp1 came with torch {}.{}, not yet in {}.{}", setting, first.major,
                      first.minor, request_.torch->major, request_.torch->minor),
          fmt::format("name torch {}.{} or later, or leave it out", first.major, first.minor));
    };
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    check(data && request_.shard_group_size && *request_.shard_group_size < *data,
          "shard_group_size", {2, 0});
    check(request_.forward_prefetch.value_or(false), "forward_prefetch", {1, 13});
    check(request_.limit_all_gathers.value_or(false), "limit_all_gathers", {1, 13});
    check(request_.use_orig_params.value_or(false), "use_orig_params", {2, 0});
  }

  void CheckSequence() {
    if (!request_.sequence_length) return;
    const std::int64_t sequence = *request_.sequence_length;
    if (facts_.max_positions && *facts_.max_positions > 0 && sequence > *facts_.max_positions) {
      Add("training.sequence_length", "plan.sequence-too-long",
          fmt::format("the model has {} positions, sequence_length is {}", *facts_.max_positions,
                      sequence),
          fmt::format("use at most {}", *facts_.max_positions));
    }
    const std::int64_t micro_batch = request_.micro_batch_size.value_or(1);
    const char* key = micro_batch > 1 ? "training.micro_batch_size" : "training.sequence_length";
    if (micro_batch > kMostTokens / sequence) {
      Add(key, "plan.too-many-tokens",
          fmt::format("a micro-batch of {} x {} tokens is more than {}", micro_batch, sequence,
                      kMostTokens),
          "use a smaller micro_batch_size or sequence_length");
    } else if (micro_batch * sequence > kMostTokenPairs / sequence) {
      Add(key, "plan.too-many-tokens",
          fmt::format("attention over {} x {} x {} pairs of tokens is more than {}", micro_batch,
                      sequence, sequence, kMostTokenPairs),
          "use a smaller micro_batch_size or sequence_length");
    }
  }

  void CheckPrecision() {
    if (!request_.precision || facts_.computes[static_cast<std::size_t>(*request_.precision)]) {
      return;
    }
    Add("training.precision", "plan.precision-not-of-device",
        fmt::format("{} does not compute in {}", facts_.device, Name(*request_.precision)),
        "choose a precision whose peak the GPU's data sheet states");
  }

  void CheckAxes() {
    const std::pair<const char*, std::optional<std::int64_t>> axes[] = {
        {"context", request_.context}, {"expert", request_.expert}};
    for (const auto& [axis, degree] : axes) {
      if (degree.value_or(1) <= 1) continue;
      axes_supported_ = false;
      Add(fmt::format("parallelism.{}", axis), "plan.axis-not-supported",
          fmt::format("the {} axis is not supported yet: {}", axis, *degree),
          "leave it at 1; the data, tensor and pipeline axes are supported");
    }
    if (request_.tensor.value_or(1) > 1) CheckTensor(*request_.tensor);
    if (request_.pipeline.value_or(1) > 1) CheckPipeline(*request_.pipeline);
  }

  void CheckTensor(std::int64_t ranks) {
    if (request_.framework && !TraitsOf(*request_.framework).tensor_parallel) {
      Add("parallelism.tensor", "plan.axis-not-of-framework",
          fmt::format("tensor parallelism of {} is not supported: {}",
                      plan::Name(*request_.framework), ranks),
          "leave it at 1, or write framework: megatron, fsdp2 or reference");
    }
    for (const auto& [name, extent] : facts_.divided) {
      if (extent % ranks == 0) continue;
      Add("parallelism.tensor", "plan.tensor-division",
          fmt::format("the model's {} of {} does not divide among {} ranks", name, extent, ranks),
          "choose a divisor");
    }
    if (request_.sequence_parallel.value_or(false) && request_.sequence_length &&
        *request_.sequence_length % ranks != 0) {
      Add("training.sequence_length", "plan.tensor-division",
          fmt::format("{} tokens do not divide among {} ranks with sequence parallelism",
                      *request_.sequence_length, ranks),
          "choose a multiple of parallelism.tensor, or write sequence_parallel: false");
    }
  }

  void CheckPipeline(std::int64_t stages) {
    if (request_.framework && !TraitsOf(*request_.framework).pipelines) {
      Add("parallelism.pipeline", "plan.axis-not-of-framework",
          fmt::format("pipelines of {} are not supported yet: {}", plan::Name(*request_.framework),
                      stages),
          "leave it at 1, or write framework: megatron or reference");
    }
    const RequestedSchedule schedule = ScheduleOf(request_);
    if (schedule.named != nullptr) CheckNamedSchedule(*schedule.named, schedule.virtual_stages);
    if (request_.listed_schedule != nullptr) CheckListedSchedule(schedule.virtual_stages);
    CheckWithSchedule(schedule);
    CheckStageLayers(stages * schedule.virtual_stages);
    if (facts_.tied_embeddings && Is(Framework::kReference) &&
        request_.zero_stage.value_or(0) >= 2) {
      Add("data_parallel.zero_stage", "plan.tied-across-stages",
          fmt::format("the first and the last stage share the embedding, whose gradients are added "
                      "up whole; at zero_stage {} no rank has them whole",
                      *request_.zero_stage),
          "write zero_stage: 0 or 1, or train a model whose embeddings are not tied");
    }
    if (request_.reshard_after_forward &&
        std::holds_alternative<std::int64_t>(*request_.reshard_after_forward)) {
      Add("data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
          fmt::format("in a pipeline several micro-batches' parts would be kept, and "
                      "reshard_after_forward is {}",
                      std::get<std::int64_t>(*request_.reshard_after_forward)),
          "write true or false, or parallelism.pipeline: 1");
    }
    if (request_.activation_offload.value_or(false)) {
      Add("training.activation_offload", "plan.axis-not-supported-with",
          "activations of pipelines are not offloaded yet, and activation_offload is true",
          "write activation_offload: false, or parallelism.pipeline: 1");
    }
  }

  void CheckNamedSchedule(const parallel::NamedSchedule& named, std::int64_t virtual_stages) {
    if (named.chunks == 1 && virtual_stages > 1) {
      Add("parallelism.virtual_stages", "plan.schedule",
          fmt::format("{} has one chunk of layers a stage, and virtual_stages is {}", named.name,
                      virtual_stages),
          "write schedule: interleaved_1f1b, or virtual_stages: 1");
    } else if (named.chunks > 1 && virtual_stages != named.chunks) {
      Add("parallelism.virtual_stages", "plan.schedule",
          fmt::format("{} has {} chunks of layers a stage, and virtual_stages is {}", named.name,
                      named.chunks, virtual_stages),
          "leave virtual_stages out");
    }
    if (named.two_copies) {
      Add("parallelism.schedule", "plan.schedule",
          fmt::format("{} trains two copies of the model, which is drawn and not simulated",
                      named.name),
          "write schedule: dualpipe_v, which is the same with one copy");
      return;
    }
    const auto stages = static_cast<int>(*request_.pipeline);
    if (!Batches() || *Batches() < 1 || *Batches() > kMostMicroBatches) return;
    const auto mistake =
        named.MistakeOf({stages, static_cast<int>(*Batches()), static_cast<int>(virtual_stages)});
    if (!mistake) return;
    const bool of_stages = mistake->number == parallel::ShapeMistake::Number::kStages;
    Add(of_stages ? "parallelism.pipeline" : "training.gradient_accumulation", "plan.schedule",
        fmt::format("{} {}", named.name, mistake->sentence), mistake->hint);
  }

  void CheckListedSchedule(std::int64_t virtual_stages) {
    const parallel::PipelineSchedule& listed = *request_.listed_schedule;
    const auto refuse = [&](std::string message, std::string hint) {
      Add("parallelism.schedule", "plan.schedule", std::move(message), std::move(hint));
    };
    const auto stages = static_cast<std::int64_t>(listed.stages.size());
    if (stages != *request_.pipeline) {
      refuse(fmt::format("{} has {} rows, and pipeline is {}", *request_.schedule, stages,
                         *request_.pipeline),
             "a schedule has a row for each stage");
      return;
    }
    if (Batches() && listed.micro_batches != *Batches()) {
      refuse(fmt::format("{} has {} micro-batches, and a step {}", *request_.schedule,
                         listed.micro_batches, *Batches()),
             fmt::format("write training.gradient_accumulation: {}", listed.micro_batches));
    }
    for (std::size_t stage = 0; stage < listed.stages.size(); ++stage) {
      const auto chunks = static_cast<std::int64_t>(listed.stages[stage].chunks.size());
      if (chunks != virtual_stages || parallel::Chunks(listed) != stages * virtual_stages) {
        refuse(fmt::format("stage {} of {} holds {} chunks of {}, and every stage holds as many, "
                           "each chunk on one stage",
                           stage, *request_.schedule, chunks, parallel::Chunks(listed)),
               fmt::format("{} stages with {} chunks each have {}", stages, virtual_stages,
                           stages * virtual_stages));
        return;
      }
      for (const parallel::ScheduleEntry& entry : listed.stages[stage].entries) {
        if (!parallel::ActionsOf(entry).empty()) continue;
        refuse(fmt::format("{} says when parameters are gathered, freed or reduced",
                           *request_.schedule),
               "leave UNSHARD, RESHARD and REDUCE_GRAD out: the framework's rules say when");
        return;
      }
    }
    if (const auto mistake = parallel::MessageOutOfOrder(listed)) {
      refuse(fmt::format("{}: {}", *request_.schedule, mistake->sentence),
             "messages arrive in the order in which they are sent: bring the stages' micro-batches "
             "into one order");
    }
  }

  // What goes with a schedule, and what does not.
  void CheckWithSchedule(const RequestedSchedule& schedule) {
    const bool standard =
        schedule.name == (request_.virtual_stages.value_or(1) > 1 ? "interleaved_1f1b" : "1f1b");
    if (Is(Framework::kMegatron) && (!standard || request_.listed_schedule != nullptr)) {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("megatron runs 1f1b, or with virtual_stages interleaved_1f1b, and schedule "
                      "is {}",
                      schedule.name),
          "leave it out, or write framework: reference");
    }
    const bool splits = schedule.named != nullptr
                            ? schedule.named->splits_backward
                            : request_.listed_schedule != nullptr &&
                                  parallel::SplitsBackward(*request_.listed_schedule);
    if (Is(Framework::kReference) && request_.zero_stage.value_or(0) >= 2) {
      if (schedule.virtual_stages > 1) {
        Add("parallelism.virtual_stages", "plan.axis-not-supported-with",
            fmt::format("virtual stages go with zero_stage 0 and 1, and it is {}",
                        *request_.zero_stage),
            "write virtual_stages: 1, or zero_stage: 1");
      } else if (splits) {
        Add("parallelism.schedule", "plan.axis-not-supported-with",
            fmt::format("a backward in two passes goes with zero_stage 0 and 1, and it is {}",
                        *request_.zero_stage),
            "write schedule: 1f1b, or zero_stage: 1");
      }
    }
    const model::Checkpointing checkpointing =
        request_.activation_checkpointing.value_or(model::Checkpointing::kNone);
    if (splits && checkpointing != model::Checkpointing::kNone) {
      Add("training.activation_checkpointing", "plan.axis-not-supported-with",
          fmt::format("{} parts backward into gradients of inputs and of weights, and what is "
                      "recomputed runs as a whole: {}",
                      schedule.name, model::Name(checkpointing)),
          "write activation_checkpointing: none, or schedule: 1f1b");
    }
  }

  // Micro-batches of a step, where they are known.
  std::optional<std::int64_t> Batches() const {
    if (request_.gradient_accumulation) return request_.gradient_accumulation;
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.global_batch_size || !request_.micro_batch_size || !data) return std::nullopt;
    return *request_.global_batch_size / (*request_.micro_batch_size * *data);
  }

  void CheckStageLayers(std::int64_t stages) {
    if (request_.stage_layers) {
      const std::vector<std::int64_t>& layers = *request_.stage_layers;
      if (static_cast<std::int64_t>(layers.size()) != stages) {
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format("stage_layers has {} entries, and {} are needed: pipeline x virtual_stages",
                        layers.size(), stages),
            "give the number of blocks of each stage, or of each chunk in the order of the layers");
        return;
      }
      const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
      if (facts_.blocks && sum != *facts_.blocks) {
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format("stage_layers adds up to {}, and the model has {} blocks", sum,
                        *facts_.blocks),
            "the stages' blocks are all of the model's; embedding and head come with the first "
            "and the last");
      }
      return;
    }
    if (!facts_.blocks || *facts_.blocks % stages == 0) return;
    if (*facts_.blocks < stages) {
      Add("parallelism.pipeline", "plan.stage-layers",
          fmt::format("the model has {} blocks, fewer than pipeline: {}", *facts_.blocks, stages),
          fmt::format("use at most {} stages", *facts_.blocks));
      return;
    }
    Add("parallelism.pipeline", "plan.stage-layers",
        fmt::format("{} blocks do not divide into {} equal stages", *facts_.blocks, stages),
        "choose a divisor, or say how many each stage has: stage_layers: [...]");
  }

  // data x tensor x pipeline x context x expert = devices.
  void CheckDevices() {
    if (!axes_supported_ || !facts_.devices) return;
    const std::int64_t replica = request_.ranks_per_replica();
    if (!request_.data) {
      if (*facts_.devices % replica == 0) return;
      Add("parallelism.pipeline", "plan.device-count",
          fmt::format("the cluster's {} devices do not divide into tensor {} x pipeline {}",
                      *facts_.devices, request_.tensor.value_or(1), request_.pipeline.value_or(1)),
          "choose divisors of the number of devices, or change the cluster");
      return;
    }
    if (*request_.data * replica == *facts_.devices) return;
    Add("parallelism.data", "plan.device-count",
        fmt::format("data {} x tensor {} x pipeline {} x context {} x expert {} = {} ranks, but "
                    "the cluster has {} devices",
                    *request_.data, request_.tensor.value_or(1), request_.pipeline.value_or(1),
                    request_.context.value_or(1), request_.expert.value_or(1),
                    *request_.data * replica, *facts_.devices),
        *facts_.devices % replica == 0
            ? fmt::format("write data: {}, or leave it out (--set parallelism.data=null)",
                          *facts_.devices / replica)
            : fmt::format("choose degrees whose product divides {}", *facts_.devices));
  }

  // gbs = mbs x grad_acc x dp.
  void CheckBatch() {
    if (request_.gradient_accumulation && request_.global_batch_size) {
      Add("training.global_batch_size", "plan.batch",
          fmt::format("gradient_accumulation {} and global_batch_size {} are both given",
                      *request_.gradient_accumulation, *request_.global_batch_size),
          "keep one of them; the other follows from gbs = mbs x grad_acc x dp");
      return;
    }
    if (request_.gradient_accumulation) {
      CheckMicroBatches("training.gradient_accumulation", *request_.gradient_accumulation);
      return;
    }
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.global_batch_size || !request_.micro_batch_size || !data || !axes_supported_) {
      return;
    }
    const std::int64_t global = *request_.global_batch_size;
    const std::int64_t each = *request_.micro_batch_size * *data;
    if (global % each == 0) {
      CheckMicroBatches("training.global_batch_size", global / each);
      return;
    }
    const std::int64_t below = global / each * each;
    Add("training.global_batch_size", "plan.batch",
        fmt::format("global_batch_size {} is not a multiple of micro_batch_size {} x data {} = {}",
                    global, *request_.micro_batch_size, *data, each),
        below > 0 ? fmt::format("the nearest are {} and {}", below, below + each)
                  : fmt::format("the smallest is {}", each));
  }

  void CheckMicroBatches(const char* key, std::int64_t count) {
    if (count > kMostMicroBatches) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("a step of {} micro-batches is more than {}", count, kMostMicroBatches),
          "use a larger micro_batch_size or a smaller batch");
    } else if (facts_.layers && count > kMostLayerPasses / *facts_.layers) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("a step of {} micro-batches through {} layers is more than {}", count,
                      *facts_.layers, kMostLayerPasses),
          "use a larger micro_batch_size, a smaller batch or fewer layers");
    } else if (facts_.tensors && *facts_.tensors > 0 &&
               count > kMostTensorPasses / *facts_.tensors) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("a step of {} micro-batches through {} parameter tensors is more than {}",
                      count, *facts_.tensors, kMostTensorPasses),
          "use a larger micro_batch_size, a smaller batch or fewer tensors");
    }
  }

  void CheckFramework() {
    if (!request_.framework) return;
    const char* name = plan::Name(*request_.framework);
    CheckStage(name);
    switch (*request_.framework) {
      case Framework::kDdp:
      case Framework::kInternEvo:
        CheckReducedTypes(name);
        return;
      case Framework::kMegatron:
        CheckMegatron();
        return;
      case Framework::kDeepSpeed:
        CheckDeepSpeedTypes();
        CheckDeepSpeedSettings();
        return;
      case Framework::kNanotron:
        CheckNanotronTypes();
        return;
      case Framework::kReference:
      case Framework::kFsdp1:
      case Framework::kFsdp2:
        return;
    }
  }

  void CheckStage(const char* name) {
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    const int stage = request_.zero_stage.value_or(traits.first_stage);
    if (stage >= traits.first_stage && stage <= traits.last_stage) return;
    Add("data_parallel.zero_stage", "plan.stage-not-of-framework",
        fmt::format("{} {}, not zero_stage {}", name, traits.stages, stage),
        fmt::format("write {}", traits.other_stage));
  }

  void CheckLoop() {
    if (request_.framework && !TraitsOf(*request_.framework).of_pytorch &&
        request_.optimizer_implementation == OptimizerImplementation::kSingle) {
      Add("training.optimizer_implementation", "plan.optimizer-not-of-framework",
          fmt::format("{} does not update tensor by tensor, and optimizer_implementation is single",
                      plan::Name(*request_.framework)),
          "write fused or foreach, or framework: ddp, fsdp1 or fsdp2");
    }
    CheckRecomputation();
    if (request_.activation_offload.value_or(false) && facts_.host_memory && !*facts_.host_memory) {
      Add("training.activation_offload", "plan.no-host-memory",
          "activation_offload is true, and the cluster's topology does not say what memory its "
          "hosts have",
          "add node.host with memory and memory_bandwidth to the topology");
    }
    if (request_.unit_blocks.value_or(1) > 1 && request_.units == WrappedUnits::kModel) {
      Add("data_parallel.unit_blocks", "plan.units",
          fmt::format("with units: model there is one unit, and unit_blocks is {}",
                      *request_.unit_blocks),
          "leave unit_blocks out, or write units: block");
    }
    if (request_.cpu_offload.value_or(false)) CheckCpuOffload();
    const bool offloads = request_.optimizer_cpu_offload.value_or(false);
    if (offloads) {
      CheckHostMemory("optimizer_cpu_offload");
      CheckOtherAxes("optimizer_cpu_offload");
    }
    if (request_.overlap_cpu_optimizer_d2h_h2d.value_or(false) && !offloads) {
      Add("data_parallel.overlap_cpu_optimizer_d2h_h2d", "plan.cpu-offload",
          "overlap_cpu_optimizer_d2h_h2d is true, and optimizer_cpu_offload is false",
          "write optimizer_cpu_offload: true, or leave it out");
    }
    if (request_.expandable_segments.value_or(false) && request_.framework &&
        TraitsOf(*request_.framework).textbook) {
      Add("software.expandable_segments", "plan.no-allocator",
          "reference has no caching allocator, and expandable_segments is true",
          "leave expandable_segments out, or choose the framework that runs");
    }
  }

  void CheckRecomputation() {
    const model::Checkpointing checkpointing =
        request_.activation_checkpointing.value_or(model::Checkpointing::kNone);
    const model::Share blocks = request_.checkpointed_blocks.value_or(model::Share());
    if (!blocks.all() && checkpointing == model::Checkpointing::kNone) {
      Add("training.checkpointed_blocks", "plan.no-checkpoints",
          fmt::format("nothing is recomputed, and checkpointed_blocks is {}", model::Text(blocks)),
          "write activation_checkpointing: full, selective or selective_op, or leave it out");
    }
    if (request_.recompute_modules && checkpointing != model::Checkpointing::kSelective) {
      Add("training.recompute_modules", "plan.no-checkpoints",
          fmt::format("recompute_modules is '{}', and activation_checkpointing is {}",
                      model::Text(*request_.recompute_modules), model::Name(checkpointing)),
          "write activation_checkpointing: selective, or leave it out");
    }
    if (request_.checkpoint_segment.value_or(1) > 1) CheckSegments(checkpointing, blocks);
  }

  // The blocks between a segment's first and its last are made again as a whole.
  void CheckSegments(model::Checkpointing checkpointing, const model::Share& blocks) {
    const auto refuse = [&](const char* code, std::string_view rule, const char* hint) {
      Add("training.checkpoint_segment", code,
          fmt::format("{}, and checkpoint_segment is {}", rule, *request_.checkpoint_segment),
          hint);
    };
    if (checkpointing != model::Checkpointing::kFull) {
      refuse("plan.no-checkpoints",
             fmt::format("activation_checkpointing is {}", model::Name(checkpointing)),
             "segments of blocks are for activation_checkpointing: full; leave it out");
    }
    if (!blocks.all()) {
      refuse("plan.segments", fmt::format("checkpointed_blocks is {}", model::Text(blocks)),
             "write checkpointed_blocks: all, or checkpoint_segment: 1");
    }
    if (request_.checkpoint_early_stop.value_or(false)) {
      refuse("plan.segments",
             "recomputation that ends early is modelled for single blocks, "
             "checkpoint_early_stop is true",
             "write checkpoint_early_stop: false, as reentrant checkpoints have it");
    }
    if (request_.activation_offload.value_or(false)) {
      refuse("plan.segments",
             "offloading is modelled for blocks that keep something each, activation_offload is "
             "true",
             "write activation_offload: false, or checkpoint_segment: 1");
    }
    if (request_.framework && request_.zero_stage.value_or(0) == 3) {
      refuse("plan.segments", "parameters are gathered for a block at a time, zero_stage is 3",
             "write zero_stage: 0, 1 or 2, or checkpoint_segment: 1");
    }
  }

  void CheckHostMemory(const char* key) {
    if (facts_.host_memory.value_or(true)) return;
    Add(fmt::format("data_parallel.{}", key), "plan.no-host-memory",
        fmt::format(
            "{} is true, and the cluster's topology does not say what memory its hosts have", key),
        "add node.host with memory and memory_bandwidth to the topology");
  }

  // What ranks of other axes have in the node's memory is not modelled.
  void CheckOtherAxes(const char* key) {
    if (request_.ranks_per_replica() == 1) return;
    Add(fmt::format("data_parallel.{}", key), "plan.axis-not-supported-with",
        fmt::format("{} goes with data parallelism alone, and a replica has {} ranks", key,
                    request_.ranks_per_replica()),
        fmt::format("leave the other axes at 1, or write {}: false", key));
  }

  void CheckCpuOffload() {
    CheckHostMemory("cpu_offload");
    CheckOtherAxes("cpu_offload");
    if (request_.gradient_clipping) {
      Add("training.gradient_clipping", "plan.cpu-offload",
          fmt::format("clipping on the host is not modelled: cpu_offload is true and "
                      "gradient_clipping is {}",
                      *request_.gradient_clipping),
          "write gradient_clipping: none, or cpu_offload: false");
    }
    // torch/distributed/fsdp/fully_sharded_data_parallel.py, the docstring's list of limitations.
    if (Is(Framework::kFsdp1) && request_.gradient_accumulation.value_or(1) > 1 &&
        !request_.accumulate_unsharded.value_or(false)) {
      Add("data_parallel.cpu_offload", "plan.cpu-offload",
          fmt::format("fsdp1 adds gradients up on the device alone (no_sync) where they are "
                      "offloaded, and gradient_accumulation is {}",
                      *request_.gradient_accumulation),
          "write accumulate_unsharded: true, or gradient_accumulation: 1");
    }
  }

  void CheckMegatron() {
    CheckMegatronTypes();
    if (request_.overlap_param_gather_with_optimizer_step.value_or(false)) CheckGatherInUpdate();
    if (request_.overlap_param_gather.value_or(false) && !request_.overlap.value_or(true)) {
      Add("data_parallel.overlap_param_gather", "plan.overlap",
          "megatron gathers parameters in the next forward only where gradients are reduced "
          "during backward, overlap is false and overlap_param_gather is true",
          "write overlap: true, or overlap_param_gather: false");
    }
  }

  // megatron/training/arguments.py.
  void CheckGatherInUpdate() {
    const auto refuse = [&](const char* rule, const char* hint) {
      Add("data_parallel.overlap_param_gather_with_optimizer_step", "plan.overlap",
          fmt::format("{}, and overlap_param_gather_with_optimizer_step is true", rule), hint);
    };
    if (request_.virtual_stages.value_or(1) == 1) {
      refuse("the first virtual stage is updated before the others, virtual_stages is 1",
             "write virtual_stages: 2 or more, or leave it out");
    }
    if (!request_.overlap_param_gather.value_or(request_.overlap.value_or(true))) {
      refuse("overlap_param_gather is false", "write overlap_param_gather: true, or leave it out");
    }
    if (request_.optimizer_cpu_offload.value_or(false)) {
      refuse("the host updates all parameters, optimizer_cpu_offload is true",
             "write optimizer_cpu_offload: false, or leave it out");
    }
  }

  // Parameters in the type of the computation, no autocast; main gradients are reduced as they are.
  void CheckMegatronTypes() {
    if (!request_.precision) return;
    const DataType kept = ComputeType(*request_.precision);
    if (request_.parameter_dtype && *request_.parameter_dtype != kept) {
      Add("training.parameter_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron keeps parameters in the type that it computes in, {}, and "
                      "parameter_dtype is {}",
                      Name(kept), Name(*request_.parameter_dtype)),
          fmt::format("write parameter_dtype: {}, or leave it out", Name(kept)));
    }
    if (request_.gradient_dtype && *request_.gradient_dtype != kept &&
        *request_.gradient_dtype != DataType::kFp32) {
      Add("training.gradient_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron's main gradients are fp32 or of the parameters' type, {}, and "
                      "gradient_dtype is {}",
                      Name(kept), Name(*request_.gradient_dtype)),
          fmt::format("write gradient_dtype: fp32 or {}", Name(kept)));
    }
    const DataType gradient =
        request_.gradient_dtype.value_or(kept == DataType::kBf16 ? DataType::kFp32 : kept);
    if (request_.reduce_dtype && *request_.reduce_dtype != gradient) {
      Add("training.reduce_dtype", "plan.dtype-not-of-framework",
          fmt::format("megatron reduces its main gradients as they are, gradient_dtype is {} and "
                      "reduce_dtype is {}",
                      Name(gradient), Name(*request_.reduce_dtype)),
          fmt::format("write reduce_dtype: {}, or leave it out", Name(gradient)));
    }
  }

  // FP32GradientAccumulator (nanotron/optim/gradient_accumulator.py) refuses parameters in FP32,
  // and adds up and reduces in FP32. Without it (accumulate_grad_in_fp32: false) the optimizer's
  // states would have the parameters' 16 bits, which is not modelled.
  void CheckNanotronTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    if (SizeOf(computes) > 2) {
      Add("training.precision", "plan.dtype-not-of-framework",
          fmt::format("nanotron's gradient accumulator takes parameters of 16 bits, and precision "
                      "is {}",
                      Name(*request_.precision)),
          "write precision: bf16, or framework: ddp or megatron");
      return;
    }
    const auto check = [&](const char* key, std::optional<DataType> given, DataType own,
                           const char* rule) {
      if (!given || *given == own) return;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("nanotron {} in {}, and {} is {}", rule, Name(own), key, Name(*given)),
          fmt::format("write {}: {}, or leave it out", key, Name(own)));
    };
    check("parameter_dtype", request_.parameter_dtype, computes, "keeps parameters");
    check("gradient_dtype", request_.gradient_dtype, DataType::kFp32, "adds gradients up");
    check("reduce_dtype", request_.reduce_dtype, DataType::kFp32, "reduces gradients");
  }

  // These frameworks reduce what they computed; what DDP's communication hooks send is their
  // affair.
  void CheckReducedTypes(std::string_view name) {
    std::optional<DataType> parameters = request_.parameter_dtype;
    if (!parameters && request_.precision) parameters = ComputeType(*request_.precision);
    if (!parameters) return;
    const std::pair<const char*, std::optional<DataType>> types[] = {
        {"gradient_dtype", request_.gradient_dtype}, {"reduce_dtype", request_.reduce_dtype}};
    for (const auto& [key, type] : types) {
      if (!type || *type == *parameters) continue;
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("{} reduces gradients in the parameters' type, parameter_dtype is {} and {} "
                      "is {}",
                      name, Name(*parameters), key, Name(*type)),
          fmt::format("write {}: {}, or leave it out", key, Name(*parameters)));
    }
  }

  void CheckDeepSpeedSettings() {
    if (!request_.deepspeed) return;
    const DeepSpeedRequest& deepspeed = *request_.deepspeed;
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (const auto ranks = deepspeed.hpz_partition_size) {
      if (*ranks < 1 || (data && *data % *ranks != 0)) {
        Add("data_parallel.deepspeed.zero_hpz_partition_size", "plan.shard-group",
            fmt::format("zero_hpz_partition_size {} does not divide data {}", *ranks,
                        data.value_or(1)),
            "use a divisor of the data axis, such as the GPUs of a node");
      }
    }
    if (deepspeed.quantized_gradients.value_or(false) && !deepspeed.reduce_scatter.value_or(true)) {
      Add("data_parallel.deepspeed.zero_quantized_gradients", "plan.quantized-gradients",
          "zero_quantized_gradients is true and reduce_scatter is false",
          "leave reduce_scatter out: quantised gradients are exchanged instead of all-reduced");
    }
    for (const auto& setting : kDeepSpeedOffload) {
      const auto device = deepspeed.*setting.given;
      if (!device || *device == OffloadDevice::kNone) continue;
      const std::string key = fmt::format("data_parallel.deepspeed.{}", setting.key);
      const std::string what = fmt::format("{} is {}", setting.key, Name(*device));
      if (request_.zero_stage && !setting.HasEffect(*request_.zero_stage)) {
        Add(key, "plan.offload-stage",
            fmt::format("{}, and zero_stage is {}", what, *request_.zero_stage),
            fmt::format("write zero_stage: {}, or leave {} out", 3, setting.key));
      } else if (*device == OffloadDevice::kNvme && request_.zero_stage.value_or(3) != 3) {
        Add(key, "plan.offload-stage",
            fmt::format("{}, and zero_stage is {}", what, *request_.zero_stage),
            "only stage 3 has a way to NVMe; write cpu");
      }
      if (facts_.host_memory && !*facts_.host_memory) {
        Add(key, "plan.no-host-memory",
            fmt::format("{}, and the cluster's topology does not say what memory its hosts have",
                        what),
            "add node.host with memory and memory_bandwidth to the topology");
      } else if (*device == OffloadDevice::kNvme && facts_.nvme && !*facts_.nvme) {
        Add(key, "plan.no-nvme",
            fmt::format("{}, and the cluster's topology does not describe NVMe drives", what),
            "add node.host.nvme with capacity, read and write to the topology, or write cpu");
      }
    }
  }

  // DeepSpeed computes in the type that it keeps, and accumulates in that or, at stages 1 and 3, in
  // FP32 (deepspeed/runtime/zero/stage_1_and_2.py: what stage 2 adds up are the gradients
  // themselves).
  void CheckDeepSpeedTypes() {
    if (!request_.precision) return;
    const DataType computes = ComputeType(*request_.precision);
    const auto refuse = [&](const char* key, DataType type, std::string_view rule,
                            std::string_view allowed) {
      Add(fmt::format("training.{}", key), "plan.dtype-not-of-framework",
          fmt::format("deepspeed {}, {} is {}", rule, key, Name(type)),
          fmt::format("write {}: {}, or leave it out", key, allowed));
    };
    if (request_.parameter_dtype && *request_.parameter_dtype != computes) {
      refuse("parameter_dtype", *request_.parameter_dtype,
             fmt::format("keeps parameters in the type that it computes in, {}", Name(computes)),
             Name(computes));
    }
    if (!request_.gradient_dtype || *request_.gradient_dtype == computes) return;
    if (request_.zero_stage == 0 || request_.zero_stage == 2) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             fmt::format("adds gradients up in the parameters' type at stages 0 and 2, {}",
                         Name(computes)),
             Name(computes));
    } else if (*request_.gradient_dtype != DataType::kFp32) {
      refuse("gradient_dtype", *request_.gradient_dtype,
             "adds gradients up in the parameters' type or in fp32", "fp32");
    }
  }

  void CheckKeys(std::string_view section, const auto& settings) {
    if (!request_.framework) return;
    for (const auto& setting : settings) {
      if (!setting.IsGiven(request_) || setting.uses.Has(*request_.framework)) continue;
      std::string having;
      for (const SettingUse& use : setting.uses.said()) {
        having += having.empty() ? "" : ", ";
        having += plan::Name(use.framework);
      }
      Add(fmt::format("{}.{}", section, setting.key), "plan.key-not-of-framework",
          fmt::format("{} has no setting {}", plan::Name(*request_.framework), setting.key),
          fmt::format("remove it; frameworks that have it: {}", having));
    }
  }

  void CheckBuckets() {
    if (!request_.bucket_size || std::holds_alternative<Bytes>(*request_.bucket_size)) return;
    if (!request_.framework || !request_.zero_stage) return;
    if (Is(Framework::kReference) && request_.zero_stage == 3) return;
    if (!Has(*request_.framework, "bucket_size")) return;  // already said
    Add("data_parallel.bucket_size", "plan.bucket",
        fmt::format("a bucket per unit belongs to stage 3 of reference, not to stage {} of {}",
                    *request_.zero_stage, plan::Name(*request_.framework)),
        "write a size such as 25 MiB");
  }

  void CheckShards() {
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.shard_group_size || !data || *data % *request_.shard_group_size == 0) return;
    Add("data_parallel.shard_group_size", "plan.shard-group",
        fmt::format("shard_group_size {} does not divide data {}", *request_.shard_group_size,
                    *data),
        "use a divisor of the data axis, such as the GPUs of a node");
  }

  void CheckReshard() {
    if (!request_.reshard_after_forward || !request_.framework) return;
    if (!Has(*request_.framework, "reshard_after_forward")) return;  // already said
    const bool* whether = std::get_if<bool>(&*request_.reshard_after_forward);
    const bool reshards =
        whether != nullptr ? *whether : std::get<std::int64_t>(*request_.reshard_after_forward) > 1;
    if (Is(Framework::kFsdp2) && request_.zero_stage == 2 && reshards) {
      const std::string value =
          whether != nullptr
              ? "true"
              : fmt::format("{}", std::get<std::int64_t>(*request_.reshard_after_forward));
      Add("data_parallel.reshard_after_forward", "plan.reshard",
          fmt::format("stage 2 of fsdp2 keeps parameters whole after forward, zero_stage is 2 and "
                      "reshard_after_forward is {}",
                      value),
          "write zero_stage: 3, or reshard_after_forward: false");
      return;
    }
    if (whether != nullptr) return;
    const std::int64_t ranks = std::get<std::int64_t>(*request_.reshard_after_forward);
    if (ranks == 1) return;  // nothing is shared: false
    const std::optional<std::int64_t> shard = request_.shard_group_size
                                                  ? request_.shard_group_size
                                                  : DataDegree(request_, facts_.devices);
    if (!shard || *shard % ranks == 0) return;
    Add("data_parallel.reshard_after_forward", "plan.reshard",
        fmt::format("reshard_after_forward {} does not divide shard_group_size {}", ranks, *shard),
        "use a divisor, such as the GPUs of a node, or true or false");
  }

  // A hook that casts makes nothing smaller than it is; PowerSGD multiplies matrices in their own
  // type and needs two steps before its first (torch's PowerSGDState refuses less).
  void CheckCommHook() {
    if (!Is(Framework::kDdp)) return;
    const CommHook hook = request_.comm_hook.value_or(CommHook::kNone);
    if (request_.powersgd && hook != CommHook::kPowerSgd) {
      Add("data_parallel.powersgd", "plan.comm-hook",
          fmt::format("powersgd is given, and comm_hook is {}", plan::Name(hook)),
          "write comm_hook: powerSGD, or remove powersgd");
    }
    std::optional<DataType> gradients = request_.parameter_dtype;
    if (!gradients && request_.precision) gradients = ComputeType(*request_.precision);
    const bool casts = hook == CommHook::kFp16Compress || hook == CommHook::kBf16Compress;
    if (casts && gradients && SizeOf(*gradients) <= 2) {
      Add("data_parallel.comm_hook", "plan.comm-hook",
          fmt::format("{} halves gradients in fp32, and ddp's are in parameter_dtype {}",
                      plan::Name(hook), Name(*gradients)),
          "write parameter_dtype: fp32, or comm_hook: none");
    }
    if (hook != CommHook::kPowerSgd) return;
    if (request_.powersgd && request_.powersgd->start_iteration.value_or(2) < 2) {
      Add("data_parallel.powersgd.start_powerSGD_iter", "plan.comm-hook",
          fmt::format(
              "PowerSGD begins after DDP has rebuilt its buckets, start_powerSGD_iter is {}",
              *request_.powersgd->start_iteration),
          "use at least 2");
    }
  }

  void CheckHostWork() {
    if (const auto& loading = request_.data_loading) {
      if (loading->workers == 0 && loading->prefetch != DataLoading().prefetch) {
        Add("training.data_loading.prefetch", "plan.data-loading",
            fmt::format("prefetch is {} and workers is 0: without workers nothing is made ahead",
                        loading->prefetch),
            "write workers: 1 or more, or leave prefetch out");
      }
    }
    const auto& saving = request_.checkpoint_saving;
    if (saving && saving->mode == CheckpointMode::kAsync && facts_.host_memory &&
        !*facts_.host_memory) {
      Add("training.checkpoint_saving.mode", "plan.no-host-memory",
          "checkpoint_saving is async, and the cluster's topology does not say what memory its "
          "hosts have",
          "add node.host with memory and memory_bandwidth to the topology, or write mode: sync");
    }
  }

  const Request& request_;
  const Facts& facts_;
  bool axes_supported_ = true;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> Check(const Request& request, const Facts& facts) {
  return Checker(request, facts).Run();
}

std::vector<std::string> TypesNotOfFramework(const Request& request) {
  Request types;
  types.framework = request.framework;
  types.zero_stage = request.zero_stage;
  types.precision = request.precision;
  types.parameter_dtype = request.parameter_dtype;
  types.gradient_dtype = request.gradient_dtype;
  types.reduce_dtype = request.reduce_dtype;
  const std::pair<const char*, std::optional<DataType>*> keys[] = {
      {"training.parameter_dtype", &types.parameter_dtype},
      {"training.gradient_dtype", &types.gradient_dtype},
      {"training.reduce_dtype", &types.reduce_dtype}};
  std::vector<std::string> left_out;
  // Parameters first: what gradients may be follows from them.
  for (const auto& [name, type] : keys) {
    const char* const key = name;  // clang 14 captures no binding
    const std::vector<Violation> violations = Check(types, Facts());
    const bool wrong =
        std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
          return violation.code == "plan.dtype-not-of-framework" && violation.key == key;
        });
    if (!wrong) continue;
    type->reset();
    left_out.emplace_back(key);
  }
  return left_out;
}

}  // namespace stepcast::plan

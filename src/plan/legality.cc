#include "src/plan/legality.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/plan/framework_policy.h"
#include "src/plan/legality_rules.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

class Checker : public Rules {
 public:
  using Rules::Rules;

  void Run() {
    CheckVersions();
    CheckSequence();
    CheckPrecision();
    CheckLoss(request_, facts_, violations_);
    CheckParts(request_, facts_, violations_);
    CheckAxes(request_, facts_, violations_);
    CheckDevices();
    CheckBatch();
    CheckStage();
    if (request_.framework) PolicyOf(*request_.framework).Check(request_, facts_, violations_);
    CheckLoop();
    ForEachSection(
        [&](std::string_view section, const auto& settings) { CheckKeys(section, settings); });
    CheckNoSync();
    CheckSharding(request_, facts_, violations_);
    CheckLoadingAndSaving();
  }

 private:
  void CheckVersion(const char* name, std::optional<Version> version, Version oldest,
                    Version newest) {
    if (!version || (*version >= oldest && *version <= newest)) return;
    Add(fmt::format("software.{}", name), "plan.version-not-modelled",
        fmt::format("stepcast models {} only from version {}.{} to {}.{}, but the version is {}.{}",
                    name, oldest.major, oldest.minor, newest.major, newest.minor, version->major,
                    version->minor),
        "write the nearest version in the supported range");
  }

  void CheckVersions() {
    CheckVersion("torch", request_.torch, kOldestTorch, kNewestTorch);
    CheckVersion("nccl", request_.nccl, kOldestNccl, kNewestNccl);
    CheckVersion("driver", request_.driver, kOldestDriver, {kNewestDriver.major, 999});
    if (request_.framework) CheckFirstVersion(*request_.framework);
  }

  void CheckFirstVersion(Framework framework) {
    const Version first = StyleOf(framework).first_torch;
    if (!IsOlderThan(first)) return;
    Add("software.torch", "plan.version-without-framework",
        fmt::format("{} was introduced in torch {}.{} and does not exist in {}.{}",
                    plan::Name(framework), first.major, first.minor, request_.torch->major,
                    request_.torch->minor),
        fmt::format("write torch {}.{} or later, or another framework", first.major, first.minor));
  }

  void CheckSequence() {
    if (!request_.sequence_length) return;
    const std::int64_t sequence = *request_.sequence_length;
    if (facts_.max_positions && *facts_.max_positions > 0 && sequence > *facts_.max_positions) {
      Add("training.sequence_length", "plan.sequence-too-long",
          fmt::format("the model has {} position embeddings, but sequence_length is {}",
                      *facts_.max_positions, sequence),
          fmt::format("write a sequence_length of at most {}", *facts_.max_positions));
    }
    if (request_.masked_tokens && *request_.masked_tokens > sequence) {
      Add("training.masked_tokens", "plan.masked-tokens",
          fmt::format("a sequence has {} tokens, but masked_tokens is {}", sequence,
                      *request_.masked_tokens),
          "set masked_tokens to the number of masked tokens in a sequence, usually 15 % of the "
          "tokens");
    }
    if (request_.masked_tokens && facts_.encoder && !*facts_.encoder) {
      Add("training.masked_tokens", "plan.masked-tokens",
          fmt::format("the head of a decoder predicts every token, but masked_tokens is {}",
                      *request_.masked_tokens),
          "omit masked_tokens, or use an encoder");
    }
    if (request_.document_length && sequence % *request_.document_length != 0) {
      Add("training.document_length", "plan.document-length",
          fmt::format("sequences of {} tokens cannot be filled with documents of {} tokens",
                      sequence, *request_.document_length),
          "set document_length to a divisor of sequence_length that is close to the average "
          "document length");
    }
    if (request_.document_length && request_.attention &&
        model::FlashGeneration(*request_.attention) == 0) {
      Add("training.document_length", "plan.document-length",
          fmt::format("document_length is not supported with attention: {}, which computes all "
                      "scores of a sequence and masks the scores between documents",
                      model::Name(*request_.attention)),
          "omit document_length, or write attention: flash");
    }
    CheckLengths(request_, facts_, violations_);
    const std::int64_t micro_batch = request_.micro_batch_size.value_or(1);
    const char* key = micro_batch > 1 ? "training.micro_batch_size" : "training.sequence_length";
    if (micro_batch > kMostTokens / sequence) {
      Add(key, "plan.too-many-tokens",
          fmt::format("a micro-batch of {} x {} tokens exceeds the maximum of {}", micro_batch,
                      sequence, kMostTokens),
          "use a smaller micro_batch_size or sequence_length");
      return;
    }
    const std::int64_t context = std::max<std::int64_t>(request_.context.value_or(1), 1);
    if (micro_batch * sequence / context > kMostTokenPairs / sequence) {
      Add(key, "plan.too-many-tokens",
          fmt::format("attention over {} x {} x {} pairs of tokens exceeds the maximum of {} pairs "
                      "per rank: context is {}",
                      micro_batch, sequence, sequence, kMostTokenPairs, context),
          "use a smaller micro_batch_size or sequence_length, or a larger parallelism.context");
    }
  }

  void CheckPrecision() {
    if (!request_.precision ||
        !facts_.without_peak[static_cast<std::size_t>(*request_.precision)]) {
      return;
    }
    std::vector<std::string_view> types;
    for (const DataType type : kDataTypes) {
      if (!facts_.without_peak[static_cast<std::size_t>(type)]) types.emplace_back(Name(type));
    }
    Add("training.precision", "plan.precision-not-of-device",
        fmt::format("{} does not compute in {}", facts_.device, Name(*request_.precision)),
        fmt::format("write a precision that the GPU supports: {}", fmt::join(types, ", ")));
  }

  // data x tensor x pipeline x context = devices.
  void CheckDevices() {
    if (!facts_.devices) return;
    const std::int64_t replica = request_.ranks_per_replica();
    if (!request_.data) {
      if (*facts_.devices % replica == 0) return;
      Add("parallelism.pipeline", "plan.device-count",
          fmt::format(
              "the cluster's {} devices are not divisible by tensor {} x pipeline {} x context {}",
              *facts_.devices, request_.tensor.value_or(1), request_.pipeline.value_or(1),
              request_.context.value_or(1)),
          "choose degrees with a product that divides the number of devices, or change the "
          "cluster" +
              (replica < *facts_.devices ? LeavingSomeIdle() : WithMoreNodes(replica)));
      return;
    }
    if (*request_.data * replica == *facts_.devices) return;
    Add("parallelism.data", "plan.device-count",
        fmt::format(
            "data {} x tensor {} x pipeline {} x context {} = {} ranks, but the cluster has "
            "{} devices",
            *request_.data, request_.tensor.value_or(1), request_.pipeline.value_or(1),
            request_.context.value_or(1), *request_.data * replica, *facts_.devices),
        (*facts_.devices % replica == 0
             ? fmt::format("write data: {}, or omit data (--set parallelism.data=null)",
                           *facts_.devices / replica)
             : fmt::format("choose degrees with a product that divides {}", *facts_.devices)) +
            (*request_.data * replica < *facts_.devices ? LeavingSomeIdle()
                                                        : WithMoreNodes(*request_.data * replica)));
  }

  // A hint with the number of nodes that together have `ranks` devices; empty if that is no whole
  // number. For one machine: with the number of GPUs.
  std::string WithMoreNodes(std::int64_t ranks) const {
    if (facts_.one_machine) return fmt::format("; or use {0} GPUs: --set cluster.gpus={0}", ranks);
    if (!facts_.node_devices || ranks % *facts_.node_devices != 0) return "";
    return fmt::format(
        "; or use the number of nodes that these degrees need: --set "
        "cluster.nodes={}",
        ranks / *facts_.node_devices);
  }

  // A hint to leave devices idle; empty for a flat cluster, which has as many devices as it states.
  std::string LeavingSomeIdle() const {
    if (!facts_.node_devices) return "";
    return "; or leave the unused GPUs idle: --set cluster.devices=plan";
  }

  // Checks the ZeRO stage of the framework.
  void CheckStage() {
    if (!request_.framework) return;
    const FrameworkTraits& traits = TraitsOf(*request_.framework);
    const int stage = request_.zero_stage.value_or(traits.first_stage);
    if (stage >= traits.first_stage && stage <= traits.last_stage) return;
    Add("data_parallel.zero_stage", "plan.stage-not-of-framework",
        fmt::format("{}: zero_stage is {}", traits.stages, stage), traits.other_stage);
  }

  // gbs = mbs x grad_acc x dp.
  void CheckBatch() {
    if (request_.gradient_accumulation && request_.global_batch_size) {
      Add("training.global_batch_size", "plan.batch",
          fmt::format("gradient_accumulation {} and global_batch_size {} cannot both be set",
                      *request_.gradient_accumulation, *request_.global_batch_size),
          "omit one of the two keys (--set training.gradient_accumulation=null), because "
          "global_batch_size = micro_batch_size x gradient_accumulation x data");
      return;
    }
    if (request_.gradient_accumulation) {
      CheckMicroBatches("training.gradient_accumulation", *request_.gradient_accumulation);
      return;
    }
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.global_batch_size || !request_.micro_batch_size || !data) {
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
        below > 0 ? fmt::format("write global_batch_size: {} or {}", below, below + each)
                  : fmt::format("write global_batch_size: {0} or a multiple of {0}", each));
  }

  void CheckMicroBatches(const char* key, std::int64_t count) {
    if (count > kMostMicroBatches) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("a step of {} micro-batches exceeds the maximum of {}", count,
                      kMostMicroBatches),
          "write a larger micro_batch_size or a smaller global_batch_size");
    } else if (facts_.layers && count > kMostLayerPasses / *facts_.layers) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("{} micro-batches per step times {} layers exceed the maximum of {}", count,
                      *facts_.layers, kMostLayerPasses),
          "write a larger micro_batch_size or a smaller global_batch_size, or use fewer layers");
    } else if (facts_.tensors && *facts_.tensors > 0 &&
               count > kMostTensorPasses / *facts_.tensors) {
      Add(key, "plan.too-many-micro-batches",
          fmt::format("{} micro-batches per step times {} parameter tensors exceed the maximum of "
                      "{}",
                      count, *facts_.tensors, kMostTensorPasses),
          "write a larger micro_batch_size or a smaller global_batch_size, or use fewer tensors");
    }
  }

  void CheckLoop() {
    if (request_.framework && !TraitsOf(*request_.framework).of_pytorch &&
        request_.optimizer_implementation == OptimizerImplementation::kSingle) {
      Add("training.optimizer_implementation", "plan.optimizer-not-of-framework",
          fmt::format("{} cannot update the parameter tensors one by one, but "
                      "optimizer_implementation is single",
                      plan::Name(*request_.framework)),
          "write optimizer_implementation: fused or foreach, or write framework: ddp, fsdp1 or "
          "fsdp2");
    }
    CheckOptimizer(request_, facts_, violations_);
    CheckOptimizerStates(request_, facts_, violations_);
    CheckRecomputation();
    CheckLora(request_, facts_, violations_);
    if (request_.activation_offload.value_or(false) && facts_.host_memory && !*facts_.host_memory) {
      Add("training.activation_offload", "plan.no-host-memory",
          "activation_offload is true, but the cluster's topology does not describe the memory of "
          "its hosts",
          "choose a topology that describes hosts, such as --cluster dgx-h100 instead of --gpus. "
          "In your own topology file, add node.host with memory and memory_bandwidth");
    }
    if (request_.unit_blocks.value_or(1) > 1 && request_.units == WrappedUnits::kModel) {
      Add("data_parallel.unit_blocks", "plan.units",
          fmt::format("with units: model, the complete model is one unit, but unit_blocks is {}",
                      *request_.unit_blocks),
          "omit unit_blocks, or write units: block");
    }
    CheckOffload(request_, facts_, violations_);
    if (request_.expandable_segments.value_or(false) && request_.framework &&
        TraitsOf(*request_.framework).textbook) {
      Add("software.expandable_segments", "plan.no-allocator",
          "framework reference has no caching allocator, but expandable_segments is true",
          "omit expandable_segments, or write the framework that you train with");
    }
  }

  void CheckRecomputation() {
    const model::Checkpointing checkpointing =
        request_.activation_checkpointing.value_or(model::Checkpointing::kNone);
    const model::Share blocks = request_.checkpointed_blocks.value_or(model::Share());
    if (!blocks.all() && checkpointing == model::Checkpointing::kNone) {
      Add("training.checkpointed_blocks", "plan.no-checkpoints",
          fmt::format("no block is recomputed, but checkpointed_blocks is {}", model::Text(blocks)),
          "write activation_checkpointing: full, selective or selective_op, or omit "
          "checkpointed_blocks");
    }
    if (request_.recompute_modules && checkpointing != model::Checkpointing::kSelective) {
      Add("training.recompute_modules", "plan.no-checkpoints",
          fmt::format("recompute_modules '{}' needs activation_checkpointing: selective, but "
                      "activation_checkpointing is {}",
                      model::Text(*request_.recompute_modules), model::Name(checkpointing)),
          "write activation_checkpointing: selective, or omit recompute_modules");
    }
    if (request_.blocks_per_checkpoint.value_or(1) > 1) CheckCheckpoints(checkpointing, blocks);
  }

  // Blocks between a checkpoint's first and last one are recomputed as a whole.
  void CheckCheckpoints(model::Checkpointing checkpointing, const model::Share& blocks) {
    const auto refuse = [&](const char* code, std::string_view rule, const char* hint) {
      Add("training.blocks_per_checkpoint", code,
          fmt::format("{}, but blocks_per_checkpoint is {}", rule, *request_.blocks_per_checkpoint),
          hint);
    };
    if (checkpointing != model::Checkpointing::kFull) {
      refuse("plan.no-checkpoints",
             fmt::format("activation_checkpointing is {}", model::Name(checkpointing)),
             "omit blocks_per_checkpoint, or write activation_checkpointing: full");
    }
    if (!blocks.all()) {
      refuse("plan.checkpoints", fmt::format("checkpointed_blocks is {}", model::Text(blocks)),
             "write checkpointed_blocks: all, or blocks_per_checkpoint: 1");
    }
    if (request_.checkpoint_early_stop.value_or(false)) {
      refuse("plan.checkpoints",
             "checkpoint_early_stop: true is modelled only for checkpoints of "
             "one block",
             "write checkpoint_early_stop: false, the default of reentrant checkpoints");
    }
    if (request_.activation_offload.value_or(false)) {
      refuse("plan.checkpoints",
             "activation_offload: true is modelled only for checkpoints of one block",
             "write activation_offload: false, or blocks_per_checkpoint: 1");
    }
    if (request_.framework && request_.zero_stage.value_or(0) == 3) {
      refuse("plan.checkpoints", "zero_stage 3 gathers the parameters of one block at a time",
             "write zero_stage: 0, 1 or 2, or write blocks_per_checkpoint: 1");
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
      const auto* instead = FindSetting(settings, setting.elsewhere);
      Add(fmt::format("{}.{}", section, setting.key), "plan.key-not-of-framework",
          fmt::format("the framework {} has no setting {}", plan::Name(*request_.framework),
                      setting.key),
          instead != nullptr && instead->uses.Has(*request_.framework)
              ? fmt::format("remove the key; {} uses {} instead", plan::Name(*request_.framework),
                            setting.elsewhere)
              : fmt::format("remove the key, or use a framework that has this setting: "
                            "{}",
                            having));
    }
  }

  // Reductions in every micro-batch, where gradients are whole.
  void CheckNoSync() {
    if (!request_.no_sync || !request_.framework || !request_.zero_stage) return;
    if (TraitsOf(*request_.framework).textbook && *request_.zero_stage >= 2) {
      Add("data_parallel.no_sync", "plan.key-not-of-framework",
          fmt::format("no_sync is a setting for zero_stage 0 and 1, but zero_stage is {}",
                      *request_.zero_stage),
          fmt::format("remove no_sync, and write accumulate_unsharded: {}", *request_.no_sync));
    }
    if (!*request_.no_sync && request_.pipeline.value_or(1) > 1) {
      Add("data_parallel.no_sync", "plan.axis-not-supported-with",
          "the stages of a pipeline reduce gradients once per step, after the last micro-batch, "
          "but no_sync is false",
          "remove no_sync, or write parallelism.pipeline: 1");
    }
  }

  void CheckLoadingAndSaving() {
    if (const auto& loading = request_.data_loading) {
      if (loading->workers == 0 && loading->prefetch != DataLoading().prefetch) {
        Add("training.data_loading.prefetch", "plan.data-loading",
            fmt::format("prefetch is {}, but workers is 0, so no process loads data in advance",
                        loading->prefetch),
            "write workers: 1 or more, or omit prefetch");
      }
    }
    const auto& saving = request_.checkpoint_saving;
    if (saving && saving->mode == CheckpointMode::kAsync && facts_.host_memory &&
        !*facts_.host_memory) {
      Add("training.checkpoint_saving.mode", "plan.no-host-memory",
          "checkpoint_saving is async, but the cluster's topology does not describe the memory of "
          "its hosts",
          "add node.host with memory and memory_bandwidth to the topology, or write mode: sync");
    }
  }
};

}  // namespace

std::vector<Violation> Check(const Request& request, const Facts& facts) {
  std::vector<Violation> violations;
  Checker(request, facts, violations).Run();
  // The values of a key do not matter for a framework that has no such key.
  const auto has_no_key = [&violations](const Violation& violation) {
    return std::any_of(violations.begin(), violations.end(), [&](const Violation& other) {
      return other.key == violation.key && other.code == "plan.key-not-of-framework";
    });
  };
  std::vector<Violation> told;
  std::copy_if(violations.begin(), violations.end(), std::back_inserter(told),
               [&](const Violation& violation) {
                 return violation.code == "plan.key-not-of-framework" || !has_no_key(violation);
               });
  return told;
}

std::vector<std::string> TypesNotOfFramework(const Request& request) {
  Request types;
  types.framework = request.framework;
  types.zero_stage = request.zero_stage;
  types.precision = request.precision;
  types.parameter_dtype = request.parameter_dtype;
  types.gradient_dtype = request.gradient_dtype;
  types.reduce_dtype = request.reduce_dtype;
  types.optimizer = request.optimizer;
  types.optimizer_implementation = request.optimizer_implementation;
  types.master_weights = request.master_weights;
  types.optimizer_state_dtype = request.optimizer_state_dtype;
  std::vector<std::string> left_out;
  const auto leave_out = [&](const char* key, auto& type) {
    if (!type) return;
    const std::vector<Violation> violations = Check(types, Facts());
    const bool wrong =
        std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
          return violation.key == key && (violation.code == "plan.dtype-not-of-framework" ||
                                          violation.code == "plan.master-weights");
        });
    if (!wrong) return;
    type.reset();
    left_out.emplace_back(key);
  };
  // Parameters first: the allowed types of gradients and states follow from theirs.
  leave_out("training.parameter_dtype", types.parameter_dtype);
  leave_out("training.gradient_dtype", types.gradient_dtype);
  leave_out("training.reduce_dtype", types.reduce_dtype);
  leave_out("training.master_weights", types.master_weights);
  leave_out("training.optimizer_state_dtype", types.optimizer_state_dtype);
  return left_out;
}

}  // namespace stepcast::plan

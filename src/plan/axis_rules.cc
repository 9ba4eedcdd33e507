// The grid of ranks, and the schedule of a pipeline.
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class AxisRules : public Rules {
 public:
  using Rules::Rules;

  void CheckAxes() {
    CheckExperts(request_, facts_, violations_);
    CheckContext(request_, facts_, violations_);
    if (request_.tensor.value_or(1) > 1) CheckTensor(*request_.tensor);
    CheckTensorOverlap(request_.tensor_overlap.value_or(model::TensorOverlap::kNone));
    if (request_.pipeline.value_or(1) > 1) CheckPipeline(*request_.pipeline);
  }

 private:
  void CheckTensorOverlap(model::TensorOverlap overlap) {
    using model::TensorOverlap;
    if (overlap == TensorOverlap::kNone) return;
    const auto refuse = [&](std::string message, const char* hint) {
      Add("training.tensor_overlap", "plan.tensor-overlap", std::move(message), hint);
    };
    const std::int64_t ranks = request_.tensor.value_or(1);
    if (ranks == 1 || !request_.sequence_parallel.value_or(false)) {
      refuse(fmt::format("{} overlaps the collectives of sequence parallelism, and there are none",
                         model::Name(overlap)),
             "write parallelism.tensor and sequence_parallel: true, or tensor_overlap: none");
    }
    if (overlap == TensorOverlap::kUserBuffers && Is(Framework::kFsdp2)) {
      refuse("user_buffers are Transformer Engine's, and the framework is fsdp2",
             "write tensor_overlap: async, or framework: megatron");
    }
    if (overlap == TensorOverlap::kAsync && Is(Framework::kMegatron)) {
      refuse("async is PyTorch's, and the framework is megatron",
             "write tensor_overlap: user_buffers, or framework: fsdp2");
    }
    if (overlap == TensorOverlap::kAsync && !request_.compile.value_or(false)) {
      refuse("async is a pass of the compiler, and compile is false",
             "write training.compile: true, or tensor_overlap: none");
    }
    if (overlap == TensorOverlap::kAsync &&
        request_.activation_checkpointing == model::Checkpointing::kSelectiveOp) {
      refuse("async replaces the products that selective_op counts",
             "write activation_checkpointing: none or full, or tensor_overlap: none");
    }
    if (facts_.node_devices && *facts_.node_devices % ranks != 0) {
      refuse(fmt::format("{} reach the GPUs of one node, and {} ranks do not divide its {}",
                         model::Name(overlap), ranks, *facts_.node_devices),
             "choose a parallelism.tensor that divides a node's GPUs, or tensor_overlap: none");
    }
    const std::int64_t tokens = request_.micro_batch_size.value_or(0) *
                                request_.sequence_length.value_or(0) / request_.context.value_or(1);
    if (overlap == TensorOverlap::kUserBuffers &&
        tokens % (ranks * model::kPiecesOfUserBuffers) != 0) {
      refuse(fmt::format("{} ranks with {} pieces each do not divide {} tokens of a micro-batch",
                         ranks, model::kPiecesOfUserBuffers, tokens),
             "choose another micro_batch_size or sequence_length, or tensor_overlap: none");
    }
  }

  void CheckTensor(std::int64_t ranks) {
    if (request_.framework && !TraitsOf(*request_.framework).tensor_parallel) {
      Add("parallelism.tensor", "plan.axis-not-of-framework",
          fmt::format("tensor parallelism of {} is not supported: {}",
                      plan::Name(*request_.framework), ranks),
          fmt::format("leave it at 1, or write framework: {}",
                      FrameworksWith(&FrameworkTraits::tensor_parallel)));
    }
    if (Is(Framework::kDeepSpeed) && request_.zero_stage.value_or(0) >= 2) {
      Add("parallelism.tensor", "plan.axis-not-supported-with",
          fmt::format(
              "tensor parallelism of deepspeed goes with zero_stage 0 and 1 here, and it is "
              "{}",
              *request_.zero_stage),
          "write zero_stage: 1, or leave tensor at 1");
    }
    if (Is(Framework::kDeepSpeed) && request_.sequence_parallel.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.axis-not-of-framework",
          "Megatron-DeepSpeed's layers have no sequence parallelism over tensor-parallel ranks",
          "write sequence_parallel: false, or framework: megatron");
    }
    for (const auto& [name, extent, columns] : facts_.divided) {
      if (extent % ranks == 0) continue;
      // Ranks that share a head gather what they have made of it (NVIDIA/Megatron-LM, pull request
      // 2565).
      if (Is(Framework::kMegatron) && ranks % extent == 0 && columns % (ranks / extent) == 0) {
        continue;
      }
      Add("parallelism.tensor", "plan.tensor-division",
          fmt::format("the model's {} of {} does not divide among {} ranks", name, extent, ranks),
          columns > 1 ? "choose a divisor, or, with framework: megatron, a multiple"
                      : "choose a divisor");
    }
    if (request_.sequence_parallel.value_or(false) && facts_.encoder.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.axis-not-supported-with",
          "an encoder's pooler takes the first token, which one rank has with sequence "
          "parallelism: sequence_parallel is true",
          "write sequence_parallel: false, or take a decoder");
    }
    if (request_.sequence_parallel.value_or(false) && facts_.norms_behind) {
      Add("parallelism.sequence_parallel", "plan.axis-not-supported-with",
          "blocks whose norms stand behind attention and feed-forward begin with a product, before "
          "which their input would be gathered: sequence_parallel is true",
          "write sequence_parallel: false");
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
          fmt::format("leave it at 1, or write framework: {}",
                      FrameworksWith(&FrameworkTraits::pipelines)));
    }
    const RequestedSchedule schedule = ScheduleOf(request_);
    if (schedule.named != nullptr) CheckNamedSchedule(*schedule.named, schedule.virtual_stages);
    if (request_.listed_schedule != nullptr) CheckListedSchedule(schedule.virtual_stages);
    CheckWithSchedule(schedule);
    CheckCountedEnds();
    CheckStageLayers(stages * schedule.virtual_stages);
    if (Is(Framework::kFsdp2)) CheckFsdp2Pipeline(stages, schedule);
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
    const bool interleaved = named.name == kInterleaved;
    const auto& given = request_.microbatch_group_size_per_vp_stage;
    if (given && !interleaved) {
      Add("parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
          fmt::format("{} has no groups of micro-batches: {}", named.name, *given),
          "leave it out, or write schedule: interleaved_1f1b");
    } else if (given && *given < stages) {
      Add("parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
          fmt::format("a group has as many micro-batches as the pipeline stages, {}, or more: {}",
                      stages, *given),
          "write a larger number, or leave it out");
      return;
    }
    const std::int64_t group = interleaved ? MicroBatchGroupOf(request_, *Batches()) : 0;
    if (interleaved && Is(Framework::kFsdp2) && *Batches() % group != 0) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format(
              "Interleaved1F1B of torch.distributed.pipelining runs micro-batches in {} equal "
              "groups with {} stages, and there are {}",
              *Batches() / stages, stages, *Batches()),
          "choose a multiple of the pipeline's stages, or fewer than twice as many");
      return;
    }
    const auto mistake =
        named.MistakeOf({stages, static_cast<int>(*Batches()), static_cast<int>(virtual_stages),
                         static_cast<int>(group)});
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
        schedule.name == (schedule.virtual_stages > 1 ? "interleaved_1f1b" : "1f1b");
    if (Is(Framework::kDeepSpeed)) CheckDeepSpeedPipeline(schedule);
    if (Is(Framework::kNanotron) && schedule.name != "1f1b" && schedule.name != "gpipe") {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("nanotron's engines are 1f1b and gpipe (afab), and schedule is {}",
                      schedule.name),
          "leave schedule and virtual_stages out, or write framework: megatron or reference");
    } else if (Is(Framework::kNanotron) && schedule.name == "1f1b" && Batches() &&
               *Batches() < *request_.pipeline - 1) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format("nanotron's 1f1b needs {} micro-batches, one fewer than stages, and there "
                      "are {}",
                      *request_.pipeline - 1, *Batches()),
          "choose more micro-batches, or schedule: gpipe");
    }
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

  // torch/distributed/pipelining/{schedules,stage}.py, torchtitan/distributed/pipeline_parallel.py.
  void CheckFsdp2Pipeline(std::int64_t stages, const RequestedSchedule& schedule) {
    const parallel::NamedSchedule* named = schedule.named;
    if (named != nullptr && named->splits_backward && !named->two_copies && named->name != "zb_v" &&
        named->name != "dualpipe_v") {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format(
              "torch.distributed.pipelining parts backward in zb_v and dualpipe_v alone, and "
              "schedule is {}",
              schedule.name),
          "write schedule: zb_v or dualpipe_v, or framework: reference");
    }
    if (schedule.name == "1f1b" && Batches() && *Batches() < stages) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format("PyTorch's 1f1b needs as many micro-batches as stages, {}, and there are {}",
                      stages, *Batches()),
          "choose more micro-batches, or schedule: gpipe");
    }
    if (facts_.tied_embeddings) {
      Add("parallelism.pipeline", "plan.tied-across-stages",
          fmt::format(
              "torchtitan copies the model for each stage and does not add up the gradients "
              "of the embedding that the first and the last of {} share",
              stages),
          "train a model whose embeddings are not tied, or write framework: megatron");
    }
    if (!request_.accumulate_unsharded.value_or(true)) {
      Add("data_parallel.accumulate_unsharded", "plan.axis-not-of-framework",
          "torch.distributed.pipelining reduces gradients behind the last micro-batch, and "
          "accumulate_unsharded is false",
          "leave it out");
    }
    if (request_.cpu_offload.value_or(false)) {
      Add("data_parallel.cpu_offload", "plan.axis-not-supported-with",
          "shards of pipelines stay on the device here, and cpu_offload is true",
          "write cpu_offload: false, or parallelism.pipeline: 1");
    }
  }

  // deepspeed/runtime/pipe/engine.py and schedule.py.
  void CheckDeepSpeedPipeline(const RequestedSchedule& schedule) {
    if (request_.zero_stage.value_or(0) >= 2) {
      Add("data_parallel.zero_stage", "plan.axis-not-of-framework",
          fmt::format("ZeRO-2 and ZeRO-3 are incompatible with deepspeed's pipelines, and "
                      "zero_stage is {}",
                      *request_.zero_stage),
          "write zero_stage: 1 or 0, or parallelism.pipeline: 1");
    }
    if (schedule.name != "1f1b" || request_.listed_schedule != nullptr) {
      Add("parallelism.schedule", "plan.schedule-not-of-framework",
          fmt::format("deepspeed runs 1f1b, and schedule is {}", schedule.name),
          "leave schedule and virtual_stages out, or write framework: megatron or reference");
    }
    if (request_.overlap.value_or(false)) {
      Add("data_parallel.overlap", "plan.overlap",
          "deepspeed's pipelines reduce gradients after the last backward, and overlap is true",
          "write overlap: false, or leave it out");
    }
    if (request_.deepspeed && request_.deepspeed->offload_optimizer.value_or(
                                  OffloadDevice::kNone) != OffloadDevice::kNone) {
      Add("data_parallel.deepspeed.offload_optimizer", "plan.axis-not-supported-with",
          "the optimizer of deepspeed's pipelines stays on the device here",
          "write offload_optimizer: none, or parallelism.pipeline: 1");
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
      for (std::size_t chunk = 0; chunk < layers.size(); ++chunk) {
        const bool ends = chunk == 0 || chunk + 1 == layers.size();
        if (layers[chunk] > 0 || (ends && facts_.has_ends)) continue;
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format("stage_layers[{}] is 0, and that stage would have nothing to do", chunk),
            facts_.has_ends
                ? "only the first, which has the embedding, and the last, which has the "
                  "head, may be without a block"
                : "give each stage a layer of the list or more");
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
    if (!facts_.blocks) return;
    const ModelBlocks model{.count = *facts_.blocks,
                            .has_ends = facts_.has_ends,
                            .of_block = facts_.of_block,
                            .of_head = facts_.of_head};
    if (!StageLayersOf(request_, model, stages).empty()) return;
    if (*facts_.blocks < stages) {
      Add("parallelism.pipeline", "plan.stage-layers",
          fmt::format("the model has {} blocks, fewer than pipeline: {}", *facts_.blocks, stages),
          fmt::format("use at most {} stages", *facts_.blocks));
      return;
    }
    if (Is(Framework::kNanotron) && model.of_block > 0) {
      Add("parallelism.pipeline", "plan.stage-layers",
          fmt::format("{} blocks and the head do not make {} stages by nanotron's rule: each takes "
                      "blocks until it has its part of the weights",
                      *facts_.blocks, stages),
          "choose fewer stages, or say how many each stage has: stage_layers: [...]");
      return;
    }
    Add("parallelism.pipeline", "plan.stage-layers",
        fmt::format("{} blocks{} do not divide into {} equal stages", *facts_.blocks,
                    CountedEnds(request_), stages),
        "choose a divisor, or say how many each stage has: stage_layers: [...]");
  }

  // " and the head", where equal parts count it as a block.
  static const char* CountedEnds(const Request& request) {
    const bool embedding = request.account_for_embedding_in_pipeline_split.value_or(false);
    const bool head = request.account_for_loss_in_pipeline_split.value_or(false);
    if (embedding && head) return ", the embedding and the head";
    return embedding ? " and the embedding" : head ? " and the head" : "";
  }

  void CheckCountedEnds() {
    const std::pair<const char*, const std::optional<bool>&> ends[] = {
        {"account_for_embedding_in_pipeline_split",
         request_.account_for_embedding_in_pipeline_split},
        {"account_for_loss_in_pipeline_split", request_.account_for_loss_in_pipeline_split}};
    for (const auto& [key, given] : ends) {
      if (!given.value_or(false)) continue;
      if (!facts_.has_ends) {
        Add(fmt::format("parallelism.{}", key), "plan.stage-layers",
            fmt::format("a layer list has neither embedding nor head, and {} is true", key),
            "leave it out, or write stage_layers: [...]");
      } else if (request_.stage_layers) {
        Add(fmt::format("parallelism.{}", key), "plan.stage-layers",
            fmt::format("stage_layers says how many blocks each stage has, and {} is true", key),
            "write one of the two");
      }
    }
  }
};

}  // namespace

void CheckAxes(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  AxisRules rules(request, facts, violations);
  rules.CheckAxes();
}

}  // namespace stepcast::plan

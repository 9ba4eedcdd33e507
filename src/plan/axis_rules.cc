// Rules about the grid of ranks and a pipeline's schedule.
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
#include "src/plan/legality.h"
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
      refuse(fmt::format("{} overlaps collectives of sequence parallelism, but this plan has no "
                         "sequence parallelism",
                         model::Name(overlap)),
             "write sequence_parallel: true with parallelism.tensor: 2 or more, or write "
             "tensor_overlap: none");
    }
    const TensorOverlap own = request_.framework
                                  ? StyleOf(*request_.framework).layers.tensor_overlap
                                  : TensorOverlap::kNone;
    if (own != TensorOverlap::kNone && own != overlap) {
      const bool user_buffers = overlap == TensorOverlap::kUserBuffers;
      refuse(fmt::format("{}, but framework is {}",
                         user_buffers ? "tensor_overlap: user_buffers needs Transformer Engine"
                                      : "tensor_overlap: async needs PyTorch's compiler",
                         plan::Name(*request_.framework)),
             user_buffers ? "write tensor_overlap: async, or framework: megatron"
                          : "write tensor_overlap: user_buffers, or framework: fsdp2");
    }
    if (overlap == TensorOverlap::kAsync && !request_.compile.value_or(false)) {
      refuse("tensor_overlap: async is a pass of torch.compile, but compile is false",
             "write training.compile: true, or tensor_overlap: none");
    }
    if (overlap == TensorOverlap::kAsync &&
        request_.activation_checkpointing == model::Checkpointing::kSelectiveOp) {
      refuse(
          "activation_checkpointing: selective_op selects matrix multiplications, but "
          "tensor_overlap: async replaces these matrix multiplications",
          "write activation_checkpointing: none or full, or write tensor_overlap: none");
    }
    if (facts_.node_devices && *facts_.node_devices % ranks != 0) {
      refuse(
          fmt::format("{} works only within a node, but parallelism.tensor {} is not a divisor of "
                      "the node's {} GPUs",
                      model::Name(overlap), ranks, *facts_.node_devices),
          "set parallelism.tensor to a divisor of a node's GPUs, or write tensor_overlap: none");
    }
    const std::int64_t tokens = request_.micro_batch_size.value_or(0) *
                                request_.sequence_length.value_or(0) / request_.context.value_or(1);
    if (overlap == TensorOverlap::kUserBuffers &&
        tokens % (ranks * model::kPiecesOfUserBuffers) != 0) {
      refuse(
          fmt::format("with user_buffers, {} ranks x {} parts must be a divisor of the {} tokens "
                      "of a micro-batch",
                      ranks, model::kPiecesOfUserBuffers, tokens),
          "choose another micro_batch_size or sequence_length, or write tensor_overlap: none");
    }
  }

  void CheckTensor(std::int64_t ranks) {
    if (request_.framework && !TraitsOf(*request_.framework).tensor_parallel) {
      Add("parallelism.tensor", "plan.axis-not-of-framework",
          fmt::format("tensor parallelism is not supported with framework {}, but tensor is {}",
                      plan::Name(*request_.framework), ranks),
          fmt::format("write tensor: 1, or framework: {}",
                      FrameworksWith(&FrameworkTraits::tensor_parallel)));
    }
    const bool shares_heads =
        request_.framework && StyleOf(*request_.framework).layers.shares_heads;
    for (const auto& [name, extent, columns] : facts_.divided) {
      if (extent % ranks == 0) continue;
      if (shares_heads && ranks % extent == 0 && columns % (ranks / extent) == 0) continue;
      Add("parallelism.tensor", "plan.tensor-division",
          fmt::format("the model's {} ({}) is not divisible by parallelism.tensor {}", name, extent,
                      ranks),
          extent == 1 && columns > 1
              ? "write tensor: 1, or framework: megatron, which keeps a copy of the key-value head "
                "on each rank"
              : fmt::format("set parallelism.tensor to a divisor of {}{}", extent,
                            columns > 1
                                ? "; framework: megatron also supports a multiple of this number"
                                : ""));
    }
    if (request_.sequence_parallel.value_or(false) && facts_.encoder.value_or(false)) {
      Add("parallelism.sequence_parallel", "plan.axis-not-supported-with",
          "with sequence parallelism, only one rank has the first token of a sequence, which an "
          "encoder's pooler needs: sequence_parallel is true",
          "write sequence_parallel: false, or use a decoder model");
    }
    if (request_.sequence_parallel.value_or(false) && facts_.norms_behind) {
      Add("parallelism.sequence_parallel", "plan.axis-not-supported-with",
          "sequence parallelism is not modelled for blocks with norms after attention and "
          "feed-forward: sequence_parallel is true",
          "write sequence_parallel: false");
    }
    if (request_.sequence_parallel.value_or(false) && request_.sequence_length &&
        *request_.sequence_length % ranks != 0) {
      Add("training.sequence_length", "plan.tensor-division",
          fmt::format("sequence_length {} is not divisible by parallelism.tensor {}, as sequence "
                      "parallelism requires",
                      *request_.sequence_length, ranks),
          "set sequence_length to a multiple of parallelism.tensor, or write sequence_parallel: "
          "false");
    }
  }

  void CheckPipeline(std::int64_t stages) {
    if (request_.framework && !TraitsOf(*request_.framework).pipelines) {
      Add("parallelism.pipeline", "plan.axis-not-of-framework",
          fmt::format("pipelines are not supported yet with framework {}, but pipeline is {}",
                      plan::Name(*request_.framework), stages),
          fmt::format("write pipeline: 1, or framework: {}",
                      FrameworksWith(&FrameworkTraits::pipelines)));
    }
    const RequestedSchedule schedule = ScheduleOf(request_);
    if (schedule.named != nullptr) CheckNamedSchedule(*schedule.named, schedule.virtual_stages);
    if (request_.listed_schedule != nullptr) CheckListedSchedule(schedule.virtual_stages);
    CheckWithSchedule(schedule);
    CheckCountedEnds();
    CheckStageLayers(stages * schedule.virtual_stages);
    if (request_.reshard_after_forward &&
        std::holds_alternative<std::int64_t>(*request_.reshard_after_forward)) {
      Add("data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
          fmt::format("in a pipeline, reshard_after_forward must be true or false, but is {}",
                      std::get<std::int64_t>(*request_.reshard_after_forward)),
          "write reshard_after_forward: true or false, or write parallelism.pipeline: 1");
    }
    if (request_.activation_offload.value_or(false)) {
      Add("training.activation_offload", "plan.axis-not-supported-with",
          "activation_offload is not supported yet in a pipeline",
          "write activation_offload: false, or parallelism.pipeline: 1");
    }
  }

  void CheckNamedSchedule(const parallel::NamedSchedule& named, std::int64_t virtual_stages) {
    if (named.chunks == 1 && virtual_stages > 1) {
      Add("parallelism.virtual_stages", "plan.schedule",
          fmt::format("the schedule {} has one chunk of layers per stage, but "
                      "virtual_stages is {}",
                      named.name, virtual_stages),
          "write schedule: interleaved_1f1b, or virtual_stages: 1");
    } else if (named.chunks > 1 && virtual_stages != named.chunks) {
      Add("parallelism.virtual_stages", "plan.schedule",
          fmt::format("the schedule {} has {} chunks of layers per stage, but "
                      "virtual_stages is {}",
                      named.name, named.chunks, virtual_stages),
          "omit virtual_stages");
    }
    if (named.two_copies) {
      Add("parallelism.schedule", "plan.schedule",
          fmt::format("the schedule {} trains two copies of the model; stepcast can draw this "
                      "schedule but cannot simulate it",
                      named.name),
          "write schedule: dualpipe_v, the same schedule with one copy of the model");
      return;
    }
    const auto stages = static_cast<int>(*request_.pipeline);
    if (!MicroBatches() || *MicroBatches() < 1 || *MicroBatches() > kMostMicroBatches) return;
    const bool interleaved = named.name == kInterleaved;
    const auto& given = request_.microbatch_group_size_per_vp_stage;
    if (given && !interleaved) {
      Add("parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
          fmt::format("the schedule {} has no groups of micro-batches: "
                      "microbatch_group_size_per_vp_stage is {}",
                      named.name, *given),
          "omit microbatch_group_size_per_vp_stage, or write schedule: interleaved_1f1b");
    } else if (given && *given < stages) {
      Add("parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
          fmt::format("microbatch_group_size_per_vp_stage must be at least {}, one micro-batch per "
                      "pipeline stage, but is {}",
                      stages, *given),
          "write a larger value, or omit microbatch_group_size_per_vp_stage");
      return;
    }
    const std::int64_t group = interleaved ? MicroBatchGroupOf(request_, *MicroBatches()) : 0;
    const bool equal_groups =
        request_.framework && StyleOf(*request_.framework).engine == PipelineEngine::kTorch;
    if (interleaved && equal_groups && *MicroBatches() % group != 0) {
      Add("training.gradient_accumulation", "plan.schedule",
          fmt::format("Interleaved1F1B of torch.distributed.pipelining needs {} equal groups of "
                      "micro-batches with {} stages, but a step has {} micro-batches",
                      *MicroBatches() / stages, stages, *MicroBatches()),
          "set gradient_accumulation to a multiple of the number of pipeline stages, or to less "
          "than twice that number");
      return;
    }
    const auto mistake =
        named.MistakeOf({stages, static_cast<int>(*MicroBatches()),
                         static_cast<int>(virtual_stages), static_cast<int>(group)});
    if (!mistake) return;
    const bool of_stages = mistake->number == parallel::ShapeMistake::Number::kStages;
    Add(of_stages ? "parallelism.pipeline" : "training.gradient_accumulation", "plan.schedule",
        fmt::format("{}: {}", named.name, mistake->sentence), mistake->hint);
  }

  void CheckListedSchedule(std::int64_t virtual_stages) {
    const parallel::PipelineSchedule& listed = *request_.listed_schedule;
    const auto refuse = [&](std::string message, std::string hint) {
      Add("parallelism.schedule", "plan.schedule", std::move(message), std::move(hint));
    };
    const auto stages = static_cast<std::int64_t>(listed.stages.size());
    if (stages != *request_.pipeline) {
      refuse(fmt::format("the schedule {} has {} rows, but pipeline "
                         "is {}",
                         *request_.schedule, stages, *request_.pipeline),
             "write one row for each stage in the schedule's file");
      return;
    }
    if (MicroBatches() && listed.micro_batches != *MicroBatches()) {
      refuse(fmt::format("the schedule {} has {} micro-batches, but a step "
                         "has {} micro-batches",
                         *request_.schedule, listed.micro_batches, *MicroBatches()),
             fmt::format("write training.gradient_accumulation: {}", listed.micro_batches));
    }
    for (std::size_t stage = 0; stage < listed.stages.size(); ++stage) {
      const auto chunks = static_cast<std::int64_t>(listed.stages[stage].chunks.size());
      if (chunks != virtual_stages || parallel::Chunks(listed) != stages * virtual_stages) {
        refuse(fmt::format("stage {} of schedule {} has {} of {} chunks, but stages must have "
                           "equal numbers of chunks, and each chunk must be on one stage",
                           stage, *request_.schedule, chunks, parallel::Chunks(listed)),
               fmt::format("list {} stages with {} chunks per stage ({} chunks in total)", stages,
                           virtual_stages, stages * virtual_stages));
        return;
      }
      for (const parallel::ScheduleEntry& entry : listed.stages[stage].entries) {
        if (!parallel::ActionsOf(entry).empty()) continue;
        refuse(fmt::format("the schedule {} contains actions that gather, free or reduce "
                           "parameters",
                           *request_.schedule),
               "remove UNSHARD, RESHARD and REDUCE_GRAD; the framework decides when these run");
        return;
      }
    }
    if (const auto mistake = parallel::MessageOutOfOrder(listed)) {
      refuse(fmt::format("{}: {}", *request_.schedule, mistake->sentence),
             "list the micro-batches in the same order on the sending and the receiving stage");
    }
  }

  // Rules about a schedule together with other settings.
  void CheckWithSchedule(const RequestedSchedule& schedule) {
    const model::Checkpointing checkpointing =
        request_.activation_checkpointing.value_or(model::Checkpointing::kNone);
    if (schedule.splits_backward && checkpointing != model::Checkpointing::kNone) {
      Add("training.activation_checkpointing", "plan.axis-not-supported-with",
          fmt::format("the schedule {} splits backward into input and weight gradients, but "
                      "recomputation cannot be split: activation_checkpointing is {}",
                      schedule.name, model::Name(checkpointing)),
          "write activation_checkpointing: none, or schedule: 1f1b");
    }
  }

  bool ByWeights() const {
    return request_.framework && StyleOf(*request_.framework).stage_split == StageSplit::kByWeights;
  }

  void CheckStageLayers(std::int64_t stages) {
    if (request_.stage_layers) {
      const std::vector<std::int64_t>& layers = *request_.stage_layers;
      if (static_cast<std::int64_t>(layers.size()) != stages) {
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format(
                "stage_layers has {} entries, but must have {} entries (pipeline x virtual_stages)",
                layers.size(), stages),
            "list the number of blocks of each stage; with virtual stages, list the blocks of each "
            "chunk in the order of the layers");
        return;
      }
      for (std::size_t chunk = 0; chunk < layers.size(); ++chunk) {
        const bool ends = chunk == 0 || chunk + 1 == layers.size();
        if (layers[chunk] > 0 || (ends && facts_.has_ends)) continue;
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format("stage_layers[{}] is 0, so the stage would have no work", chunk),
            facts_.has_ends ? "write 1 or more; only the first stage (embedding) and the last "
                              "stage (head) can have 0 blocks"
                            : "write 1 or more for each stage");
      }
      const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
      if (facts_.blocks && sum != *facts_.blocks) {
        Add("parallelism.stage_layers", "plan.stage-layers",
            fmt::format("stage_layers adds up to {}, but the model has {} blocks", sum,
                        *facts_.blocks),
            "write numbers that add up to the model's number of blocks; do not count the embedding "
            "and the head");
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
          fmt::format("the model has {} blocks, but pipeline{} is {}", *facts_.blocks,
                      request_.virtual_stages.value_or(1) > 1 ? " x virtual_stages" : "", stages),
          fmt::format("use at most {} stages", *facts_.blocks));
      return;
    }
    if (ByWeights() && model.of_block > 0) {
      Add("parallelism.pipeline", "plan.stage-layers",
          fmt::format("{} blocks and the head are too few for {} stages, because {} gives each "
                      "stage, in order, an equal fraction of the weights",
                      *facts_.blocks, stages, plan::Name(*request_.framework)),
          "write a smaller pipeline degree, or list the number of blocks of each stage: "
          "stage_layers: [...]");
      return;
    }
    Add("parallelism.pipeline", "plan.stage-layers",
        fmt::format("{} blocks{} cannot be divided into {} equal stages", *facts_.blocks,
                    CountedEnds(request_), stages),
        fmt::format(
            "write a pipeline degree that divides the blocks equally, or list the number of blocks "
            "of each stage: stage_layers: [...]{}",
            *CountedEnds(request_) == '\0'
                ? ""
                : "; to divide only the blocks, omit account_for_embedding_in_pipeline_split and "
                  "account_for_loss_in_pipeline_split"));
  }

  // Returns " and the head", where equal parts count it as a block.
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
            fmt::format("a layer list has no embedding and no head, but {} is true", key),
            fmt::format("omit {}, or write stage_layers: [...]", key));
      } else if (request_.stage_layers) {
        Add(fmt::format("parallelism.{}", key), "plan.stage-layers",
            fmt::format(
                "stage_layers already sets the number of blocks of each stage, but {} is true",
                key),
            fmt::format("omit {} or stage_layers", key));
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

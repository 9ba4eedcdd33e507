#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/check.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

using Given = ParallelismRequest;
using Switch = SwitchSetting<Given, Parallelism>;
using Count = CountSetting<Given, Parallelism>;

// A generous limit: no machine is larger. The product of all five degrees fits in 64 bits.
constexpr std::int64_t kMostRanks = 10'000'000;
constexpr std::int64_t kMostOfAnAxis = 10'000;
constexpr std::int64_t kMostVirtualStages = 64;
constexpr std::int64_t kMostMicroBatchGroup = 1'000'000;

bool IsDivided(const Parallelism& axes) { return axes.tensor > 1; }
bool HasContext(const Parallelism& axes) { return axes.context > 1; }
bool IsPipeline(const Parallelism& axes) { return axes.pipeline > 1; }

std::vector<ParallelismSetting> Rows() {
  return {
      {.key = "data",
       .type = Count{&Given::data, &Parallelism::data, 1, kMostRanks},
       .of_task = true,  // it follows from the others
       .uses = {},
       .values = "dp, the data-parallel degree: the number of ranks that process different "
                 "sequences",
       .default_value = "the number of devices divided by the degrees of all other axes"},
      {.key = "tensor",
       .type = Count{&Given::tensor, &Parallelism::tensor, 1, kMostOfAnAxis},
       .uses = {},
       .values = "t, the number of ranks that divide each layer (`reference`, `megatron`, "
                 "`deepspeed`, `fsdp1`, `fsdp2`, `nanotron`). The ranks divide the heads, the "
                 "hidden units of feed-forward layers, and the vocabulary (arXiv 1909.08053). t "
                 "must divide the number of query heads, the number of key-value heads and the "
                 "intermediate size. With `megatron`, t may also be a multiple of the number of "
                 "key-value heads; ranks with the same key-value head gather each other's results. "
                 "If t does not divide the vocabulary, the vocabulary is padded",
       .default_value = "1"},
      {.key = "pipeline",
       .type = Count{&Given::pipeline, &Parallelism::pipeline, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "P, the number of pipeline stages (`reference`, `megatron`, `deepspeed`, `fsdp2` and "
           "`nanotron`). The stages divide the blocks of the model. The first stage also has the "
           "embedding, and the last stage also has the head",
       .default_value = "1"},
      {.key = "context",
       .type = Count{&Given::context, &Parallelism::context, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "c, the number of ranks that divide each sequence (`reference`, `megatron`, `fsdp2`). "
           "Outside of attention, each rank has 1/c of the tokens. The sequence is divided into 2c "
           "chunks; rank i has the i-th chunk from the start and the i-th chunk from the end. "
           "Gradients are summed, and states are sharded, over c x dp ranks",
       .default_value = "1"},
      {.key = "context_method",
       .type = Words<&Given::context_method, &Parallelism::context_method,
                     model::ContextMethod::kRing, model::ContextMethod::kAllGather,
                     model::ContextMethod::kAllToAll, model::ContextMethod::kHierarchical>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron),
                Of(Framework::kFsdp2, "`ring` and `all_gather`")},
       .without = "context",
       .shown = HasContext,
       .values = "how ranks exchange keys and values. `ring`: each rank sends its keys and values "
                 "around a ring while it computes blocks of attention (Transformer Engine's `p2p`, "
                 "PyTorch's `alltoall`). `all_gather`: each rank gathers all keys and values. "
                 "`all_to_all`: each rank receives all tokens of some heads (Transformer Engine's "
                 "`a2a`, DeepSpeed-Ulysses). `hierarchical`: all-to-alls among neighboring ranks, "
                 "and a ring across groups of neighboring ranks (Transformer Engine's `a2a+p2p`)",
       .default_value = "`ring`; fsdp2: `all_gather`"},
      {.key = "context_inner",
       .type = Count{&Given::context_inner, &Parallelism::context_inner, 2, kMostOfAnAxis},
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .without = "context",
       .shown = [](const Parallelism& axes) { return axes.context_inner > 1; },
       .values =
           "with `hierarchical`: the number of neighboring ranks that divide the heads. The number "
           "must be a divisor of c",
       .default_value = "none; required with `hierarchical`"},
      {.key = "expert",
       .type = Count{&Given::expert, &Parallelism::expert, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "e, the number of ranks that divide the experts of a mixture (`megatron`, `fsdp2`, "
           "`deepspeed`). Expert parallelism reuses the existing ranks and adds no GPUs: e x "
           "`expert_tensor` must divide t x c x dp. Ranks with the same experts sum the experts' "
           "gradients. With ZeRO, ranks with the same experts also shard the experts' states",
       .default_value = "1"},
      {.key = "expert_tensor",
       .type = Count{&Given::expert_tensor, &Parallelism::expert_tensor, 1, kMostOfAnAxis},
       .uses = {Of(Framework::kMegatron)},
       // Shown even if 1, where the default would be the tensor-parallel degree.
       .shown =
           [](const Parallelism& axes) {
             return axes.expert > 1 || axes.expert_tensor > 1 || axes.tensor > 1;
           },
       .values = "the number of ranks that divide each expert (Megatron-Core's "
                 "`expert_tensor_parallel_size`)",
       .default_value = "for models with experts: t, as in Megatron-Core"},
      {.key = "sequence_parallel",
       .type = Switch{&Given::sequence_parallel, &Parallelism::sequence_parallel},
       .uses = {},
       .without = "tensor",
       .shown = IsDivided,
       .values = "`true`: between layers that tensor parallelism divides, each rank has 1/t of the "
                 "tokens (arXiv 2205.05198)",
       .default_value = "false"},
      {.key = "schedule",
       .type = OwnNotation<&Given::schedule>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values =
           "the order in which a stage runs its passes: `1f1b`, `interleaved_1f1b`, `gpipe`, "
           "`breadth_first`, `zb_v`, `dualpipe_v`, `zb_h1`, `zb_h2`, `v_half`, `v_min`, or the "
           "path of a CSV file of actions ([format](other-tools.md#pipeline-schedules)), relative "
           "to the scenario's folder. `megatron` supports only the first two schedules of this "
           "list, and `fsdp2` only the first six. `stepcast schedule` draws a schedule",
       .default_value = "`interleaved_1f1b` if `virtual_stages` is more than 1; otherwise `1f1b`"},
      {.key = "virtual_stages",
       .type = Count{&Given::virtual_stages, &Parallelism::virtual_stages, 1, kMostVirtualStages},
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values = "v, the number of chunks of layers per stage. With `interleaved_1f1b` and "
                 "`breadth_first`, stage s has chunks s, s + P, s + 2P, ... With `zb_v`, `v_half`, "
                 "`v_min` and `dualpipe_v`, stage s has chunks s and 2P-1-s, and a step needs at "
                 "least 2P micro-batches. A CSV file lists the chunks of each stage",
       .default_value = "2 for schedules with several chunks per stage; otherwise 1"},
      {.key = "microbatch_group_size_per_vp_stage",
       .type = Count{&Given::microbatch_group_size_per_vp_stage,
                     &Parallelism::microbatch_group_size_per_vp_stage, 1, kMostMicroBatchGroup},
       .uses = {Of(Framework::kMegatron), Of(Framework::kReference)},
       .without = "pipeline",
       .shown =
           [](const Parallelism& axes) {
             return axes.microbatch_group_size_per_vp_stage != 0 &&
                    axes.microbatch_group_size_per_vp_stage != axes.pipeline;
           },
       .values = "with `interleaved_1f1b`: the number of micro-batches that run through a chunk "
                 "before the stage continues with its next chunk (Megatron-LM's setting with the "
                 "same name). Every group of micro-batches, including the last group, must have at "
                 "least P micro-batches",
       .default_value =
           "P, the number of stages. fsdp2: the M micro-batches of a step form max(1, floor(M / "
           "P)) equal groups, and M must be divisible by the number of groups "
           "(torch.distributed.pipelining)"},
      {.key = "stage_layers",
       .type = OwnNotation<&Given::stage_layers>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values = "a list with the number of blocks of each stage, in the order of the layers. With "
                 "virtual stages, the list has the number of blocks of each chunk. Instead of a "
                 "list, the value can be a layout of Megatron-LM: `Et*3|(tt|)*2L`. In a layer "
                 "list, every layer is a block. The first stage and the last stage may have 0 "
                 "blocks, because they have the embedding and the head",
       .default_value = "each stage has the same number of blocks. fsdp2: if the number of blocks "
                        "is not divisible by P, the first stages have one more block than the "
                        "other stages (torchtitan). nanotron: each stage gets blocks until the "
                        "stage has 1/P of the weights of all matrix multiplications, including the "
                        "head's weights"},
      {.key = "account_for_embedding_in_pipeline_split",
       .type = OwnNotation<&Given::account_for_embedding_in_pipeline_split>(),
       .uses = {},
       .without = "pipeline",
       .values = "`true`: the embedding is counted as a block, so the first chunk has one block "
                 "less than the other chunks (Megatron-LM's setting with the same name)",
       .default_value = "fsdp2: true (`pipeline_parallel_first_stage_less_layers: 1`). Otherwise: "
                        "false"},
      {.key = "account_for_loss_in_pipeline_split",
       .type = OwnNotation<&Given::account_for_loss_in_pipeline_split>(),
       .uses = {},
       .without = "pipeline",
       .values = "`true`: the head with the loss is counted as a block, so the last chunk has one "
                 "block less than the other chunks (Megatron-LM's setting with the same name)",
       .default_value = "fsdp2: true (`pipeline_parallel_last_stage_less_layers: 1`). Otherwise: "
                        "false"},
  };
}

const Count& FindAxis(std::string_view axis) {
  const ParallelismSetting* const setting = FindSetting(ParallelismSettings(), axis);
  STEPCAST_CHECK(setting != nullptr && std::holds_alternative<Count>(setting->type),
                 "the table of settings must have the axis, and the degree of the axis must be a "
                 "number");
  return std::get<Count>(setting->type);
}

}  // namespace

std::span<const ParallelismSetting> ParallelismSettings() {
  static const std::vector<ParallelismSetting> kRows = Rows();
  return kRows;
}

std::int64_t DegreeOf(const Parallelism& axes, std::string_view axis) {
  return axes.*FindAxis(axis).kept;
}
std::int64_t DegreeOf(const ParallelismRequest& request, std::string_view axis) {
  return (request.*FindAxis(axis).given).value_or(1);
}

}  // namespace stepcast::plan

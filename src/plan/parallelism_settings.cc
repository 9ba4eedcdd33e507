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
       .values = "dp, the data-parallel degree",
       .default_value = "the devices over the other axes"},
      {.key = "tensor",
       .type = Count{&Given::tensor, &Parallelism::tensor, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "t, the ranks among which layers are divided (`reference`, `megatron`, `deepspeed`, "
           "`fsdp1`, `fsdp2`, `nanotron`): heads, "
           "hidden units of the feed-forward layer and vocabulary (arXiv 1909.08053). t divides "
           "the numbers of query and of key-value heads and the intermediate size (with `megatron` "
           "t may also be a multiple of the number of key-value heads: ranks that share a head "
           "gather what each has made of it); a vocabulary is rounded up",
       .default_value = "1"},
      {.key = "pipeline",
       .type = Count{&Given::pipeline, &Parallelism::pipeline, 1, kMostOfAnAxis},
       .uses = {},
       .values = "P, the stages of a pipeline (`reference`, `megatron`, `deepspeed`, `fsdp2` "
                 "and `nanotron`). "
                 "The blocks of the model are shared out among them; the embedding comes with the "
                 "first, the head "
                 "with the last",
       .default_value = "1"},
      {.key = "context",
       .type = Count{&Given::context, &Parallelism::context, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "c, the ranks that have parts of each sequence (`reference`, `megatron`, `fsdp2`): "
           "1/c of its tokens everywhere but inside of attention, in 2c chunks of which a rank has "
           "the i-th and the i-th last. Gradients are added up, and states sharded, over the "
           "c ranks as over data-parallel ones",
       .default_value = "1"},
      {.key = "context_method",
       .type = Words<&Given::context_method, &Parallelism::context_method,
                     model::ContextMethod::kRing, model::ContextMethod::kAllGather,
                     model::ContextMethod::kAllToAll, model::ContextMethod::kHierarchical>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron),
                Of(Framework::kFsdp2, "`ring` and `all_gather`")},
       .without = "context",
       .shown = HasContext,
       .values = "how a rank's queries come to see the keys and values of all: `ring` (messages "
                 "around, a block of attention beside each; Transformer Engine's `p2p`, PyTorch's "
                 "`alltoall`), `all_gather`, `all_to_all` (each rank gets all tokens of some "
                 "heads; `a2a`, DeepSpeed-Ulysses), `hierarchical` (all-to-alls among neighbours, "
                 "a ring across; `a2a+p2p`)",
       .default_value = "`ring`; fsdp2: `all_gather`"},
      {.key = "context_inner",
       .type = Count{&Given::context_inner, &Parallelism::context_inner, 2, kMostOfAnAxis},
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .without = "context",
       .shown = [](const Parallelism& axes) { return axes.context_inner > 1; },
       .values = "with `hierarchical`: the neighbours that share out heads, a divisor of c",
       .default_value = "none: `hierarchical` needs it"},
      {.key = "expert",
       .type = Count{&Given::expert, &Parallelism::expert, 1, kMostOfAnAxis},
       .uses = {},
       .values =
           "e, the ranks among which the experts of a mixture are shared out (`megatron`). They "
           "are "
           "ranks of the other axes, folded anew: e x `expert_tensor` divides t x c x dp. Ranks of "
           "a pipeline stage that have the same experts add up their gradients, and with ZeRO "
           "shard "
           "their states",
       .default_value = "1"},
      {.key = "expert_tensor",
       .type = Count{&Given::expert_tensor, &Parallelism::expert_tensor, 1, kMostOfAnAxis},
       .uses = {Of(Framework::kMegatron)},
       // Shown even if 1, where the default would be the tensor-parallel degree.
       .shown =
           [](const Parallelism& axes) {
             return axes.expert > 1 || axes.expert_tensor > 1 || axes.tensor > 1;
           },
       .values = "the ranks that have a part of each expert (Megatron-Core's "
                 "`expert_tensor_parallel_size`)",
       .default_value = "t where the model is a mixture, as Megatron-Core has it"},
      {.key = "sequence_parallel",
       .type = Switch{&Given::sequence_parallel, &Parallelism::sequence_parallel},
       .uses = {},
       .without = "tensor",
       .shown = IsDivided,
       .values = "between the divided layers a rank has 1/t of the tokens (arXiv 2205.05198)",
       .default_value = "false"},
      {.key = "schedule",
       .type = OwnNotation<&Given::schedule>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values = "the order of a stage's passes: `1f1b`, `interleaved_1f1b` (`megatron` has these "
                 "two), `gpipe`, `breadth_first`, `zb_v`, `dualpipe_v` (`fsdp2` has these six), "
                 "`zb_h1`, `zb_h2`, `v_half`, `v_min`, or a CSV file of "
                 "actions ([format](other-tools.md#pipeline-schedules)), relative to the "
                 "scenario's folder; "
                 "`stepcast schedule` draws it",
       .default_value = "`1f1b`; with virtual stages `interleaved_1f1b`"},
      {.key = "virtual_stages",
       .type = Count{&Given::virtual_stages, &Parallelism::virtual_stages, 1, kMostVirtualStages},
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values =
           "v, the chunks of layers of a stage: stage s has chunks s, s + P, s + 2P, ... with "
           "`interleaved_1f1b` and "
           "`breadth_first`; chunks s and 2P-1-s with `zb_v`, `v_half`, `v_min` and `dualpipe_v` "
           "(at least 2P micro-batches); a CSV file's own",
       .default_value = "1; 2 with schedules of several chunks"},
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
       .values = "of `interleaved_1f1b`: so many micro-batches, P or more, run through a chunk "
                 "before the stage turns to its next one (Megatron-LM's setting of that name); the "
                 "last group is whole, or has P or more",
       .default_value = "P; fsdp2: the micro-batches M in max(1, floor(M / P)) equal groups, which "
                        "must divide them (torch.distributed.pipelining)"},
      {.key = "stage_layers",
       .type = OwnNotation<&Given::stage_layers>(),
       .uses = {},
       .without = "pipeline",
       .shown = IsPipeline,
       .values =
           "a list: how many blocks each stage has, with virtual stages each chunk in the order of "
           "the layers, or Megatron-LM's layout, `Et*3|(tt|)*2L`, which says the same; in a layer "
           "list every layer is a block; 0 for the first, which has the "
           "embedding besides, or the last, which has the head",
       .default_value = "equal parts; fsdp2: parts that differ by one, the first chunks' being the "
                        "larger ones (torchtitan); nanotron: each "
                        "stage takes blocks until it has "
                        "its part of the products' weights, the head's among them"},
      {.key = "account_for_embedding_in_pipeline_split",
       .type = OwnNotation<&Given::account_for_embedding_in_pipeline_split>(),
       .uses = {},
       .without = "pipeline",
       .values = "equal parts count the embedding as a block: the first chunk has one block fewer "
                 "(Megatron-LM's setting of that name)",
       .default_value = "false; fsdp2: true (`pipeline_parallel_first_stage_less_layers: 1`)"},
      {.key = "account_for_loss_in_pipeline_split",
       .type = OwnNotation<&Given::account_for_loss_in_pipeline_split>(),
       .uses = {},
       .without = "pipeline",
       .values = "likewise the head, with the loss: the last chunk has one block fewer",
       .default_value = "false; fsdp2: true (`pipeline_parallel_last_stage_less_layers: 1`)"},
  };
}

const Count& FindAxis(std::string_view axis) {
  const ParallelismSetting* const setting = FindSetting(ParallelismSettings(), axis);
  STEPCAST_CHECK(setting != nullptr && std::holds_alternative<Count>(setting->type),
                 "the table has the axis, and its degree is a number");
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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/plan/rank_grid.h"
#include "src/program/description.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/proofs/matching.h"
#include "tests/training/threaded_training.h"

// Any omission in a plan's communication is detected. Each collective, exchange and wait of each
// class of ranks is removed in all ranks of the class, and each peer is changed. Then either the
// programs are invalid (program/validator.h), or they do not match (program/matching.h), or the
// final parameters differ from those of plain data parallelism.
namespace stepcast::training {
namespace {

using program::Instruction;
using program::Opcode;

struct Plan {
  int stages = 1, data = 2;
  std::string data_parallel;
  int tensor = 1;
  bool sequence_parallel = false;
  int virtual_stages = 1;
  std::string schedule{};  // if not the framework's own
  int micro_batches = 2;
  std::string training{};  // more settings, for a transformer
  int context = 1;
  std::string more{};           // more settings of the axes
  const char* model = nullptr;  // another model than blocks or a transformer
  const char* experts = "";     // settings of its experts
};

constexpr const char* kAdapters =
    ", lora: {rank: 2, targets: linear_qkv linear_proj linear_fc1 linear_fc2, all_to_all: true}";

constexpr const char* kBlocks = R"({
  kind: layers,
  layers: [{name: block, repeat: 4, parameters: [24, 7], forward: 20 us, backward: 40 us,
            activation: 64 B, output: 16 B, communication: {
              forward: [[all_reduce, tensor, 64 B], [all_gather, tensor, 64 B]],
              backward: [[reduce_scatter, tensor, 64 B]]}}],
  optimizer_step: 20 us})";
constexpr const char* kTransformer = R"({
  kind: transformer, family: llama, num_hidden_layers: 1, hidden_size: 16,
  num_attention_heads: 4, intermediate_size: 8, vocab_size: 12})";
constexpr const char* kMixture = R"({
  kind: transformer, family: mixtral, num_hidden_layers: 2, hidden_size: 16,
  num_attention_heads: 4, intermediate_size: 8, num_experts: 4, num_experts_per_tok: 2,
  vocab_size: 12})";

constexpr const char* kDeepMixture = R"({
  kind: transformer, family: mixtral, num_hidden_layers: 4, hidden_size: 16,
  num_attention_heads: 4, intermediate_size: 8, num_experts: 4, num_experts_per_tok: 2,
  vocab_size: 12})";

constexpr const char* kSharedExperts = R"({
  kind: transformer, family: qwen3, num_hidden_layers: 2, hidden_size: 16,
  num_attention_heads: 4, intermediate_size: 8, num_experts: 4, num_experts_per_tok: 2,
  moe_intermediate_size: 8, shared_expert_intermediate_size: 8, vocab_size: 12})";

// Given times, and exchanges of expert-parallel ranks.
constexpr const char* kExchanges = R"({
  kind: layers,
  layers: [{name: block, repeat: 2, parameters: [24, 7], forward: 20 us, backward: 40 us,
            activation: 64 B, output: 16 B, communication: {
              forward: [[all_to_all, expert, 64 B], [all_to_all, expert, 64 B]],
              backward: [[all_to_all, expert, 64 B]]}}],
  optimizer_step: 20 us})";

scenario::Scenario Loaded(const Plan& plan) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: {}, micro_batch_size: 1, optimizer: adamw, precision: bf16,
            gradient_accumulation: {}{}}}
parallelism: {{pipeline: {}, tensor: {}, context: {}, sequence_parallel: {}, {}{}}}
data_parallel: {{{}}}
{}
)",
      plan.model != nullptr   ? plan.model
      : plan.training.empty() ? kBlocks
                              : kTransformer,
      plan.stages * plan.data * plan.tensor * plan.context, plan.training.empty() ? 8 : 16,
      plan.micro_batches, plan.training, plan.stages, plan.tensor, plan.context,
      plan.sequence_parallel,
      plan.schedule.empty() ? fmt::format("virtual_stages: {}", plan.virtual_stages)
                            : "schedule: " + plan.schedule,
      plan.more, plan.data_parallel, plan.experts);
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

// Removes the instruction and its effects.
void Remove(program::Program& program, std::size_t instruction) {
  program::DataFlow& flow = program.data_flow;
  const program::Index first = flow.first[instruction], last = flow.first[instruction + 1];
  flow.effects.erase(flow.effects.begin() + first, flow.effects.begin() + last);
  flow.first.erase(flow.first.begin() + static_cast<std::ptrdiff_t>(instruction));
  for (std::size_t i = instruction; i < flow.first.size(); ++i) flow.first[i] -= last - first;
  program.step.erase(program.step.begin() + static_cast<std::ptrdiff_t>(instruction));
}

// Changes the peer of the exchange's first message to another rank of its group.
void ChangePeer(program::Program& program, std::size_t instruction) {
  Instruction& changed = program.step[instruction];
  program::Exchange exchange = program.exchanges[changed.operand];
  const auto size = static_cast<int>(
      program.groups[program.communicators[exchange.communicator].group].ranks.size());
  exchange.messages.front().peer = (exchange.messages.front().peer + 1) % size;
  changed.operand = static_cast<program::Index>(program.exchanges.size());
  program.exchanges.push_back(exchange);
}

// The buffer got the same memory again: it was released and reallocated at once.
bool HasItsMemoryBack(const program::Program& program, const Instruction& instruction,
                      program::Index buffer) {
  for (auto at = static_cast<std::size_t>(&instruction - program.step.data()); at > 0; --at) {
    const Instruction& before = program.step[at - 1];
    if (before.opcode != Opcode::kAllocate || before.operand != buffer) continue;
    return at > 1 && program.step[at - 2].opcode == Opcode::kRelease &&
           program.step[at - 2].operand == buffer;
  }
  return false;
}

// Whether the host waits for data that it reads next.
bool ReadsOnHost(const program::Program& program, const Instruction& instruction) {
  const auto next = static_cast<std::size_t>(&instruction - program.step.data()) + 1;
  return next < program.step.size() && program.step[next].opcode == Opcode::kHostTask;
}

// Why a mutant may be undetected; empty if it must be detected.
std::string Explained(const program::Program& program, const Instruction& instruction) {
  if (instruction.opcode == Opcode::kHostWaitEvent && !ReadsOnHost(program, instruction)) {
    return "the host waits so that it does not run ahead; what has to be ordered is ordered "
           "without";
  }
  if (instruction.opcode == Opcode::kWaitEvent) {
    return "the validator proves that other waits order what this one does, too: frameworks wait "
           "more often than they need";
  }
  if (instruction.opcode != Opcode::kCollective) return "";
  const std::span<const program::BufferUse> uses(program.uses.data() + instruction.first_use,
                                                 instruction.use_count);
  const bool has_values = std::any_of(
      program.data_flow.effects.begin(), program.data_flow.effects.end(),
      [&](const program::Effect& effect) {
        if (effect.kind == program::EffectKind::kCollective) return false;  // its own
        return std::any_of(uses.begin(), uses.end(), [&](const program::BufferUse& use) {
          return use.buffer == effect.source.buffer || use.buffer == effect.target.buffer;
        });
      });
  if (!has_values) return "frozen parameters have no values that training would change";
  const program::Collective& collective = program.collectives[instruction.operand];
  if (instruction.phase == program::Phase::kForward &&
      collective.kind == CollectiveKind::kAllGather) {
    return "gradients are made from parameters as backward reads them; forward's leave no trace";
  }
  if (collective.kind == CollectiveKind::kAllGather &&
      std::any_of(uses.begin(), uses.end(), [&](const program::BufferUse& use) {
        return HasItsMemoryBack(program, instruction, use.buffer);
      })) {
    return "what was gathered before still lies there";
  }
  if (instruction.phase == program::Phase::kOptimizer && collective.bytes == Bytes(4)) {
    return "the norm of the gradients, with nothing to clip";
  }
  return "";
}

// Finds how the mutants of a plan are detected.
class Mutants {
 public:
  explicit Mutants(const Plan& plan) : scenario_(Loaded(plan)) {
    const parallel::RankGrid grid = plan::GridsOf(scenario_.plan).dense();
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      programs_.push_back(lowering::LowerRank(scenario_, {.rank = rank, .data_flow = true}));
      stages_.push_back(plan::StageOf(scenario_.plan, rank));
    }
  }

  // Reports every mutation of every class: what it is, what detects it, and why it need not be
  // detected.
  using Report = std::function<void(const std::string& what, const std::string& found,
                                    const std::string& explained)>;
  void Try(const Report& report) {
    ASSERT_EQ(FoundBy(programs_), "") << "the plan itself";
    std::set<int> done;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (!done.insert(stages_[rank]).second) continue;
      const program::Program& own = programs_[rank];
      for (std::size_t i = 0; i < own.step.size(); ++i) {
        const Opcode opcode = own.step[i].opcode;
        const std::string what = fmt::format("step[{}] {}", i, program::Describe(own, own.step[i]));
        if (opcode == Opcode::kCollective || opcode == Opcode::kExchange ||
            opcode == Opcode::kWaitEvent || opcode == Opcode::kHostWaitEvent) {
          report(what, FoundBy(Mutated(stages_[rank], [&](auto& program) { Remove(program, i); })),
                 Explained(own, own.step[i]));
        }
        if (opcode == Opcode::kExchange) {
          report(what + ", another peer",
                 FoundBy(Mutated(stages_[rank], [&](auto& program) { ChangePeer(program, i); })),
                 "");
        }
      }
    }
  }

 private:
  template <typename Mutate>
  std::vector<program::Program> Mutated(int stage, const Mutate& mutate) const {
    std::vector<program::Program> mutants = programs_;
    for (std::size_t rank = 0; rank < mutants.size(); ++rank) {
      if (stages_[rank] == stage) mutate(mutants[rank]);
    }
    return mutants;
  }

  std::string FoundBy(const std::vector<program::Program>& programs) const {
    std::vector<program::RankProgram> ranks;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      for (const program::Violation& violation : program::Validate(programs[rank])) {
        return "validator: " + violation.message;
      }
      ranks.push_back({static_cast<int>(rank), &programs[rank], nullptr});
    }
    for (const program::Violation& violation : program::ValidateTogether(ranks)) {
      return "together: " + violation.message;
    }
    const std::string wrong = WrongAfterTraining(scenario_, programs);
    return wrong.empty() ? "" : "values: " + wrong;
  }

  scenario::Scenario scenario_;
  std::vector<program::Program> programs_;  // by rank
  std::vector<int> stages_;                 // by rank
};

void ExpectToShow(const std::vector<Plan>& plans, int least) {
  int mutants = 0, explained_ones = 0;
  std::string survivors;
  for (const Plan& plan : plans) {
    Mutants(plan).Try([&](const std::string& what, const std::string& found,
                          const std::string& explained) {
      ++mutants;
      if (!found.empty()) return;
      if (!explained.empty()) {
        ++explained_ones;
        return;
      }
      survivors +=
          fmt::format("{} stages {} of {} x {}, {} virtual, {}: {}\n", plan.stages, plan.schedule,
                      plan.data, plan.tensor, plan.virtual_stages, plan.data_parallel, what);
    });
  }
  EXPECT_EQ(survivors, "");
  EXPECT_GT(mutants, least);
  EXPECT_LT(explained_ones, mutants / 2) << "of " << mutants;
  testing::Test::RecordProperty("mutants", mutants);
  testing::Test::RecordProperty("explained", explained_ones);
}

// Messages between context-parallel ranks.
TEST(Mutations, OfContextParallelismShow) {
  const auto plan = [](int context, const char* method, const char* data_parallel, int tensor = 1,
                       int stages = 1) {
    return Plan{.stages = stages,
                .data = 1,
                .data_parallel = data_parallel,
                .tensor = tensor,
                .training = ", activation_checkpointing: none",
                .context = context,
                .more = fmt::format(", context_method: {}", method)};
  };
  ExpectToShow({plan(4, "ring", "zero_stage: 0, framework: megatron"),
                plan(2, "all_gather", "zero_stage: 1, framework: megatron", 2),
                plan(2, "all_to_all", "zero_stage: 1, framework: reference", 2),
                plan(4, "all_to_all", "zero_stage: 0, framework: megatron"),
                plan(4, "hierarchical, context_inner: 2", "zero_stage: 0, framework: megatron"),
                plan(2, "ring", "zero_stage: 3, framework: fsdp2"),
                plan(4, "all_gather", "zero_stage: 3, framework: fsdp2")},
               200);
}

// Exchanges of expert-parallel ranks, and the reductions of the experts' and the router's
// gradients.
TEST(Mutations, OfExpertParallelismShow) {
  const auto plan = [](int data, const char* experts, const char* data_parallel, int tensor = 1,
                       int stages = 1, int context = 1) {
    return Plan{.stages = stages,
                .data = data,
                .data_parallel = data_parallel,
                .tensor = tensor,
                .sequence_parallel = tensor > 1,
                .training = ", activation_checkpointing: none",
                .context = context,
                .more = fmt::format(", {}", experts),
                .model = kMixture};
  };
  const char* const kStage0 = "zero_stage: 0, framework: megatron";
  const char* const kStage1 = "zero_stage: 1, framework: megatron";
  const char* const kStage3 = "zero_stage: 3, framework: fsdp2";
  ExpectToShow({plan(2, "expert: 2", kStage0),
                plan(4, "expert: 2", kStage0),
                plan(4, "expert: 2", kStage1),
                plan(2, "expert: 2, expert_tensor: 1", kStage1, 2),
                plan(2, "expert: 2, expert_tensor: 2", kStage1, 2),
                plan(4, "expert: 2, expert_tensor: 1", kStage1, 1, 2),
                plan(2, "expert: 4, expert_tensor: 1", kStage1, 1, 1, 2),
                plan(2, "expert: 2", kStage3),
                plan(4, "expert: 2", kStage3),
                plan(2, "expert: 2", kStage3, 2),
                plan(4, "expert: 2", kStage3, 1, 2),
                {.data = 4, .data_parallel = kStage1, .more = ", expert: 2", .model = kExchanges},
                {.data = 4,
                 .data_parallel = kStage1,
                 .more = ", expert: 4",
                 .model = kExchanges,
                 .experts = "experts: {imbalance: 1.75}"},
                {.stages = 2,
                 .data_parallel = kStage1,
                 .more = ", expert: 2",
                 .model = kExchanges,
                 .experts = "experts: {imbalance: 2}"}},
               200);
}

// DeepSpeed's MoE layer and AutoEP: experts have separate partitions and groups, and share buckets.
TEST(Mutations, OfDeepSpeedsExpertsShow) {
  const auto plan = [](int data, int stage, const char* more, const char* layer) {
    return Plan{.data = data,
                .data_parallel = stage == 0   ? "zero_stage: 0, framework: deepspeed"
                                 : stage == 1 ? "zero_stage: 1, framework: deepspeed"
                                              : "zero_stage: 2, framework: deepspeed",
                .training = std::string(", activation_checkpointing: none") + more,
                .more = ", expert: 2",
                .model = kMixture,
                .experts = layer};
  };
  const char* const kOwn = "experts: {implementation: deepspeed}";
  const char* const kAutoEp = "experts: {implementation: autoep}";
  const char* const kInFp32 = ", gradient_dtype: fp32";
  ExpectToShow({plan(4, 0, "", kOwn), plan(2, 1, "", kOwn), plan(4, 1, kInFp32, kOwn),
                plan(4, 2, "", kOwn), plan(4, 1, "", kAutoEp), plan(4, 2, "", kAutoEp)},
               200);
}

// A forward and a backward of two micro-batches issued in turns.
TEST(Mutations, OfPassesInTurnsShow) {
  const char* const kExperts =
      "experts: {overlap_communication: true, delay_weight_gradients: true}";
  const auto plan = [&](int stages, int data, const char* data_parallel) {
    return Plan{.stages = stages,
                .data = data,
                .data_parallel = data_parallel,
                .virtual_stages = stages > 1 ? 2 : 1,
                .micro_batches = 4,
                .training = ", activation_checkpointing: none",
                .more = ", expert: 2",
                .model = stages > 1 ? kDeepMixture : kMixture,
                .experts = kExperts};
  };
  ExpectToShow({plan(1, 2, "zero_stage: 0, framework: megatron"),
                plan(1, 4, "zero_stage: 1, framework: megatron"),
                plan(2, 2, "zero_stage: 1, framework: megatron"),
                {.stages = 2,
                 .data = 2,
                 .data_parallel = "zero_stage: 3, framework: fsdp2",
                 .schedule = "dualpipe_v",
                 .micro_batches = 4,
                 .training = ", activation_checkpointing: none",
                 .more = ", expert: 2",
                 .model = kDeepMixture}},
               200);
}

// Shared experts on a separate stream: each wait between the streams matters.
TEST(Mutations, OfSharedExpertsBesideExchangesShow) {
  ExpectToShow({{.stages = 1,
                 .data = 2,
                 .data_parallel = "zero_stage: 1, framework: megatron",
                 .training = ", activation_checkpointing: none",
                 .more = ", expert: 2",
                 .model = kSharedExperts,
                 .experts = "experts: {overlap_shared_experts: true}"}},
               100);
}

TEST(Mutations, OfCommunicationShow) {
  const std::vector<Plan> plans = {
      {1, 2, "zero_stage: 0, framework: reference"},
      {1, 2, "zero_stage: 1, framework: reference"},
      {1, 2, "zero_stage: 2, framework: reference"},
      {1, 2, "zero_stage: 3, framework: reference"},
      {1, 4, "zero_stage: 3, framework: reference, shard_group_size: 2"},
      {1, 2, "zero_stage: 0, framework: ddp"},
      {1, 2, "zero_stage: 3, framework: fsdp1"},
      {1, 2, "zero_stage: 3, framework: fsdp2"},
      {1, 2, "zero_stage: 0, framework: megatron"},
      {1, 2, "zero_stage: 1, framework: megatron"},
      {1, 2, "zero_stage: 0, framework: nanotron"},
      {1, 2, "zero_stage: 1, framework: nanotron"},
      {1, 2, "zero_stage: 1, framework: deepspeed"},
      {1, 2, "zero_stage: 2, framework: deepspeed"},
      {1, 2, "zero_stage: 3, framework: deepspeed"},
      {2, 1, "zero_stage: 0, framework: reference"},
      {4, 1, "zero_stage: 0, framework: reference"},
      {2, 2, "zero_stage: 1, framework: reference"},
      {2, 1, "zero_stage: 0, framework: megatron"},
      {4, 1, "zero_stage: 0, framework: megatron"},
      {2, 2, "zero_stage: 1, framework: megatron"},
      {1, 1, "zero_stage: 0, framework: reference", 2},
      {1, 2, "zero_stage: 1, framework: megatron", 2, true},
      {1, 2, "zero_stage: 3, framework: fsdp2", 2},
      {2, 1, "zero_stage: 0, framework: nanotron"},
      {1, 2, "zero_stage: 1, framework: nanotron", 2, true},
      {2, 1, "zero_stage: 1, framework: nanotron", 2, true},
      {2, 1, "zero_stage: 0, framework: megatron", 2},
      {2, 1, "zero_stage: 0, framework: reference", 1, false, 2},
      {2, 1, "zero_stage: 0, framework: megatron", 2, true, 2},
      {2, 2, "zero_stage: 1, framework: megatron", 1, false, 2},
      {2, 2, "zero_stage: 1, framework: megatron, overlap_param_gather_with_optimizer_step: true",
       1, false, 2},
      {2, 1, "zero_stage: 0, framework: reference", 1, false, 1, "gpipe"},
      {2, 1, "zero_stage: 0, framework: reference", 1, false, 1,
       "breadth_first, virtual_stages: 2"},
      {2, 2, "zero_stage: 1, framework: reference", 1, false, 1, "zb_h1"},
      {2, 1, "zero_stage: 0, framework: reference", 2, false, 1, "zb_v"},
      {2, 1, "zero_stage: 0, framework: reference", 1, false, 1, "dualpipe_v", 4},
      {2, 1, "zero_stage: 0, framework: megatron, scatter_gather_tensors_in_pipeline: true", 2},
      {2, 2, "zero_stage: 1, framework: deepspeed, deepspeed: {reduce_bucket_size: 100}"},
      {2, 1, "zero_stage: 1, framework: deepspeed, deepspeed: {reduce_bucket_size: 100}", 2},
      {2, 2, "zero_stage: 3, framework: fsdp2"},
      {2, 2, "zero_stage: 3, framework: fsdp2", 1, false, 1, "zb_v"},
      {4, 2, "zero_stage: 3, framework: fsdp2", 1, false, 1, "gpipe"},
      {1, 1, "zero_stage: 0, framework: megatron", 4, true, 1, "", 1,
       ", tensor_overlap: user_buffers"},
      {1, 1, "zero_stage: 3, framework: fsdp2", 4, true, 1, "", 1,
       ", compile: true, tensor_overlap: async"},
      {1, 2, "zero_stage: 0, framework: ddp", 1, false, 1, "", 2, kAdapters},
      {1, 2, "zero_stage: 3, framework: fsdp2", 1, false, 1, "", 2, kAdapters},
      {1, 2, "zero_stage: 2, framework: deepspeed", 1, false, 1, "", 2, kAdapters},
      {1, 2, "zero_stage: 1, framework: megatron", 2, true, 1, "", 2, kAdapters},
  };
  ExpectToShow(plans, 500);
}

}  // namespace
}  // namespace stepcast::training

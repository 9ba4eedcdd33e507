// A program that is resized for another number of ranks is the one that would be lowered for it.

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/model/model.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

std::vector<std::string> AnyPlan() {
  std::vector<std::string> set;
  const auto vary = [&set](const char* key, std::vector<std::string> values) {
    set.push_back(std::string(key) + "=" + *rc::gen::elementOf(values));
  };
  const std::string framework = *rc::gen::elementOf(
      std::vector<std::string>{"reference", "ddp", "fsdp2", "fsdp1", "deepspeed", "megatron"});
  set.push_back("data_parallel.framework=" + framework);
  if (framework == "reference") {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3"});
    vary("data_parallel.overlap", {"true", "false"});
  } else if (framework == "deepspeed") {
    vary("data_parallel.zero_stage", {"1", "2", "3"});
  } else {
    set.push_back("data_parallel.zero_stage=" + std::string(framework == "ddp"        ? "0"
                                                            : framework == "megatron" ? "1"
                                                                                      : "3"));
  }
  if (framework == "reference" || framework == "ddp") {
    vary("data_parallel.bucket_size", {"1 MiB", "25 MiB", "200 MiB"});
  }
  if (framework == "reference" || framework == "fsdp2") {
    vary("data_parallel.shard_group_size", {"8", "null"});
    if (set.back().ends_with("null")) set.pop_back();
    vary("training.gradient_clipping", {"1", "null"});
    if (set.back().ends_with("null")) set.pop_back();
  }
  if ((framework == "fsdp2" || framework == "reference") && set[1].ends_with("=3")) {
    vary("data_parallel.reshard_after_forward", {"true", "false", "4"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
  }
  if (framework == "reference") {
    vary("training.optimizer_implementation", {"fused", "foreach"});
  } else if (framework == "ddp" || framework == "fsdp1" || framework == "fsdp2") {
    vary("training.optimizer_implementation", {"fused", "foreach", "single"});
    vary("software.torch", {"2.6", "2.0"});
    if (framework == "fsdp2") set.pop_back();
    if (framework == "fsdp1") vary("data_parallel.use_orig_params", {"true", "false"});
  }
  vary("training.gradient_accumulation", {"1", "3"});
  vary("training.precision", {"bf16", "fp32"});
  vary("training.activation_checkpointing", {"none", "full"});
  return set;
}

void CheckSame(const program::Program& a, const program::Program& b) {
  RC_ASSERT(a.streams.size() == b.streams.size());
  RC_ASSERT(a.events.size() == b.events.size());
  RC_ASSERT(a.labels == b.labels);
  RC_ASSERT(a.groups.size() == b.groups.size());
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    RC_ASSERT(a.groups[i].name == b.groups[i].name);
    RC_ASSERT(a.groups[i].ranks == b.groups[i].ranks);
  }
  RC_ASSERT(a.communicators.size() == b.communicators.size());
  for (std::size_t i = 0; i < a.communicators.size(); ++i) {
    RC_ASSERT(a.communicators[i].name == b.communicators[i].name);
    RC_ASSERT(a.communicators[i].group == b.communicators[i].group);
  }
  RC_ASSERT(a.buffers.size() == b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    RC_ASSERT(a.buffers[i].name == b.buffers[i].name);
    RC_ASSERT(a.buffers[i].size == b.buffers[i].size);
    RC_ASSERT(a.buffers[i].padding == b.buffers[i].padding);
    RC_ASSERT(a.buffers[i].category == b.buffers[i].category);
  }
  RC_ASSERT(a.kernels.size() == b.kernels.size());
  for (std::size_t i = 0; i < a.kernels.size(); ++i) {
    RC_ASSERT(a.kernels[i].name == b.kernels[i].name);
    RC_ASSERT(a.kernels[i].kind == b.kernels[i].kind);
    RC_ASSERT(a.kernels[i].data_type == b.kernels[i].data_type);
    RC_ASSERT(a.kernels[i].issuer == b.kernels[i].issuer);
    RC_ASSERT(a.kernels[i].m == b.kernels[i].m);
    RC_ASSERT(a.kernels[i].summed_tokens == b.kernels[i].summed_tokens);
    RC_ASSERT(a.kernels[i].flops == b.kernels[i].flops);
    RC_ASSERT(a.kernels[i].read == b.kernels[i].read);
    RC_ASSERT(a.kernels[i].written == b.kernels[i].written);
    RC_ASSERT(a.kernels[i].given == b.kernels[i].given);
  }
  RC_ASSERT(a.collectives == b.collectives);
  RC_ASSERT(a.copies.size() == b.copies.size());
  for (std::size_t i = 0; i < a.copies.size(); ++i) {
    RC_ASSERT(a.copies[i].bytes == b.copies[i].bytes);
    RC_ASSERT(a.copies[i].direction == b.copies[i].direction);
  }
  for (const auto section : {&program::Program::prologue, &program::Program::step}) {
    RC_ASSERT((a.*section).size() == (b.*section).size());
    for (std::size_t i = 0; i < (a.*section).size(); ++i) {
      const program::Instruction& one = (a.*section)[i];
      const program::Instruction& other = (b.*section)[i];
      RC_ASSERT(one.opcode == other.opcode);
      RC_ASSERT(one.phase == other.phase);
      RC_ASSERT(one.stream == other.stream);
      RC_ASSERT(one.operand == other.operand);
      RC_ASSERT(one.micro_batch == other.micro_batch);
      RC_ASSERT(one.label == other.label);
      RC_ASSERT(one.use_count == other.use_count);
      for (program::Index u = 0; u < one.use_count; ++u) {
        RC_ASSERT(a.uses[one.first_use + u].buffer == b.uses[other.first_use + u].buffer);
        RC_ASSERT(a.uses[one.first_use + u].write == b.uses[other.first_use + u].write);
      }
    }
  }
}

TEST(ResizeTest, IsLoweringForOtherNumbersOfRanks) {
  scenario::InputCache cache;
  rc::detail::checkGTest([&] {
    const std::vector<std::string> plan = AnyPlan();
    const auto load = [&](const char* nodes) {
      std::vector<std::string> set = plan;
      set.push_back(std::string("cluster.nodes=") + nodes);
      const auto scenario = scenario::LoadText(kScenario, "test", set, cache);
      if (!scenario) RC_FAIL(Format(scenario.error()));
      return *scenario;
    };
    // More than one group of 8, so that a hybrid plan stays one.
    const scenario::Scenario before =
        load(*rc::gen::elementOf(std::vector<const char*>{"2", "3", "16"}));
    const scenario::Scenario after =
        load(*rc::gen::elementOf(std::vector<const char*>{"2", "5", "12"}));
    const auto works = model::BuildWork(*after.model, plan::WorkOptionsOf(after.plan.training));
    // In the memory of a program that was something else.
    program::Program spent = Lower(after);
    ProgramSizes sizes;
    const bool knows = *rc::gen::arbitrary<bool>();
    program::Program program =
        knows ? Lower(before, {.sizes = &sizes, .spent = &spent}) : Lower(before);
    const bool same = Resize(after, works, program, knows ? &sizes : nullptr);
    const plan::Framework framework = after.plan.data_parallel.framework;
    RC_CLASSIFY(same, plan::Name(framework));
    // Where programs are the same but for sizes.
    if (framework == plan::Framework::kReference || framework == plan::Framework::kDdp ||
        framework == plan::Framework::kFsdp2) {
      RC_ASSERT(same);
      RC_ASSERT(sizes.complete() == knows);
    }
    if (same) CheckSame(program, Lower(after));
  });
}

TEST(ResizeTest, IsLoweringForOtherMicroBatches) {
  scenario::InputCache cache;
  rc::detail::checkGTest([&] {
    const std::vector<std::string> plan = AnyPlan();
    const auto load = [&] {
      std::vector<std::string> set = plan;
      set.push_back("cluster.nodes=" + *rc::gen::element<std::string>("2", "5"));
      set.push_back("training.micro_batch_size=" + *rc::gen::element<std::string>("1", "2", "40"));
      set.push_back("training.sequence_length=" + *rc::gen::element<std::string>("64", "1024"));
      const auto scenario = scenario::LoadText(kScenario, "test", set, cache);
      if (!scenario) RC_FAIL(Format(scenario.error()));
      return *scenario;
    };
    const scenario::Scenario before = load(), after = load();
    const auto works_of = [](const scenario::Scenario& scenario) {
      return model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training));
    };
    const auto works = works_of(after);
    const bool can = CanReplaceWork(after.plan, works_of(before), works);
    const plan::Framework framework = after.plan.data_parallel.framework;
    RC_CLASSIFY(can, plan::Name(framework));
    // Other micro-batches may need most when other temporaries are there.
    if (!can) return;
    const bool bare = *rc::gen::arbitrary<bool>();
    ProgramSizes sizes;
    program::Program program = Lower(before, {.bare = bare, .sizes = &sizes});
    ReplaceWork(after, works, program);
    RC_ASSERT(Resize(after, works, program, &sizes));
    CheckSame(program, Lower(after, {.bare = bare}));
  });
}

TEST(ResizeTest, WorkWithOtherKernelsIsNotReplaced) {
  scenario::InputCache cache;
  const auto load = [&](const char* set) {
    auto scenario =
        scenario::LoadText(kScenario, "test", {"model=models/llama2-7b.yaml", set}, cache);
    EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
    return *scenario;
  };
  const auto works_of = [](const scenario::Scenario& scenario) {
    return model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training));
  };
  const auto plain = load("training.micro_batch_size=1");
  const auto recomputed = load("training.activation_checkpointing=full");
  const auto larger = load("training.micro_batch_size=2");
  EXPECT_TRUE(CanReplaceWork(plain.plan, works_of(plain), works_of(larger)));
  EXPECT_FALSE(CanReplaceWork(plain.plan, works_of(plain), works_of(recomputed)));
  // What the loader copies to the device has the size of a micro-batch, too.
  const auto loads = load("training.data_loading={time: 1 ms, workers: 1, prefetch: 2}");
  EXPECT_FALSE(CanReplaceWork(loads.plan, works_of(loads), works_of(loads)));
}

TEST(ResizeTest, RefusesAPlanWithOtherInstructions) {
  scenario::InputCache cache;
  const auto scenario =
      scenario::LoadText(kScenario, "test", {"data_parallel.zero_stage=1"}, cache);
  const auto alone = scenario::LoadText(
      kScenario, "test", {"data_parallel.zero_stage=3", "data_parallel.framework=fsdp2"}, cache);
  ASSERT_TRUE(scenario.has_value());
  ASSERT_TRUE(alone.has_value());
  const auto works =
      model::BuildWork(*scenario->model, plan::WorkOptionsOf(scenario->plan.training));
  program::Program program = Lower(*alone);
  EXPECT_FALSE(Resize(*scenario, works, program));
  program::Program nothing;
  EXPECT_FALSE(Resize(*scenario, works, nothing));
}

}  // namespace
}  // namespace stepcast::lowering

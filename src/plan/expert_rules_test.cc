#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

// Mixtral's experts, on eight devices.
Facts EightExperts() {
  Facts facts = EightDevices();
  facts.divided = {{"num_attention_heads", 32}, {"num_key_value_heads", 8, 128}};
  facts.experts = 8;
  facts.expert_width = 14336;
  return facts;
}

Request Megatron() {
  Request request = Legal();
  request.framework = Framework::kMegatron;
  return request;
}

void ExpectFault(const Facts& facts, const std::function<void(Request&)>& change,
                 const std::string& key, const std::string& code, const std::string& message) {
  Request request = Megatron();
  change(request);
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1U) << message;
  EXPECT_EQ(violations[0].key, key);
  EXPECT_EQ(violations[0].code, code);
  EXPECT_EQ(violations[0].message, message);
  EXPECT_FALSE(violations[0].hint.empty());
}

TEST(ExpertRules, ExpertsAreSharedOutAmongDivisorsOfTheRanksOfAStage) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    Request request = Megatron();
    request.expert = ranks;
    EXPECT_TRUE(Check(request, EightExperts()).empty()) << ranks;
  }
  // Tensor-parallel ranks are among those that share experts out.
  Request folded = Megatron();
  folded.tensor = 2;
  folded.sequence_parallel = true;
  folded.expert = 8;
  folded.expert_tensor = 1;
  EXPECT_TRUE(Check(folded, EightExperts()).empty());
}

// After the products of divided experts, every rank would add the whole bias.
TEST(ExpertRules, BiasesOfExpertsAreNotDivided) {
  Facts biased = EightExperts();
  biased.expert_biases = true;
  ExpectFault(
      biased,
      [](Request& r) {
        r.expert = 2;
        r.expert_tensor = 2;
      },
      "parallelism.expert_tensor", "plan.experts-not-supported-with",
      "experts with biases are not modelled with expert_tensor above 1: expert_tensor is 2");
  Request whole = Megatron();
  whole.expert = 4;
  EXPECT_TRUE(Check(whole, biased).empty());
}

TEST(ExpertRules, NameEveryImpossibleCombinationWithBothValues) {
  Facts nine = EightExperts();
  nine.devices = 9;
  ExpectFault(
      nine, [](Request& r) { r.expert = 3; }, "parallelism.expert", "plan.expert-division",
      "the model's 8 experts are not divisible by parallelism.expert 3");
  Facts few = EightExperts();
  few.devices = 4;
  ExpectFault(
      few, [](Request& r) { r.expert = 8; }, "parallelism.expert", "plan.expert-folding",
      "expert x expert_tensor (8 x 1) must be a divisor of tensor x context x data (1 x 1 x 4)");
  ExpectFault(
      EightExperts(),
      [](Request& r) {
        r.framework = Framework::kDdp;
        r.expert = 2;
      },
      "parallelism.expert", "plan.axis-not-of-framework",
      "expert parallelism is not modelled with framework ddp, but expert is 2");
  ExpectFault(
      EightExperts(), [](Request& r) { r.tensor = 2; }, "parallelism.sequence_parallel",
      "plan.experts-need-sequence-parallel",
      "with tensor parallelism, each rank must route its part of the tokens to the experts, but "
      "sequence_parallel is false");
  ExpectFault(
      EightExperts(),
      [](Request& r) {
        r.expert = 2;
        r.imbalance = 3;
      },
      "experts.imbalance", "plan.expert-imbalance",
      "experts.imbalance (largest / mean number of rows of a rank) can be at most 2 with 2 ranks, "
      "but is 3");
  Facts dense = EightExperts();
  dense.experts = 0;
  ExpectFault(
      dense, [](Request& r) { r.expert = 2; }, "parallelism.expert", "plan.no-experts",
      "expert parallelism of degree 2 needs a model with experts");
  ExpectFault(
      dense, [](Request& r) { r.overlap_communication = true; }, "experts.overlap_communication",
      "plan.no-experts",
      "overlap_communication applies to exchanges between experts, but the model has no experts");
}

// DeepSpeed's MoE layer, with two ranks that have the same experts.
Request DeepSpeed() {
  Request request = Legal();
  request.framework = Framework::kDeepSpeed;
  request.zero_stage = 2;
  request.expert = 4;
  return request;
}

TEST(ExpertRules, DeepSpeedsLayersHaveDeepSpeedsConditions) {
  using model::ExpertImplementation;
  EXPECT_TRUE(Check(DeepSpeed(), EightExperts()).empty());
  Request slots = DeepSpeed();
  slots.expert_implementation = ExpertImplementation::kDeepSpeed;
  slots.capacity_factor = 1.25;
  slots.min_capacity = 8;
  EXPECT_TRUE(Check(slots, EightExperts()).empty());
  Request autoep = DeepSpeed();
  autoep.expert_implementation = ExpertImplementation::kAutoEp;
  autoep.expert_products = model::ExpertProducts::kLooped;
  EXPECT_TRUE(Check(autoep, EightExperts()).empty());
  struct Refused {
    void (*change)(Request& request);
    const char* key;
    const char* message;
  };
  const Refused refused[] = {
      {[](Request& r) { r.zero_stage = 3; }, "data_parallel.zero_stage",
       "DeepSpeed's MoE layer does not support ZeRO-3 ('MoE not supported with Stage "
       "3'), but zero_stage is 3"},
      {[](Request& r) {
         r.zero_stage = 3;
         r.expert_implementation = ExpertImplementation::kAutoEp;
       },
       "data_parallel.zero_stage", "AutoEP with ZeRO-3 is not modelled, but zero_stage is 3"},
      {[](Request& r) { r.expert_implementation = ExpertImplementation::kTransformers; },
       "parallelism.expert",
       "with implementation: transformers, every rank has all experts, but expert is 4"},
      {[](Request& r) { r.expert_implementation = ExpertImplementation::kTorchtitan; },
       "experts.implementation",
       "only fsdp2 shards torchtitan's layers, but implementation is torchtitan"},
      {[](Request& r) {
         r.expert_implementation = ExpertImplementation::kAutoEp;
         r.min_capacity = 4;
       },
       "experts.implementation",
       "only DeepSpeed's MoE layer has an expert capacity, but min_capacity is set for "
       "implementation autoep"},
      {[](Request& r) { r.expert_products = model::ExpertProducts::kGrouped; }, "experts.products",
       "DeepSpeed's MoE layer runs the experts one after another (looped), but products "
       "is grouped"},
      {[](Request& r) { r.router_dtype = DataType::kBf16; }, "experts.router_dtype",
       "the gate of DeepSpeed's MoE layer computes in fp32, but router_dtype is bf16"},
      {[](Request& r) {
         r.deepspeed = DeepSpeedRequest();
         r.deepspeed->reduce_scatter = false;
       },
       "data_parallel.deepspeed.reduce_scatter",
       "ZeRO-1 and ZeRO-2 with expert groups need reduce_scatter, but reduce_scatter is false"},
      {[](Request& r) {
         r.zero_stage = 1;
         r.tensor = 2;
       },
       "parallelism.tensor",
       "tensor parallelism of a mixture of experts is not modelled with framework deepspeed"},
  };
  for (const Refused& one : refused) {
    Request request = DeepSpeed();
    one.change(request);
    const std::vector<Violation> violations = Check(request, EightExperts());
    ASSERT_EQ(violations.size(), 1U) << one.message;
    EXPECT_EQ(violations[0].key, one.key);
    EXPECT_EQ(violations[0].message, one.message);
    EXPECT_FALSE(violations[0].hint.empty());
  }
  Request fsdp2 = DeepSpeed();
  fsdp2.framework = Framework::kFsdp2;
  fsdp2.expert_implementation = ExpertImplementation::kAutoEp;
  EXPECT_EQ(
      Check(fsdp2, EightExperts()).front().message,
      "fsdp2 shards only the layers of torchtitan and transformers, but implementation is autoep");
}

Request Overlapping() {
  Request request = Megatron();
  request.expert = 4;
  request.precision = DataType::kBf16;
  request.overlap_communication = true;
  request.delay_weight_gradients = true;
  return request;
}

TEST(ExpertRules, PassesInTurnsHaveMegatronCoresConditions) {
  EXPECT_TRUE(Check(Overlapping(), EightExperts()).empty());
  struct Refused {
    void (*change)(Request& request);
    const char* key;
  };
  const Refused refused[] = {
      {[](Request& r) { r.overlap_communication = false; }, "experts.delay_weight_gradients"},
      {[](Request& r) { r.expert = 1; }, "parallelism.expert"},
      {[](Request& r) { r.dispatcher = model::Dispatcher::kAllGather; }, "experts.dispatcher"},
      {[](Request& r) { r.precision = DataType::kFp32; }, "training.precision"},
      {[](Request& r) { r.cuda_device_max_connections = 1; },
       "software.cuda_device_max_connections"},
      {[](Request& r) { r.activation_checkpointing = model::Checkpointing::kFull; },
       "training.activation_checkpointing"},
      {[](Request& r) {
         r.activation_checkpointing = model::Checkpointing::kSelective;
         r.recompute_modules = model::RecomputedModules{.moe = true};
       },
       "training.recompute_modules"},
  };
  for (const Refused& one : refused) {
    Request request = Overlapping();
    one.change(request);
    const std::vector<Violation> violations = Check(request, EightExperts());
    ASSERT_EQ(violations.size(), 1U) << one.key;
    EXPECT_EQ(violations[0].key, one.key);
    EXPECT_EQ(violations[0].code, "plan.expert-overlap");
  }
}

// Its passes run in turns like a transformer's.
TEST(ExpertRules, ALayerListHasThemToo) {
  Facts listed = EightExperts();
  listed.experts = 0;
  listed.has_ends = false;
  Request request = Overlapping();
  EXPECT_TRUE(Check(request, listed).empty());
  request.activation_offload = true;
  const auto faults = Check(request, listed);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults.front().key, "training.activation_offload");
}

TEST(ExpertRules, RowsOfALayerListAreAtMostAllOfThem) {
  Facts listed = EightExperts();
  listed.experts = 0;
  listed.has_ends = false;
  Request request = Megatron();
  request.expert = 4;
  request.imbalance = 4;
  EXPECT_TRUE(Check(request, listed).empty());
  request.imbalance = 4.5;
  const auto faults = Check(request, listed);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults.front().code, "plan.expert-imbalance");
}

TEST(ExpertRules, PassesInTurnsOfAPipelineNeedSeveralChunks) {
  Request request = Overlapping();
  request.pipeline = 4;
  request.expert = 2;
  request.gradient_accumulation = 4;
  Facts facts = EightExperts();
  facts.blocks = 16;
  std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].key, "parallelism.virtual_stages");
  request.virtual_stages = 2;
  EXPECT_TRUE(Check(request, facts).empty());
  request.overlap_p2p_comm = false;
  violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].key, "data_parallel.overlap_p2p_comm");
}

TEST(ExpertRules, SharedExpertsRunBesideAllToAllsOfUndividedLayers) {
  const auto beside = [] {
    Request request = Megatron();
    request.expert = 4;
    request.overlap_shared_experts = true;
    return request;
  };
  Facts facts = EightExperts();
  EXPECT_TRUE(Check(beside(), facts).empty());
  struct Refused {
    void (*change)(Request& request);
    const char* key;
  };
  const Refused refused[] = {
      {[](Request& r) { r.overlap_communication = true; }, "experts.overlap_shared_experts"},
      {[](Request& r) { r.expert = 1; }, "parallelism.expert"},
      {[](Request& r) { r.dispatcher = model::Dispatcher::kDeepEp; }, "experts.dispatcher"},
      {[](Request& r) {
         r.tensor = 2;
         r.sequence_parallel = true;
         r.expert_tensor = 1;
       },
       "parallelism.tensor"},
  };
  for (const Refused& one : refused) {
    Request request = beside();
    one.change(request);
    const std::vector<Violation> violations = Check(request, facts);
    ASSERT_EQ(violations.size(), 1U) << one.key;
    EXPECT_EQ(violations[0].key, one.key);
    EXPECT_EQ(violations[0].code, "plan.expert-overlap");
  }
}

}  // namespace
}  // namespace stepcast::plan

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_tensors.h"

// The module that predicts a further token, which is part of the head's layer.
namespace stepcast::model {
namespace {

// DeepSeek-V3 with dense blocks alone: h = 7168, f = 18432, V = 129280.
Architecture Dense() {
  Architecture a = Shipped("deepseek-v3");
  a.experts = {};
  a.further_tokens = 1;
  return a;
}

LayerWork HeadOf(const Architecture& a, const WorkOptions& options) {
  return TransformerWork(a, options)[kHead];
}

std::int64_t Count(const Architecture& architecture) {
  EXPECT_TRUE(Check(architecture).empty());
  std::int64_t count = 0;
  for (const Tensor& tensor : LayOut(architecture).tensors) count += tensor.elements;
  return count;
}

// A block with experts, 11,507,286,016, the projection of 2 h to h, 102,760,448, and three norms of
// h (11.5B without shared parameters, says deepseek-ai/DeepSeek-V3, README_WEIGHTS.md).
TEST(FurtherTokensTest, Parameters) {
  Architecture a = Shipped("deepseek-v3");
  a.further_tokens = 1;
  EXPECT_EQ(Count(a), 671'026'404'352 + 11'610'067'968);
  const TransformerLayout layout = LayOut(a);
  const Layer& head = layout.layers.back();
  // The embedding's tensor is the first layer's, and stands here too.
  EXPECT_EQ(head.tensors.front(), layout.layers.front().tensors.front());
  const auto name = [&](std::size_t position) {
    return layout.tensors[static_cast<std::size_t>(head.tensors[position])].name;
  };
  EXPECT_EQ(name(1), "model.layers.61.enorm.weight");
  EXPECT_EQ(name(2), "model.layers.61.hnorm.weight");
  EXPECT_EQ(name(3), "model.layers.61.eh_proj.weight");
  EXPECT_EQ(name(4), "model.layers.61.self_attn.q_a_proj.weight");
  EXPECT_EQ(name(11), "model.layers.61.mlp.experts.gate_up_proj");
  ASSERT_EQ(head.tensors.size(), 22U);
  EXPECT_EQ(name(19), "model.layers.61.shared_head.norm.weight");
  EXPECT_EQ(name(20), "model.norm.weight");
  EXPECT_EQ(name(21), "lm_head.weight");
  const auto& experts = layout.tensors[static_cast<std::size_t>(head.tensors[11])];
  EXPECT_EQ(experts.group, ParameterGroup::kExperts);
  EXPECT_TRUE(experts.of_block);
}

TEST(FurtherTokensTest, OnlySomeModelsHaveIt) {
  const auto fields = [](Architecture a, std::int64_t further) {
    a.further_tokens = further;
    std::vector<std::string> fields;
    for (const ArchitectureFault& fault : Check(a)) fields.push_back(fault.field);
    return fields;
  };
  const std::vector<std::string> refused = {"num_nextn_predict_layers"};
  EXPECT_TRUE(fields(Shipped("deepseek-v3"), 2).empty());
  EXPECT_EQ(fields(Shipped("deepseek-v3"), kMostFurtherTokens + 1), refused);
  EXPECT_EQ(fields(Shipped("gpt2"), 1), refused);
  Architecture tied = Shipped("llama3.1-8b");
  EXPECT_TRUE(fields(tied, 1).empty());
  tied.tie_embeddings = true;
  EXPECT_EQ(fields(tied, 1), refused);
}

// Two products with the vocabulary, the projection of 2 h to h and the block's products: 2 FLOPs a
// weight and token; backward has twice as many.
TEST(FurtherTokensTest, Flops) {
  const Architecture a = Dense();
  const WorkOptions options = Options(1, 64, Checkpointing::kNone, Attention::kFlash3);
  const std::int64_t block = ModelFlops(BlockOf(a, options).forward);
  const LayerWork head = HeadOf(a, options);
  const std::int64_t forward = 2 * 64 * (2 * 7168LL * 129280 + 2 * 7168LL * 7168) + block;
  EXPECT_EQ(ModelFlops(head.forward), forward);
  EXPECT_EQ(ModelFlops(head.backward), 2 * forward);
}

// The head's weight takes part in two products, and the embedding is read twice; every gradient is
// complete once.
TEST(FurtherTokensTest, EveryWeightHasOneGradient) {
  for (const std::int64_t tensor : {1, 4}) {
    for (const bool main : {false, true}) {
      WorkOptions options = Options(1, 64, Checkpointing::kNone, Attention::kFlash3);
      options.tensor = tensor;
      options.sequence_parallel = tensor > 1;
      if (main) options.main_gradients = DataType::kFp32;
      const LayerWork head = HeadOf(Dense(), options);
      std::vector<int> gradients(19, 0);
      for (const Operation& operation : head.backward) {
        for (const int position : operation.gradients) ++gradients.at(position);
      }
      EXPECT_EQ(gradients, std::vector<int>(19, 1));
      // Products that add to main gradients need no sum.
      EXPECT_EQ(Find(head, "lm_head.weight.grad.add") == nullptr, main);
    }
  }
}

// A second module is as large as the first and does the same work. Modules that share their
// parameters do the work alone.
TEST(FurtherTokensTest, SeveralModules) {
  const WorkOptions options = Options(1, 64, Checkpointing::kNone, Attention::kFlash3);
  const auto with = [](std::int64_t modules, bool repeated) {
    Architecture a = Dense();
    a.further_tokens = modules;
    a.further_repeated = repeated;
    return a;
  };
  const auto flops = [&](const Architecture& a) { return ModelFlops(HeadOf(a, options).backward); };
  const std::int64_t none = flops(with(0, false)), one = flops(with(1, false));
  const std::int64_t module = Count(with(1, false)) - Count(with(0, false));
  EXPECT_EQ(Count(with(3, false)) - Count(with(0, false)), 3 * module);
  EXPECT_EQ(Count(with(3, true)) - Count(with(0, false)), module);
  for (const bool repeated : {false, true}) {
    const Architecture a = with(3, repeated);
    EXPECT_EQ(flops(a) - none, 3 * (one - none));
    for (const bool main : {false, true}) {
      WorkOptions of_main = options;
      if (main) of_main.main_gradients = DataType::kFp32;
      std::vector<int> gradients(LayOut(a).layers.back().tensors.size());
      const std::vector<int> once(gradients.size(), 1);
      for (const Operation& operation : HeadOf(a, of_main).backward) {
        for (const int position : operation.gradients) ++gradients.at(position);
      }
      EXPECT_EQ(gradients, once);
    }
  }
  const TransformerLayout layout = LayOut(with(2, false));
  const auto last = std::find_if(layout.tensors.begin(), layout.tensors.end(), [](const Tensor& t) {
    return t.name == "model.layers.62.shared_head.norm.weight";
  });
  EXPECT_NE(last, layout.tensors.end());
}

// A recomputed block keeps its input.
TEST(FurtherTokensTest, TheBlockIsRecomputedAsOthersAre) {
  const auto saved = [](Checkpointing checkpointing) {
    WorkOptions options = Options(1, 64, checkpointing, Attention::kFlash3);
    return Sum(HeadOf(Dense(), options).Of(Lifetime::kSaved));
  };
  WorkOptions options = Options(1, 64, Checkpointing::kNone, Attention::kFlash3);
  const std::int64_t block = Sum(BlockOf(Dense(), options).Of(Lifetime::kSaved));
  EXPECT_EQ(saved(Checkpointing::kNone) - saved(Checkpointing::kFull), block - 2 * 64 * 7168);
  options.checkpointing = Checkpointing::kSelective;
  EXPECT_EQ(saved(Checkpointing::kNone) - saved(Checkpointing::kSelective),
            block - Sum(BlockOf(Dense(), options).Of(Lifetime::kSaved)));
}

}  // namespace
}  // namespace stepcast::model

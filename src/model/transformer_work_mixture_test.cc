// The work of a block whose feed-forward is a mixture of experts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/example_work.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kTokens = 4096, kHidden = 4096, kWidth = 14336, kExperts = 8, kChosen = 2;

// Mixtral 8x7B (arXiv 2401.04088).
Architecture Mixtral() {
  Architecture a = TypicalOf(Family::kMixtral);
  a.layers = 32;
  a.hidden = kHidden;
  a.heads = 32;
  a.kv_heads = 8;
  a.head_size = 128;
  a.feed_forward = kWidth;
  a.vocabulary = 32000;
  a.experts = {.count = kExperts, .per_token = kChosen, .feed_forward = kWidth};
  return a;
}

WorkOptions Megatron(std::int64_t ranks, std::int64_t tensor = 1) {
  WorkOptions options = Options(1, kTokens);
  options.activation_function = Implementation::kFused;
  options.fuses_products = true;
  options.experts.ranks = ranks;
  options.experts.tensor = tensor;
  return options;
}

std::int64_t Saved(const LayerWork& work, std::string_view name) {
  std::int64_t bytes = 0;
  for (const Activation& activation : work.saved) {
    if (activation.name == name) bytes += activation.bytes.count();
  }
  return bytes;
}

std::vector<GroupOperation> Groups(const std::vector<Operation>& operations, CollectiveKind kind) {
  std::vector<GroupOperation> groups;
  for (const Operation& operation : operations) {
    if (operation.group && operation.group->collective == kind) groups.push_back(*operation.group);
  }
  return groups;
}

std::int64_t Flops(const std::vector<Operation>& operations, std::string_view module) {
  std::int64_t flops = 0;
  for (const Operation& operation : operations) {
    if (operation.kernel.name.starts_with(module)) flops += operation.kernel.flops;
  }
  return flops;
}

// What Megatron-Core keeps of a mixture with its all-to-all dispatcher, two experts a rank: n k
// rows of h as the experts take them, 2 f and f for each row, and what says where rows come from.
TEST(MixtureWorkTest, KeepsWhatMegatronCoreKeeps) {
  const LayerWork work = BlockOf(Mixtral(), Megatron(4));
  constexpr std::int64_t kRows = kTokens * kChosen;
  EXPECT_EQ(Saved(work, "mlp.gate probabilities"), kTokens * kExperts * 4);
  EXPECT_EQ(Saved(work, "mlp.gate map of chosen experts"), kTokens * kExperts);
  EXPECT_EQ(Saved(work, "map of permuted rows"), kTokens * (2 * kExperts + 1) * 4);
  EXPECT_EQ(Saved(work, "mlp.dispatch.sort_map output"), kRows * 4);
  EXPECT_EQ(Saved(work, "mlp.combine.sort_map output"), kRows * 4);
  EXPECT_EQ(Saved(work, "rows of experts"), kRows * kHidden * 2);
  EXPECT_EQ(Saved(work, "weights of experts' rows"), kRows * 4);
  EXPECT_EQ(Saved(work, "mlp.experts.gate_up_proj output"), kRows * 2 * kWidth * 2);
  EXPECT_EQ(Saved(work, "mlp.experts.activation output"), kRows * kWidth * 2);
  // What the second product makes is not kept, nor is what is sent or comes back.
  EXPECT_EQ(Saved(work, "mlp.experts.down_proj output"), 0);
  EXPECT_EQ(Saved(work, "permuted rows"), 0);
}

WorkOptions Transformers(ExpertProducts products) {
  WorkOptions options = Options(1, kTokens);
  options.experts.implementation = ExpertImplementation::kTransformers;
  options.experts.products = products;
  options.experts.fused_router = options.experts.fused_permutation = false;
  return options;
}

std::int64_t Launches(const std::vector<Operation>& operations, std::string_view name) {
  return std::count_if(operations.begin(), operations.end(),
                       [&](const Operation& operation) { return operation.kernel.name == name; });
}

std::int64_t HostWaits(const std::vector<Operation>& operations) {
  return std::count_if(operations.begin(), operations.end(), [](const Operation& operation) {
    return operation.host_waits_for != Operation::kNoWait;
  });
}

// transformers before 5: for each expert the host waits for its tokens, and three products run; the
// gradient of its rows is a tensor of all tokens. Work is that of grouped products.
TEST(MixtureWorkTest, LoopOfTransformersWaitsForEachExpert) {
  const LayerWork loop = BlockOf(Mixtral(), Transformers(ExpertProducts::kLooped));
  const LayerWork sorted = BlockOf(Mixtral(), Transformers(ExpertProducts::kGrouped));
  EXPECT_EQ(HostWaits(loop.forward), kExperts);
  EXPECT_EQ(HostWaits(loop.backward), 0);
  EXPECT_EQ(HostWaits(sorted.forward), 0);
  for (const char* product :
       {"mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"}) {
    EXPECT_EQ(Launches(loop.forward, product), kExperts) << product;
    EXPECT_EQ(Launches(loop.backward, std::string(product) + ".dgrad"), kExperts) << product;
    EXPECT_EQ(Launches(loop.backward, std::string(product) + ".wgrad"), kExperts) << product;
  }
  EXPECT_EQ(Launches(loop.backward, "mlp.experts.gather.zeros"), kExperts);
  EXPECT_EQ(Launches(sorted.forward, "mlp.experts.gate_up_proj"), 1);
  EXPECT_EQ(Launches(sorted.backward, "mlp.experts.gather.zeros"), 1);
  constexpr std::int64_t kRows = kTokens * kChosen;
  const std::int64_t products = 2 * kRows * kHidden * 3 * kWidth;
  const auto of_products = [](const std::vector<Operation>& operations) {
    std::int64_t flops = 0;
    for (const Operation& operation : operations) {
      const bool experts = operation.kernel.name.starts_with("mlp.experts.");
      if (experts && operation.kernel.kind == KernelKind::kGemm) flops += operation.kernel.flops;
    }
    return flops;
  };
  EXPECT_EQ(of_products(loop.forward), products);
  EXPECT_EQ(of_products(sorted.forward), products);
  EXPECT_EQ(of_products(loop.backward), 2 * products);
  EXPECT_EQ(of_products(sorted.backward), 2 * products);
}

// Operators in 16 bits keep their inputs: rows, what the products make, and what lies between; the
// weights are multiplied behind the experts, so that what they make is kept, too.
TEST(MixtureWorkTest, KeepsWhatTransformersKeeps) {
  constexpr std::int64_t kRows = kTokens * kChosen;
  const LayerWork sorted = BlockOf(Mixtral(), Transformers(ExpertProducts::kGrouped));
  EXPECT_EQ(Saved(sorted, "rows of experts"), kRows * kHidden * 2);
  EXPECT_EQ(Saved(sorted, "mlp.experts.gate_up_proj output"), kRows * 2 * kWidth * 2);
  EXPECT_EQ(Saved(sorted, "mlp.experts.act_fn output"), kRows * kWidth * 2);
  EXPECT_EQ(Saved(sorted, "mlp.experts.product output"), kRows * kWidth * 2);
  EXPECT_EQ(Saved(sorted, "mlp.experts.down_proj output"), kRows * kHidden * 2);
  EXPECT_EQ(Saved(sorted, "order of rows"), kRows * 3 * 8);
  const LayerWork loop = BlockOf(Mixtral(), Transformers(ExpertProducts::kLooped));
  for (const char* half : {"mlp.experts.gate_proj output", "mlp.experts.up_proj output",
                           "mlp.experts.act_fn output", "mlp.experts.product output"}) {
    EXPECT_EQ(Saved(loop, half), kRows * kWidth * 2) << half;
  }
  EXPECT_EQ(Saved(loop, "rows of experts"), kRows * kHidden * 2);
  EXPECT_EQ(Saved(loop, "mlp.experts.down_proj output"), kRows * kHidden * 2);
  EXPECT_EQ(Saved(loop, "places of chosen tokens"), kRows * 2 * 8);
}

// DeepEP's dispatch in 8 bits: a byte a number and an FP32 scale for 128 of them, where 16 bits are
// two; rows come back in 16 bits, and backward mirrors both.
TEST(MixtureWorkTest, DispatchIn8BitsSendsABitMoreThanHalf) {
  WorkOptions options = Megatron(8);
  options.experts.dispatcher = Dispatcher::kDeepEp;
  options.experts.near = 8;
  const auto bytes = [](const std::vector<Operation>& operations) {
    std::vector<std::int64_t> sent;
    for (const GroupOperation& group : Groups(operations, CollectiveKind::kAllToAll)) {
      sent.push_back(group.bytes.count());
    }
    return sent;
  };
  const LayerWork wide = BlockOf(Mixtral(), options);
  options.experts.dispatches_fp8 = true;
  const LayerWork narrow = BlockOf(Mixtral(), options);
  const std::vector<std::int64_t> before = bytes(wide.forward), after = bytes(narrow.forward);
  ASSERT_EQ(before.size(), 2u);
  ASSERT_EQ(after.size(), 2u);
  constexpr std::int64_t kShort = kHidden + kHidden / 128 * 4;
  EXPECT_EQ(after[0] * 2 * kHidden, before[0] * kShort);
  EXPECT_EQ(after[1], before[1]);
  const std::vector<std::int64_t> back = bytes(wide.backward), narrow_back = bytes(narrow.backward);
  ASSERT_EQ(narrow_back.size(), 2u);
  EXPECT_EQ(narrow_back[0] * 2 * kHidden, back[0] * kShort);
  EXPECT_EQ(narrow_back[1], back[1]);
}

// 2 k n h (e-1)/e bytes each way, and the weights beside, 4 bytes a row. An all-to-all counts the
// rank's own part, too.
TEST(MixtureWorkTest, SendsEachRowOnceEachWay) {
  const LayerWork work = BlockOf(Mixtral(), Megatron(4));
  const auto bytes = [](const std::vector<Operation>& operations) {
    std::vector<std::int64_t> sizes;
    for (const GroupOperation& group : Groups(operations, CollectiveKind::kAllToAll)) {
      EXPECT_EQ(group.source.parts, 4);
      EXPECT_EQ(group.target.parts, 3);
      sizes.push_back(group.bytes.count());
    }
    return sizes;
  };
  constexpr std::int64_t kRows = kTokens * kChosen;
  EXPECT_EQ(bytes(work.forward),
            (std::vector<std::int64_t>{kRows * kHidden * 2, kRows * 4, kRows * kHidden * 2}));
  EXPECT_EQ(bytes(work.backward),
            (std::vector<std::int64_t>{kRows * kHidden * 2, kRows * 4, kRows * kHidden * 2}));
  // Counts of 8 bytes for each expert are gathered, and the host waits for them once, before the
  // first all-to-all.
  ASSERT_EQ(Groups(work.forward, CollectiveKind::kAllGather).size(), 1U);
  EXPECT_EQ(Groups(work.forward, CollectiveKind::kAllGather)[0].bytes, Bytes(4 * kExperts * 8));
  const auto waits = [](const Operation& operation) {
    return operation.host_waits_for != Operation::kNoWait;
  };
  ASSERT_EQ(std::count_if(work.forward.begin(), work.forward.end(), waits), 1);
  const auto waiting = std::find_if(work.forward.begin(), work.forward.end(), waits);
  ASSERT_TRUE(waiting->group.has_value());
  EXPECT_EQ(waiting->group->collective, CollectiveKind::kAllToAll);
  EXPECT_EQ(work.forward[static_cast<std::size_t>(waiting->host_waits_for)].kernel.name,
            "mlp.dispatch.counts_to_host");
  EXPECT_EQ(std::count_if(work.backward.begin(), work.backward.end(), waits), 0);
}

// However experts and their parts are shared out, a rank computes k products of each of its tokens.
TEST(MixtureWorkTest, ComputesAsMuchHoweverExpertsAreSharedOut) {
  constexpr std::int64_t kForward = 3 * 2 * kTokens * kChosen * kHidden * kWidth;
  for (const std::int64_t ranks : {1, 2, 8}) {
    for (const std::int64_t tensor : {1, 2}) {
      for (const Dispatcher dispatcher : {Dispatcher::kAllToAll, Dispatcher::kAllGather}) {
        WorkOptions options = Megatron(ranks, tensor);
        options.experts.dispatcher = dispatcher;
        const LayerWork work = BlockOf(Mixtral(), options);
        EXPECT_EQ(Flops(work.forward, "mlp.experts.gate_up_proj") +
                      Flops(work.forward, "mlp.experts.down_proj"),
                  kForward);
        EXPECT_EQ(Flops(work.backward, "mlp.experts.gate_up_proj") +
                      Flops(work.backward, "mlp.experts.down_proj"),
                  2 * kForward);
      }
    }
  }
}

// A mixture of one expert, which every token takes, multiplies as the dense layer does, but for the
// router.
TEST(MixtureWorkTest, OneExpertMultipliesAsADenseLayer) {
  Architecture mixture = Mixtral();
  mixture.experts.count = mixture.experts.per_token = 1;
  Architecture dense = mixture;
  dense.experts = {};
  const LayerWork one = BlockOf(mixture, Megatron(1)), other = BlockOf(dense, Megatron(1));
  const std::int64_t router = 2 * kTokens * kHidden;
  EXPECT_EQ(ModelFlops(one.forward), ModelFlops(other.forward) + router);
  EXPECT_EQ(ModelFlops(one.backward), ModelFlops(other.backward) + 2 * router);
}

// The rank with most rows has their products and memory; the model's operations stay the mean's.
TEST(MixtureWorkTest, TheLoadScalesRowsProductsAndMemory) {
  WorkOptions options = Megatron(4);
  const LayerWork mean = BlockOf(Mixtral(), options);
  options.experts.load = 1.5;
  const LayerWork hot = BlockOf(Mixtral(), options);
  EXPECT_EQ(2 * Flops(hot.forward, "mlp.experts.down_proj"),
            3 * Flops(mean.forward, "mlp.experts.down_proj"));
  EXPECT_EQ(2 * Saved(hot, "rows of experts"), 3 * Saved(mean, "rows of experts"));
  EXPECT_EQ(2 * Groups(hot.forward, CollectiveKind::kAllToAll)[0].bytes.count(),
            3 * Groups(mean.forward, CollectiveKind::kAllToAll)[0].bytes.count());
  EXPECT_EQ(ModelFlops(hot.forward), ModelFlops(mean.forward));
}

// Recomputing the activation drops its output alone; the whole mixture is run again with its
// all-to-alls and its wait.
TEST(MixtureWorkTest, RecomputesTheActivationOrTheWholeMixture) {
  WorkOptions options = Megatron(4);
  options.checkpointing = Checkpointing::kSelective;
  options.recomputed_modules = {.core_attn = false, .moe_act = true};
  const LayerWork activation = BlockOf(Mixtral(), options);
  EXPECT_EQ(Saved(activation, "mlp.experts.activation output"), 0);
  EXPECT_GT(Saved(activation, "mlp.experts.gate_up_proj output"), 0);
  ASSERT_EQ(activation.recompute.size(), 1U);
  options.recomputed_modules = {.core_attn = false, .moe = true};
  const LayerWork mixture = BlockOf(Mixtral(), options);
  EXPECT_EQ(Saved(mixture, "rows of experts"), 0);
  EXPECT_EQ(Groups(mixture.recompute, CollectiveKind::kAllToAll).size(), 3U);
  EXPECT_EQ(Flops(mixture.recompute, "mlp.experts"), Flops(mixture.forward, "mlp.experts"));
}

}  // namespace
}  // namespace stepcast::model

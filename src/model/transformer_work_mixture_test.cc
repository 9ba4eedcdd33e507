// The work of a block whose feed-forward is a mixture of experts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kTokens = 4096, kHidden = 4096, kWidth = 14336, kExperts = 8, kChosen = 2;

// Mixtral 8x7B (arXiv 2401.04088).
Architecture Mixtral() {
  Architecture a = TypicalOf("mixtral");
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
  for (const LayerValue& activation : work.Of(Lifetime::kSaved)) {
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

// Megatron-Core keeps for a mixture with its all-to-all dispatcher and two experts per rank: n k
// rows of h as the experts read them, 2 f and f for each row, and the origins of the rows.
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
  // The second product's output is not kept, nor are rows that are sent or returned.
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

// Transformer Engine loops over a rank's experts, so the host spends time on each further expert's
// product. One grouped kernel has one product for all experts.
TEST(MixtureWorkTest, TheHostIssuesEachExpertOfAStreamsProduct) {
  WorkOptions options = Megatron(2);
  options.experts.products = ExpertProducts::kStreams;
  std::vector<Issuer> issuers;
  for (const Operation& operation : BlockOf(Mixtral(), options).forward) {
    if (operation.kernel.name == "mlp.experts.down_proj")
      issuers.push_back(operation.kernel.issuer);
  }
  EXPECT_EQ(issuers, (std::vector{Issuer::kFramework, Issuer::kAutograd, Issuer::kAutograd,
                                  Issuer::kAutograd}));
}

// Fused rows are kept in pages: once read and once written after the experts, and again before
// their backward. In MXFP8, a row of h and one of f take 33 / 32 bytes for each number; the first
// product's output of 2 f numbers has 16 bits.
TEST(MixtureWorkTest, FusedRowsAreCopiedIntoPages) {
  WorkOptions options = Megatron(4);
  options.compute = DataType::kMxfp8;
  options.experts.dispatcher = Dispatcher::kHybridEp;
  options.experts.near = 4;
  options.experts.fused_rows = true;
  const LayerWork work = BlockOf(Mixtral(), options);
  constexpr std::int64_t kRows = kTokens * kChosen;
  constexpr std::int64_t kKept = kRows * (kHidden + kWidth) / 32 * 33 + kRows * 2 * kWidth * 2;
  for (const auto& [operations, name] : {std::pair(&work.forward, "mlp.experts.stash"),
                                         std::pair(&work.backward, "mlp.experts.stash.restore")}) {
    for (const Operation& operation : *operations) {
      if (operation.kernel.name != name) continue;
      EXPECT_EQ(operation.kernel.read.count(), kKept);
      EXPECT_EQ(operation.kernel.written.count(), kKept);
    }
    EXPECT_EQ(Launches(*operations, name), 1);
  }
}

// transformers before 5: for each expert, the host waits for its tokens, and three products run.
// The gradient of its rows is a tensor of all tokens. The FLOPs equal those of grouped products.
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
  EXPECT_TRUE(Find(sorted, "mlp.experts.gate_up_proj")->grouped);
  EXPECT_FALSE(Find(loop, "mlp.experts.down_proj")->grouped);
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

std::int64_t ModelFlops(const std::vector<Operation>& operations) {
  std::int64_t flops = 0;
  for (const Operation& operation : operations) flops += operation.kernel.model_flops;
  return flops;
}

WorkOptions DeepSpeed(std::int64_t ranks, double factor = 1) {
  WorkOptions options = Options(1, kTokens);
  options.experts.implementation = ExpertImplementation::kDeepSpeed;
  options.experts.products = ExpertProducts::kLooped;
  options.experts.fused_router = options.experts.fused_permutation = false;
  options.experts.router_type = DataType::kFp32;
  options.experts.ranks = ranks;
  options.experts.load = factor;
  options.experts.fixed_rows = true;
  options.experts.min_capacity = 4;
  return options;
}

// DeepSpeed's MoE layer: C = n k / E slots of each expert for a rank's tokens, E C = 8,192 in all,
// and a table of 4,096 x 8,192, kept twice in 16 bits. The rank's two experts run one after the
// other.
TEST(MixtureWorkTest, DeepSpeedFillsSlots) {
  const LayerWork work = BlockOf(Mixtral(), DeepSpeed(4));
  constexpr std::int64_t kSlots = kTokens * kChosen, kTable = kTokens * kSlots;
  EXPECT_EQ(Saved(work, "mlp.gate input in FP32"), kTokens * kHidden * 4);
  EXPECT_EQ(Saved(work, "mlp.gate probabilities"), kTokens * kExperts * 4);
  EXPECT_EQ(Saved(work, "mlp.gate positions in FP32"), kTokens * kChosen * (kSlots / kExperts) * 4);
  EXPECT_EQ(Saved(work, "mlp.gate dispatch mask in 16 bits"), kTable * 2);
  EXPECT_EQ(Saved(work, "combine weights in 16 bits"), kTable * 2);
  EXPECT_EQ(Saved(work, "copies of experts' rows"), 2 * kSlots * kHidden * 2);
  EXPECT_EQ(Saved(work, "mlp.experts.gate_proj output"), kSlots * kWidth * 2);
  EXPECT_EQ(Saved(work, "mlp.experts.product output"), kSlots * kWidth * 2);
  EXPECT_EQ(Saved(work, "returned rows, received"), kSlots * kHidden * 2);
  EXPECT_EQ(Launches(work.forward, "mlp.experts.gate_proj"), 2);
  EXPECT_EQ(Launches(work.backward, "mlp.experts.down_proj.wgrad"), 2);
  // No counts, and no host that waits for them.
  EXPECT_EQ(HostWaits(work.forward), 0);
  EXPECT_TRUE(Groups(work.forward, CollectiveKind::kAllGather).empty());
  // Three of four ranks' parts of E C h numbers in 16 bits travel.
  for (const auto* pass : {&work.forward, &work.backward}) {
    const std::vector<GroupOperation> exchanges = Groups(*pass, CollectiveKind::kAllToAll);
    ASSERT_EQ(exchanges.size(), 2U);
    for (const GroupOperation& exchange : exchanges) {
      EXPECT_EQ(exchange.bytes, Bytes(kSlots * kHidden * 2));
    }
  }
  // Products with tables are none of the model's: 2 n E C h forward, twice.
  EXPECT_EQ(Flops(work.forward, "mlp.dispatch.einsum"), 2 * kTable * kHidden);
  EXPECT_EQ(Flops(work.forward, "mlp.combine.einsum"), 2 * kTable * kHidden);
  EXPECT_EQ(ModelFlops(work.forward), ModelFlops(BlockOf(Mixtral(), Megatron(4)).forward));
  // Empty room is none of the model's either.
  EXPECT_NEAR(static_cast<double>(ModelFlops(BlockOf(Mixtral(), DeepSpeed(4, 1.25)).forward)),
              static_cast<double>(ModelFlops(work.forward)), 100);
}

// max(ceil(n / E x factor x k), 4) slots: 1,280 with a factor of 1.25, and 4 if there are hardly
// any tokens.
TEST(MixtureWorkTest, DeepSpeedsCapacityIsRoundedUp) {
  const auto sent = [](const WorkOptions& options) {
    return Groups(BlockOf(Mixtral(), options).forward, CollectiveKind::kAllToAll).front().bytes;
  };
  EXPECT_EQ(sent(DeepSpeed(4, 1.25)), Bytes(kExperts * 1280 * kHidden * 2));
  EXPECT_EQ(sent(DeepSpeed(4, 1.0001)), Bytes(kExperts * 1025 * kHidden * 2));
  EXPECT_EQ(sent(DeepSpeed(4, 0.001)), Bytes(kExperts * 4 * kHidden * 2));
}

// 16-bit operators keep their inputs: rows, the products' outputs, and the values between. The
// weights are applied after the experts, so the experts' output is kept too.
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
  EXPECT_EQ(Saved(loop, "indices of chosen tokens"), kRows * 2 * 8);
}

// DeepEP's dispatch in 8 bits: one byte a number and an FP32 scale per 128, instead of two bytes;
// rows return in 16 bits, and backward mirrors both.
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

// 2 k n h (e-1)/e bytes each way, plus the weights, 4 bytes a row. An all-to-all also counts the
// rank's own part.
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

// However experts and their parts are divided, a rank computes k products for each of its tokens.
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

// A mixture of one expert, which every token uses, has the products of the dense layer plus the
// router's.
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

// The rank with the most rows has their products and memory; model FLOPs stay those of the mean.
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

// Recomputing the activation drops only its output. Recomputing the whole mixture also repeats its
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

// Delayed weight gradients: the experts' run after the exchange that sends their input gradients,
// and attention's at the end of the block. The order of everything else and all inputs are
// unchanged (megatron/core/models/gpt/fine_grained_callables.py, `delay_wgrad_compute`).
TEST(MixtureWorkTest, DelayedGradientsOfWeightsRunBehindTheExchange) {
  WorkOptions options = Megatron(4);
  options.experts.overlaps_passes = true;
  const LayerWork plain = BlockOf(Mixtral(), options);
  options.experts.delays_weight_gradients = true;
  const LayerWork late = BlockOf(Mixtral(), options);
  const auto product = [](const Operation& operation) {
    return !operation.group && operation.kernel.layout == ProductLayout::kWeightGradient &&
           operation.kernel.kind == KernelKind::kGemm;
  };
  const auto names = [&](const LayerWork& work, bool products) {
    std::vector<std::string> names;
    for (const Operation& operation : work.backward) {
      if (product(operation) == products) names.push_back(operation.kernel.name);
    }
    return names;
  };
  EXPECT_EQ(names(plain, true), names(late, true));
  EXPECT_EQ(names(plain, false), names(late, false));
  const auto kept = [](const LayerWork& work) {
    std::vector<std::string> kept;
    for (const LayerValue& activation : work.Of(Lifetime::kSaved)) kept.push_back(activation.name);
    return kept;
  };
  EXPECT_EQ(kept(late), kept(plain));
  // Weights of rows and rows come back in one turn of three.
  const std::vector<std::size_t> ends = TurnEnds(late.backward);
  ASSERT_EQ(ends.size(), 3u);
  ASSERT_EQ(TurnEnds(plain.backward).size(), 3u);
  std::vector<std::string> of_experts;
  for (std::size_t i = ends[0]; i < ends[1]; ++i) {
    if (late.backward[i].delayed) of_experts.push_back(late.backward[i].kernel.name);
  }
  EXPECT_EQ(of_experts, (std::vector<std::string>{"mlp.experts.down_proj.wgrad",
                                                  "mlp.experts.gate_up_proj.wgrad"}));
  EXPECT_TRUE(ExchangesRows(late.backward[ends[1] - 3]));
  for (std::size_t i = ends[1]; i < late.backward.size(); ++i) {
    if (!product(late.backward[i])) continue;
    // The others are the last products of the block.
    for (std::size_t later = i; later < late.backward.size(); ++later) {
      EXPECT_TRUE(product(late.backward[later])) << late.backward[later].kernel.name;
    }
    break;
  }
}

// Megatron-Core's shared experts overlap the exchanges (transformer/moe/shared_experts.py). The
// first products and the activation follow the exchange of rows, and the last product the one that
// returns them, all on a separate stream; their gradients likewise.
TEST(MixtureWorkTest, SharedExpertsRunBesideTheExchanges) {
  Architecture shared = Mixtral();
  shared.experts.shared_feed_forward = kWidth;
  WorkOptions options = Megatron(4);
  const LayerWork before = BlockOf(shared, options);
  options.experts.shared_beside = true;
  const LayerWork beside = BlockOf(shared, options);
  const auto is_shared = [](const Operation& operation) {
    const std::string& name = operation.kernel.name;
    return name.starts_with("mlp.act_fn") ||
           (name.starts_with("mlp.shared_experts") && name != "mlp.shared_experts.add");
  };
  const auto sorted_names = [](const std::vector<Operation>& operations) {
    std::vector<std::string> names;
    for (const Operation& operation : operations) names.push_back(operation.kernel.name);
    std::sort(names.begin(), names.end());
    return names;
  };
  for (const auto pass : {&LayerWork::forward, &LayerWork::backward}) {
    const std::vector<Operation>& operations = beside.*pass;
    EXPECT_EQ(sorted_names(operations), sorted_names(before.*pass));
    // The second stream waits for the first once, when it begins, and is waited for once.
    int waits_beside = 0, waits_for_it = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      if (operation.group) continue;
      EXPECT_EQ(operation.lane, is_shared(operation) ? 1 : 0) << operation.kernel.name;
      EXPECT_TRUE(operation.lane == 0 || operation.gradients.empty());
      for (const int waited : operation.waits) {
        const Operation& other = operations[static_cast<std::size_t>(waited)];
        EXPECT_LT(waited, static_cast<int>(i));
        if (other.group || other.lane == operation.lane) continue;
        ++(operation.lane == 1 ? waits_beside : waits_for_it);
      }
    }
    EXPECT_EQ(waits_beside, 1);
    EXPECT_EQ(waits_for_it, 1);
  }
  const auto first = std::find_if(beside.forward.begin(), beside.forward.end(), is_shared);
  EXPECT_TRUE(ExchangesRows(*std::prev(first)));
  // The kept values and the gradients are unchanged.
  const auto bytes = [](const LayerWork& work) {
    std::int64_t sum = 0;
    for (const LayerValue& activation : work.Of(Lifetime::kSaved)) sum += activation.bytes.count();
    return sum;
  };
  EXPECT_EQ(bytes(beside), bytes(before));
  const auto gradients = [](const LayerWork& work) {
    std::vector<int> all;
    for (const Operation& operation : work.backward) {
      all.insert(all.end(), operation.gradients.begin(), operation.gradients.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT_EQ(gradients(beside), gradients(before));
}

// In 8 bits, a cast in the middle of the second stream makes the kept value. Its memory may have
// been used by the compute stream. It is therefore allocated where the second stream begins, which
// waits.
TEST(MixtureWorkTest, MemoryOfSharedExpertsBesideBeginsWithTheirStream) {
  Architecture shared = Mixtral();
  shared.experts.shared_feed_forward = kWidth;
  for (const DataType compute :
       {DataType::kBf16, DataType::kFp8, DataType::kMxfp8, DataType::kNvfp4}) {
    WorkOptions options = Megatron(4);
    options.compute = compute;
    options.experts.shared_beside = true;
    const LayerWork work = BlockOf(shared, options);
    bool begun = false;
    for (const Operation& operation : work.forward) {
      if (operation.lane == 0) continue;
      EXPECT_NE(operation.begins.empty(), !begun) << operation.kernel.name;
      begun = true;
    }
    EXPECT_TRUE(begun);
  }
}

// A capacity of half the mean drops every second row: products and all-to-alls have half as many,
// also if one rank has all experts. Padding to twice the mean is twice the work but not twice the
// model FLOPs.
TEST(MixtureWorkTest, CapacityDropsRows) {
  for (const std::int64_t ranks : {1, 4}) {
    const LayerWork whole = BlockOf(Mixtral(), Megatron(ranks));
    WorkOptions options = Megatron(ranks);
    options.experts.load = 0.5;
    const LayerWork half = BlockOf(Mixtral(), options);
    EXPECT_EQ(2 * Flops(half.forward, "mlp.experts"), Flops(whole.forward, "mlp.experts"));
    const auto sent = [](const LayerWork& work) {
      std::int64_t bytes = 0;
      for (const GroupOperation& group : Groups(work.forward, CollectiveKind::kAllToAll)) {
        bytes += group.bytes.count();
      }
      return bytes;
    };
    EXPECT_EQ(2 * sent(half), sent(whole));
    EXPECT_EQ(2 * Saved(half, ranks == 1 ? "permuted rows" : "rows of experts"),
              Saved(whole, ranks == 1 ? "permuted rows" : "rows of experts"));
    options.experts.load = 2;
    options.experts.fixed_rows = true;
    const LayerWork filled = BlockOf(Mixtral(), options);
    EXPECT_EQ(Flops(filled.forward, "mlp.experts.down_proj"),
              2 * Flops(whole.forward, "mlp.experts.down_proj"));
    EXPECT_EQ(ModelFlops(filled.forward), ModelFlops(whole.forward));
  }
}

// Tokens sent once still go to each rank that keeps some of their rows. 2 choices among 8 ranks
// with one expert each, half of them dropped: 2 x 1/2 on average, because no two choices are on one
// rank.
TEST(MixtureWorkTest, DroppedRowsReachFewerRanks) {
  WorkOptions options = Megatron(8);
  options.experts.dispatcher = Dispatcher::kDeepEp;
  options.experts.near = 8;
  const auto sent = [&] {
    return Groups(BlockOf(Mixtral(), options).forward, CollectiveKind::kAllToAll).front().bytes;
  };
  const Bytes whole = sent();
  options.experts.load = 0.5;
  EXPECT_EQ(2 * sent(), whole);
}

// pytorch/torchtitan's list: all-to-alls, including those of counts, and copies to the host are
// kept.
TEST(MixtureWorkTest, SelectiveOpKeepsAllToAlls) {
  WorkOptions options = Options(1, kTokens, Checkpointing::kSelectiveOp);
  options.experts.ranks = 4;
  options.experts.implementation = ExpertImplementation::kTorchtitan;
  options.experts.fused_router = options.experts.fused_permutation = false;
  const LayerWork work = BlockOf(Mixtral(), options);
  EXPECT_EQ(Groups(work.forward, CollectiveKind::kAllToAll).size(), 2u);
  for (const Operation& operation : work.recompute) EXPECT_FALSE(operation.group.has_value());
  EXPECT_EQ(HostWaits(work.recompute), 0);
  // A rank sends all but its own of 4 parts.
  EXPECT_EQ(Saved(work, "rows, from other ranks"), kTokens * kChosen * kHidden * 2 * 3 / 4);
  EXPECT_EQ(Saved(work, "returned rows, from other ranks"),
            kTokens * kChosen * kHidden * 2 * 3 / 4);
}

// GPT-OSS in eager PyTorch: biases are copied for each row and added. The clamped gate and the
// values computed from it are kept in addition to the product's output.
TEST(MixtureWorkTest, ExpertsOfGptOssRunOperationByOperation) {
  Architecture a = Mixtral();
  a.experts.bias = true;
  WorkOptions options = Options(1, kTokens);
  options.experts.implementation = ExpertImplementation::kTorchtitan;
  options.experts.fused_router = options.experts.fused_permutation = false;
  const LayerWork work = BlockOf(a, options);
  constexpr std::int64_t kRows = kTokens * kChosen;
  EXPECT_EQ(Saved(work, "mlp.experts.gate_up_proj.bias output"), kRows * 2 * kWidth * 2);
  for (const char* name : {"clamp_gate", "clamp_linear", "sigmoid", "unit"}) {
    EXPECT_EQ(Saved(work, std::string("mlp.experts.act_fn.") + name + " output"),
              kRows * kWidth * 2)
        << name;
  }
  const Kernel* add = Find(work, "mlp.experts.gate_up_proj.bias");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->read, Bytes(2 * kRows * 2 * kWidth * 2));
  options.compiled = true;
  EXPECT_EQ(Find(BlockOf(a, options), "mlp.experts.gate_up_proj.bias"), nullptr);
}

}  // namespace
}  // namespace stepcast::model

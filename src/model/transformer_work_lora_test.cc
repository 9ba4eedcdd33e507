#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/layer_variant.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

Architecture AdaptedLlama(const Lora& lora) {
  Architecture a = Shipped("llama3.1-8b");
  a.lora = lora;
  return a;
}

constexpr Lora kAttentionAdapters{.rank = 16, .targets = {.linear_qkv = true, .projection = true}};

std::size_t WeightGradients(const LayerWork& work) {
  return static_cast<std::size_t>(
      std::count_if(work.backward.begin(), work.backward.end(), [](const Operation& operation) {
        return operation.kernel.name.ends_with(".wgrad") ||
               operation.kernel.name.ends_with(".bias.grad");
      }));
}

// Per token in 16 bits, h = ad = 4096, gd = 1024, f = 14336, r = 16. Without adapters: 168,072
// bytes (above). Frozen products keep nothing, so h of the norm before the feed-forward and f
// before the down projection are not kept: 2 (4096 + 14336). The inputs of the attention's products
// feed adapters and stay. Each adapter keeps x A, 2 r.
TEST(LoraWorkTest, FrozenProductsKeepNothing) {
  const LayerWork block = BlockOf(AdaptedLlama(kAttentionAdapters), Options(1, 1024));
  EXPECT_EQ(Sum(block.Of(Lifetime::kSaved)), (168'072 - 2 * (4096 + 14336) + 2 * 2 * 16) * 1024LL);
  // Dropped copies of the inputs of both, and one byte of mask per element.
  Lora dropped = kAttentionAdapters;
  dropped.dropout = 0.1;
  const LayerWork with_dropout = BlockOf(AdaptedLlama(dropped), Options(1, 1024));
  // Without it, no other operation keeps the norm's output; the core keeps its own output.
  EXPECT_EQ(Sum(with_dropout.Of(Lifetime::kSaved)) - Sum(block.Of(Lifetime::kSaved)),
            (3 + 3 - 2) * 4096 * 1024LL);
}

// Two weight gradients for each adapter, and no others.
TEST(LoraWorkTest, AdaptersAloneHaveWeightGradients) {
  const std::vector<LayerWork> works =
      TransformerWork(AdaptedLlama(kAttentionAdapters), Options(1, 1024));
  EXPECT_EQ(WeightGradients(works[kBlock]), 4U);
  EXPECT_EQ(WeightGradients(works[kHead]), 0U);
  EXPECT_TRUE(works[kEmbedding].backward.empty());
  EXPECT_FALSE(works[kHead].backward.empty());
  std::vector<int> complete;
  for (const Operation& operation : works[kBlock].backward) {
    complete.insert(complete.end(), operation.gradients.begin(), operation.gradients.end());
  }
  std::sort(complete.begin(), complete.end());
  EXPECT_EQ(complete, (std::vector<int>{0, 1, 2, 3}));
}

// Backward costs the products of input gradients: as many operations as forward, but twice as many
// for adapters. In the first block, only those after its first adapter.
TEST(LoraWorkTest, BackwardEndsAtTheFirstAdapter) {
  const Architecture a = AdaptedLlama(kAttentionAdapters);
  const std::vector<LayerWork> works = TransformerWork(a, Options(1, 1024));
  const auto first = static_cast<std::size_t>(
      IndexOf(VariantsOf(a, Options(1, 1024)), LayerVariant{.ends_backward = true}));
  const auto products = [](const std::vector<Operation>& operations) {
    std::int64_t flops = 0;
    for (const Operation& operation : operations) {
      if (operation.kernel.kind == KernelKind::kGemm) flops += operation.kernel.flops;
    }
    return flops;
  };
  const std::int64_t adapters = 2 * 1024LL * 16 * (4096 + 6144 + 4096 + 4096);
  EXPECT_EQ(products(works[kBlock].backward), products(works[kBlock].forward) + adapters);
  // Without gradients of the first block's input: no product for that of queries, keys and values,
  // nor for that of their adapter's first matrix.
  EXPECT_EQ(products(works[kBlock].backward) - products(works[first].backward),
            2 * 1024LL * 4096 * (6144 + 16));
  for (const Operation& operation : works[first].backward) {
    EXPECT_NE(operation.kernel.name, "input_layernorm.dgrad");
  }
  // The norm's kept values of the first block's input: 2 h bytes and one number per token.
  EXPECT_EQ(Sum(works[kBlock].Of(Lifetime::kSaved)) - Sum(works[first].Of(Lifetime::kSaved)),
            (2 * 4096 + 4) * 1024LL);
  EXPECT_EQ(works[first].input, LayerWork::kNone);
  EXPECT_EQ(works[first].forward.size(), works[kBlock].forward.size());
  // Under a checkpoint it is like the others.
  EXPECT_EQ(TransformerWork(a, Options(1, 1024, Checkpointing::kFull)).size(), 3);
}

// NeMo's ParallelLinearAdapter on t ranks with sequence parallelism. For queries, keys and values:
// x A is gathered, and its gradient summed. After the attention: x A is summed, its gradient too,
// and (x A) B goes to the tokens' ranks, gathered or by t - 1 messages.
TEST(LoraWorkTest, AdaptersCommunicateWhatIsOfTheirRank) {
  WorkOptions options = Options(1, 1024);
  options.tensor = 4;
  options.sequence_parallel = options.regathers = options.fuses_products = true;
  const auto count = [](const LayerWork& work, CollectiveKind kind, Bytes bytes) {
    std::int64_t calls = 0;
    for (const auto& pass : {work.forward, work.backward}) {
      for (const Operation& operation : pass) {
        if (!operation.group) continue;
        if (operation.group->collective == kind && operation.group->bytes == bytes) ++calls;
      }
    }
    return calls;
  };
  const Bytes low(1024 * 16 * 2), wide(1024 * 4096 * 2);
  LayerWork work = BlockOf(AdaptedLlama(kAttentionAdapters), options);
  EXPECT_EQ(count(work, CollectiveKind::kAllGather, low), 1);
  EXPECT_EQ(count(work, CollectiveKind::kAllReduce, low), 3);
  // Layers: two in forward, two in backward, and none again for the weights of frozen layers. The
  // adapter: one in forward and one in backward.
  EXPECT_EQ(count(work, CollectiveKind::kAllGather, wide), 4 + 2);
  EXPECT_EQ(count(work, CollectiveKind::kReduceScatter, wide), 4);
  Lora messages = kAttentionAdapters;
  messages.all_to_all = true;
  work = BlockOf(AdaptedLlama(messages), options);
  EXPECT_EQ(count(work, CollectiveKind::kAllGather, wide), 4);
  EXPECT_EQ(count(work, CollectiveKind::kAllToAll, Bytes(wide.count() / 4)), 2);
}

// In 8 bits, frozen products cast input and output gradient once and keep neither.
TEST(LoraWorkTest, FrozenProductsInEightBitsNeedOneCopy) {
  WorkOptions options = Options(1, 1024);
  options.compute = DataType::kFp8;
  const LayerWork plain = BlockOf(Shipped("llama3.1-8b"), options);
  const Kernel* cast = Find(plain, "mlp.down_proj.input.cast");
  ASSERT_NE(cast, nullptr);
  EXPECT_EQ(cast->written, Bytes(2 * 1024 * 14336));
  Lora lora = kAttentionAdapters;
  const LayerWork block = BlockOf(AdaptedLlama(lora), options);
  EXPECT_EQ(Find(block, "mlp.down_proj.input.cast")->written, Bytes(1024 * 14336));
  EXPECT_EQ(Find(block, "mlp.down_proj.output_grad.cast")->written, Bytes(1024 * 4096));
  EXPECT_EQ(Find(block, "self_attn.o_proj.lora_A")->data_type, DataType::kBf16);
  EXPECT_NE(Find(block, "mlp.down_proj.weight.cast"), nullptr);
  lora.frozen_dtype = DataType::kFp8;
  EXPECT_EQ(Find(BlockOf(AdaptedLlama(lora), options), "mlp.down_proj.weight.cast"), nullptr);
}

}  // namespace
}  // namespace stepcast::model

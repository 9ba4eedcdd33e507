#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_work.h"

// Ranks with parts of each sequence, compared with one rank that has all of it.
namespace stepcast::model {
namespace {

constexpr std::int64_t kTokens = 8192;
constexpr std::int64_t kRanks = 4;

LayerWork WorkOf(const ContextParallel& context) {
  WorkOptions options = Options(1, kTokens);
  options.context = context;
  return BlockOf(Shipped("llama3.1-8b"), options);
}

struct Sent {
  int calls = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Sent&, const Sent&) = default;
};

Sent Of(const std::vector<Operation>& pass, CollectiveKind kind) {
  Sent sent;
  for (const Operation& operation : pass) {
    if (!operation.group || operation.group->collective != kind) continue;
    ++sent.calls;
    sent.bytes += operation.group->bytes.count();
  }
  return sent;
}

std::int64_t AttentionFlops(const std::vector<Operation>& pass) {
  std::int64_t flops = 0;
  for (const Operation& operation : pass) {
    const KernelKind kind = operation.kernel.kind;
    if (kind != KernelKind::kAttention && kind != KernelKind::kAttentionGradient) continue;
    flops += operation.kernel.flops;
  }
  return flops;
}

const std::vector<ContextParallel> kMethods = {
    {.ranks = kRanks, .method = ContextMethod::kRing},
    {.ranks = kRanks, .method = ContextMethod::kRing, .of_pytorch = true},
    {.ranks = kRanks, .method = ContextMethod::kAllGather},
    {.ranks = kRanks, .method = ContextMethod::kAllGather, .of_pytorch = true},
    {.ranks = kRanks, .method = ContextMethod::kAllToAll, .heads = kRanks},
    {.ranks = kRanks, .method = ContextMethod::kHierarchical, .heads = 2}};

// With every method, each rank has its part of the arithmetic and of the values kept for backward.
// All-to-alls also move the output. It is kept twice: as attention wrote it, for its backward, and
// as received, for that of the next product.
TEST(ContextParallelWorkTest, RanksShareOutTheArithmetic) {
  const LayerWork whole = WorkOf({});
  for (const ContextParallel& context : kMethods) {
    const LayerWork part = WorkOf(context);
    EXPECT_EQ(AttentionFlops(part.forward) * kRanks, AttentionFlops(whole.forward));
    EXPECT_EQ(AttentionFlops(part.backward) * kRanks, AttentionFlops(whole.backward));
    EXPECT_EQ(ModelFlops(part.forward) * kRanks, ModelFlops(whole.forward));
    EXPECT_EQ(ModelFlops(part.backward) * kRanks, ModelFlops(whole.backward));
    const std::int64_t output = context.heads > 1 ? kTokens * 4096 * 2 : 0;
    EXPECT_EQ(Sum(part.Of(Lifetime::kSaved)) * kRanks, Sum(whole.Of(Lifetime::kSaved)) + output)
        << Name(context.method);
  }
}

// A rank's keys and values for 2,048 tokens, 8 heads of 128 in 16 bits each, are 8 MiB. Three
// messages bring those of the others, and again in backward. Their gradients, which are as large,
// travel with them. PyTorch's are in FP32 and return home.
TEST(ContextParallelWorkTest, ARingSendsKeysAndValuesAround) {
  constexpr std::int64_t kKeys = 2048 * 2 * 8 * 128 * 2;
  ContextParallel ring{.ranks = kRanks};
  EXPECT_EQ(Of(WorkOf(ring).forward, CollectiveKind::kSendRecv), (Sent{3, 3 * kKeys}));
  EXPECT_EQ(Of(WorkOf(ring).backward, CollectiveKind::kSendRecv), (Sent{6, 6 * kKeys}));
  ring.of_pytorch = true;
  EXPECT_EQ(Of(WorkOf(ring).forward, CollectiveKind::kSendRecv), (Sent{3, 3 * kKeys}));
  EXPECT_EQ(Of(WorkOf(ring).backward, CollectiveKind::kSendRecv), (Sent{7, (3 + 4 * 2) * kKeys}));
  // By default it gathers keys and values of all at once; gradients go round.
  ring.method = ContextMethod::kAllGather;
  EXPECT_EQ(Of(WorkOf(ring).forward, CollectiveKind::kAllGather), (Sent{1, kRanks * kKeys}));
  EXPECT_EQ(Of(WorkOf(ring).backward, CollectiveKind::kAllGather), (Sent{1, kRanks * kKeys}));
  EXPECT_EQ(Of(WorkOf(ring).backward, CollectiveKind::kSendRecv), (Sent{4, 4 * 2 * kKeys}));
}

// Transformer Engine gathers keys and values one after the other, again in backward, and scatters
// the sums of their gradients.
TEST(ContextParallelWorkTest, GatheredKeysAreGatheredAgain) {
  const LayerWork work = WorkOf({.ranks = kRanks, .method = ContextMethod::kAllGather});
  constexpr std::int64_t kAll = kTokens * 2 * 8 * 128 * 2;
  EXPECT_EQ(Of(work.forward, CollectiveKind::kAllGather), (Sent{2, kAll}));
  EXPECT_EQ(Of(work.backward, CollectiveKind::kAllGather), (Sent{2, kAll}));
  EXPECT_EQ(Of(work.backward, CollectiveKind::kReduceScatter), (Sent{2, kAll}));
  // Two calls, the rank's chunks with the keys up to them: the third and the sixth of eight.
  EXPECT_EQ(Find(work, "self_attn.core.chunk_0")->n, kTokens / 8 * 3);
  EXPECT_EQ(Find(work, "self_attn.core.chunk_1")->n, kTokens / 8 * 6);
}

// Queries, keys and values go to the ranks of their heads, and outputs return; 4 query heads per
// key head. Bytes count a rank's data, of which it sends three quarters.
TEST(ContextParallelWorkTest, AllToAllsShareOutHeads) {
  const LayerWork work =
      WorkOf({.ranks = kRanks, .method = ContextMethod::kAllToAll, .heads = kRanks});
  constexpr std::int64_t kKey = 2048 * 8 * 128 * 2;
  EXPECT_EQ(Of(work.forward, CollectiveKind::kAllToAll), (Sent{4, (4 + 1 + 1 + 4) * kKey}));
  EXPECT_EQ(Of(work.backward, CollectiveKind::kAllToAll), (Sent{4, (4 + 1 + 1 + 4) * kKey}));
  const Kernel* core = Find(work, "self_attn.core");
  EXPECT_EQ(core->batch, 32 / kRanks);
  EXPECT_EQ(core->m, kTokens);
}

}  // namespace
}  // namespace stepcast::model

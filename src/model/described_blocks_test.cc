// Blocks of several kinds: their computation and kept values, checked by hand.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/model/architecture.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/family.h"
#include "src/model/model.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kHidden = 1024;

// A model of blocks of these kinds, in order.
Architecture Of(std::vector<Architecture> kinds, std::vector<int> pattern) {
  Architecture a = Architecture();
  a.family = GeneralFamily();
  a.hidden = kHidden;
  a.vocabulary = 1000;
  a.layers = std::ssize(pattern);
  for (Architecture& kind : kinds) {
    kind.family = a.family;
    kind.hidden = kHidden;
    kind.vocabulary = 1000;
    kind.layers = a.layers;
    if (kind.experts.exist()) a.experts = kind.experts;
  }
  a.kinds = std::move(kinds);
  a.pattern = std::move(pattern);
  return a;
}

Architecture Attention() {
  Architecture kind = Architecture();
  kind.heads = 8;
  kind.kv_heads = 2;
  kind.head_size = 128;
  kind.feed_forward = 2048;
  return kind;
}

Architecture Delta() {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kDelta;
  kind.delta = {.key_heads = 4, .value_heads = 8, .key = 128, .value = 128};
  return kind;
}

Architecture Mamba() {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kStateSpace;
  kind.state_space = {.heads = 16, .head = 64, .state = 128, .groups = 2, .chunk = 128};
  return kind;
}

Architecture ShortConv() {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kShortConv;
  kind.short_conv = {.conv = 3};
  return kind;
}

Architecture SelectiveScanOf(bool norms) {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kSelectiveScan;
  kind.selective_scan = {.inner = 2048, .state = 16, .rank = 64, .norms = norms};
  return kind;
}

Architecture Lightning() {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kDecay;
  kind.decay = {.heads = 8, .head = 128};
  return kind;
}

LayerWork OneBlock(const Architecture& kind, const WorkOptions& options) {
  return BlockOf(Of({kind}, {0}), options);
}

std::int64_t Flops(const LayerWork& work, bool forward) {
  std::int64_t flops = 0;
  for (const Operation& op : forward ? work.forward : work.backward) {
    const KernelKind kind = op.kernel.kind;
    if (kind != KernelKind::kMemoryBound) flops += op.kernel.flops;
  }
  return flops;
}

// A hybrid without recurrent layers is the transformer.
TEST(DescribedBlocksTest, AttentionAloneIsTheTransformer) {
  const Architecture plain = OfFamily("llama", 2, kHidden, 8, 2, kHidden / 8, 2048, 1000);
  const WorkOptions options = Options(2, 256);
  EXPECT_EQ(OneBlock(Attention(), options), BlockOf(plain, options));
  const Model described = Build("d", Of({Attention()}, {0, 0})), model = Build("p", plain);
  EXPECT_EQ(described.parameter_count(), model.parameter_count());
  ASSERT_EQ(described.tensors.size(), model.tensors.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    EXPECT_EQ(described.tensors[i].name, model.tensors[i].name);
    EXPECT_EQ(described.tensors[i].shape, model.tensors[i].shape);
  }
}

TEST(DescribedBlocksTest, AWindowAsLongAsTheSequenceIsFullAttention) {
  const WorkOptions options = Options(2, 256);
  Architecture window = Attention();
  window.attention_window = 256;
  EXPECT_EQ(OneBlock(window, options), OneBlock(Attention(), options));
  window.attention_window = 64;
  EXPECT_LT(Flops(OneBlock(window, options), true), Flops(OneBlock(Attention(), options), true));
}

// A product to 2K + 2U + 2nv, the scan, and a product back; 180,224 FLOPs of the scan for a token
// and a value head, and 491,520 in backward (K = 512, U = 1024, nv = 8).
TEST(DescribedBlocksTest, DeltaRuleByHand) {
  const std::int64_t tokens = 512, k = 512, u = 1024, nv = 8;
  const LayerWork work = OneBlock(Delta(), Options(2, 256));
  const std::int64_t products = 2 * tokens * kHidden * (2 * k + 2 * u + 2 * nv + u);
  EXPECT_EQ(Flops(work, true), products + tokens * nv * 180224);
  EXPECT_EQ(Flops(work, false), 2 * products + tokens * nv * 491520);
  const Kernel* scan = Find(work, "linear_attn.delta_rule");
  ASSERT_NE(scan, nullptr);
  EXPECT_EQ(scan->kind, KernelKind::kScan);
  EXPECT_EQ(scan->steps, 256 / 64);
  // Kept: the input, the norm's output, the first product's output; queries and keys, normalised;
  // those and the values of each value head; overlaps; decay and strength; the scan's output; the
  // last product's input; a number for the norm.
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)),
            tokens * (2 * 2 * kHidden + 2 * (2 * k + 2 * u + 2 * nv) + 4 * k + 6 * u + 128 * nv +
                      8 * nv + 2 * u + 2 * u + 4));
}

// A product to two gates and an input, and a product back. Kept: the input, the norm's output, the
// first product's output, the convolution's input and output, the last product's input, and a
// number for the norm.
TEST(DescribedBlocksTest, ShortConvolutionByHand) {
  const std::int64_t tokens = 512, h = kHidden;
  const LayerWork work = OneBlock(ShortConv(), Options(2, 256));
  EXPECT_EQ(Flops(work, true), 2 * tokens * h * 4 * h);
  EXPECT_EQ(Flops(work, false), 2 * Flops(work, true));
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)), tokens * 2 * (2 * h + 3 * h + 3 * h) + tokens * 4);
  const Kernel* conv = Find(work, "conv.conv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->flops, tokens * h * 2 * 3);
  EXPECT_EQ(conv->read, Bytes(2 * (tokens * h + 3 * h)));
  EXPECT_EQ(conv->written, Bytes(2 * tokens * h));
  // Two ranks divide the channels.
  WorkOptions options = Options(2, 256);
  options.tensor = 2;
  const LayerWork part = OneBlock(ShortConv(), options);
  EXPECT_EQ(Flops(part, true), Flops(work, true) / 2);
  EXPECT_EQ(Sum(part.Of(Lifetime::kSaved)), tokens * 2 * (2 * h + 3 * h) + tokens * 4);
}

// Each rank sends the last two tokens of both sequences, and gets their gradients back.
TEST(DescribedBlocksTest, ShortConvolutionReadsRowsOfThePreviousRank) {
  WorkOptions options = Options(2, 256);
  options.context = {.ranks = 4};
  const LayerWork work = OneBlock(ShortConv(), options);
  for (const auto* pass : {&work.forward, &work.backward}) {
    std::vector<GroupOperation> sent;
    for (const Operation& op : *pass) {
      if (op.group) sent.push_back(*op.group);
    }
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].collective, CollectiveKind::kSendRecv);
    EXPECT_EQ(sent[0].bytes, Bytes(2 * 2 * kHidden * 2));
    EXPECT_EQ(sent[0].distance, pass == &work.forward ? 1 : 3);
  }
}

// Products to the input and the gate, to the time step's vector, B and C, to the time steps, and
// back; 9 FLOPs of the scan for each channel and number of its state. One autograd function keeps
// its input (with the gate), the second product's output, copies of B and C, the scan's output, and
// two FP32 numbers per channel and number of its state for each sequence. It computes the
// convolution, the time steps and the gated output again.
TEST(DescribedBlocksTest, SelectiveScanByHand) {
  const std::int64_t tokens = 512, h = kHidden, d = 2048, n = 16, r = 64;
  const LayerWork work = OneBlock(SelectiveScanOf(false), Options(2, 256));
  const std::int64_t products = 2 * tokens * (h * 2 * d + d * (r + 2 * n) + r * d + d * h);
  EXPECT_EQ(Flops(work, true), products + 9 * tokens * d * n);
  EXPECT_EQ(Flops(work, false), 2 * products + 9 * tokens * d * n / 2 * 5);
  const std::int64_t kept =
      tokens * (4 * h + 4 + 2 * 2 * d + 2 * (r + 2 * n) + 2 * 2 * n + 2 * d) + 2 * d * 2 * n * 4;
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)), kept);
  EXPECT_EQ(Sum(work.Of(Lifetime::kRecomputed)), tokens * 3 * 2 * d);
  std::int64_t again = 0;
  for (const Operation& op : work.recompute) {
    if (op.kernel.kind == KernelKind::kGemm) again += op.kernel.flops;
  }
  EXPECT_EQ(work.recompute.size(), 3U);
  EXPECT_EQ(again, 2 * tokens * r * d);
  // Full recomputation runs these operators twice.
  const LayerWork full = OneBlock(SelectiveScanOf(false), Options(2, 256, Checkpointing::kFull));
  EXPECT_EQ(full.recompute.size(), full.forward.size() + 3);
  // With norms of B, C and the time step, each operator keeps its operands.
  const LayerWork norms = OneBlock(SelectiveScanOf(true), Options(2, 256));
  EXPECT_TRUE(norms.recompute.empty());
  EXPECT_EQ(Sum(norms.Of(Lifetime::kSaved)), kept + tokens * (3 * 2 * d + 2 * r + 3 * 4));
}

// Backward in two parts keeps what the autograd function would compute again.
TEST(DescribedBlocksTest, BackwardInTwoPartsRestoresNothing) {
  WorkOptions options = Options(2, 256);
  const std::int64_t kept = Sum(OneBlock(SelectiveScanOf(false), options).Of(Lifetime::kSaved));
  options.splits_backward = true;
  const LayerWork work = OneBlock(SelectiveScanOf(false), options);
  EXPECT_TRUE(work.recompute.empty());
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)), kept + 512 * 3 * 2 * 2048);
}

// Products to queries, keys and values, to the gate, and back; per head and token, 4 d^2 + 4 C d
// FLOPs of the scan, with chunks of C = 256 tokens. Kept: the first product's output and its SiLU,
// the scan's output, the gate's sigmoid, the normalized output, the last product's input, and a
// number for each norm.
TEST(DescribedBlocksTest, LightningAttentionByHand) {
  const std::int64_t tokens = 512, h = kHidden, p = 1024;
  const LayerWork work = OneBlock(Lightning(), Options(2, 256));
  const std::int64_t products = 2 * tokens * 5 * h * p;
  const std::int64_t scan = tokens * 8 * (4 * 128 * 128 + 4 * 256 * 128);
  EXPECT_EQ(Flops(work, true), products + scan);
  EXPECT_EQ(Flops(work, false), 2 * products + scan / 2 * 5);
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)),
            tokens * (4 * h + 4 + 2 * (3 * p + 3 * p + p + p + p + p) + 4));
}

// Attention and Mamba-2 on one normalized input: both mixers' work, and a sum.
TEST(DescribedBlocksTest, TwoMixersReadOneInput) {
  const WorkOptions options = Options(2, 256);
  Architecture alone = Attention(), both = Attention();
  alone.feed_forward = both.feed_forward = 0;
  both.beside = Mixer::kStateSpace;
  Architecture mamba = Mamba();
  mamba.state_space.norm = false;
  both.state_space = mamba.state_space;
  const LayerWork work = OneBlock(both, options);
  const LayerWork parts[] = {OneBlock(alone, options), OneBlock(mamba, options)};
  for (const bool forward : {true, false}) {
    EXPECT_EQ(Flops(work, forward), Flops(parts[0], forward) + Flops(parts[1], forward));
  }
  // The input, the norm's output and the norm's number are kept once.
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)), Sum(parts[0].Of(Lifetime::kSaved)) +
                                                Sum(parts[1].Of(Lifetime::kSaved)) -
                                                512 * (2 * 2 * kHidden + 4));
  EXPECT_NE(Find(work, "mixers.add"), nullptr);
  EXPECT_EQ(Build("m", Of({both}, {0})).parameter_count(),
            Build("m", Of({alone}, {0})).parameter_count() +
                Build("m", Of({mamba}, {0})).parameter_count() - 2 * 1000 * kHidden - 2 * kHidden);
}

// Every key and value head has a per-channel decay: 20 P bytes, and two blocks of scores.
TEST(DescribedBlocksTest, KimiDeltaAttentionByHand) {
  Architecture kind = Delta();
  kind.delta = {.key_heads = 8,
                .value_heads = 8,
                .key = 128,
                .value = 128,
                .by_channel = true,
                .decay_rank = 128,
                .gate_rank = 0};
  const std::int64_t tokens = 512, p = 1024;
  const LayerWork work = OneBlock(kind, Options(2, 256));
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)),
            tokens * (2 * 2 * kHidden + 20 * p + 2 * 128 + 2 * 8 + 256 * 8 + 4));
  EXPECT_EQ(Find(work, "linear_attn.delta_rule")->scan, ScanKind::kDeltaByChannel);
}

// 4 P N + 2 Q P a head, 2 Q N a group (P = 64, N = 128, Q = 128).
TEST(DescribedBlocksTest, MambaByHand) {
  const std::int64_t tokens = 512, inner = 1024, convolved = 1024 + 2 * 2 * 128;
  const LayerWork work = OneBlock(Mamba(), Options(2, 256));
  const std::int64_t products = 2 * tokens * kHidden * (inner + convolved + 16 + inner);
  EXPECT_EQ(Flops(work, true), products + tokens * (16 * 49152 + 2 * 32768));
  EXPECT_EQ(Find(work, "mixer.scan")->steps, 2);
  // Kept: the input and the norm's output, all of the first product's output, the scan's and the
  // norm's.
  EXPECT_EQ(Sum(work.Of(Lifetime::kSaved)),
            tokens * (2 * 2 * kHidden + 2 * (inner + convolved + 16) + 4 * inner + 4));
}

TEST(DescribedBlocksTest, ScansAreLinearInLengthAndAttentionIsSquare) {
  for (const Architecture& kind : {Delta(), Mamba()}) {
    const LayerWork once = OneBlock(kind, Options(1, 1024)),
                    twice = OneBlock(kind, Options(1, 2048));
    EXPECT_EQ(2 * Flops(once, true), Flops(twice, true));
    EXPECT_EQ(2 * Flops(once, false), Flops(twice, false));
    EXPECT_EQ(2 * Sum(once.Of(Lifetime::kSaved)), Sum(twice.Of(Lifetime::kSaved)));
  }
  const auto core = [](std::int64_t tokens) {
    return Find(OneBlock(Attention(), Options(1, tokens)), "self_attn.core")->flops;
  };
  EXPECT_EQ(4 * core(1024), core(2048));
}

// Heads and scans are divided; the number of chunks is unchanged.
TEST(DescribedBlocksTest, TensorParallelismDividesHeads) {
  WorkOptions options = Options(1, 1024);
  const LayerWork whole = OneBlock(Delta(), options);
  options.tensor = 4;
  const LayerWork part = OneBlock(Delta(), options);
  EXPECT_EQ(4 * Find(part, "linear_attn.delta_rule")->flops,
            Find(whole, "linear_attn.delta_rule")->flops);
  EXPECT_EQ(Find(part, "linear_attn.delta_rule")->steps, 1024 / 64);
}

// The indexer scores all keys. If it takes all of them, attention is unchanged.
TEST(DescribedBlocksTest, AnIndexerThatTakesAllCostsNoLess) {
  Architecture dense = Attention();
  dense.heads = dense.kv_heads = 16;
  dense.latent = {
      .kv_rank = 512, .query_rank = 768, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  dense.head_size = 192;
  Architecture sparse = dense;
  sparse.indexer = {.heads = 8, .head = 64, .top = 4096};
  const WorkOptions options = Options(1, 4096, Checkpointing::kNone, Attention::kFlash3);
  const LayerWork with = OneBlock(sparse, options), without = OneBlock(dense, options);
  EXPECT_GT(Flops(with, true), Flops(without, true));
  EXPECT_GT(Flops(with, false), Flops(without, false));
  EXPECT_EQ(Find(with, "self_attn.core")->flops, Find(without, "self_attn.core")->flops);
  EXPECT_EQ(Find(with, "self_attn.indexer.scores")->flops, 4096LL * 4096 * 8 * 64);
  // With fewer keys the core is the absorbed one: 2 a (576 + 512) FLOPs per pair.
  sparse.indexer.top = 1024;
  const LayerWork chosen = OneBlock(sparse, options);
  const std::int64_t pairs_twice = 4096LL * 4096 - 3072LL * 3072;
  EXPECT_EQ(Find(chosen, "self_attn.core")->flops, pairs_twice * 16 * (576 + 512));
}

// Tokens are sent to experts as narrower vectors.
TEST(DescribedBlocksTest, LatentExpertsByHand) {
  Architecture kind = Architecture();
  kind.mixer = Mixer::kNone;
  kind.activator = Activator::kSquaredRelu;
  kind.experts = {.count = 8, .per_token = 2, .feed_forward = 512, .latent = 256};
  const std::int64_t tokens = 512;
  const LayerWork work = OneBlock(kind, Options(2, 256));
  EXPECT_EQ(ModelFlops(work.forward),
            2 * tokens * (kHidden * 8 + 2 * kHidden * 256 + 2 * 2 * 256 * 512));
  EXPECT_EQ(Build("m", Of({kind}, {0})).parameter_count(),
            2 * 1000 * kHidden + 2 * kHidden + 8 * kHidden + 2 * 256 * 512 * 8 + 2 * kHidden * 256);
}

// The query product also makes a gate that multiplies attention's output.
TEST(DescribedBlocksTest, GatesOfAttention) {
  const WorkOptions options = Options(2, 256);
  Architecture gated = Attention();
  gated.output_gate = OutputGate::kElement;
  gated.gate_of_query = true;
  const std::int64_t tokens = 512;
  EXPECT_EQ(Flops(OneBlock(gated, options), true) - Flops(OneBlock(Attention(), options), true),
            2 * tokens * kHidden * 1024);
  gated.gate_of_query = false;
  gated.output_gate = OutputGate::kHead;
  EXPECT_EQ(Flops(OneBlock(gated, options), true) - Flops(OneBlock(Attention(), options), true),
            2 * tokens * kHidden * 8);
}

// Attention with dimensions at random.
Architecture AnyAttention() {
  Architecture kind = Attention();
  kind.kv_heads = *rc::gen::inRange<std::int64_t>(1, 5);
  kind.heads = kind.kv_heads * *rc::gen::inRange<std::int64_t>(1, 5);
  kind.head_size = 8 * *rc::gen::inRange<std::int64_t>(1, 17);
  kind.feed_forward = *rc::gen::inRange<std::int64_t>(1, 4096);
  return kind;
}

WorkOptions AnyOptions(std::int64_t tokens) {
  return Options(
      *rc::gen::inRange<std::int64_t>(1, 4), tokens,
      *rc::gen::element(Checkpointing::kNone, Checkpointing::kSelective, Checkpointing::kFull),
      *rc::gen::element(Attention::kFlash, Attention::kFlash3, Attention::kMath));
}

// Blocks of several kinds that are all alike, in any order, are the transformer.
RC_GTEST_PROP(DescribedBlocksLaws, AHybridWithoutRecurrentLayersIsTheTransformer, ()) {
  const Architecture kind = AnyAttention();
  const std::vector<int> pattern =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 3)));
  const Architecture hybrid = Of({kind, kind, kind}, pattern);
  const auto layers = static_cast<std::int64_t>(pattern.size());
  Architecture plain = OfFamily("llama", layers, kHidden, kind.heads, kind.kv_heads,
                                kHidden / kind.heads, kind.feed_forward, 1000);
  plain.head_size = kind.head_size;
  const WorkOptions options = AnyOptions(*rc::gen::inRange<std::int64_t>(1, 600));
  const Model described = Build("m", hybrid), model = Build("m", plain);
  RC_ASSERT(described.parameter_count() == model.parameter_count());
  const std::vector<LayerWork> works = BuildWork(described, options);
  const LayerWork block = BlockOf(plain, options);
  const std::vector<int> of_layers = WorkOfLayers(described, options, {}, {});
  for (std::size_t i = 0; i < described.layers.size(); ++i) {
    if (described.layers[i].kind != LayerKind::kBlock) continue;
    RC_ASSERT(works[static_cast<std::size_t>(of_layers[i])] == block);
  }
}

RC_GTEST_PROP(DescribedBlocksLaws, AWindowOfTheSequenceIsFullAttention, ()) {
  const Architecture full = AnyAttention();
  const std::int64_t tokens = *rc::gen::inRange<std::int64_t>(1, 600);
  const WorkOptions options = AnyOptions(tokens);
  Architecture window = full;
  window.attention_window = tokens + *rc::gen::inRange<std::int64_t>(0, 100);
  RC_ASSERT(OneBlock(window, options) == OneBlock(full, options));
}

// Neither FLOPs, traffic nor kept bytes are fewer than dense attention's.
RC_GTEST_PROP(DescribedBlocksLaws, AnIndexerThatTakesAllCostsNoLessThanDenseAttention, ()) {
  Architecture dense = Attention();
  dense.heads = dense.kv_heads = *rc::gen::inRange<std::int64_t>(1, 17);
  dense.latent = {
      .kv_rank = 512, .query_rank = 256, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  dense.head_size = 192;
  const std::int64_t tokens = *rc::gen::inRange<std::int64_t>(1, 2000);
  const WorkOptions options = Options(1, tokens, Checkpointing::kNone, Attention::kFlash3);
  Architecture sparse = dense;
  sparse.indexer = {.heads = *rc::gen::inRange<std::int64_t>(1, 65),
                    .head = 2 * *rc::gen::inRange<std::int64_t>(1, 65),
                    .top = tokens + *rc::gen::inRange<std::int64_t>(0, 100)};
  const LayerWork with = OneBlock(sparse, options), without = OneBlock(dense, options);
  const auto traffic = [](const std::vector<Operation>& operations) {
    Bytes bytes;
    for (const Operation& op : operations) bytes += op.kernel.read + op.kernel.written;
    return bytes;
  };
  for (const bool forward : {true, false}) {
    RC_ASSERT(Flops(with, forward) >= Flops(without, forward));
  }
  RC_ASSERT(traffic(with.forward) >= traffic(without.forward));
  RC_ASSERT(traffic(with.backward) >= traffic(without.backward));
  RC_ASSERT(Sum(with.Of(Lifetime::kSaved)) >= Sum(without.Of(Lifetime::kSaved)));
}

// In whole chunks, a recurrent layer n times as long is n times the work in n times the steps;
// attention's core is n squared times the work.
RC_GTEST_PROP(DescribedBlocksLaws, RecurrentLayersAreLinearInLengthAndAttentionIsSquare, ()) {
  const std::int64_t chunks = *rc::gen::inRange<std::int64_t>(1, 9);
  const std::int64_t times = *rc::gen::inRange<std::int64_t>(1, 9);
  Architecture by_channel = Delta();
  by_channel.delta = {.key_heads = 8,
                      .value_heads = 8,
                      .key = 128,
                      .value = 128,
                      .by_channel = true,
                      .decay_rank = 128};
  struct Example {
    Architecture kind;
    std::int64_t chunk;
    const char* scan;
  };
  for (const auto& [kind, chunk, name] : std::initializer_list<Example>{
           {Delta(), Delta().delta.chunk, "linear_attn.delta_rule"},
           {by_channel, by_channel.delta.chunk, "linear_attn.delta_rule"},
           {Mamba(), Mamba().state_space.chunk, "mixer.scan"},
           {SelectiveScanOf(false), 2048, "mixer.scan"},
           {SelectiveScanOf(true), 2048, "mixer.scan"},
           {Lightning(), Lightning().decay.chunk, "self_attn.scan"}}) {
    const std::int64_t tokens = chunks * chunk;
    const LayerWork once = OneBlock(kind, Options(1, tokens)),
                    longer = OneBlock(kind, Options(1, times * tokens));
    RC_ASSERT(Find(longer, name)->steps == times * Find(once, name)->steps);
    for (const bool forward : {true, false}) {
      RC_ASSERT(Flops(longer, forward) == times * Flops(once, forward));
    }
  }
  const auto core = [](std::int64_t tokens) {
    return Find(OneBlock(Attention(), Options(1, tokens)), "self_attn.core")->flops;
  };
  const std::int64_t tokens = 64 * chunks;
  RC_ASSERT(core(times * tokens) == times * times * core(tokens));
}

// With context parallelism, the ranks together read as many chosen keys as one rank alone, and
// score as many.
TEST(DescribedBlocksTest, ChosenKeysAreDividedAmongRanks) {
  Architecture sparse = Attention();
  sparse.heads = sparse.kv_heads = 16;
  sparse.latent = {
      .kv_rank = 512, .query_rank = 768, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  sparse.head_size = 192;
  sparse.indexer = {.heads = 8, .head = 64, .top = 256};
  WorkOptions options = Options(1, 8192, Checkpointing::kNone, Attention::kFlash3);
  const LayerWork whole = OneBlock(sparse, options);
  options.context = {.ranks = 4, .heads = 1};
  const LayerWork part = OneBlock(sparse, options);
  std::int64_t chunks = 0;
  for (const char* chunk : {"self_attn.core.chunk_0", "self_attn.core.chunk_1"}) {
    ASSERT_NE(Find(part, chunk), nullptr);
    chunks += Find(part, chunk)->flops;
  }
  // All but the first 256 queries of the sequence read 256 keys.
  const std::int64_t pairs = Find(whole, "self_attn.core")->flops / (2 * 16 * (576 + 512));
  EXPECT_EQ(pairs, 8192 * 256 - 256 * 128);
  EXPECT_EQ(4 * chunks, (pairs + 256 * 128) * 2 * 16 * (576 + 512));
  EXPECT_EQ(4 * Find(part, "self_attn.indexer.scores")->flops,
            Find(whole, "self_attn.indexer.scores")->flops);
}

// With overlapped tensor parallelism, the core's latent vectors are gathered before it.
TEST(DescribedBlocksTest, TheAbsorbedCoreReadsTheVectorsOfAllTokens) {
  Architecture sparse = Attention();
  sparse.heads = sparse.kv_heads = 16;
  sparse.latent = {
      .kv_rank = 512, .query_rank = 768, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  sparse.head_size = 192;
  sparse.indexer = {.heads = 8, .head = 64, .top = 256};
  WorkOptions options = Options(1, 4096, Checkpointing::kNone, Attention::kFlash3);
  options.tensor = 4;
  options.sequence_parallel = true;
  options.tensor_overlap = TensorOverlap::kUserBuffers;
  const LayerWork work = OneBlock(sparse, options);
  const auto& kept = work.Of(Lifetime::kSaved);
  const auto found = std::find_if(kept.begin(), kept.end(), [](const LayerValue& value) {
    return value.name == "kv_b gathered";
  });
  ASSERT_NE(found, kept.end());
  EXPECT_EQ(found->bytes, Bytes(4096 * 512 * 2));
}

// The indexer learns from one more product of attention's queries and keys over the chosen keys:
// 2 a (512 + 64) FLOPs a pair, which are not the model's.
TEST(DescribedBlocksTest, AnIndexerLearnsFromAttention) {
  Architecture sparse = Attention();
  sparse.heads = sparse.kv_heads = 16;
  sparse.latent = {
      .kv_rank = 512, .query_rank = 768, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  sparse.head_size = 192;
  sparse.indexer = {.heads = 8, .head = 64, .top = 1024};
  const LayerWork work =
      OneBlock(sparse, Options(1, 4096, Checkpointing::kNone, Attention::kFlash3));
  const Kernel* target = Find(work, "self_attn.indexer.target");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->flops, (4096LL * 4096 - 3072LL * 3072) * 16 * 576);
  EXPECT_EQ(target->model_flops, 0);
}

// DeepSeek-V4's attention: one key for all heads, and an indexer that chooses 16 vectors, each of
// which represents 4 tokens.
Architecture CompressedKeys() {
  Architecture a = Attention();
  a.kv_heads = 1;
  a.attention_window = 64;
  a.shared_key = {
      .query_rank = 256, .output_groups = 2, .output_rank = 64, .compressed = 4, .overlap = 2};
  a.indexer = {.heads = 4, .head = 32, .top = 16, .from_query_rank = false};
  return a;
}

// DeepSeek-V4's indexer learns likewise, from vectors that each represent 4 tokens: 16 of them for
// each of 1024 queries.
TEST(DescribedBlocksTest, AnIndexerOfVectorsLearnsFromAttention) {
  const Architecture shared = CompressedKeys();
  const LayerWork work =
      OneBlock(shared, Options(1, 1024, Checkpointing::kNone, Attention::kFlash3));
  const Kernel* target = Find(work, "self_attn.indexer.target");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->flops, (1024LL * 1024 - 1008LL * 1008) * 8 * 128);
  const Kernel* gradient = Find(work, "self_attn.indexer.scores.dgrad");
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(gradient->flops, (1024LL * 1024 - 960LL * 960) / 4 * 2 * 4 * 32);
}

// Attention whose scores are in memory has an indexer whose scores are, too: one product of all
// pairs and heads, of which backward has two.
TEST(DescribedBlocksTest, WithoutAFusedKernelScoresOfTheIndexerAreProducts) {
  Architecture sparse = Attention();
  sparse.heads = sparse.kv_heads = 16;
  sparse.latent = {
      .kv_rank = 512, .query_rank = 768, .plain_head = 128, .rotary_head = 64, .value_head = 128};
  sparse.head_size = 192;
  sparse.indexer = {.heads = 8, .head = 64, .top = 256};
  Architecture shared = Attention();
  shared.kv_heads = 1;
  shared.attention_window = 64;
  shared.shared_key = {
      .query_rank = 256, .output_groups = 2, .output_rank = 64, .compressed = 4, .overlap = 2};
  shared.indexer = {.heads = 8, .head = 64, .top = 16, .from_query_rank = false};
  for (const auto& [kind, keys] : {std::pair(sparse, 1024), std::pair(shared, 256)}) {
    const LayerWork work = OneBlock(kind, Options(1, 1024, Checkpointing::kNone, Attention::kMath));
    for (const auto* pass : {&work.forward, &work.backward}) {
      for (const Operation& op : *pass) {
        EXPECT_NE(op.kernel.kind, KernelKind::kAttention) << op.kernel.name;
        EXPECT_NE(op.kernel.kind, KernelKind::kAttentionGradient) << op.kernel.name;
      }
    }
    const Kernel* scores = Find(work, "self_attn.indexer.scores");
    ASSERT_NE(scores, nullptr);
    EXPECT_EQ(scores->kind, KernelKind::kGemm);
    EXPECT_EQ(scores->flops, 2LL * 1024 * keys * 8 * 64);
    const Bytes matrix(1024LL * keys * 8 * 2);
    EXPECT_GE(scores->written, matrix);
    const auto& kept = work.Of(Lifetime::kSaved);
    EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [&](const LayerValue& value) {
      return value.name == "self_attn.indexer.scores output" && value.bytes == matrix;
    }));
    const auto gradient = std::find_if(
        work.backward.begin(), work.backward.end(),
        [](const Operation& op) { return op.kernel.name == "self_attn.indexer.scores.dgrad"; });
    ASSERT_NE(gradient, work.backward.end());
    EXPECT_EQ(gradient->kernel.kind, KernelKind::kGemm);
    EXPECT_EQ(gradient->kernel.flops, 2 * scores->flops);
  }
}

// A family whose norms share a name has two in a block of a mixer and a feed-forward layer.
TEST(DescribedBlocksTest, NormsOfABlockHaveTwoNames) {
  std::string unknown;
  Architecture a = Of({Attention()}, {0});
  a.family = a.kinds.front().family =
      MakeFamily("one", {{"attention_norm", "norm"}, {"feed_forward_norm", "norm"}}, &unknown);
  EXPECT_EQ(FeedForwardNormOf(a.kinds.front()), "feed_forward_norm");
  a.kinds.front().mixer = Mixer::kNone;
  EXPECT_EQ(FeedForwardNormOf(a.kinds.front()), "norm");
}

// Every trained tensor has its gradient, in every kind of block.
TEST(DescribedBlocksTest, EveryTensorHasItsGradient) {
  const Architecture shared = CompressedKeys();
  Architecture a = Of({Attention(), Delta(), Mamba(), shared}, {0, 1, 2, 3});
  a.streams = 2;
  for (Architecture& kind : a.kinds) kind.streams = 2;
  const Model model = Build("m", a);
  const WorkOptions options = Options(1, 256);
  const std::vector<LayerWork> works = BuildWork(model, options);
  const std::vector<int> of_layers = WorkOfLayers(model, options, {}, {});
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<int> gradients(model.layers[i].tensors.size());
    for (const Operation& op : works[static_cast<std::size_t>(of_layers[i])].backward) {
      for (const int tensor : op.gradients) ++gradients[static_cast<std::size_t>(tensor)];
    }
    EXPECT_EQ(gradients, std::vector<int>(gradients.size(), 1)) << model.layers[i].name;
  }
}

// With residual streams, a module that predicts a further token has two products of h x h and three
// norms, its block, and its own weights from four streams to one: 4 (4 h) + 5.
TEST(DescribedBlocksTest, AFurtherTokenOfStreams) {
  Architecture kind = Attention();
  kind.streams = 4;
  Architecture a = Of({kind}, {0, 0});
  a.streams = 4;
  const Model without = Build("m", a);
  a.further_tokens = 2;
  const Model model = Build("m", a);
  std::int64_t block = 0;
  for (const int tensor : model.layers[1].tensors) {
    block += model.tensors[static_cast<std::size_t>(tensor)].elements;
  }
  const std::int64_t module = 2 * kHidden * kHidden + 3 * kHidden + block + 16 * kHidden + 5;
  EXPECT_EQ(model.parameter_count() - without.parameter_count(), 2 * module);
  for (const Checkpointing checkpointing : {Checkpointing::kNone, Checkpointing::kFull}) {
    const WorkOptions options = Options(1, 256, checkpointing);
    const std::vector<LayerWork> works = BuildWork(model, options);
    std::vector<int> gradients(model.layers.back().tensors.size());
    const int head = WorkOfLayers(model, options, {}, {}).back();
    for (const Operation& op : works[static_cast<std::size_t>(head)].backward) {
      for (const int tensor : op.gradients) ++gradients[static_cast<std::size_t>(tensor)];
    }
    EXPECT_EQ(gradients, std::vector<int>(gradients.size(), 1));
    // A module projects four streams, and the words: 5 h x h products of all tokens.
    const auto projected = [&](std::string_view name) {
      return Find(works[static_cast<std::size_t>(head)], name)->flops;
    };
    EXPECT_EQ(projected("h_proj"), 2 * 256 * 4 * kHidden * kHidden);
    EXPECT_EQ(projected("e_proj"), 2 * 256 * kHidden * kHidden);
  }
  // Of two tensor-parallel ranks, each projects its part of the tokens.
  WorkOptions options = Options(1, 256);
  options.tensor = 2;
  options.sequence_parallel = true;
  const std::vector<LayerWork> works = BuildWork(model, options);
  const auto head = static_cast<std::size_t>(WorkOfLayers(model, options, {}, {}).back());
  EXPECT_EQ(Find(works[head], "h_proj")->flops, 2 * 128 * 4 * kHidden * kHidden);
  EXPECT_EQ(Find(works[head], "e_proj")->flops, 2 * 128 * kHidden * kHidden);
}

// If backward is split, gradients of constants are complete with those of the weights, also where
// one kernel makes them beside its input's.
TEST(DescribedBlocksTest, SplitBackwardHasEveryGradientWithTheWeights) {
  Architecture shared = Attention();
  shared.kv_heads = 1;
  shared.attention_window = 64;
  shared.shared_key = {
      .query_rank = 256, .output_groups = 2, .output_rank = 64, .compressed = 4, .overlap = 2};
  Architecture a = Of({Attention(), Delta(), Mamba(), shared}, {0, 1, 2, 3});
  const Model model = Build("m", a);
  WorkOptions options = Options(1, 256);
  options.splits_backward = true;
  const std::vector<LayerWork> works = BuildWork(model, options);
  const std::vector<int> of_layers = WorkOfLayers(model, options, {}, {});
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerWork& work = works[static_cast<std::size_t>(of_layers[i])];
    std::vector<int> gradients(model.layers[i].tensors.size());
    for (const Operation& op : work.backward_weight.operations) {
      for (const int tensor : op.gradients) ++gradients[static_cast<std::size_t>(tensor)];
    }
    EXPECT_EQ(gradients, std::vector<int>(gradients.size(), 1)) << model.layers[i].name;
    for (const Operation& op : work.backward_input.operations) {
      EXPECT_TRUE(op.gradients.empty()) << op.kernel.name;
    }
  }
}

}  // namespace
}  // namespace stepcast::model

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

// Mask and softmax each read and write the s x s matrix of every head. One fused kernel reads the
// half below the diagonal, and so does its gradient for both operands.
TEST(AttentionWorkTest, AFusedSoftmaxReadsHalfAMatrixLessAndNeedsNoMask) {
  const Architecture architecture = Shipped("gpt2");
  const LayerWork apart =
      BlockOf(architecture, Options(2, 64, Checkpointing::kNone, Attention::kMath));
  const LayerWork fused =
      BlockOf(architecture, Options(2, 64, Checkpointing::kNone, Attention::kFusedSoftmax));
  const Bytes matrix(2 * 64 * 64 * 2 * architecture.heads);
  EXPECT_EQ(fused.forward.size() + 1, apart.forward.size());
  EXPECT_EQ(Find(fused, "attn.core.mask"), nullptr);
  EXPECT_EQ(Find(apart, "attn.core.softmax")->read, matrix);
  EXPECT_EQ(Find(fused, "attn.core.softmax")->read * 2, matrix);
  EXPECT_EQ(Find(fused, "attn.core.softmax")->written, matrix);
  EXPECT_EQ(Find(apart, "attn.core.softmax.dgrad")->read, 2 * matrix);
  EXPECT_EQ(Find(fused, "attn.core.softmax.dgrad")->read, matrix);
  EXPECT_EQ(Sum(fused.Of(Lifetime::kSaved)), Sum(apart.Of(Lifetime::kSaved)));
}

// Megatron-LM's kernel takes four heads per thread block, or eight of short sequences. Two heads
// are cast, scaled and masked first, in FP32, which reads and writes 2 + 4, 4 + 4 and 4 + 4 bytes a
// score. The softmax then reads 4 bytes instead of 1 (half a matrix of 2), and its output is cast
// back.
TEST(AttentionWorkTest, AFusedSoftmaxTakesFourHeadsAtATime) {
  Architecture a = Shipped("gpt2");
  WorkOptions options = Options(1, 256, Checkpointing::kNone, Attention::kFusedSoftmax);
  options.tensor = 6;  // 2 heads on each rank
  const LayerWork stepwise = BlockOf(a, options);
  const std::int64_t scores = 2 * 256 * 256;
  EXPECT_EQ(Find(stepwise, "attn.core.scores.cast")->written, Bytes(4 * scores));
  EXPECT_EQ(Find(stepwise, "attn.core.scale")->read, Bytes(4 * scores));
  EXPECT_EQ(Find(stepwise, "attn.core.mask")->written, Bytes(4 * scores));
  EXPECT_EQ(Find(stepwise, "attn.core.softmax")->read, Bytes(4 * scores));
  EXPECT_EQ(Find(stepwise, "attn.core.softmax.cast")->written, Bytes(2 * scores));
  EXPECT_EQ(Find(stepwise, "attn.core.scores.cast.dgrad")->written, Bytes(2 * scores));
  options.micro_batch_size = 2;
  const LayerWork fused = BlockOf(a, options);
  EXPECT_EQ(Find(fused, "attn.core.mask"), nullptr);
  EXPECT_EQ(Find(fused, "attn.core.softmax")->read, Bytes(2 * scores));
  // Four heads of 128 tokens leave half a thread block empty, which the kernel does not do.
  options.sequence_length = 128;
  EXPECT_NE(Find(BlockOf(a, options), "attn.core.mask"), nullptr);
}

// With h = 1024, f = 4h, V = 30522, 128 tokens of which 20 are predicted, one sequence:
//   block    2 s (4 h^2 + 2 h f) + 4 s^2 h: all pairs of tokens, none of them masked
//   head     2 x 20 h^2 + 2 x 20 h V, and for the first token 2 h^2 + 2 h x 2
// and twice as much in backward.
TEST(AttentionWorkTest, AnEncodersFlops) {
  for (const Attention attention : {Attention::kFlash, Attention::kMath}) {
    WorkOptions options = Options(1, 128, Checkpointing::kNone, attention);
    options.masked_tokens = 20;
    const std::vector<LayerWork> works = TransformerWork(Shipped("bert-large"), options);
    constexpr std::int64_t kBlockFlops = 3'221'225'472 + 67'108'864;
    constexpr std::int64_t kHeadFlops = 41'943'040 + 1'250'181'120 + 2'097'152 + 4096;
    EXPECT_EQ(ModelFlops(works[kBlock].forward), kBlockFlops);
    EXPECT_EQ(ModelFlops(works[kBlock].backward), 2 * kBlockFlops);
    EXPECT_EQ(ModelFlops(works[kHead].forward), kHeadFlops);
    EXPECT_EQ(ModelFlops(works[kHead].backward), 2 * kHeadFlops);
    EXPECT_EQ(ModelFlops(works[kEmbedding].forward), 0);
  }
  // The device computes all of them, too.
  const LayerWork flash = BlockOf(Shipped("bert-large"), Options(1, 128));
  const Kernel* core = Find(flash, "attention.self.core");
  EXPECT_FALSE(core->causal);
  EXPECT_EQ(core->flops, 67'108'864);
}

// Per token, in bytes of 16 bits: the block's input, queries, keys, values, the core's output, two
// sums and the first norm's output, 16 h; input and output of GELU, 4 f; two dropout masks, 2 h.
// That is 34 h, as for GPT-2, with f = 4 h. In addition, 4 a of flash attention; or, per pair of
// tokens and head, the softmax, the mask and the dropout's output, 5.
TEST(AttentionWorkTest, AnEncoderKeepsWhatADecoderKeeps) {
  Architecture a = Shipped("bert-large");
  constexpr std::int64_t kTokens = 2 * 64;
  for (const char* family : {"bert", "megatron-bert"}) {
    a.family = FamilyCalled(family);
    EXPECT_EQ(Sum(BlockOf(a, Options(2, 64)).Of(Lifetime::kSaved)), kTokens * (34 * 1024 + 4 * 16));
    EXPECT_EQ(Sum(BlockOf(a, Options(2, 64, Checkpointing::kNone, Attention::kMath))
                      .Of(Lifetime::kSaved)),
              kTokens * (34 * 1024 + 5 * 16 * 64));
    WorkOptions compiled = Options(2, 64, Checkpointing::kNone, Attention::kMath);
    compiled.compiled = true;
    compiled.norm = Implementation::kCompiled;
    EXPECT_EQ(Sum(BlockOf(a, compiled).Of(Lifetime::kSaved)), kTokens * (34 * 1024 + 5 * 16 * 64));
  }
  // Embeddings: the norm's input, and a mask of dropout; without a norm the mask alone.
  EXPECT_EQ(Sum(TransformerWork(a, Options(2, 64))[kEmbedding].Of(Lifetime::kSaved)),
            kTokens * 1024);
  a.family = FamilyCalled("bert");
  EXPECT_EQ(Sum(TransformerWork(a, Options(2, 64))[kEmbedding].Of(Lifetime::kSaved)),
            kTokens * 3 * 1024);
  // The head, for each token that it predicts: inputs of its two products, of GELU and of the norm,
  // the logits' FP32 log-softmax. For each sequence: the first token, the pooler's result, two
  // log-softmaxes.
  constexpr std::int64_t kPooled = 2 * (2 * 2 * 1024 + 2 * 4);
  WorkOptions masked = Options(2, 64);
  EXPECT_EQ(Sum(TransformerWork(a, masked)[kHead].Of(Lifetime::kSaved)),
            kTokens * (8 * 1024 + 4 * 30522) + kPooled);
  masked.masked_tokens = 10;
  EXPECT_EQ(Sum(TransformerWork(a, masked)[kHead].Of(Lifetime::kSaved)),
            20 * (8 * 1024 + 4 * 30522) + kPooled);
}

// Compiled, scale, mask, softmax and dropout are one kernel. It reads the scores and writes the
// softmax, the mask and the result: 2 + 2 + 1 + 2 bytes a score. Eagerly there are four kernels.
// Backward reads the gradient, the softmax and the mask.
TEST(AttentionWorkTest, CompiledScoresAreOneKernel) {
  WorkOptions options = Options(2, 64, Checkpointing::kNone, Attention::kMath);
  const std::int64_t scores = 2 * 16 * 64 * 64;
  const LayerWork eager = BlockOf(Shipped("bert-large"), options);
  for (const char* kernel : {"scale", "mask", "softmax", "dropout"}) {
    EXPECT_NE(Find(eager, std::string("attention.self.core.") + kernel), nullptr) << kernel;
  }
  options.compiled = true;
  const LayerWork compiled = BlockOf(Shipped("bert-large"), options);
  for (const char* kernel : {"scale", "mask", "dropout", "dropout.dgrad", "scale.dgrad"}) {
    EXPECT_EQ(Find(compiled, std::string("attention.self.core.") + kernel), nullptr) << kernel;
  }
  const Kernel* forward = Find(compiled, "attention.self.core.softmax");
  EXPECT_EQ(forward->read, Bytes(2 * scores));
  EXPECT_EQ(forward->written, Bytes(5 * scores));
  const Kernel* backward = Find(compiled, "attention.self.core.softmax.dgrad");
  EXPECT_EQ(backward->read, Bytes(5 * scores));
  EXPECT_EQ(backward->written, Bytes(2 * scores));
}

// 8 heads of keys and values of 128, copied four times: 3h more of 2 bytes for each.
TEST(AttentionWorkTest, RepeatedKeysAndValuesAreKeptForEveryHead) {
  WorkOptions options = Options(1, 8192);
  options.repeat_kv = true;
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), options);
  EXPECT_EQ(Sum(block.Of(Lifetime::kSaved)), (168'072 + 3 * 4096) * 8192LL);
  EXPECT_EQ(Find(block, "self_attn.core")->key_heads, 32);
}

// FlashAttention keeps its output, 2h, and the projection after it a copy in the other order.
// Queries, keys and values are kept as the copies that it reads, of the same size. A single
// sequence needs no copies.
TEST(AttentionWorkTest, TransposedAttentionKeepsItsOutputTwice) {
  const Architecture gpt2 = Shipped("gpt2");
  WorkOptions options = Options(2, 1024);
  const std::int64_t plain = Sum(BlockOf(gpt2, options).Of(Lifetime::kSaved));
  options.transposes_attention = true;
  EXPECT_EQ(Sum(BlockOf(gpt2, options).Of(Lifetime::kSaved)), plain + 2 * gpt2.hidden * 2 * 1024LL);
  WorkOptions alone = Options(1, 1024);
  const std::int64_t of_one = Sum(BlockOf(gpt2, alone).Of(Lifetime::kSaved));
  alone.transposes_attention = true;
  EXPECT_EQ(Sum(BlockOf(gpt2, alone).Of(Lifetime::kSaved)), of_one);
}

// torch.matmul copies queries, keys, values and the core's output, each way: 8 kernels that read
// and write 2 h bytes a token. Backward keeps the copies instead of the originals.
TEST(AttentionWorkTest, HeadsThatLieApartAreCopiedForScores) {
  const Architecture bert = Shipped("bert-large");
  WorkOptions options = Options(2, 64, Checkpointing::kNone, Attention::kMath);
  const LayerWork views = BlockOf(bert, options);
  options.transposes_attention = true;
  const LayerWork copies = BlockOf(bert, options);
  const auto moved = [](const LayerWork& work) {
    Bytes bytes;
    for (const auto* operations : {&work.forward, &work.backward}) {
      for (const Operation& op : *operations) bytes += op.kernel.read + op.kernel.written;
    }
    return bytes;
  };
  constexpr std::int64_t kTensor = 2LL * 64 * 1024 * 2;
  EXPECT_EQ(moved(copies) - moved(views), Bytes(8 * 2 * kTensor));
  EXPECT_EQ(Sum(copies.Of(Lifetime::kSaved)), Sum(views.Of(Lifetime::kSaved)));
}

// One kernel per product, which reads and writes 2 h bytes a token, or one for a fused product.
// Kept bytes and backward are unchanged.
TEST(AttentionWorkTest, AttentionBiasesBehindTheirProducts) {
  const Architecture bert = Shipped("bert-large");
  WorkOptions options = Options(2, 64);
  const LayerWork within = BlockOf(bert, options);
  options.adds_attention_biases = true;
  const LayerWork behind = BlockOf(bert, options);
  constexpr std::int64_t kTensor = 2LL * 64 * 1024 * 2;
  for (const char* module : {"query", "key", "value"}) {
    const Kernel* kernel = Find(behind, "attention.self." + std::string(module) + ".bias");
    ASSERT_NE(kernel, nullptr) << module;
    EXPECT_EQ(kernel->read, Bytes(kTensor));
    EXPECT_EQ(kernel->written, Bytes(kTensor));
    EXPECT_EQ(Find(within, "attention.self." + std::string(module) + ".bias"), nullptr);
  }
  EXPECT_EQ(behind.forward.size(), within.forward.size() + 3);
  EXPECT_EQ(behind.backward.size(), within.backward.size());
  EXPECT_EQ(Sum(behind.Of(Lifetime::kSaved)), Sum(within.Of(Lifetime::kSaved)));
  options.fuses_products = true;
  const LayerWork together = BlockOf(bert, options);
  const Kernel* all = Find(together, "attention.self.query_key_value.bias");
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->read, Bytes(3 * kTensor));
  // Llama's have none.
  options = Options(1, 8192);
  options.adds_attention_biases = true;
  EXPECT_EQ(BlockOf(Shipped("llama3.1-8b"), options).forward.size(),
            BlockOf(Shipped("llama3.1-8b"), Options(1, 8192)).forward.size());
}

// With norms over heads, backward needs the outputs of the query and key products, 2 bytes an
// element, and a number for each head of each token.
TEST(AttentionWorkTest, NormsOfHeadsKeepWhatTheyTake) {
  const Architecture with = Shipped("qwen3-8b");
  Architecture without = with;
  without.qk_norm = false;
  for (const std::int64_t tensor : {1, 4}) {
    WorkOptions options = Options(2, 64);
    options.tensor = tensor;
    const LayerWork normed = BlockOf(with, options), plain = BlockOf(without, options);
    const std::int64_t heads = 2 * 64 * (32 + 8) / tensor;
    EXPECT_EQ(Sum(normed.Of(Lifetime::kSaved)) - Sum(plain.Of(Lifetime::kSaved)),
              heads * (128 * 2 + 4));
    EXPECT_EQ(normed.forward.size(), plain.forward.size() + 2);
    EXPECT_EQ(ModelFlops(normed.forward), ModelFlops(plain.forward));
    const Kernel* norm = Find(normed, "self_attn.q_norm");
    ASSERT_NE(norm, nullptr);
    const std::int64_t elements = 2 * 64 * 4096 / tensor;
    EXPECT_EQ(norm->read, Bytes(2 * (elements + 128)));
    EXPECT_EQ(norm->written, Bytes(2 * elements + 4 * elements / 128));
  }
}

// Operation by operation, the norm keeps its input in FP32 and the factor of the weight, instead of
// the 16-bit input.
TEST(AttentionWorkTest, EagerNormsOfHeadsKeepTheirInputInFp32) {
  const Architecture with = Shipped("qwen3-8b");
  Architecture without = with;
  without.qk_norm = false;
  WorkOptions options = Options(1, 64);
  options.norm = Implementation::kHuggingFace;
  EXPECT_EQ(Sum(BlockOf(with, options).Of(Lifetime::kSaved)) -
                Sum(BlockOf(without, options).Of(Lifetime::kSaved)),
            64 * (32 + 8) * (128 * (4 + 2) + 4));
}

// Backward makes each weight's gradient once: 7 matrices and 4 norms.
TEST(AttentionWorkTest, NormsOfHeadsHaveGradients) {
  std::vector<int> gradients(11, 0);
  for (const Operation& operation : BlockOf(Shipped("qwen3-8b"), Options(1, 64)).backward) {
    for (const int position : operation.gradients) ++gradients.at(position);
  }
  EXPECT_EQ(gradients, std::vector<int>(11, 1));
}

// Llama's layers with a window of 16 in every second block: 64 x 64 pairs less 48 x 48 that the
// window hides.
TEST(AttentionWorkTest, BlocksWithAndWithoutAWindow) {
  Architecture a = Shipped("llama3.1-8b");
  a.attention_window = 16;
  a.full_attention_every = 2;
  const WorkOptions options = Options(1, 64);
  const std::vector<LayerWork> works = TransformerWork(a, options);
  ASSERT_EQ(works.size(), 4U);  // embedding, windowed block, head, full block
  const std::int64_t pairs = 32 * 128;
  EXPECT_EQ(Find(works[kBlock], "self_attn.core")->flops, 2 * pairs * (64 * 64 - 48 * 48));
  EXPECT_EQ(Find(works[kBlock], "self_attn.core")->n, 16);
  EXPECT_EQ(Find(works[3], "self_attn.core")->flops, 2 * pairs * 64 * 64);
  EXPECT_EQ(Find(works[3], "self_attn.core")->n, 64);
  a.full_attention_every = 0;
  EXPECT_EQ(TransformerWork(a, options).size(), 3U);
}

// A number per head: a fused core adds it to the scores' sum, and its gradient is a sum over
// tokens. With separate kernels, the scores get an additional column, and the largest is
// subtracted.
TEST(AttentionWorkTest, SinksHaveGradients) {
  const Architecture a = Shipped("gpt-oss-20b");
  for (const Attention attention : {Attention::kFlash3, Attention::kMath}) {
    WorkOptions options = Options(1, 64, Checkpointing::kNone, attention);
    const LayerWork work = BlockOf(a, options);
    const Kernel* gradient = Find(work, "self_attn.sinks.grad");
    ASSERT_NE(gradient, nullptr);
    EXPECT_EQ(gradient->read, Bytes(2 * 4 * 64 * 64));
    EXPECT_EQ(gradient->written, Bytes(2 * 64));
    std::vector<int> gradients(17, 0);
    for (const Operation& operation : work.backward) {
      for (const int position : operation.gradients) ++gradients.at(position);
    }
    EXPECT_EQ(gradients, std::vector<int>(17, 1));
    const bool apart = attention == Attention::kMath;
    EXPECT_EQ(Find(work, "self_attn.core.sinks") != nullptr, apart);
    EXPECT_EQ(Find(work, "self_attn.core.sinks.dgrad") != nullptr, apart);
  }
}

// FlexAttention and FlashAttention-2 do not support sinks. Their output is rescaled, in one kernel
// if compiled. cuDNN's kernel supports them.
TEST(AttentionWorkTest, KernelsWithoutSinksAreRescaled) {
  const Architecture a = Shipped("gpt-oss-20b");
  const auto block = [&](Attention attention, bool compiled) {
    WorkOptions options = Options(1, 512, Checkpointing::kNone, attention);
    options.compiled = compiled;
    return BlockOf(a, options);
  };
  for (const Attention attention : {Attention::kFlash, Attention::kFlex}) {
    const LayerWork eager = block(attention, false), compiled = block(attention, true);
    EXPECT_NE(Find(eager, "self_attn.core.sinks.sigmoid"), nullptr);
    EXPECT_EQ(Find(compiled, "self_attn.core.sinks.sigmoid"), nullptr);
    for (const LayerWork* work : {&eager, &compiled}) {
      EXPECT_NE(Find(*work, "self_attn.core.sinks.dgrad"), nullptr);
    }
  }
  EXPECT_EQ(Find(block(Attention::kCudnn, false), "self_attn.core.sinks"), nullptr);
  EXPECT_EQ(Find(block(Attention::kFlex, false), "self_attn.core")->flash, 5);
}

}  // namespace
}  // namespace stepcast::model

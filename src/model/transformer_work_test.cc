#include "src/model/transformer_work.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/model/example_architectures.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

constexpr std::size_t kEmbedding = 0, kBlock = 1, kHead = 2;

std::int64_t Sum(const std::vector<Activation>& activations) {
  std::int64_t bytes = 0;
  for (const Activation& activation : activations) bytes += activation.bytes.count();
  return bytes;
}

template <typename Operators>
std::int64_t ModelFlops(const Operators& operators) {
  std::int64_t flops = 0;
  for (const auto& op : operators) flops += op.kernel.model_flops;
  return flops;
}

WorkOptions Options(std::int64_t sequences, std::int64_t tokens,
                    Checkpointing checkpointing = Checkpointing::kNone,
                    Attention attention = Attention::kFlash) {
  return {.micro_batch_size = sequences,
          .sequence_length = tokens,
          .compute = DataType::kBf16,
          .checkpointing = checkpointing,
          .attention = attention};
}

LayerWork BlockOf(const Architecture& architecture, const WorkOptions& options) {
  return TransformerWork(architecture, options)[kBlock];
}

const Kernel* Find(const LayerWork& work, std::string_view name) {
  for (const Operation& op : work.forward) {
    if (op.kernel.name == name) return &op.kernel;
  }
  for (const Operation& op : work.backward) {
    if (op.kernel.name == name) return &op.kernel;
  }
  return nullptr;
}

// Mask and softmax read and write the s x s matrix of every head once each; one kernel for both
// reads the half below the diagonal, and so does its gradient of both its operands.
TEST(TransformerWorkTest, AFusedSoftmaxReadsHalfAMatrixLessAndNeedsNoMask) {
  const Architecture architecture = Gpt2Small();
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
  EXPECT_EQ(Sum(fused.saved), Sum(apart.saved));
}

// Megatron-LM's kernel takes four heads a thread block, eight of short sequences. Two heads are
// cast, scaled and masked first, in FP32, which reads and writes 2 + 4, 4 + 4 and 4 + 4 bytes a
// score; the softmax then reads 4 bytes where it would read 1 (half a matrix of 2), and is cast
// back.
TEST(TransformerWorkTest, AFusedSoftmaxTakesFourHeadsAtATime) {
  Architecture a = Gpt2Small();
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
TEST(TransformerWorkTest, AnEncodersFlops) {
  for (const Attention attention : {Attention::kFlash, Attention::kMath}) {
    WorkOptions options = Options(1, 128, Checkpointing::kNone, attention);
    options.masked_tokens = 20;
    const std::vector<LayerWork> works = TransformerWork(BertLarge(), options);
    constexpr std::int64_t kBlockFlops = 3'221'225'472 + 67'108'864;
    constexpr std::int64_t kHeadFlops = 41'943'040 + 1'250'181'120 + 2'097'152 + 4096;
    EXPECT_EQ(ModelFlops(works[kBlock].forward), kBlockFlops);
    EXPECT_EQ(ModelFlops(works[kBlock].backward), 2 * kBlockFlops);
    EXPECT_EQ(ModelFlops(works[kHead].forward), kHeadFlops);
    EXPECT_EQ(ModelFlops(works[kHead].backward), 2 * kHeadFlops);
    EXPECT_EQ(ModelFlops(works[kEmbedding].forward), 0);
  }
  // The device computes all of them, too.
  const LayerWork flash = BlockOf(BertLarge(), Options(1, 128));
  const Kernel* core = Find(flash, "attention.self.core");
  EXPECT_FALSE(core->causal);
  EXPECT_EQ(core->flops, 67'108'864);
}

// Per token, in bytes of 16 bits: the block's input, queries, keys, values, the core's result, two
// sums and the first norm's result, 16 h; the two sides of GELU, 4 f; two masks of dropout, 2 h.
// That is 34 h, as of GPT-2, with f = 4 h. And 4 a of flash attention; or for each pair of tokens
// and head the softmax, the mask and what is left, 5.
TEST(TransformerWorkTest, AnEncoderKeepsWhatADecoderKeeps) {
  Architecture a = BertLarge();
  constexpr std::int64_t kTokens = 2 * 64;
  for (const Family family : {Family::kBert, Family::kMegatronBert}) {
    a.family = family;
    EXPECT_EQ(Sum(BlockOf(a, Options(2, 64)).saved), kTokens * (34 * 1024 + 4 * 16));
    EXPECT_EQ(Sum(BlockOf(a, Options(2, 64, Checkpointing::kNone, Attention::kMath)).saved),
              kTokens * (34 * 1024 + 5 * 16 * 64));
    WorkOptions compiled = Options(2, 64, Checkpointing::kNone, Attention::kMath);
    compiled.compiled = true;
    compiled.norm = Implementation::kCompiled;
    EXPECT_EQ(Sum(BlockOf(a, compiled).saved), kTokens * (34 * 1024 + 5 * 16 * 64));
  }
  // Embeddings: the norm's input, and a mask of dropout; without a norm the mask alone.
  EXPECT_EQ(Sum(TransformerWork(a, Options(2, 64))[kEmbedding].saved), kTokens * 1024);
  a.family = Family::kBert;
  EXPECT_EQ(Sum(TransformerWork(a, Options(2, 64))[kEmbedding].saved), kTokens * 3 * 1024);
  // The head, for each token that it predicts: inputs of its two products, of GELU and of the norm,
  // the logits' FP32 log-softmax. For each sequence: the first token, the pooler's result, two
  // log-softmaxes.
  constexpr std::int64_t kPooled = 2 * (2 * 2 * 1024 + 2 * 4);
  WorkOptions masked = Options(2, 64);
  EXPECT_EQ(Sum(TransformerWork(a, masked)[kHead].saved),
            kTokens * (8 * 1024 + 4 * 30522) + kPooled);
  masked.masked_tokens = 10;
  EXPECT_EQ(Sum(TransformerWork(a, masked)[kHead].saved), 20 * (8 * 1024 + 4 * 30522) + kPooled);
}

// Compiled, scale, mask, softmax and dropout are one kernel: it reads the scores, and writes the
// softmax, the mask and what is left; 2 + 2 + 1 + 2 bytes a score. Eagerly there are four. Backward
// it reads the gradient, the softmax and the mask.
TEST(TransformerWorkTest, CompiledScoresAreOneKernel) {
  WorkOptions options = Options(2, 64, Checkpointing::kNone, Attention::kMath);
  const std::int64_t scores = 2 * 16 * 64 * 64;
  const LayerWork eager = BlockOf(BertLarge(), options);
  for (const char* kernel : {"scale", "mask", "softmax", "dropout"}) {
    EXPECT_NE(Find(eager, std::string("attention.self.core.") + kernel), nullptr) << kernel;
  }
  options.compiled = true;
  const LayerWork compiled = BlockOf(BertLarge(), options);
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

// PyTorch's kernel walks all tokens for 32 columns; in stages bandwidth alone bounds the sums.
TEST(TransformerWorkTest, StagedNormSumsDoNotWaitForTokens) {
  WorkOptions options = Options(2, 64);
  EXPECT_EQ(Find(BlockOf(Gpt2Small(), options), "ln_1.wgrad")->summed_tokens, 128);
  options.norm = Implementation::kApex;
  EXPECT_EQ(Find(BlockOf(Gpt2Small(), options), "ln_1.wgrad")->summed_tokens, 0);
}

// 8h + 4ad + 4gd + 8f + 4a + 8 bytes per token with h = ad = 4096, gd = 1024, f = 14336, a = 32:
// 32768 + 16384 + 4096 + 114688 + 128 + 8.
TEST(TransformerWorkTest, Llama8BKeeps168072BytesPerToken) {
  const LayerWork block = BlockOf(Llama31With8B(), Options(1, 8192));
  EXPECT_EQ(Sum(block.saved), 168'072 * 8192LL);
  // 32 layers of 8192 tokens: 44.06e9 B.
  EXPECT_EQ(32 * Sum(block.saved), 44'059'066'368);
}

// Norms of many kernels keep their inputs in FP32 and once more in 16 bits: 12h + 8 for 4h + 8.
TEST(TransformerWorkTest, EagerNormsKeepMore) {
  WorkOptions options = Options(1, 8192);
  options.norm = Implementation::kEager;
  EXPECT_EQ(Sum(BlockOf(Llama31With8B(), options).saved), (168'072 + 8 * 4096) * 8192LL);
}

// Two norms' inputs are kept in FP32; copies in 16 bits are what products keep anyway.
TEST(TransformerWorkTest, UnderAutocastResidualsAreFp32) {
  WorkOptions options = Options(2, 64);
  const std::vector<LayerWork> narrow = TransformerWork(Gpt2Small(), options);
  options.autocast = true;
  const std::vector<LayerWork> wide = TransformerWork(Gpt2Small(), options);
  const std::int64_t tokens = 128, hidden = 768;
  EXPECT_EQ(Sum(wide[1].saved) - Sum(narrow[1].saved), tokens * 2 * 2 * hidden);
  for (const int layer : {0, 1}) {
    EXPECT_EQ(narrow[layer].output, Bytes(tokens * 2 * hidden));
    EXPECT_EQ(wide[layer].output, Bytes(tokens * 4 * hidden));
  }
  EXPECT_EQ(Find(wide[1], "ln_1")->written - Find(narrow[1], "ln_1")->written,
            Bytes(tokens * 2 * hidden));
  EXPECT_EQ(Find(wide[1], "mlp.residual")->read, Bytes(tokens * 6 * hidden));
}

// What eager PyTorch does not run at the rate of a copy; a compiled graph does.
TEST(TransformerWorkTest, EagerKernelsSayHowTheyGoThroughMemory) {
  WorkOptions options = Options(2, 64);
  const auto access = [&](int layer, const char* name) {
    const std::vector<LayerWork> works = TransformerWork(Gpt2Small(), options);
    return Find(works[static_cast<std::size_t>(layer)], name)->access;
  };
  EXPECT_EQ(access(1, "ln_1"), Access::kPlain);
  EXPECT_EQ(access(1, "mlp.residual"), Access::kPlain);
  EXPECT_EQ(access(1, "mlp.c_fc.bias.grad"), Access::kColumnSum);
  options.autocast = true;
  EXPECT_EQ(access(1, "ln_1"), Access::kNorm);
  EXPECT_EQ(access(1, "ln_1.dgrad"), Access::kNormGradient);
  EXPECT_EQ(access(1, "mlp.residual"), Access::kMixed);
  EXPECT_EQ(access(1, "mlp.c_fc.cast"), Access::kPlain);
  EXPECT_EQ(access(1, "mlp.c_fc.cast.dgrad"), Access::kWidening);
  options.compiled = true;
  options.norm = Implementation::kCompiled;
  EXPECT_EQ(access(1, "ln_1"), Access::kPlain);
  EXPECT_EQ(access(1, "ln_1.dgrad"), Access::kPlain);
  EXPECT_EQ(access(1, "mlp.residual"), Access::kPlain);
}

// 8 heads of keys and values of 128, copied four times: 3h more of 2 bytes for each.
TEST(TransformerWorkTest, RepeatedKeysAndValuesAreKeptForEveryHead) {
  WorkOptions options = Options(1, 8192);
  options.repeat_kv = true;
  const LayerWork block = BlockOf(Llama31With8B(), options);
  EXPECT_EQ(Sum(block.saved), (168'072 + 3 * 4096) * 8192LL);
  EXPECT_EQ(Find(block, "self_attn.core")->key_heads, 32);
}

// FlashAttention keeps what it has made, 2h, and the projection behind it a copy in the other
// order. Queries, keys and values are kept as the copies that it takes, which are no more. One
// sequence has one order.
TEST(TransformerWorkTest, TransposedAttentionKeepsItsOutputTwice) {
  const Architecture gpt2 = Gpt2Small();
  WorkOptions options = Options(2, 1024);
  const std::int64_t plain = Sum(BlockOf(gpt2, options).saved);
  options.transposes_attention = true;
  EXPECT_EQ(Sum(BlockOf(gpt2, options).saved), plain + 2 * gpt2.hidden * 2 * 1024LL);
  WorkOptions alone = Options(1, 1024);
  const std::int64_t of_one = Sum(BlockOf(gpt2, alone).saved);
  alone.transposes_attention = true;
  EXPECT_EQ(Sum(BlockOf(gpt2, alone).saved), of_one);
}

// torch.matmul copies queries, keys, values and what the core makes, each way: 8 kernels that read
// and write 2 h bytes a token. Backward keeps the copies, which are no more than what they are of.
TEST(TransformerWorkTest, HeadsThatLieApartAreCopiedForScores) {
  const Architecture bert = BertLarge();
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
  EXPECT_EQ(Sum(copies.saved), Sum(views.saved));
}

// A kernel for each product, which reads and writes 2 h bytes a token, or one for all that one
// product makes. Nothing more is kept, and backward is the same.
TEST(TransformerWorkTest, AttentionBiasesBehindTheirProducts) {
  const Architecture bert = BertLarge();
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
  EXPECT_EQ(Sum(behind.saved), Sum(within.saved));
  options.fuses_products = true;
  const LayerWork together = BlockOf(bert, options);
  const Kernel* all = Find(together, "attention.self.query_key_value.bias");
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->read, Bytes(3 * kTensor));
  // Llama's have none.
  options = Options(1, 8192);
  options.adds_attention_biases = true;
  EXPECT_EQ(BlockOf(Llama31With8B(), options).forward.size(),
            BlockOf(Llama31With8B(), Options(1, 8192)).forward.size());
}

// Fused accumulation: 4 bytes an element are read and written in the place of 2 that are written.
TEST(TransformerWorkTest, FusedAccumulationAddsToMainGradients) {
  WorkOptions options = Options(1, 1024);
  const LayerWork apart = BlockOf(Llama31With8B(), options);
  options.main_gradients = DataType::kFp32;
  const LayerWork fused = BlockOf(Llama31With8B(), options);
  const Kernel* made = Find(apart, "mlp.down_proj.wgrad");
  const Kernel* added = Find(fused, "mlp.down_proj.wgrad");
  ASSERT_NE(made, nullptr);
  ASSERT_NE(added, nullptr);
  constexpr std::int64_t kWeights = 4096LL * 14336;
  EXPECT_EQ(added->read - made->read, Bytes(4 * kWeights));
  EXPECT_EQ(added->written - made->written, Bytes(2 * kWeights));
  EXPECT_TRUE(added->adds_to_fp32);
  options.main_gradients = DataType::kBf16;
  const LayerWork narrow = BlockOf(Llama31With8B(), options);
  EXPECT_FALSE(Find(narrow, "mlp.down_proj.wgrad")->adds_to_fp32);
  EXPECT_FALSE(Find(fused, "mlp.down_proj.dgrad")->adds_to_fp32);
}

// What the kernel of the input's gradient has read, x and dy, is read again.
TEST(TransformerWorkTest, NormWeightsOfACompiledBlockAreSummedApart) {
  WorkOptions options = Options(1, 1024);
  options.compiled = true;
  options.norm = Implementation::kCompiled;
  const LayerWork together = BlockOf(Llama31With8B(), options);
  ASSERT_NE(Find(together, "input_layernorm.wgrad"), nullptr);
  EXPECT_EQ(Find(together, "input_layernorm.wgrad")->read, Bytes());
  options.sums_norm_weights_apart = true;
  const LayerWork apart = BlockOf(Llama31With8B(), options);
  // 2 x 2 bytes an element, and an FP32 deviation a token.
  EXPECT_EQ(Find(apart, "input_layernorm.wgrad")->read, Bytes(1024 * (4 * 4096 + 4)));
}

// Gate, up and their product, without silu(gate): 2f less.
TEST(TransformerWorkTest, AFusedSwiGluKeepsThreeTensors) {
  WorkOptions options = Options(1, 8192);
  options.activation_function = Implementation::kFused;
  EXPECT_EQ(Sum(BlockOf(Llama31With8B(), options).saved), 139'400 * 8192LL);
}

TEST(TransformerWorkTest, Llama8BKeepsTheseTensors) {
  const LayerWork block = BlockOf(Llama31With8B(), Options(1, 1));
  std::vector<std::pair<std::string, std::int64_t>> kept;
  for (const Activation& activation : block.saved) {
    kept.emplace_back(activation.name, activation.bytes.count());
  }
  const decltype(kept) expected = {
      {"input", 8192},
      {"input_layernorm output", 8192},
      {"input_layernorm reciprocal deviation", 4},
      {"self_attn.v_proj output", 2048},
      {"self_attn.rotary_query output", 8192},
      {"self_attn.rotary_key output", 2048},
      {"self_attn.core output", 8192},
      {"self_attn.core log-sum-exp", 128},
      {"self_attn.residual", 8192},
      {"post_attention_layernorm output", 8192},
      {"post_attention_layernorm reciprocal deviation", 4},
      {"mlp.gate_proj output", 28672},
      {"mlp.act_fn output", 28672},
      {"mlp.up_proj output", 28672},
      {"mlp.product output", 28672},
  };
  EXPECT_EQ(kept, expected);
}

// Korthikanti et al. 2022: 34 sbh + 5 a s^2 b with dropout, 32 sbh + 2 a s^2 b without; fused
// attention drops the s^2 terms and keeps 4 a s b of log-sum-exp.
TEST(TransformerWorkTest, GptStyleBytes) {
  const std::int64_t s = 1024, b = 3, h = 768, a = 12;
  Architecture gpt = Gpt2Small();
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s, Checkpointing::kNone, Attention::kMath)).saved),
            34 * s * b * h + 5 * a * s * s * b);
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s)).saved), 34 * s * b * h + 4 * a * s * b);
  gpt.dropout = gpt.attention_dropout = false;
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s, Checkpointing::kNone, Attention::kMath)).saved),
            32 * s * b * h + 2 * a * s * s * b);
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s)).saved), 32 * s * b * h + 4 * a * s * b);
}

TEST(TransformerWorkTest, GptStyleTensors) {
  const LayerWork block =
      BlockOf(Gpt2Small(), Options(1, 64, Checkpointing::kNone, Attention::kMath));
  const std::int64_t sbh = 64 * 768, ss = 12 * 64 * 64;
  std::map<std::string, std::int64_t> kept;
  for (const Activation& activation : block.saved) kept[activation.name] = activation.bytes.count();
  const std::map<std::string, std::int64_t> expected = {
      {"input", 2 * sbh},  // of the first LayerNorm
      {"ln_1 output", 2 * sbh},
      {"attn.c_attn output", 6 * sbh},  // Q, K and V
      {"attn.core.softmax output", 2 * ss},
      {"attn.core.dropout mask", ss},
      {"attn.core.dropout output", 2 * ss},
      {"attn.core output", 2 * sbh},
      {"attn.resid_dropout mask", sbh},
      {"attn.residual", 2 * sbh},  // of the second LayerNorm
      {"ln_2 output", 2 * sbh},
      {"mlp.c_fc output", 8 * sbh},
      {"mlp.act output", 8 * sbh},
      {"mlp.dropout mask", sbh},
  };
  EXPECT_EQ(kept, expected);
}

// Selective recomputation leaves 34 sbh and runs the core again.
TEST(TransformerWorkTest, SelectiveDropsTheScores) {
  const std::int64_t s = 1024, h = 768, a = 12;
  const LayerWork block =
      BlockOf(Gpt2Small(), Options(1, s, Checkpointing::kSelective, Attention::kMath));
  EXPECT_EQ(Sum(block.saved), 34 * s * h);
  // The scores' 5 a s^2 and a second copy of the core's output.
  EXPECT_EQ(Sum(block.recomputed), 5 * a * s * s + 2 * s * h);
  EXPECT_EQ(ModelFlops(block.recompute), 4 * s * s * h);

  const LayerWork flash = BlockOf(Gpt2Small(), Options(1, s, Checkpointing::kSelective));
  EXPECT_EQ(Sum(flash.saved), 34 * s * h);
  ASSERT_EQ(flash.recompute.size(), 1U);
  EXPECT_EQ(flash.recompute[0].kernel.kind, KernelKind::kAttention);
}

WorkOptions Dropping(const RecomputedModules& modules, std::int64_t tokens) {
  WorkOptions options = Options(1, tokens, Checkpointing::kSelective);
  options.recomputed_modules = modules;
  return options;
}

// A feed-forward keeps its input and drops the 16 sbh inside; both of its products run again.
TEST(TransformerWorkTest, SelectiveDropsTheFeedForward) {
  const std::int64_t s = 512, h = 768;
  const LayerWork none = BlockOf(Gpt2Small(), Options(1, s));
  const LayerWork block =
      BlockOf(Gpt2Small(), Dropping({.core_attn = false, .mlp = true, .layernorm = false}, s));
  EXPECT_EQ(Sum(none.saved) - Sum(block.saved), 16 * s * h);
  EXPECT_EQ(Sum(block.recomputed), 16 * s * h);
  EXPECT_EQ(ModelFlops(block.recompute), 16 * s * h * h);
  EXPECT_EQ(ModelFlops(block.backward), ModelFlops(none.backward));
}

// Norms drop their outputs, 2 sbh each, and run again; with the feed-forward dropped, too, its
// input is recomputed first.
TEST(TransformerWorkTest, SelectiveDropsTheNormsOutputs) {
  const std::int64_t s = 512, h = 768;
  const LayerWork none = BlockOf(Gpt2Small(), Options(1, s));
  const LayerWork norms =
      BlockOf(Gpt2Small(), Dropping({.core_attn = false, .mlp = false, .layernorm = true}, s));
  EXPECT_EQ(Sum(none.saved) - Sum(norms.saved), 4 * s * h);
  EXPECT_EQ(Sum(norms.recomputed), 4 * s * h);
  EXPECT_EQ(norms.recompute.size(), 2U);
  const LayerWork both =
      BlockOf(Gpt2Small(), Dropping({.core_attn = false, .mlp = true, .layernorm = true}, s));
  EXPECT_EQ(Sum(none.saved) - Sum(both.saved), 20 * s * h);
  EXPECT_EQ(both.recompute.front().kernel.kind, KernelKind::kMemoryBound);
}

TEST(TransformerWorkTest, FullKeepsTheBlocksInput) {
  for (const Architecture& a : {Gpt2Small(), Llama31With8B(), Mpt7B()}) {
    const LayerWork full = BlockOf(a, Options(1, 512, Checkpointing::kFull));
    const LayerWork none = BlockOf(a, Options(1, 512));
    EXPECT_EQ(Sum(full.saved), 2 * 512 * a.hidden);
    EXPECT_EQ(Sum(full.saved) + Sum(full.recomputed), Sum(none.saved));
    EXPECT_EQ(ModelFlops(full.recompute), ModelFlops(none.forward));
    EXPECT_EQ(full.recompute.size(), none.forward.size());
    EXPECT_GE(full.backward_transient, none.backward_transient);
  }
}

// A block behind the first of its checkpoint keeps nothing: its input passes by in forward, and is
// recomputed with the rest.
TEST(TransformerWorkTest, ACheckpointsOtherBlocksKeepNothing) {
  WorkOptions options = Options(1, 512, Checkpointing::kFull);
  const Architecture a = Llama31With8B();
  const LayerWork first = BlockOf(a, options);
  options.blocks_per_checkpoint = 2;
  const std::vector<LayerWork> works = TransformerWork(a, options);
  ASSERT_EQ(works.size(), 4);
  const LayerWork& other = works[kOtherBlock];
  EXPECT_TRUE(other.continues_checkpoint);
  EXPECT_FALSE(works[1].continues_checkpoint);
  EXPECT_TRUE(other.saved.empty());
  EXPECT_EQ(other.input, LayerWork::kNone);
  EXPECT_EQ(Sum(other.recomputed), Sum(first.recomputed) + 2 * 512 * a.hidden);
  EXPECT_EQ(ModelFlops(other.recompute), ModelFlops(other.forward));
  // At the height, in the feed-forward, the block's input is gone.
  EXPECT_EQ(other.forward_transient, first.forward_transient);
  EXPECT_EQ(other.backward_transient, first.backward_transient);
}

// PyTorch stops recomputing when the last tensor that backward needs is there: the input of a
// block's last matrix product. That product, 8 of 24 h^2 (GPT) and one of three of the SwiGLU, and
// its residual are left out; what is recomputed and kept is the same.
TEST(TransformerWorkTest, RecomputationStopsEarly) {
  for (const Architecture& a : {Llama31With8B(), Mpt7B()}) {
    WorkOptions options = Options(1, 512, Checkpointing::kFull);
    const LayerWork whole = BlockOf(a, options);
    options.recompute_stops_early = true;
    const LayerWork early = BlockOf(a, options);
    EXPECT_EQ(early.recompute.size(), whole.recompute.size() - 2);
    EXPECT_EQ(ModelFlops(whole.recompute) - ModelFlops(early.recompute),
              2 * 512 * a.feed_forward * a.hidden);
    EXPECT_EQ(Sum(early.recomputed), Sum(whole.recomputed));
    EXPECT_EQ(Sum(early.saved), Sum(whole.saved));
  }
}

// torchtitan's policy on Llama: the products q, v, gate and down are kept (the first, third, fifth
// and seventh), k, o and up run again, and so does everything but the attention core.
TEST(TransformerWorkTest, SelectiveOpKeepsEverySecondProduct) {
  const Architecture a = Llama31With8B();
  const std::int64_t t = 512, h = 4096, kv = 1024, f = 14336, heads = 32;
  WorkOptions options = Options(1, t, Checkpointing::kSelectiveOp);
  options.recompute_stops_early = true;
  const LayerWork block = BlockOf(a, options);
  // Input, q, v, gate and down products, the core's output and log-sum-exp.
  EXPECT_EQ(Sum(block.saved), t * (2 * (h + h + kv + f + h + h) + 4 * heads));
  EXPECT_EQ(ModelFlops(block.recompute), 2 * t * h * (kv + h + f));
  for (const Operation& op : block.recompute) {
    EXPECT_NE(op.kernel.kind, KernelKind::kAttention);
  }
}

// Compiled, silu's outcome is not kept: 6f for 8f bytes a token. The residual's sum and the second
// norm are one kernel, the SwiGLU two kernels for five, and nothing is added up by itself.
TEST(TransformerWorkTest, CompiledLayersMoveAndKeepLess) {
  const std::int64_t t = 512, f = 14336, h = 4096;
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, t);
  const LayerWork eager = BlockOf(a, options);
  options.compiled = true;
  options.norm = options.rotary = options.activation_function = Implementation::kCompiled;
  const LayerWork compiled = BlockOf(a, options);
  EXPECT_EQ(Sum(eager.saved) - Sum(compiled.saved), 2 * t * f);
  EXPECT_EQ(ModelFlops(compiled.forward), ModelFlops(eager.forward));
  const auto moved = [](const auto& operators) {
    Bytes bytes;
    for (const auto& op : operators) {
      if (op.kernel.kind == KernelKind::kMemoryBound) bytes += op.kernel.read + op.kernel.written;
    }
    return bytes;
  };
  // Forward: silu and product 2 + 3 widths of f become 3, the second norm does not read its input.
  EXPECT_EQ(moved(eager.forward) - moved(compiled.forward), Bytes(2 * t * (2 * f + h)));
  for (const Operation& op : compiled.backward) EXPECT_EQ(op.kernel.summed_tokens, 0);
}

// The fused loss keeps the logits and a number per token; backward writes the logits' gradient.
TEST(TransformerWorkTest, FusedLossKeepsNoWideCopies) {
  const Architecture a = Llama31With8B();
  const std::int64_t t = 512, v = 128256, h = 4096;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kFused;
  const LayerWork fused = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.saved) - Sum(fused.saved), 2 * t * v - 4 * t);
  EXPECT_EQ(fused.backward_transient, Bytes(2 * t * (v + h)));
}

// In place: one FP32 copy of the logits from forward to backward, beside it the 16-bit logits while
// it is made and their gradient while it is cast.
TEST(TransformerWorkTest, InPlaceLossKeepsOneWideCopy) {
  const Architecture a = Llama31With8B();
  const std::int64_t t = 512, v = 128256;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kInPlace;
  const LayerWork in_place = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.saved), Sum(in_place.saved));
  EXPECT_EQ(in_place.forward_transient, Bytes(2 * t * v));
  EXPECT_EQ(in_place.backward_transient, Bytes(2 * t * (v + 4096)));
  // Passes over the copy: made, then its maximum, shifted, exponentiated, summed, divided; scaled,
  // cast. 4 bytes each time it is read, and each time it is written; 2 for the 16-bit logits.
  Bytes moved;
  for (const Operation& op : in_place.forward) {
    if (op.kernel.name.starts_with("loss")) moved += op.kernel.read + op.kernel.written;
  }
  EXPECT_NEAR(static_cast<double>(moved.count()), 38.0 * t * v, 0.001 * t * v);
}

// Between the two parts of backward each linear layer keeps its input and the gradient of its
// output (torch.distributed.pipelining), a norm the same, with a reciprocal deviation a token. h =
// 4096, f = 14336, queries as wide as h, keys and values 1024 each.
TEST(TransformerWorkTest, PartsOfBackwardKeepInputsAndGradientsOfOutputs) {
  WorkOptions options = Options(1, 8192);
  options.splits_backward = true;
  const LayerWork block = BlockOf(Llama31With8B(), options);
  constexpr std::int64_t kTokens = 8192, kHidden = 4096, kFeedForward = 14336, kKeys = 1024;
  // Of queries, keys and values; the output projection; gate and up; down; both norms.
  EXPECT_EQ(
      Sum(block.deferred),
      2 * kTokens * (kHidden + 2 * kKeys + kHidden + 2 * kFeedForward + kHidden + 2 * kHidden));
  std::int64_t kept = 0;
  for (const int saved : block.saved_for_weights) {
    kept += block.saved[static_cast<std::size_t>(saved)].bytes.count();
  }
  // What both norms take and make, the attention's output, and the product that goes down.
  EXPECT_EQ(kept,
            2 * kTokens * (2 * kHidden + 2 * kHidden + kHidden + kFeedForward) + 2 * 4 * kTokens);
  // Every kernel of backward is in one of the parts, and gradients of parameters come of the
  // second.
  const auto& input = block.backward_input.operations;
  const auto& weight = block.backward_weight.operations;
  EXPECT_EQ(input.size() + weight.size(), block.backward.size());
  for (const Operation& operation : input) EXPECT_TRUE(operation.gradients.empty());
  std::int64_t products = 0;
  for (const Operation& operation : block.forward) {
    if (operation.kernel.kind == KernelKind::kGemm) products += operation.kernel.model_flops;
  }
  EXPECT_EQ(ModelFlops(weight), products);
}

// With FP8 the products' inputs and the gradients of their outputs stay as their copies of one
// byte, turned for the weights' products; norms keep 16 bits.
TEST(TransformerWorkTest, PartsOfAnFp8BackwardKeepCopiesOfOneByte) {
  WorkOptions options = Options(1, 8192);
  options.compute = DataType::kFp8;
  options.splits_backward = true;
  const LayerWork block = BlockOf(Llama31With8B(), options);
  constexpr std::int64_t kTokens = 8192, kHidden = 4096, kFeedForward = 14336, kKeys = 1024;
  EXPECT_EQ(Sum(block.deferred),
            kTokens * (kHidden + 2 * kKeys + kHidden + 2 * kFeedForward + kHidden) +
                2 * kTokens * 2 * kHidden);
  std::int64_t kept = 0;
  for (const int saved : block.saved_for_weights) {
    kept += block.saved[static_cast<std::size_t>(saved)].bytes.count();
  }
  // The inputs of queries, keys and values; of the output projection; of gate and up; of down. Then
  // what both norms take.
  EXPECT_EQ(kept,
            kTokens * (3 * kHidden + kFeedForward) + 2 * kTokens * 2 * kHidden + 2 * 4 * kTokens);
  EXPECT_EQ(block.backward_input.operations.size() + block.backward_weight.operations.size(),
            block.backward.size());
}

TEST(TransformerWorkTest, EmbeddingAndHeadAreNotRecomputed) {
  const auto none = TransformerWork(Gpt2Small(), Options(1, 512));
  const auto full = TransformerWork(Gpt2Small(), Options(1, 512, Checkpointing::kFull));
  for (const std::size_t layer : {kEmbedding, kHead}) {
    EXPECT_TRUE(full[layer].recompute.empty());
    EXPECT_EQ(Sum(full[layer].saved), Sum(none[layer].saved));
  }
}

// 6f + 2h bytes per token: the gradients of the product's operands and of the product itself,
// beside the residual's gradient.
TEST(TransformerWorkTest, SwiGluGradientsPassBy) {
  const LayerWork block = BlockOf(Llama31With8B(), Options(1, 8192));
  EXPECT_EQ(block.backward_transient, Bytes(8192LL * (6 * 14336 + 2 * 4096)));
}

// T = 8192, V = 128256. Kept: log-softmax 4TV, the norm's input and output 2Th each, 4T of
// statistics; in backward two FP32 gradients of 4TV. Together 12TV for the loss, as PyTorch 2.11
// allocates. In forward the logits and their FP32 copy pass by.
TEST(TransformerWorkTest, HeadPeaksAt12BytesPerLogit) {
  const LayerWork head = TransformerWork(Llama31With8B(), Options(1, 8192))[kHead];
  const std::int64_t tv = 8192LL * 128256, th = 8192LL * 4096;
  EXPECT_EQ(Sum(head.saved), 4 * tv + 4 * th + 4 * 8192);
  EXPECT_EQ(head.backward_transient, Bytes(8 * tv));
  EXPECT_EQ(Sum(head.saved) + head.backward_transient.count() - 4 * th - 4 * 8192, 12 * tv);
  EXPECT_EQ(head.forward_transient, Bytes(6 * tv));
}

TEST(TransformerWorkTest, EmbeddingKeepsItsDropoutMask) {
  const auto works = TransformerWork(Gpt2Small(), Options(2, 512));
  EXPECT_EQ(Sum(works[kEmbedding].saved), 2 * 512 * 768);
  EXPECT_TRUE(TransformerWork(Mpt7B(), Options(2, 512))[kEmbedding].saved.empty());
}

// A step of forward and backward is 6 FLOPs per parameter of the matrices and token, and
// 12 s a d per layer and token for attention, counted in full (PaLM, arXiv 2204.02311, appendix B).
TEST(TransformerWorkTest, FlopsOfTheWholeModel) {
  const Architecture a = Llama31With8B();
  const std::int64_t s = 4096;
  const auto works = TransformerWork(a, Options(1, s));
  std::int64_t flops = 0;
  for (const std::size_t layer : {kEmbedding, kBlock, kHead}) {
    const std::int64_t repeat = layer == kBlock ? a.layers : 1;
    flops += repeat * (ModelFlops(works[layer].forward) + ModelFlops(works[layer].backward));
  }
  std::int64_t matrices = 0;
  for (const Tensor& tensor : LayOut(a).tensors) {
    if (tensor.shape.size() == 2 && tensor.name != "model.embed_tokens.weight") {
      matrices += tensor.elements;
    }
  }
  EXPECT_EQ(flops, 6 * matrices * s + a.layers * 12 * s * s * 4096);
}

TEST(TransformerWorkTest, OneGemmPerProjection) {
  const LayerWork block = BlockOf(Llama31With8B(), Options(1, 2048));
  std::vector<std::string> gemms;
  for (const Operation& op : block.forward) {
    if (op.kernel.kind == KernelKind::kGemm) gemms.push_back(op.kernel.name);
  }
  EXPECT_EQ(gemms, (std::vector<std::string>{"self_attn.q_proj", "self_attn.k_proj",
                                             "self_attn.v_proj", "self_attn.o_proj",
                                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}));
}

// ---- Laws over random architectures ----

Architecture AnyArchitecture() {
  const auto family = *rc::gen::element(Family::kGpt2, Family::kLlama, Family::kMistral,
                                        Family::kQwen2, Family::kMpt, Family::kNemotron);
  Architecture a = TypicalOf(family);
  a.layers = *rc::gen::inRange<std::int64_t>(1, 5);
  a.kv_heads = *rc::gen::inRange<std::int64_t>(1, 5);
  a.head_size = 2 * *rc::gen::inRange<std::int64_t>(1, 9);
  a.heads = a.kv_heads;
  if (family != Family::kGpt2) a.heads *= *rc::gen::inRange<std::int64_t>(1, 4);
  a.hidden = a.heads * a.head_size;
  if (family != Family::kGpt2 && family != Family::kMpt) {
    a.hidden = *rc::gen::inRange<std::int64_t>(1, 65);
  }
  a.feed_forward = *rc::gen::inRange<std::int64_t>(1, 129);
  a.vocabulary = *rc::gen::inRange<std::int64_t>(1, 200);
  a.max_positions = 64;
  if (family == Family::kMpt) {
    a.position = *rc::gen::element(Position::kLearned, Position::kAlibi);
    a.normalization = *rc::gen::element(Normalization::kLayerNorm, Normalization::kRmsNorm);
  }
  a.tie_embeddings = *rc::gen::arbitrary<bool>();
  a.attention_bias = *rc::gen::arbitrary<bool>();
  a.projection_bias = *rc::gen::arbitrary<bool>();
  a.feed_forward_bias = *rc::gen::arbitrary<bool>();
  a.norm_bias = a.normalization == Normalization::kLayerNorm && *rc::gen::arbitrary<bool>();
  a.dropout = *rc::gen::arbitrary<bool>();
  a.attention_dropout = *rc::gen::arbitrary<bool>();
  a.attention_window = *rc::gen::inRange<std::int64_t>(0, 40);
  RC_ASSERT(Check(a).empty());
  return a;
}

WorkOptions AnyOptions() {
  return {.micro_batch_size = *rc::gen::inRange<std::int64_t>(1, 4),
          .sequence_length = *rc::gen::inRange<std::int64_t>(1, 33),
          .compute = *rc::gen::element(DataType::kFp32, DataType::kBf16, DataType::kFp16,
                                       DataType::kFp8, DataType::kMxfp8, DataType::kNvfp4),
          .checkpointing = *rc::gen::element(Checkpointing::kNone, Checkpointing::kSelective,
                                             Checkpointing::kFull),
          .attention = *rc::gen::element(Attention::kFlash, Attention::kMath),
          .fp8_scaling = *rc::gen::element(Fp8Scaling::kDelayed, Fp8Scaling::kCurrent,
                                           Fp8Scaling::kTorchao, Fp8Scaling::kTorchaoRowwise)};
}

// Every tensor of a layer has its gradient complete after exactly one operator.
RC_GTEST_PROP(TransformerWorkLaws, EveryGradientOnce, ()) {
  const Architecture a = AnyArchitecture();
  const auto works = TransformerWork(a, AnyOptions());
  for (const Layer& layer : LayOut(a).layers) {
    std::vector<int> ready;
    for (const Operation& op : works[layer.work].backward) {
      ready.insert(ready.end(), op.gradients.begin(), op.gradients.end());
    }
    std::sort(ready.begin(), ready.end());
    std::vector<int> all(layer.tensors.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    RC_ASSERT(ready == all);
  }
}

// Each kept tensor comes to life exactly once, and so does each recomputed one.
RC_GTEST_PROP(TransformerWorkLaws, EveryActivationIsCreatedOnce, ()) {
  const auto works = TransformerWork(AnyArchitecture(), AnyOptions());
  for (const LayerWork& work : works) {
    const auto created = [](const std::vector<Operation>& operators) {
      std::vector<int> indices;
      for (const Operation& op : operators) {
        indices.insert(indices.end(), op.creates.begin(), op.creates.end());
      }
      std::sort(indices.begin(), indices.end());
      return indices;
    };
    const auto all = [](std::size_t count) {
      std::vector<int> indices(count);
      for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<int>(i);
      return indices;
    };
    RC_ASSERT(created(work.forward) == all(work.saved.size()));
    RC_ASSERT(created(work.recompute) == all(work.recomputed.size()));
  }
}

// transformer_work.h: the table's closed form.
RC_GTEST_PROP(TransformerWorkLaws, KeptBytesHaveAClosedForm, ()) {
  const Architecture a = AnyArchitecture();
  WorkOptions options = AnyOptions();
  options.checkpointing = Checkpointing::kNone;
  const std::int64_t e = options.compute == DataType::kFp32 ? 4 : 2;
  const std::int64_t tokens = options.micro_batch_size * options.sequence_length;
  const std::int64_t q = a.heads * a.head_size, k = a.kv_heads * a.head_size;
  const bool math = options.attention == Attention::kMath;

  std::int64_t elements = 4 * a.hidden + 2 * q;  // norms' inputs and outputs; query and output
  elements += math ? 2 * q : 2 * k;              // keys and values
  const bool gated = a.activator == Activator::kSwiGlu;
  elements += (gated ? 4 : 2) * a.feed_forward;
  std::int64_t bytes = e * elements;
  Bytes quantized;
  if (IsQuantized(options.compute) &&
      !(options.compute == DataType::kFp8 && options.fp8_scaling == Fp8Scaling::kTorchaoRowwise)) {
    // Inputs of products in one byte or less; the fused core keeps its output in two besides.
    bytes -= 2 * (2 * a.hidden + a.feed_forward + (math ? q : 0));
    for (const std::int64_t width : {a.hidden, q, a.hidden, a.feed_forward}) {
      quantized += BytesOf(tokens * width, options.compute);
    }
  }
  if (a.normalization == Normalization::kRmsNorm) bytes += 8;
  if (a.dropout) bytes += 2 * a.hidden;
  if (math) {
    bytes += a.heads * options.sequence_length * (e + (a.attention_dropout ? 1 + e : 0));
  } else {
    bytes += 4 * a.heads;
  }
  RC_ASSERT(Sum(BlockOf(a, options).saved) == tokens * bytes + quantized.count());
}

// Two ranks divide a block. FP8 keeps the inputs of products in one byte instead of two: both
// norms' outputs, which are whole on each rank, and what the feed-forward part hands to its second
// product; of the attention's output, which the fused core keeps, a copy in one byte.
TEST(TransformerWorkTest, Fp8KeepsInputsOfDividedProductsInOneByte) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 2;
  const std::int64_t in_16_bits = Sum(BlockOf(a, options).saved);
  options.compute = DataType::kFp8;
  const std::int64_t query = a.heads * a.head_size / 2;
  EXPECT_EQ(in_16_bits - Sum(BlockOf(a, options).saved),
            64 * (2 * a.hidden + a.feed_forward / 2 - query));
}

// Megatron-LM's linear_qkv and linear_fc1.
TEST(TransformerWorkTest, ProductsThatShareAnInputAreOne) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.activation_function = Implementation::kFused;
  const LayerWork apart = BlockOf(a, options);
  options.fuses_products = true;
  const LayerWork fused = BlockOf(a, options);
  const Kernel* product = Find(fused, "self_attn.qkv_proj");
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->n, (a.heads + 2 * a.kv_heads) * a.head_size);
  product = Find(fused, "mlp.gate_up_proj");
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->n, 2 * a.feed_forward);
  EXPECT_EQ(Find(fused, "mlp.gate_proj"), nullptr);
  EXPECT_EQ(ModelFlops(fused.forward), ModelFlops(apart.forward));
  EXPECT_EQ(ModelFlops(fused.backward), ModelFlops(apart.backward));
  EXPECT_EQ(Sum(fused.saved), Sum(apart.saved));
  // Nothing adds up gradients of the shared inputs; the three of the core are put side by side.
  const auto adds = [](const LayerWork& work, std::string_view name) {
    return std::count_if(work.backward.begin(), work.backward.end(),
                         [&](const Operation& op) { return op.kernel.name.ends_with(name); });
  };
  EXPECT_EQ(adds(apart, "norm output.grad.add"), 3);
  EXPECT_EQ(adds(fused, "norm output.grad.add"), 0);
  EXPECT_EQ(adds(fused, "qkv_proj.output_grad.join"), 1);
}

// InternEvo's Wqkv with FlashAttention's packed functions: one product, whose gradient lies as it
// needs it. SwiGLU's two stay apart.
TEST(TransformerWorkTest, PackedQueriesKeysAndValuesNeedNoCopies) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.activation_function = Implementation::kFused;
  const LayerWork apart = BlockOf(a, options);
  options.packs_query_key_value = true;
  const LayerWork packed = BlockOf(a, options);
  ASSERT_NE(Find(packed, "self_attn.qkv_proj"), nullptr);
  EXPECT_EQ(Find(packed, "self_attn.q_proj"), nullptr);
  EXPECT_NE(Find(packed, "mlp.gate_proj"), nullptr);
  EXPECT_EQ(ModelFlops(packed.backward), ModelFlops(apart.backward));
  for (const Operation& op : packed.backward) {
    EXPECT_FALSE(op.kernel.name.ends_with("output_grad.join")) << op.kernel.name;
  }
}

// Each of flash-attn's divided products adds up the gradient of its input: three all-reduces in the
// backward of a block, where two do for products that enter together.
TEST(TransformerWorkTest, ProductsThatEnterApartReduceApart) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 2;
  const auto reduced = [&] {
    const LayerWork work = BlockOf(a, options);
    return std::count_if(work.backward.begin(), work.backward.end(),
                         [](const Operation& op) { return op.group.has_value(); });
  };
  EXPECT_EQ(reduced(), 2);
  options.enters_columns_apart = true;
  EXPECT_EQ(reduced(), 3);
}

// A norm of an FP32 copy: 2 + 4 bytes for the cast and 4 + 2 for the norm, forward and, where
// copies are not kept, again; then 4 + 2 + 4 for the gradient and 4 + 2 for its cast.
TEST(TransformerWorkTest, NormsOfCopiesInFp32RunAgain) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.norm = Implementation::kApexFp32;
  const std::int64_t elements = 64 * a.hidden;
  const LayerWork once = BlockOf(a, options);
  EXPECT_EQ(Find(once, "input_layernorm.float")->read, Bytes(2 * elements));
  EXPECT_EQ(Find(once, "input_layernorm.float")->written, Bytes(4 * elements));
  EXPECT_EQ(Find(once, "input_layernorm")->read, Bytes(4 * elements + 2 * a.hidden));
  EXPECT_EQ(Find(once, "input_layernorm.dgrad")->written, Bytes(4 * elements));
  EXPECT_EQ(Find(once, "input_layernorm.float.dgrad")->written, Bytes(2 * elements));
  options.norms_again = true;
  const LayerWork again = BlockOf(a, options);
  EXPECT_EQ(again.forward.size(), once.forward.size());
  EXPECT_EQ(again.backward.size(), once.backward.size() + 4);
  EXPECT_EQ(Sum(once.saved) - Sum(again.saved), 2 * (4 - 2) * elements + 2 * 4 * 64);
}

// Logits are cast, read five times and written twice by what is printed, and read twice by it and
// by the loss; the copy becomes its gradient.
TEST(TransformerWorkTest, ScoresPassOverLogitsInFp32) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.loss = Loss::kFused;
  const std::int64_t logits = 64 * a.vocabulary;
  const auto traffic = [&] {
    Bytes bytes;
    for (const Operation& op : TransformerWork(a, options)[kHead].forward) {
      if (op.kernel.kind == KernelKind::kMemoryBound) bytes += op.kernel.read + op.kernel.written;
    }
    return bytes.count();
  };
  const std::int64_t plain = traffic();
  options.fp32_logits = true;
  const std::int64_t wide = traffic();
  EXPECT_EQ(wide - plain, (2 + 4 + 2 * (4 - 2)) * logits);
  const LayerWork head = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Find(head, "loss.dgrad")->written, Bytes(4 * logits));
  EXPECT_EQ(Find(head, "loss.float.dgrad")->written, Bytes(2 * logits));
  options.scores_logits = true;
  EXPECT_NEAR(static_cast<double>(traffic() - wide), 40.0 * static_cast<double>(logits),
              0.001 * static_cast<double>(logits));
}

// Four ranks, two key-value heads: a rank makes a quarter of the one product's columns, which are
// gathered and hold its quarter of the queries and the one key and value head that they use.
// Backward adds up what the two ranks of a head have made: each column's gradient, scattered.
TEST(TransformerWorkTest, RanksThatShareKeyValueHeadsGatherThem) {
  Architecture a = Llama31With8B();
  a.kv_heads = 2;
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.fuses_products = true;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t columns = (a.heads + 2 * 2) * a.head_size;
  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->n, columns / 4);
  const Kernel* core = Find(work, "self_attn.core");
  EXPECT_EQ(core->batch, a.heads / 4);
  EXPECT_EQ(core->key_heads, 1);
  const auto of_kind = [](const std::vector<Operation>& operations, CollectiveKind kind) {
    std::vector<Bytes> sizes;
    for (const Operation& op : operations) {
      if (op.group && op.group->collective == kind) sizes.push_back(op.group->bytes);
    }
    return sizes;
  };
  EXPECT_EQ(of_kind(work.forward, CollectiveKind::kAllGather),
            std::vector<Bytes>{Bytes(64 * columns * 2)});
  EXPECT_EQ(of_kind(work.backward, CollectiveKind::kReduceScatter),
            std::vector<Bytes>{Bytes(64 * columns * 2)});
  // One head to a rank: nothing is gathered.
  a.kv_heads = 4;
  EXPECT_TRUE(of_kind(BlockOf(a, options).forward, CollectiveKind::kAllGather).empty());
}

// Megatron-LM's bias_dropout_add: a pass over what dropout would write and the residual read goes,
// twice a block, and nothing else changes.
TEST(TransformerWorkTest, DropoutAndResidualAreOneKernel) {
  Architecture a = Gpt2Small();
  a.dropout = true;
  WorkOptions options = Options(2, 64);
  const LayerWork apart = BlockOf(a, options);
  options.fuses_dropout_add = true;
  const LayerWork fused = BlockOf(a, options);
  const auto traffic = [](const std::vector<Operation>& operations) {
    Bytes sum;
    for (const Operation& op : operations) sum += op.kernel.read + op.kernel.written;
    return sum;
  };
  const Bytes stream(2 * 64 * a.hidden * 2);
  EXPECT_EQ(fused.forward.size() + 2, apart.forward.size());
  EXPECT_EQ(traffic(fused.forward) + 4 * stream, traffic(apart.forward));
  EXPECT_EQ(fused.backward.size(), apart.backward.size());
  EXPECT_EQ(traffic(fused.backward), traffic(apart.backward));
  EXPECT_EQ(Sum(fused.saved), Sum(apart.saved));
}

// Without sequence parallelism: the sum of the input's gradients begins before the product of the
// weight's gradient, or behind it.
TEST(TransformerWorkTest, SumsBesideOrBehindWeightGradients) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 2;
  for (const bool beside : {true, false}) {
    options.sums_beside_weights = beside;
    const LayerWork work = BlockOf(a, options);
    const auto first_sum = std::find_if(work.backward.begin(), work.backward.end(),
                                        [](const Operation& op) { return op.group.has_value(); });
    ASSERT_NE(first_sum, work.backward.end());
    const auto product = std::find_if(
        work.backward.begin(), work.backward.end(),
        [](const auto& op) { return !op.group && op.kernel.name == "mlp.gate_proj.wgrad"; });
    ASSERT_NE(product, work.backward.end());
    EXPECT_EQ(first_sum < product, beside);
  }
}

struct Communication {
  std::int64_t messages = 0, message_bytes = 0, gathered = 0, scattered = 0;
  std::set<int> distances{}, multiprocessors{};
};

Communication CommunicationOf(const std::vector<Operation>& operations) {
  Communication sum;
  for (const Operation& op : operations) {
    if (!op.group) continue;
    if (op.group->multiprocessors) sum.multiprocessors.insert(*op.group->multiprocessors);
    if (op.group->collective == CollectiveKind::kSendRecv) {
      ++sum.messages;
      sum.message_bytes += op.group->bytes.count();
      sum.distances.insert(op.group->distance);
    } else if (op.group->collective == CollectiveKind::kAllGather) {
      sum.gathered += op.group->bytes.count();
    } else {
      sum.scattered += op.group->bytes.count();
    }
  }
  return sum;
}

// What is gathered before products comes in t - 1 messages of a rank's part, what is added up in
// four pieces; in backward the gradients of outputs come in messages, inputs beside.
TEST(TransformerWorkTest, UserBuffersGatherPieceByPiece) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = options.regathers = options.fuses_products = true;
  const LayerWork plain = BlockOf(a, options);
  options.tensor_overlap = TensorOverlap::kUserBuffers;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t whole = 64 * a.hidden * 2;
  const Communication forward = CommunicationOf(work.forward);
  EXPECT_EQ(forward.messages, 2 * 3);
  EXPECT_EQ(forward.message_bytes, 2 * whole * 3 / 4);
  EXPECT_EQ(forward.distances, std::set<int>{1});
  EXPECT_EQ(forward.gathered, 0);
  EXPECT_EQ(forward.scattered, 2 * whole);
  EXPECT_EQ(forward.multiprocessors, (std::set<int>{0, 16}));
  const Communication backward = CommunicationOf(work.backward);
  EXPECT_EQ(backward.messages, 2 * 3);
  EXPECT_EQ(backward.gathered, 2 * whole);
  EXPECT_EQ(backward.scattered, 2 * whole);

  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->m, 16);
  EXPECT_EQ(Find(work, "self_attn.o_proj")->m, 16);
  EXPECT_EQ(Find(work, "mlp.down_proj.dgrad")->m, 16);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj.dgrad")->m, 64);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj.wgrad")->k, 64);
  EXPECT_EQ(ModelFlops(work.forward), ModelFlops(plain.forward));
  EXPECT_EQ(ModelFlops(work.backward), ModelFlops(plain.backward));
  // Ten buffers, four of them without the rank's own part.
  std::set<std::string> names;
  std::int64_t bytes = 0;
  for (const Activation& value : work.communicated) {
    if (!value.registered) continue;
    EXPECT_TRUE(names.insert(value.name).second) << value.name;
    bytes += value.bytes.count();
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(bytes, 6 * whole + 4 * whole * 3 / 4);
}

// Messages straight from every rank to every other; what is added up in as many pieces.
TEST(TransformerWorkTest, AsynchronousTensorParallelismSendsToEveryRank) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = options.compiled = true;
  options.tensor_overlap = TensorOverlap::kAsync;
  const LayerWork work = BlockOf(a, options);
  const std::int64_t whole = 64 * a.hidden * 2;
  const Communication forward = CommunicationOf(work.forward);
  EXPECT_EQ(forward.messages, 4 * 3);
  EXPECT_EQ(forward.message_bytes, 4 * whole * 3 / 4);
  EXPECT_EQ(forward.distances, (std::set<int>{1, 2, 3}));
  EXPECT_EQ(forward.gathered + forward.scattered, 0);
  EXPECT_EQ(forward.multiprocessors, std::set<int>{0});
  EXPECT_EQ(Find(work, "mlp.down_proj")->m, 16);
  for (const Activation& value : work.communicated) EXPECT_FALSE(value.registered) << value.name;
}

// DTensor divides the second dimension: NCCL lays the ranks' parts of all sequences one behind the
// other, and a copy of all tokens goes with each of two gathers and two reduce-scatters, forward
// and backward. Behind the last one of a block backward starts, so a recomputation has three.
TEST(TransformerWorkTest, DividedSequencesAreCopiedIntoOrder) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(3, 256);
  options.tensor = 4;
  options.sequence_parallel = true;
  const Bytes all(3 * 256 * a.hidden * 2);
  const auto copies = [&](const std::vector<Operation>& operations) {
    int count = 0;
    for (const Operation& op : operations) {
      if (!op.kernel.name.ends_with(".order")) continue;
      EXPECT_EQ(op.kernel.read, all) << op.kernel.name;
      EXPECT_EQ(op.kernel.written, all) << op.kernel.name;
      ++count;
    }
    return count;
  };
  EXPECT_EQ(copies(BlockOf(a, options).forward), 0);
  options.divides_sequences = true;
  const LayerWork work = BlockOf(a, options);
  EXPECT_EQ(copies(work.forward), 4);
  EXPECT_EQ(copies(work.backward), 4);
  options.checkpointing = Checkpointing::kFull;
  options.recompute_stops_early = true;
  EXPECT_EQ(copies(BlockOf(a, options).recompute), 3);
}

// Four ranks that divide tokens, as Megatron-LM does.
WorkOptions DividedTokens(DataType compute) {
  WorkOptions options = Options(1, 64);
  options.compute = compute;
  options.tensor = 4;
  options.casts_weights = false;
  options.sequence_parallel = options.regathers = options.fuses_products = true;
  return options;
}

// Each rank casts its part, and half as many bytes are gathered; sums stay in 16 bits.
TEST(TransformerWorkTest, Fp8IsGatheredInOneByte) {
  const Architecture a = Llama31With8B();
  WorkOptions options = DividedTokens(DataType::kFp8);
  const std::int64_t whole = 64 * a.hidden * 2;
  for (const TensorOverlap overlap : {TensorOverlap::kNone, TensorOverlap::kUserBuffers}) {
    options.tensor_overlap = overlap;
    const LayerWork work = BlockOf(a, options);
    const Communication forward = CommunicationOf(work.forward);
    const bool whole_at_once = overlap == TensorOverlap::kNone;
    EXPECT_EQ(forward.gathered, whole_at_once ? 2 * whole / 2 : 0);
    EXPECT_EQ(forward.message_bytes, whole_at_once ? 0 : 2 * whole / 2 * 3 / 4);
    EXPECT_EQ(forward.scattered, 2 * whole);
    EXPECT_EQ(Find(work, "gathered.input.cast")->written, Bytes(16 * a.hidden));
    EXPECT_EQ(Find(work, "mlp.down_proj.output_grad.cast")->written, Bytes(16 * a.hidden));
  }
}

// torchao's layers cast a rank's part before it is gathered, once, whatever framework keeps.
TEST(TransformerWorkTest, TorchaoGathersEightBits) {
  const Architecture a = Llama31With8B();
  WorkOptions options = Options(1, 64);
  options.tensor = 4;
  options.sequence_parallel = true;
  const Communication in_16_bits = CommunicationOf(BlockOf(a, options).forward);
  options.compute = DataType::kFp8;
  options.fp8_scaling = Fp8Scaling::kTorchao;
  const LayerWork work = BlockOf(a, options);
  EXPECT_EQ(CommunicationOf(work.forward).gathered, in_16_bits.gathered / 2);
  EXPECT_EQ(CommunicationOf(work.forward).scattered, in_16_bits.scattered);
  EXPECT_EQ(CommunicationOf(work.backward).gathered, in_16_bits.gathered / 2);
  EXPECT_EQ(Find(work, "gathered.input.cast")->read, Bytes(2 * 2 * 16 * a.hidden));
  // Queries, keys and values, of which backward comes to the last first, share what is turned.
  EXPECT_NE(Find(work, "self_attn.v_proj.input.transpose"), nullptr);
  EXPECT_EQ(Find(work, "self_attn.q_proj.input.transpose"), nullptr);
}

// Parts are cast by rows and by columns, and the one or the other is gathered: of gradients both.
// Nothing is transposed.
TEST(TransformerWorkTest, Mxfp8IsGatheredAsItIsRead) {
  const Architecture a = Llama31With8B();
  WorkOptions options = DividedTokens(DataType::kMxfp8);
  const std::int64_t whole = 64 * a.hidden / 32 * 33;
  const LayerWork work = BlockOf(a, options);
  const Communication forward = CommunicationOf(work.forward);
  const Communication backward = CommunicationOf(work.backward);
  EXPECT_EQ(forward.gathered, 2 * whole);
  EXPECT_EQ(backward.gathered, (2 + 2 * 2) * whole);
  EXPECT_EQ(Find(work, "gathered.input.cast")->written, Bytes(2 * whole / 4));
  EXPECT_EQ(Find(work, "mlp.down_proj.output_grad.cast")->written, Bytes(2 * whole / 4));
  for (const Operation& op : work.backward) {
    EXPECT_FALSE(op.kernel.name.ends_with(".transpose")) << op.kernel.name;
  }
  options.compute = DataType::kFp8;
  EXPECT_NE(Find(BlockOf(a, options), "mlp.down_proj.output_grad.transpose"), nullptr);
}

RC_GTEST_PROP(TransformerWorkLaws, BackwardIsTwiceForward, ()) {
  const auto works = TransformerWork(AnyArchitecture(), AnyOptions());
  for (const LayerWork& work : works) {
    RC_ASSERT(ModelFlops(work.backward) == 2 * ModelFlops(work.forward));
    std::int64_t forward = 0, backward = 0;
    for (const auto& op : work.forward) {
      if (op.kernel.kind == KernelKind::kGemm) forward += op.kernel.flops;
    }
    for (const auto& op : work.backward) {
      if (op.kernel.kind == KernelKind::kGemm) backward += op.kernel.flops;
    }
    RC_ASSERT(backward == 2 * forward);
  }
}

// A bias, a norm and a product's weight are read where they are used: every gradient's kernel
// writes at least its tensors.
RC_GTEST_PROP(TransformerWorkLaws, GradientKernelsWriteTheirTensors, ()) {
  const Architecture a = AnyArchitecture();
  const WorkOptions options = AnyOptions();
  const auto works = TransformerWork(a, options);
  const std::int64_t e = options.compute == DataType::kFp32 ? 4 : 2;
  const TransformerLayout layout = LayOut(a);
  for (const Layer& layer : layout.layers) {
    for (const Operation& op : works[layer.work].backward) {
      std::int64_t elements = 0;
      for (const int position : op.gradients) {
        elements += layout.tensors[layer.tensors[position]].elements;
      }
      RC_ASSERT(op.kernel.written.count() >= e * elements);
    }
  }
}

// The kernels of a module name all of its parameters, no other module's, and stand together; every
// parameter has a module that runs forward and, where it gets its gradient, backward.
RC_GTEST_PROP(TransformerWorkLaws, KernelsNameTheirModulesParameters, ()) {
  const Architecture a = AnyArchitecture();
  const auto works = TransformerWork(a, AnyOptions());
  const TransformerLayout layout = LayOut(a);
  for (const Layer& layer : layout.layers) {
    const auto module_of = [&](int position) {
      const std::string& name = layout.tensors[layer.tensors[position]].name;
      return name.substr(0, name.rfind('.'));
    };
    const auto check = [&](const auto& operators, bool all_run) {
      std::vector<std::string> modules;  // in the order in which they run
      for (const auto& op : operators) {
        if (op.parameters.empty()) continue;
        const std::string module = module_of(op.parameters.front());
        std::vector<int> expected;
        for (std::size_t p = 0; p < layer.tensors.size(); ++p) {
          if (module_of(static_cast<int>(p)) == module) expected.push_back(static_cast<int>(p));
        }
        auto named = op.parameters;
        std::sort(named.begin(), named.end());
        RC_ASSERT(named == expected);
        if (modules.empty() || modules.back() != module) modules.push_back(module);
      }
      auto once = modules;
      std::sort(once.begin(), once.end());
      RC_ASSERT(std::adjacent_find(once.begin(), once.end()) == once.end());
      for (std::size_t p = 0; all_run && p < layer.tensors.size(); ++p) {
        RC_ASSERT(std::binary_search(once.begin(), once.end(), module_of(static_cast<int>(p))));
      }
    };
    const LayerWork& work = works[layer.work];
    check(work.forward, true);
    check(work.backward, true);
    check(work.recompute, false);
    for (const Operation& op : work.backward) {
      for (const int position : op.gradients) {
        RC_ASSERT(std::find(op.parameters.begin(), op.parameters.end(), position) !=
                  op.parameters.end());
      }
    }
  }
}

Architecture AdaptedLlama(const Lora& lora) {
  Architecture a = Llama31With8B();
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

// Per token in 16 bits, h = ad = 4096, gd = 1024, f = 14336, r = 16, with x what a layer takes.
// Whole parameters: 168,072 bytes (above). Frozen, products keep nothing: h of the norm before the
// feed-forward and f of what goes down are gone, 2 (4096 + 14336); what the attention begins with
// and what its projection takes are the adapters', too. Each keeps x A, 2 r.
TEST(TransformerWorkTest, FrozenProductsKeepNothing) {
  const LayerWork block = BlockOf(AdaptedLlama(kAttentionAdapters), Options(1, 1024));
  EXPECT_EQ(Sum(block.saved), (168'072 - 2 * (4096 + 14336) + 2 * 2 * 16) * 1024LL);
  // Dropped copies of what the two take, and a byte of mask an element.
  Lora dropped = kAttentionAdapters;
  dropped.dropout = 0.1;
  const LayerWork with_dropout = BlockOf(AdaptedLlama(dropped), Options(1, 1024));
  // Without it nothing else keeps what the norm hands on; the core keeps its output.
  EXPECT_EQ(Sum(with_dropout.saved) - Sum(block.saved), (3 + 3 - 2) * 4096 * 1024LL);
}

// Two for each adapter, and none of anything else.
TEST(TransformerWorkTest, AdaptersAloneHaveWeightGradients) {
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

// Backward costs the products of inputs' gradients: as many operations as forward, but for adapters
// twice as many; of the first block those behind its first adapter.
TEST(TransformerWorkTest, BackwardEndsAtTheFirstAdapter) {
  const Architecture a = AdaptedLlama(kAttentionAdapters);
  const std::vector<LayerWork> works = TransformerWork(a, Options(1, 1024));
  const auto products = [](const std::vector<Operation>& operations) {
    std::int64_t flops = 0;
    for (const Operation& operation : operations) {
      if (operation.kernel.kind == KernelKind::kGemm) flops += operation.kernel.flops;
    }
    return flops;
  };
  const std::int64_t adapters = 2 * 1024LL * 16 * (4096 + 6144 + 4096 + 4096);
  EXPECT_EQ(products(works[kBlock].backward), products(works[kBlock].forward) + adapters);
  // Without the gradients of what the first block takes: that of queries, keys and values, and
  // that of their adapter's first matrix.
  EXPECT_EQ(products(works[kBlock].backward) - products(works[kFirstBlock].backward),
            2 * 1024LL * 4096 * (6144 + 16));
  for (const Operation& operation : works[kFirstBlock].backward) {
    EXPECT_NE(operation.kernel.name, "input_layernorm.dgrad");
  }
  // What the norm keeps of the first block's input: 2 h and its number per token.
  EXPECT_EQ(Sum(works[kBlock].saved) - Sum(works[kFirstBlock].saved), (2 * 4096 + 4) * 1024LL);
  EXPECT_EQ(works[kFirstBlock].input, LayerWork::kNone);
  EXPECT_EQ(works[kFirstBlock].forward.size(), works[kBlock].forward.size());
  // Under a checkpoint it is like the others.
  const std::vector<LayerWork> full = TransformerWork(a, Options(1, 1024, Checkpointing::kFull));
  EXPECT_EQ(full[kFirstBlock].backward.size(), full[kBlock].backward.size());
}

// NeMo's ParallelLinearAdapter on t ranks with sequence parallelism, beside queries, keys and
// values: x A is gathered, and its gradient added up; behind the attention x A is added up, its
// gradient too, and what (x A) B gives goes to the tokens' ranks: gathered, or t - 1 messages.
TEST(TransformerWorkTest, AdaptersCommunicateWhatIsOfTheirRank) {
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
  // Of the layers: two in forward, two in backward and, of frozen layers, none again for weights;
  // of the adapter one in forward and one in backward.
  EXPECT_EQ(count(work, CollectiveKind::kAllGather, wide), 4 + 2);
  EXPECT_EQ(count(work, CollectiveKind::kReduceScatter, wide), 4);
  Lora messages = kAttentionAdapters;
  messages.all_to_all = true;
  work = BlockOf(AdaptedLlama(messages), options);
  EXPECT_EQ(count(work, CollectiveKind::kAllGather, wide), 4);
  EXPECT_EQ(count(work, CollectiveKind::kSendRecv, Bytes(wide.count() / 16)), 2 * 3);
}

// In 8 bits: frozen products cast what they take and what comes back once, and keep neither.
TEST(TransformerWorkTest, FrozenProductsInEightBitsNeedOneCopy) {
  WorkOptions options = Options(1, 1024);
  options.compute = DataType::kFp8;
  const Kernel* cast = Find(BlockOf(Llama31With8B(), options), "mlp.down_proj.input.cast");
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

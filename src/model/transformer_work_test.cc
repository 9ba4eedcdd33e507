#include "src/model/transformer_work.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/loss_chunk.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {
namespace {

// PyTorch's kernel walks all tokens for 32 columns; staged sums are bound only by bandwidth.
TEST(TransformerWorkTest, StagedNormSumsDoNotWaitForTokens) {
  WorkOptions options = Options(2, 64);
  EXPECT_EQ(Find(BlockOf(Shipped("gpt2"), options), "ln_1.wgrad")->summed_tokens, 128);
  options.norm = Implementation::kApex;
  EXPECT_EQ(Find(BlockOf(Shipped("gpt2"), options), "ln_1.wgrad")->summed_tokens, 0);
}

// 8h + 4ad + 4gd + 8f + 4a + 8 bytes per token with h = ad = 4096, gd = 1024, f = 14336, a = 32:
// 32768 + 16384 + 4096 + 114688 + 128 + 8.
TEST(TransformerWorkTest, Llama8BKeeps168072BytesPerToken) {
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), Options(1, 8192));
  EXPECT_EQ(Sum(block.Of(Lifetime::kSaved)), 168'072 * 8192LL);
  // 32 layers of 8192 tokens: 44.06e9 B.
  EXPECT_EQ(32 * Sum(block.Of(Lifetime::kSaved)), 44'059'066'368);
}

// Norms of many kernels keep their inputs in FP32 and again in 16 bits: 12h + 8 instead of 4h + 8.
TEST(TransformerWorkTest, EagerNormsKeepMore) {
  WorkOptions options = Options(1, 8192);
  options.norm = Implementation::kEager;
  EXPECT_EQ(Sum(BlockOf(Shipped("llama3.1-8b"), options).Of(Lifetime::kSaved)),
            (168'072 + 8 * 4096) * 8192LL);
}

// Two norms' inputs are kept in FP32; the products keep their 16-bit copies anyway.
TEST(TransformerWorkTest, UnderAutocastResidualsAreFp32) {
  WorkOptions options = Options(2, 64);
  const std::vector<LayerWork> narrow = TransformerWork(Shipped("gpt2"), options);
  options.autocast = true;
  const std::vector<LayerWork> wide = TransformerWork(Shipped("gpt2"), options);
  const std::int64_t tokens = 128, hidden = 768;
  EXPECT_EQ(Sum(wide[1].Of(Lifetime::kSaved)) - Sum(narrow[1].Of(Lifetime::kSaved)),
            tokens * 2 * 2 * hidden);
  for (const int layer : {0, 1}) {
    EXPECT_EQ(narrow[layer].output, Bytes(tokens * 2 * hidden));
    EXPECT_EQ(wide[layer].output, Bytes(tokens * 4 * hidden));
  }
  EXPECT_EQ(Find(wide[1], "ln_1")->written - Find(narrow[1], "ln_1")->written,
            Bytes(tokens * 2 * hidden));
  EXPECT_EQ(Find(wide[1], "mlp.residual")->read, Bytes(tokens * 6 * hidden));
}

// Eager PyTorch does not run these kernels at the rate of a copy; a compiled graph does.
TEST(TransformerWorkTest, EagerKernelsSayHowTheyGoThroughMemory) {
  WorkOptions options = Options(2, 64);
  const auto access = [&](int layer, const char* name) {
    const std::vector<LayerWork> works = TransformerWork(Shipped("gpt2"), options);
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

// Fused accumulation: 4 bytes an element are read and written instead of 2 written.
TEST(TransformerWorkTest, FusedAccumulationAddsToMainGradients) {
  WorkOptions options = Options(1, 1024);
  const LayerWork apart = BlockOf(Shipped("llama3.1-8b"), options);
  options.main_gradients = DataType::kFp32;
  const LayerWork fused = BlockOf(Shipped("llama3.1-8b"), options);
  const Kernel* made = Find(apart, "mlp.down_proj.wgrad");
  const Kernel* added = Find(fused, "mlp.down_proj.wgrad");
  ASSERT_NE(made, nullptr);
  ASSERT_NE(added, nullptr);
  constexpr std::int64_t kWeights = 4096LL * 14336;
  EXPECT_EQ(added->read - made->read, Bytes(4 * kWeights));
  EXPECT_EQ(added->written - made->written, Bytes(2 * kWeights));
  EXPECT_TRUE(added->adds_to_fp32);
  options.main_gradients = DataType::kBf16;
  const LayerWork narrow = BlockOf(Shipped("llama3.1-8b"), options);
  EXPECT_FALSE(Find(narrow, "mlp.down_proj.wgrad")->adds_to_fp32);
  EXPECT_FALSE(Find(fused, "mlp.down_proj.dgrad")->adds_to_fp32);
}

// x and dy, the inputs of the input gradient's kernel, are read again.
TEST(TransformerWorkTest, NormWeightsOfACompiledBlockAreSummedApart) {
  WorkOptions options = Options(1, 1024);
  options.compiled = true;
  options.norm = Implementation::kCompiled;
  const LayerWork together = BlockOf(Shipped("llama3.1-8b"), options);
  ASSERT_NE(Find(together, "input_layernorm.wgrad"), nullptr);
  EXPECT_EQ(Find(together, "input_layernorm.wgrad")->read, Bytes());
  options.sums_norm_weights_apart = true;
  const LayerWork apart = BlockOf(Shipped("llama3.1-8b"), options);
  // 2 x 2 bytes an element, and an FP32 deviation a token.
  EXPECT_EQ(Find(apart, "input_layernorm.wgrad")->read, Bytes(1024 * (4 * 4096 + 4)));
}

// Kept: gate, up and their product, but not silu(gate): 2f less.
TEST(TransformerWorkTest, AFusedSwiGluKeepsThreeTensors) {
  WorkOptions options = Options(1, 8192);
  options.activation_function = Implementation::kFused;
  EXPECT_EQ(Sum(BlockOf(Shipped("llama3.1-8b"), options).Of(Lifetime::kSaved)), 139'400 * 8192LL);
}

TEST(TransformerWorkTest, Llama8BKeepsTheseTensors) {
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), Options(1, 1));
  std::vector<std::pair<std::string, std::int64_t>> kept;
  for (const LayerValue& activation : block.Of(Lifetime::kSaved)) {
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
  Architecture gpt = Shipped("gpt2");
  EXPECT_EQ(
      Sum(BlockOf(gpt, Options(b, s, Checkpointing::kNone, Attention::kMath)).Of(Lifetime::kSaved)),
      34 * s * b * h + 5 * a * s * s * b);
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s)).Of(Lifetime::kSaved)), 34 * s * b * h + 4 * a * s * b);
  gpt.dropout = gpt.attention_dropout = false;
  EXPECT_EQ(
      Sum(BlockOf(gpt, Options(b, s, Checkpointing::kNone, Attention::kMath)).Of(Lifetime::kSaved)),
      32 * s * b * h + 2 * a * s * s * b);
  EXPECT_EQ(Sum(BlockOf(gpt, Options(b, s)).Of(Lifetime::kSaved)), 32 * s * b * h + 4 * a * s * b);
}

TEST(TransformerWorkTest, GptStyleTensors) {
  const LayerWork block =
      BlockOf(Shipped("gpt2"), Options(1, 64, Checkpointing::kNone, Attention::kMath));
  const std::int64_t sbh = 64 * 768, ss = 12 * 64 * 64;
  std::map<std::string, std::int64_t> kept;
  for (const LayerValue& activation : block.Of(Lifetime::kSaved))
    kept[activation.name] = activation.bytes.count();
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

// Compiled, silu's output is not kept: 6f instead of 8f bytes per token. The residual sum and the
// second norm are one kernel, the SwiGLU is two kernels instead of five, and no separate kernel
// sums.
TEST(TransformerWorkTest, CompiledLayersMoveAndKeepLess) {
  const std::int64_t t = 512, f = 14336, h = 4096;
  const Architecture a = Shipped("llama3.1-8b");
  WorkOptions options = Options(1, t);
  const LayerWork eager = BlockOf(a, options);
  options.compiled = true;
  options.norm = options.rotary = options.activation_function = Implementation::kCompiled;
  const LayerWork compiled = BlockOf(a, options);
  EXPECT_EQ(Sum(eager.Of(Lifetime::kSaved)) - Sum(compiled.Of(Lifetime::kSaved)), 2 * t * f);
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
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, v = 128256, h = 4096;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kFused;
  const LayerWork fused = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.Of(Lifetime::kSaved)) - Sum(fused.Of(Lifetime::kSaved)), 2 * t * v - 4 * t);
  EXPECT_EQ(fused.backward_transient, Bytes(2 * t * (v + h)));
}

// The fused loss keeps 2 bytes per logit for the logits and as many for their gradient, unless the
// gradient overwrites them.
TEST(TransformerWorkTest, DonatedLogitsBecomeTheirGradient) {
  WorkOptions options = Options(2, 64);
  options.compiled = true;
  options.loss = Loss::kFused;
  const LayerWork apart = TransformerWork(Shipped("gpt2"), options)[kHead];
  options.donates_logits = true;
  const LayerWork donated = TransformerWork(Shipped("gpt2"), options)[kHead];
  EXPECT_EQ(Sum(donated.Of(Lifetime::kSaved)), Sum(apart.Of(Lifetime::kSaved)));
  // At the height are the logits' gradient and that of the head's input; donated, that one and the
  // norm's.
  EXPECT_EQ(apart.backward_transient, Bytes(2 * 128 * (50257 + 768)));
  EXPECT_EQ(donated.backward_transient, Bytes(2 * 128 * (768 + 768)));
  EXPECT_EQ(donated.backward.size(), apart.backward.size());
}

// In place: one FP32 copy of the logits from forward to backward. The 16-bit logits exist besides
// it while it is made, and their gradient while it is cast.
TEST(TransformerWorkTest, InPlaceLossKeepsOneWideCopy) {
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, v = 128256;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kInPlace;
  const LayerWork in_place = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.Of(Lifetime::kSaved)), Sum(in_place.Of(Lifetime::kSaved)));
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

// The training loop holds the FP32 logits: 4 bytes each from forward to the end of backward.
TEST(TransformerWorkTest, HuggingFacesLossHoldsTheWideLogits) {
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, v = 128256;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kHuggingFace;
  const LayerWork held = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(held.Of(Lifetime::kSaved)) - Sum(eager.Of(Lifetime::kSaved)), 4 * t * v);
  EXPECT_EQ(held.backward_transient, eager.backward_transient);
  EXPECT_EQ(held.backward.size(), eager.backward.size());
}

std::int64_t ProductFlops(const std::vector<Operation>& operations) {
  std::int64_t flops = 0;
  for (const Operation& op : operations) {
    if (op.kernel.kind == KernelKind::kGemm) flops += op.kernel.flops;
  }
  return flops;
}

// Liger's documentation: 16,384 tokens, a hidden size of 4096 and 32,000 words make parts of 2048.
TEST(TransformerWorkTest, ChunksAreAsLigerMakesThem) {
  EXPECT_EQ(LossChunk(0, 16'384, 32'000, 4096), 2048);
  EXPECT_EQ(LossChunk(256, 16'384, 32'000, 4096), 256);
  EXPECT_EQ(LossChunk(256, 100, 32'000, 4096), 100);
}

// 512 tokens over ceil(128,256 / 4096) = 32 chunks are 16 tokens each. No logits are kept; those of
// two chunks are alive, besides the gradient of the head's input. Each chunk's product adds to the
// gradient of the weight, which it reads from the second chunk on.
TEST(TransformerWorkTest, ChunkedLossHasTwoPartsOfTheLogits) {
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, v = 128256, h = 4096, parts = 32, chunk = t / parts;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kChunked;
  const LayerWork chunked = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.Of(Lifetime::kSaved)) - Sum(chunked.Of(Lifetime::kSaved)), 4 * t * v);
  EXPECT_EQ(chunked.backward_transient, Bytes(2 * 2 * chunk * v + 2 * t * h));
  EXPECT_EQ(ProductFlops(chunked.forward), 0);
  EXPECT_EQ(ProductFlops(chunked.backward), 3 * 2 * t * v * h);
  EXPECT_EQ(ProductFlops(chunked.backward),
            ProductFlops(eager.forward) + ProductFlops(eager.backward));
  Bytes added;
  int complete = 0;
  for (const Operation& op : chunked.backward) {
    if (!op.kernel.name.ends_with("head.wgrad")) continue;
    added += op.kernel.read - Bytes(2 * (chunk * v + chunk * h));
    complete += static_cast<int>(op.gradients.size());
  }
  EXPECT_EQ(added, Bytes((parts - 1) * 2 * v * h));
  EXPECT_EQ(complete, 1);
  // Parts that do not divide the tokens: the last one is smaller.
  options.loss_chunk = 100;
  const LayerWork uneven = TransformerWork(a, options)[kHead];
  EXPECT_EQ(ProductFlops(uneven.backward), 3 * 2 * t * v * h);
}

// No logits: four products instead of three, and one number per token is kept.
TEST(TransformerWorkTest, CutLossMakesLogitsTwice) {
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, v = 128256, h = 4096;
  WorkOptions options = Options(1, t);
  const LayerWork eager = TransformerWork(a, options)[kHead];
  options.loss = Loss::kCut;
  const LayerWork cut = TransformerWork(a, options)[kHead];
  EXPECT_EQ(Sum(eager.Of(Lifetime::kSaved)) - Sum(cut.Of(Lifetime::kSaved)), 4 * t * v - 4 * t);
  EXPECT_LE(cut.backward_transient, Bytes(2 * 2 * t * h));
  EXPECT_EQ(ProductFlops(cut.forward), 2 * t * v * h);
  EXPECT_EQ(ProductFlops(cut.backward), 3 * 2 * t * v * h);
  std::int64_t counted = 0;
  for (const Operation& op : cut.backward) counted += op.kernel.model_flops;
  EXPECT_EQ(counted, 2 * 2 * t * v * h);
}

// Between the two parts of backward each linear layer keeps its input and the gradient of its
// output (torch.distributed.pipelining), a norm the same, with a reciprocal deviation a token. h =
// 4096, f = 14336, queries as wide as h, keys and values 1024 each.
TEST(TransformerWorkTest, PartsOfBackwardKeepInputsAndGradientsOfOutputs) {
  WorkOptions options = Options(1, 8192);
  options.splits_backward = true;
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), options);
  constexpr std::int64_t kTokens = 8192, kHidden = 4096, kFeedForward = 14336, kKeys = 1024;
  // Of queries, keys and values; the output projection; gate and up; down; both norms.
  EXPECT_EQ(
      Sum(block.Of(Lifetime::kDeferred)),
      2 * kTokens * (kHidden + 2 * kKeys + kHidden + 2 * kFeedForward + kHidden + 2 * kHidden));
  std::int64_t kept = 0;
  for (const LayerValue& saved : block.Of(Lifetime::kSaved)) {
    if (saved.for_weights) kept += saved.bytes.count();
  }
  // Inputs and outputs of both norms, attention's output, and the input of the down projection.
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

// With FP8, the products' inputs and output gradients are kept as one-byte copies, transposed for
// the weights' products; norms keep 16 bits.
TEST(TransformerWorkTest, PartsOfAnFp8BackwardKeepCopiesOfOneByte) {
  WorkOptions options = Options(1, 8192);
  options.compute = DataType::kFp8;
  options.splits_backward = true;
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), options);
  constexpr std::int64_t kTokens = 8192, kHidden = 4096, kFeedForward = 14336, kKeys = 1024;
  EXPECT_EQ(Sum(block.Of(Lifetime::kDeferred)),
            kTokens * (kHidden + 2 * kKeys + kHidden + 2 * kFeedForward + kHidden) +
                2 * kTokens * 2 * kHidden);
  std::int64_t kept = 0;
  for (const LayerValue& saved : block.Of(Lifetime::kSaved)) {
    if (saved.for_weights) kept += saved.bytes.count();
  }
  // The inputs of queries, keys and values; of the output projection; of gate and up; of down. Then
  // what both norms take.
  EXPECT_EQ(kept,
            kTokens * (3 * kHidden + kFeedForward) + 2 * kTokens * 2 * kHidden + 2 * 4 * kTokens);
  EXPECT_EQ(block.backward_input.operations.size() + block.backward_weight.operations.size(),
            block.backward.size());
}

// 6f + 2h bytes per token: the gradients of the product's operands and of the product itself,
// besides the residual's gradient.
TEST(TransformerWorkTest, SwiGluGradientsPassBy) {
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), Options(1, 8192));
  EXPECT_EQ(block.backward_transient, Bytes(8192LL * (6 * 14336 + 2 * 4096)));
}

// T = 8192, V = 128256. Kept: log-softmax 4TV, the norm's input and output 2Th each, 4T of
// statistics; in backward two FP32 gradients of 4TV. Together 12TV for the loss, as PyTorch 2.11
// allocates. In forward the logits and their FP32 copy pass by.
TEST(TransformerWorkTest, HeadPeaksAt12BytesPerLogit) {
  const LayerWork head = TransformerWork(Shipped("llama3.1-8b"), Options(1, 8192))[kHead];
  const std::int64_t tv = 8192LL * 128256, th = 8192LL * 4096;
  EXPECT_EQ(Sum(head.Of(Lifetime::kSaved)), 4 * tv + 4 * th + 4 * 8192);
  EXPECT_EQ(head.backward_transient, Bytes(8 * tv));
  EXPECT_EQ(Sum(head.Of(Lifetime::kSaved)) + head.backward_transient.count() - 4 * th - 4 * 8192,
            12 * tv);
  EXPECT_EQ(head.forward_transient, Bytes(6 * tv));
}

TEST(TransformerWorkTest, EmbeddingKeepsItsDropoutMask) {
  const auto works = TransformerWork(Shipped("gpt2"), Options(2, 512));
  EXPECT_EQ(Sum(works[kEmbedding].Of(Lifetime::kSaved)), 2 * 512 * 768);
  EXPECT_TRUE(
      TransformerWork(Shipped("mpt-7b"), Options(2, 512))[kEmbedding].Of(Lifetime::kSaved).empty());
}

// A step of forward and backward is 6 FLOPs per parameter of the matrices and token, and
// 12 s a d per layer and token for attention, counted in full (PaLM, arXiv 2204.02311, appendix B).
TEST(TransformerWorkTest, FlopsOfTheWholeModel) {
  const Architecture a = Shipped("llama3.1-8b");
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
  const LayerWork block = BlockOf(Shipped("llama3.1-8b"), Options(1, 2048));
  std::vector<std::string> gemms;
  for (const Operation& op : block.forward) {
    if (op.kernel.kind == KernelKind::kGemm) gemms.push_back(op.kernel.name);
  }
  EXPECT_EQ(gemms, (std::vector<std::string>{"self_attn.q_proj", "self_attn.k_proj",
                                             "self_attn.v_proj", "self_attn.o_proj",
                                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}));
}

// Megatron-LM's linear_qkv and linear_fc1.
TEST(TransformerWorkTest, ProductsThatShareAnInputAreOne) {
  const Architecture a = Shipped("llama3.1-8b");
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
  EXPECT_EQ(Sum(fused.Of(Lifetime::kSaved)), Sum(apart.Of(Lifetime::kSaved)));
  // Nothing adds up gradients of the shared inputs; the three of the core are put side by side.
  const auto adds = [](const LayerWork& work, std::string_view name) {
    return std::count_if(work.backward.begin(), work.backward.end(),
                         [&](const Operation& op) { return op.kernel.name.ends_with(name); });
  };
  EXPECT_EQ(adds(apart, "norm output.grad.add"), 3);
  EXPECT_EQ(adds(fused, "norm output.grad.add"), 0);
  EXPECT_EQ(adds(fused, "qkv_proj.output_grad.join"), 1);
}

// Megatron-LM's bias_dropout_add saves one write of dropout's output and one read by the residual,
// twice a block. Nothing else changes.
TEST(TransformerWorkTest, DropoutAndResidualAreOneKernel) {
  Architecture a = Shipped("gpt2");
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
  EXPECT_EQ(Sum(fused.Of(Lifetime::kSaved)), Sum(apart.Of(Lifetime::kSaved)));
}

}  // namespace
}  // namespace stepcast::model

#include "src/model/layer_operators.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::model {
namespace {

constexpr WorkOptions kOptions = {.micro_batch_size = 2, .sequence_length = 8};  // T = 16

const Kernel& Forward(const LayerWork& work, const std::string& name) {
  for (const Operation& op : work.forward) {
    if (op.kernel.name == name) return op.kernel;
  }
  ADD_FAILURE() << "no forward kernel " << name;
  static const Kernel none;
  return none;
}

const Operation& Backward(const LayerWork& work, const std::string& name) {
  for (const Operation& op : work.backward) {
    if (op.kernel.name == name) return op;
  }
  ADD_FAILURE() << "no backward kernel " << name;
  static const Operation none;
  return none;
}

Bytes Saved(const LayerWork& work) {
  Bytes bytes;
  for (const LayerValue& activation : work.Of(Lifetime::kSaved)) bytes += activation.bytes;
  return bytes;
}

// One operator between the layer's input of `width` and its output.
template <typename Operator>
LayerWork WorkOf(const WorkOptions& options, std::int64_t width, Operator&& op) {
  LayerTape tape(ActivationType(options.compute));
  LayerOperators operators(options, tape);
  const Operand y = op(operators, operators.Input(width));
  return tape.Finish(y.value, {});
}

LayerWork LinearWork(const WorkOptions& options) {
  return WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
    return operators.Linear(x, "fc", 6, {.weight = 0, .bias = 1});
  });
}

// T = 16 tokens, 4 features in, 6 out, 2 bytes an element.
TEST(LayerOperatorsTest, LinearIsThreeProductsAndAReduction) {
  const LayerWork work = LinearWork(kOptions);
  const Kernel& forward = Forward(work, "fc");
  EXPECT_EQ(forward.kind, KernelKind::kGemm);
  EXPECT_EQ(forward.data_type, DataType::kBf16);
  EXPECT_EQ(std::vector({forward.m, forward.n, forward.k}), (std::vector<std::int64_t>{16, 6, 4}));
  EXPECT_EQ(forward.flops, 2 * 16 * 6 * 4);
  EXPECT_EQ(forward.model_flops, forward.flops);
  EXPECT_EQ(forward.read, Bytes(2 * (16 * 4 + 4 * 6 + 6)));
  EXPECT_EQ(forward.written, Bytes(2 * 16 * 6));

  ASSERT_EQ(work.backward.size(), 3U);
  const Kernel& dgrad = work.backward[0].kernel;
  EXPECT_EQ(dgrad.name, "fc.dgrad");
  EXPECT_EQ(std::vector({dgrad.m, dgrad.n, dgrad.k}), (std::vector<std::int64_t>{16, 4, 6}));
  EXPECT_TRUE(work.backward[0].gradients.empty());
  const Kernel& wgrad = work.backward[1].kernel;
  EXPECT_EQ(wgrad.name, "fc.wgrad");
  EXPECT_EQ(std::vector({wgrad.m, wgrad.n, wgrad.k}), (std::vector<std::int64_t>{6, 4, 16}));
  EXPECT_EQ(wgrad.written, Bytes(2 * 6 * 4));
  EXPECT_EQ(wgrad.layout, ProductLayout::kWeightGradient);
  EXPECT_EQ(work.backward[0].kernel.layout, ProductLayout::kInputGradient);
  EXPECT_EQ(work.backward[1].gradients, std::vector<int>{0});
  EXPECT_EQ(work.backward[2].kernel.name, "fc.bias.grad");
  EXPECT_EQ(work.backward[2].kernel.kind, KernelKind::kMemoryBound);
  EXPECT_EQ(work.backward[2].kernel.read, Bytes(2 * 16 * 6));
  EXPECT_EQ(work.backward[2].gradients, std::vector<int>{1});
  EXPECT_EQ(Saved(work), Bytes(2 * 16 * 4));
  // dy and dx.
  EXPECT_EQ(work.backward_transient, Bytes(2 * 16 * (6 + 4)));
}

TEST(LayerOperatorsTest, SizesFollowTheComputeType) {
  WorkOptions options = kOptions;
  options.compute = DataType::kFp32;
  const LayerWork fp32 = LinearWork(options);
  EXPECT_EQ(Saved(fp32), Bytes(4 * 16 * 4));
  EXPECT_EQ(Forward(fp32, "fc").read, Bytes(4 * (16 * 4 + 4 * 6 + 6)));
  EXPECT_EQ(Forward(fp32, "fc").data_type, DataType::kFp32);

  // fp8: operands of products in one byte, everything else in two. The input is cast into two
  // copies, of which backward needs one; so are the weight, for either product, and the gradient.
  options.compute = DataType::kFp8;
  const LayerWork fp8 = LinearWork(options);
  EXPECT_EQ(Forward(fp8, "fc").data_type, DataType::kFp8);
  EXPECT_EQ(Forward(fp8, "fc").read, Bytes(16 * 4 + 4 * 6 + 2 * 6));
  EXPECT_EQ(Forward(fp8, "fc").written, Bytes(2 * 16 * 6));
  EXPECT_EQ(Saved(fp8), Bytes(16 * 4));
  EXPECT_EQ(Forward(fp8, "fc.input.cast").read, Bytes(2 * 16 * 4));
  EXPECT_EQ(Forward(fp8, "fc.input.cast").written, Bytes(2 * 16 * 4));
  EXPECT_EQ(Forward(fp8, "fc.weight.cast").read, Bytes(2 * 4 * 6));
  EXPECT_EQ(Forward(fp8, "fc.weight.cast").written, Bytes(4 * 6));
  EXPECT_EQ(Backward(fp8, "fc.output_grad.cast").kernel.written, Bytes(2 * 16 * 6));
  EXPECT_EQ(Backward(fp8, "fc.weight.cast").kernel.written, Bytes(4 * 6));
  EXPECT_EQ(Backward(fp8, "fc.bias.grad").kernel.data_type, DataType::kBf16);
  options.casts_weights = false;
  EXPECT_EQ(LinearWork(options).forward.size(), 2U);
}

// A linear layer of 4 features to 6 for 16 tokens.
TEST(LayerOperatorsTest, ScalesOfATensorThatIsCastTakeAnotherPass) {
  WorkOptions options = kOptions;
  options.compute = DataType::kFp8;
  options.fp8_scaling = Fp8Scaling::kCurrent;
  LayerWork work = LinearWork(options);
  EXPECT_EQ(Forward(work, "fc.input.cast").read, Bytes(2 * 2 * 16 * 4));
  EXPECT_EQ(Forward(work, "fc.input.cast").written, Bytes(2 * 16 * 4));
  EXPECT_EQ(Forward(work, "fc.weight.cast").read, Bytes(2 * 2 * 4 * 6));

  // torchao casts by rows, and transposes the operand of the weight's gradient just before that
  // product.
  options.fp8_scaling = Fp8Scaling::kTorchao;
  work = LinearWork(options);
  EXPECT_EQ(Forward(work, "fc.input.cast").written, Bytes(16 * 4));
  EXPECT_EQ(Saved(work), Bytes(16 * 4));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast").kernel.read, Bytes(2 * 2 * 16 * 6));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast").kernel.written, Bytes(16 * 6));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast.transpose").kernel.read, Bytes(16 * 6));
  EXPECT_EQ(Backward(work, "fc.input.transpose").kernel.written, Bytes(16 * 4));
}

// One scale per row: the input stays in 16 bits and is cast by columns for the weight's gradient.
TEST(LayerOperatorsTest, RowsHaveScales) {
  WorkOptions options = kOptions;
  options.compute = DataType::kFp8;
  options.fp8_scaling = Fp8Scaling::kTorchaoRowwise;
  const LayerWork work = LinearWork(options);
  EXPECT_EQ(Forward(work, "fc.input.cast").read, Bytes(2 * 16 * 4));
  EXPECT_EQ(Forward(work, "fc.input.cast").written, Bytes(16 * 4));
  EXPECT_EQ(Saved(work), Bytes(2 * 16 * 4));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast").kernel.written, Bytes(16 * 6));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast.columns").kernel.read, Bytes(2 * 2 * 16 * 6));
  EXPECT_EQ(Backward(work, "fc.input.cast.columns").kernel.read, Bytes(2 * 2 * 16 * 4));
  EXPECT_EQ(Backward(work, "fc.dgrad.scale").kernel.written, Bytes(2 * 16 * 4));
  EXPECT_TRUE(Backward(work, "fc.wgrad").gradients.empty());
  EXPECT_FALSE(Backward(work, "fc.wgrad.scale").gradients.empty());
}

// A one-byte scale for every 32 numbers of 8 bits, or for every 16 of 4 bits plus one for the
// tensor, whose maximum is read first.
TEST(LayerOperatorsTest, BlocksHaveScales) {
  WorkOptions options = kOptions;
  options.compute = DataType::kMxfp8;
  LayerWork work = LinearWork(options);
  EXPECT_EQ(Forward(work, "fc").data_type, DataType::kMxfp8);
  EXPECT_EQ(Forward(work, "fc.input.cast").read, Bytes(2 * 16 * 4));
  EXPECT_EQ(Forward(work, "fc.input.cast").written, Bytes(2 * (64 + 2)));
  EXPECT_EQ(Saved(work), Bytes(64 + 2));
  options.compute = DataType::kNvfp4;
  work = LinearWork(options);
  EXPECT_EQ(Forward(work, "fc.input.cast").read, Bytes(2 * 2 * 16 * 4));
  EXPECT_EQ(Forward(work, "fc.input.cast").written, Bytes(2 * (32 + 4)));
  EXPECT_EQ(Backward(work, "fc.output_grad.cast").kernel.written, Bytes(2 * (48 + 6)));
  EXPECT_EQ(Saved(work), Bytes(32 + 4));
  EXPECT_EQ(Backward(work, "fc.bias.grad").kernel.data_type, DataType::kBf16);
}

TEST(LayerOperatorsTest, RmsNormKeepsOneNumberPerToken) {
  const LayerWork work = WorkOf(kOptions, 4, [](LayerOperators& operators, Operand x) {
    return operators.Norm(x, "norm", Normalization::kRmsNorm, {.weight = 0, .bias = -1});
  });
  EXPECT_EQ(Saved(work), Bytes(16 * (2 * 4 + 4)));
  ASSERT_EQ(work.backward.size(), 2U);
  EXPECT_EQ(work.backward[0].kernel.name, "norm.dgrad");
  EXPECT_EQ(work.backward[1].gradients, std::vector<int>{0});
}

Bytes Traffic(const auto& operators) {
  Bytes traffic;
  for (const auto& op : operators) traffic += op.kernel.read + op.kernel.written;
  return traffic;
}

// 16 tokens of 4 features in 16 bits. The operations of the table in eager_operators.cc, not
// counting per-row numbers and weights.
TEST(LayerOperatorsTest, AnEagerRmsNormIsEightKernels) {
  WorkOptions options = kOptions;
  for (const Implementation norm : {Implementation::kEager, Implementation::kHuggingFace}) {
    options.norm = norm;
    const LayerWork work = WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
      return operators.Norm(x, "norm", Normalization::kRmsNorm, {.weight = 0, .bias = -1});
    });
    EXPECT_EQ(work.forward.size(), 8u);
    // 36 bytes an element; rows: mean, add, rsqrt twice each, mul; the weight of 4.
    EXPECT_EQ(Traffic(work.forward), Bytes(16 * 4 * 36 + 6 * 16 * 4 + 2 * 4));
    // The input in FP32, the normalised input, the number.
    EXPECT_EQ(Saved(work), Bytes(16 * (4 * 4 + 2 * 4 + 4)));
    // 4 + (6 + 2) + 6 + 8 + (12 + 4) + 4 + (8 + 8 + 12) + 12 + 6; rows: mul, sum, rsqrt thrice,
    // mean; the weight and its gradient.
    EXPECT_EQ(work.backward.size(), 14u);
    EXPECT_EQ(Traffic(work.backward), Bytes(16 * 4 * 92 + 6 * 16 * 4 + 2 * 2 * 4));
    EXPECT_EQ(Backward(work, "norm.wgrad").gradients, std::vector<int>{0});
  }
}

// A layer norm is one kernel however it is called.
TEST(LayerOperatorsTest, AnEagerLayerNormIsPyTorchs) {
  WorkOptions options = kOptions;
  options.norm = Implementation::kEager;
  const LayerWork work = WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
    return operators.Norm(x, "norm", Normalization::kLayerNorm, {.weight = 3, .bias = 4});
  });
  EXPECT_EQ(work.forward.size(), 1u);
}

// 2 + 4, 4 + 4 and 4 + 2 bytes an element each way, or 4, 2, 4, 4 and 6. The table of 8 positions
// and 2 angles is read in addition: twice in FP32, or four times in 16 bits.
TEST(LayerOperatorsTest, EagerRotaryPositionsMoveTwentyBytesAnElement) {
  WorkOptions options = kOptions;
  const auto work = [&] {
    return WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
      return operators.Rotary(x, "rotary", 2);
    });
  };
  options.rotary = Implementation::kEager;
  const LayerWork complex = work();
  EXPECT_EQ(Traffic(complex.forward), Bytes(16 * 4 * 20 + 8 * 2 * 4));
  EXPECT_EQ(Traffic(complex.backward), Traffic(complex.forward));
  options.rotary = Implementation::kHuggingFace;
  const LayerWork halves = work();
  EXPECT_EQ(Traffic(halves.forward), Bytes(16 * 4 * 20 + 2 * 8 * 2 * 2));
  EXPECT_EQ(Traffic(halves.backward), Traffic(halves.forward));
  EXPECT_TRUE(complex.Of(Lifetime::kSaved).empty());
  EXPECT_TRUE(halves.Of(Lifetime::kSaved).empty());
}

// In FP32 nothing is cast: 4 + 4, 4, 4 + 4 and 4 + 4 bytes an element of a norm; of positions 8.
TEST(LayerOperatorsTest, EagerKernelsInFp32CastNothing) {
  WorkOptions options = kOptions;
  options.compute = DataType::kFp32;
  options.norm = options.rotary = Implementation::kEager;
  const LayerWork norm = WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
    return operators.Norm(x, "norm", Normalization::kRmsNorm, {.weight = 0, .bias = -1});
  });
  EXPECT_EQ(norm.forward.size(), 6u);
  EXPECT_EQ(Traffic(norm.forward), Bytes(16 * 4 * 28 + 6 * 16 * 4 + 4 * 4));
  EXPECT_EQ(Saved(norm), Bytes(16 * (4 * 4 + 4 * 4 + 4)));
  const LayerWork rotary = WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
    return operators.Rotary(x, "rotary", 2);
  });
  EXPECT_EQ(Traffic(rotary.forward), Bytes(16 * 4 * 8 + 8 * 2 * 4));
}

// Six kernels with one operand and two with two, each written: 6 x 4 + 2 x 6 bytes an element.
// Kept: the power's input, the tanh and both factors. Backward has 6 kernels with two operands, 5
// with one.
TEST(LayerOperatorsTest, NewGeluIsEightKernels) {
  WorkOptions options = kOptions;
  options.activation_function = Implementation::kHuggingFace;
  const LayerWork work = WorkOf(
      options, 4, [](LayerOperators& operators, Operand x) { return operators.Gelu(x, "act"); });
  EXPECT_EQ(work.forward.size(), 8u);
  EXPECT_EQ(Traffic(work.forward), Bytes(16 * 4 * 36));
  EXPECT_EQ(Saved(work), Bytes(16 * 4 * 4 * 2));
  EXPECT_EQ(work.backward.size(), 11u);
  EXPECT_EQ(Traffic(work.backward), Bytes(16 * 4 * (6 * 6 + 5 * 4)));
}

// 2 sequences of 8 with 2 heads: 256 scores. In FP32 the softmax keeps 4 bytes of each, and 2 of
// its copy unless dropout runs on the copy.
TEST(LayerOperatorsTest, ASoftmaxInFp32KeepsItsResultAndTheCopy) {
  const auto work = [](Attention attention, bool dropout, bool autocast = false) {
    WorkOptions options = kOptions;
    options.attention = attention;
    options.autocast = autocast;
    return WorkOf(options, 4, [&](LayerOperators& operators, Operand x) {
      const Operand q = operators.Linear(x, "q", 4, {.weight = 0});
      return operators.MathAttention(
          q, q, q, "core", {.heads = 2, .kv_heads = 2, .head_size = 2, .dropout = dropout});
    });
  };
  for (const auto& [dropout, more] : {std::pair(false, 4), std::pair(true, 2)}) {
    const Bytes plain = Saved(work(Attention::kMath, dropout));
    EXPECT_EQ(Saved(work(Attention::kMathFp32, dropout)) - plain, Bytes(256 * more));
    EXPECT_EQ(Saved(work(Attention::kMath, dropout, true)) - plain, Bytes(256 * more));
  }
  const LayerWork wide = work(Attention::kMathFp32, false);
  EXPECT_EQ(Forward(wide, "core.softmax").written, Bytes(256 * 4));
  EXPECT_EQ(Forward(wide, "core.softmax.cast").read, Bytes(256 * 4));
  EXPECT_EQ(Backward(wide, "core.softmax.dgrad").kernel.read, Bytes(256 * 8));
  EXPECT_EQ(Backward(wide, "core.softmax.dgrad").kernel.written, Bytes(256 * 2));
}

// Autocast: an FP32 input is copied in 16 bits for a product, and its gradient is cast up again.
TEST(LayerOperatorsTest, UnderAutocastAProductCastsItsInput) {
  WorkOptions options = kOptions;
  options.autocast = true;
  const LayerWork work = LinearWork(options);
  EXPECT_EQ(work.forward[0].kernel.name, "fc.cast");
  EXPECT_EQ(work.forward[0].kernel.read, Bytes(16 * 4 * 4));
  EXPECT_EQ(work.forward[0].kernel.written, Bytes(16 * 4 * 2));
  EXPECT_EQ(Saved(work), Bytes(16 * 4 * 2));
  EXPECT_EQ(work.output, Bytes(16 * 6 * 2));
  EXPECT_EQ(work.backward.back().kernel.name, "fc.cast.dgrad");
  EXPECT_EQ(work.backward.back().kernel.written, Bytes(16 * 4 * 4));
}

// 16 tokens of 4 features and their statistics of 2 numbers, weights of 8. PyTorch's layer norm
// stays in FP32, Apex's casts its input first, a compiled one writes 16 bits.
TEST(LayerOperatorsTest, UnderAutocastPyTorchsNormsStayInFp32) {
  WorkOptions options = kOptions;
  options.autocast = true;
  const auto work = [&](Implementation norm) {
    options.norm = norm;
    return WorkOf(options, 4, [](LayerOperators& operators, Operand x) {
      return operators.Norm(x, "norm", Normalization::kLayerNorm, {.weight = 3, .bias = 4});
    });
  };
  const LayerWork eager = work(Implementation::kEager);
  EXPECT_EQ(Forward(eager, "norm").read, Bytes(16 * 4 * 4 + 8 * 4));
  EXPECT_EQ(Forward(eager, "norm").written, Bytes(16 * 4 * 4 + 16 * 2 * 4));
  EXPECT_EQ(eager.output, Bytes(16 * 4 * 4));
  const LayerWork apex = work(Implementation::kApex);
  EXPECT_EQ(apex.forward[0].kernel.name, "norm.cast");
  EXPECT_EQ(Forward(apex, "norm").read, Bytes(16 * 4 * 2 + 8 * 2));
  EXPECT_EQ(apex.output, Bytes(16 * 4 * 2));
  const LayerWork compiled = work(Implementation::kCompiled);
  EXPECT_EQ(Forward(compiled, "norm").read, Bytes(16 * 4 * 4 + 8 * 4));
  EXPECT_EQ(compiled.output, Bytes(16 * 4 * 2));
}

TEST(LayerOperatorsTest, LayerNormGivesBothGradientsAtOnce) {
  const LayerWork work = WorkOf(kOptions, 4, [](LayerOperators& operators, Operand x) {
    return operators.Norm(x, "norm", Normalization::kLayerNorm, {.weight = 3, .bias = 4});
  });
  EXPECT_EQ(Saved(work), Bytes(16 * 2 * 4));
  EXPECT_EQ(Backward(work, "norm.wgrad").gradients, (std::vector<int>{3, 4}));
}

TEST(LayerOperatorsTest, DropoutKeepsAByteAnElement) {
  const LayerWork work = WorkOf(kOptions, 4, [](LayerOperators& operators, Operand x) {
    return operators.Dropout(x, "drop");
  });
  ASSERT_EQ(work.Of(Lifetime::kSaved).size(), 1U);  // the mask; the input is not needed
  EXPECT_EQ(work.Of(Lifetime::kSaved)[0].bytes, Bytes(16 * 4));
  EXPECT_EQ(Forward(work, "drop").written, Bytes(16 * 4 * (2 + 1)));
  EXPECT_EQ(Backward(work, "drop.dgrad").kernel.read, Bytes(16 * 4 * (2 + 1)));
}

TEST(LayerOperatorsTest, RotaryAndAdditionKeepNothing) {
  const LayerWork rotary = WorkOf(kOptions, 4, [](LayerOperators& operators, Operand x) {
    return operators.Rotary(x, "rotary", 2);
  });
  EXPECT_TRUE(rotary.Of(Lifetime::kSaved).empty());
  const LayerWork add = WorkOf(
      kOptions, 4, [](LayerOperators& operators, Operand x) { return operators.Add(x, x, "add"); });
  EXPECT_TRUE(add.Of(Lifetime::kSaved).empty());
  EXPECT_EQ(Forward(add, "add").read, Bytes(2 * 2 * 16 * 4));
}

// b = 2, s = 8, a = 4 heads of d = 4 on g = 2 key-value heads: q has 16, k and v 8 features.
constexpr AttentionShape kShape = {.heads = 4, .kv_heads = 2, .head_size = 4};

LayerWork FlashWork(const AttentionShape& shape) {
  return WorkOf(kOptions, 32, [&](LayerOperators& operators, Operand x) {
    return operators.FlashAttention(x, "core", shape);
  });
}

TEST(LayerOperatorsTest, FlashAttentionIsOneKernel) {
  const LayerWork work = FlashWork(kShape);
  ASSERT_EQ(work.forward.size(), 1U);
  const Kernel& forward = work.forward[0].kernel;
  EXPECT_EQ(forward.kind, KernelKind::kAttention);
  EXPECT_EQ(std::vector({forward.batch, forward.m, forward.n, forward.k, forward.key_heads}),
            (std::vector<std::int64_t>{8, 8, 8, 4, 4}));
  // Two products of 2 b s^2 a d each; the causal half of them is executed.
  EXPECT_EQ(forward.model_flops, 4 * 2 * 64 * 16);
  EXPECT_EQ(forward.flops, forward.model_flops / 2);
  EXPECT_EQ(forward.read, Bytes(16 * 2 * 32));
  EXPECT_EQ(forward.written, Bytes(16 * (2 * 16 + 4 * 4)));
  // q, k, v, output, log-sum-exp.
  EXPECT_EQ(Saved(work), Bytes(16 * (2 * 32 + 2 * 16 + 4 * 4)));

  const Kernel& backward = Backward(work, "core.dgrad").kernel;
  EXPECT_EQ(backward.kind, KernelKind::kAttentionGradient);
  EXPECT_EQ(backward.model_flops, 2 * forward.model_flops);
  EXPECT_EQ(backward.flops, forward.flops * 5 / 2);  // scores are computed again
}

// Two sequences of 8 tokens are four documents of 2 each: a quarter of the pairs, like four times
// as many heads. Bytes read, written and kept are unchanged.
TEST(LayerOperatorsTest, AttentionStaysWithinDocuments) {
  WorkOptions options = kOptions;
  options.documents = {{2, 1}};
  const LayerWork packed = WorkOf(options, 32, [&](LayerOperators& operators, Operand x) {
    return operators.FlashAttention(x, "core", kShape);
  });
  const LayerWork whole = FlashWork(kShape);
  const Kernel& kernel = packed.forward[0].kernel;
  EXPECT_EQ(std::vector({kernel.batch, kernel.m, kernel.n, kernel.k, kernel.key_heads}),
            (std::vector<std::int64_t>{32, 2, 2, 4, 16}));
  EXPECT_EQ(kernel.flops, whole.forward[0].kernel.flops / 4);
  EXPECT_EQ(kernel.model_flops, whole.forward[0].kernel.model_flops / 4);
  EXPECT_EQ(kernel.read, whole.forward[0].kernel.read);
  EXPECT_EQ(Backward(packed, "core.dgrad").kernel.flops,
            Backward(whole, "core.dgrad").kernel.flops / 4);
  EXPECT_EQ(Saved(packed), Saved(whole));
}

// Equal numbers of documents of 2 and of 6 tokens fill two sequences of 8: two of each. They have 2
// x (2^2 + 6^2) = 80 (half) pairs instead of 2 x 8^2 = 128. The kernel sees documents of (2 x 2 + 6
// x 6) / 8 = 5 tokens, of which 16 tokens make 4.
TEST(LayerOperatorsTest, AttentionStaysWithinDocumentsOfSeveralLengths) {
  WorkOptions options = kOptions;
  options.documents = {{2, 1}, {6, 1}};
  const auto work = [&](const AttentionShape& shape) {
    return WorkOf(options, 32, [&](LayerOperators& operators, Operand x) {
      return operators.FlashAttention(x, "core", shape);
    });
  };
  const LayerWork packed = work(kShape);
  const LayerWork whole = FlashWork(kShape);
  const Kernel& kernel = packed.forward[0].kernel;
  EXPECT_EQ(std::vector({kernel.batch, kernel.m, kernel.n, kernel.k, kernel.key_heads}),
            (std::vector<std::int64_t>{4 * 4, 5, 5, 4, 4 * 2}));
  EXPECT_EQ(kernel.flops, whole.forward[0].kernel.flops * 80 / 128);
  EXPECT_EQ(kernel.read, whole.forward[0].kernel.read);
  EXPECT_EQ(kernel.written, whole.forward[0].kernel.written);
  EXPECT_EQ(Saved(packed), Saved(whole));
  // A window of 3 hides (6 - 3)^2 of a long document's pairs and none of a short one's.
  AttentionShape windowed = kShape;
  windowed.window = 3;
  EXPECT_EQ(work(windowed).forward[0].kernel.flops,
            whole.forward[0].kernel.flops * (80 - 2 * 9) / 128);
}

// With s = 8, each token attends to at most 2: s^2 - (s - w)^2 = 64 - 36 of the 64.
TEST(LayerOperatorsTest, AWindowSavesWork) {
  AttentionShape shape = kShape;
  shape.window = 2;
  EXPECT_EQ(FlashWork(shape).forward[0].kernel.n, 2);
  EXPECT_EQ(FlashWork(shape).forward[0].kernel.flops,
            FlashWork(kShape).forward[0].kernel.flops * 28 / 64);
  shape.window = 8;
  EXPECT_EQ(FlashWork(shape).forward[0].kernel.flops, FlashWork(kShape).forward[0].kernel.flops);
}

TEST(LayerOperatorsTest, MathAttentionWritesTheScores) {
  const AttentionShape shape = {.heads = 4, .kv_heads = 4, .head_size = 4, .dropout = true};
  const LayerWork work = WorkOf(kOptions, 48, [&](LayerOperators& operators, Operand x) {
    return operators.MathAttention(x, "core", shape);
  });
  const Kernel& scores = Forward(work, "core.scores");
  EXPECT_EQ(scores.kind, KernelKind::kGemm);
  EXPECT_EQ(scores.batch, 2 * 4);
  EXPECT_EQ(std::vector({scores.m, scores.n, scores.k}), (std::vector<std::int64_t>{8, 8, 4}));
  EXPECT_EQ(scores.flops, 2 * 8 * 8 * 8 * 4);  // all of them: a mask saves nothing here
  const Kernel& values = Forward(work, "core.values");
  EXPECT_EQ(std::vector({values.m, values.n, values.k}), (std::vector<std::int64_t>{8, 4, 8}));
  // q, k, v; a s per token of softmax output (2 B), mask (1 B) and dropout output (2 B).
  EXPECT_EQ(Saved(work), Bytes(16 * (2 * 48 + 5 * 4 * 8)));
  std::int64_t forward = 0, backward = 0;
  for (const auto& op : work.forward) forward += op.kernel.model_flops;
  for (const auto& op : work.backward) backward += op.kernel.model_flops;
  EXPECT_EQ(backward, 2 * forward);
}

TEST(LayerOperatorsTest, RepeatedHeadsAreCopies) {
  const LayerWork work = WorkOf(kOptions, 8, [](LayerOperators& operators, Operand x) {
    return operators.RepeatHeads(x, "repeat", 3);
  });
  EXPECT_TRUE(work.Of(Lifetime::kSaved).empty());
  EXPECT_EQ(Forward(work, "repeat").written, Bytes(16 * 2 * 24));
  EXPECT_EQ(Backward(work, "repeat.dgrad").kernel.read, Bytes(16 * 2 * 24));
}

TEST(LayerOperatorsTest, TransposesAreCopies) {
  const LayerWork work = WorkOf(kOptions, 8, [](LayerOperators& operators, Operand x) {
    return operators.Transposed(x, "core", ".transpose_query");
  });
  EXPECT_TRUE(work.Of(Lifetime::kSaved).empty());
  EXPECT_EQ(Forward(work, "core.transpose_query").read, Bytes(16 * 2 * 8));
  EXPECT_EQ(Forward(work, "core.transpose_query").written, Bytes(16 * 2 * 8));
  EXPECT_EQ(Backward(work, "core.transpose_query.dgrad").kernel.written, Bytes(16 * 2 * 8));
}

TEST(LayerOperatorsTest, LongSequencesDoNotOverflow) {
  const WorkOptions options = {.micro_batch_size = 1, .sequence_length = 1 << 24};
  const AttentionShape shape = {.heads = 1 << 10, .kv_heads = 1 << 10, .head_size = 256};
  const LayerWork work = WorkOf(options, 3 << 18, [&](LayerOperators& operators, Operand x) {
    return operators.MathAttention(x, "core", shape);
  });
  for (const Operation& op : work.forward) {
    EXPECT_GT(op.kernel.flops, 0);
    EXPECT_GT(op.kernel.read, Bytes());
  }
  EXPECT_GT(Saved(work), GiB(1 << 10));
}

// T = 16, V = 10: the log-softmax of 4 T V bytes is kept, with the product's operand of 4 features,
// but neither the logits nor their FP32 copy. Backward has two FP32 gradients of that size as
// temporaries.
TEST(LayerOperatorsTest, CrossEntropyIsInFp32) {
  LayerTape tape(DataType::kBf16);
  LayerOperators operators(kOptions, tape);
  const Operand x = operators.Input(4);
  operators.CrossEntropy(operators.Linear(x, "head", 10, {.weight = 0, .bias = -1}), "loss");
  const LayerWork work = tape.Finish(std::nullopt, {});
  EXPECT_EQ(Saved(work), Bytes(16 * 4 * 2 + 16 * 10 * 4));
  EXPECT_EQ(work.forward_transient, Bytes(16 * 10 * (2 + 4)));
  EXPECT_EQ(work.backward_transient, Bytes(16 * 10 * (4 + 4)));
  EXPECT_EQ(Forward(work, "loss.log_softmax").data_type, DataType::kFp32);
  // Three passes over the FP32 logits; backward two over the gradient and one over the result.
  EXPECT_EQ(Forward(work, "loss.log_softmax").read, Bytes(16 * 10 * 3 * 4));
  EXPECT_EQ(work.backward[1].kernel.name, "loss.log_softmax.dgrad");
  EXPECT_EQ(work.backward[1].kernel.read, Bytes(16 * 10 * 3 * 4));
  EXPECT_EQ(work.backward[0].kernel.name, "loss.nll.dgrad");
}

TEST(LayerOperatorsTest, CrossEntropyInFp32NeedsNoCast) {
  WorkOptions options = kOptions;
  options.compute = DataType::kFp32;
  LayerTape tape(DataType::kFp32);
  LayerOperators operators(options, tape);
  operators.CrossEntropy(operators.Linear(operators.Input(4), "head", 10, {.weight = 0}), "loss");
  const LayerWork work = tape.Finish(std::nullopt, {});
  EXPECT_EQ(work.forward.size(), 3U);
  EXPECT_EQ(Saved(work), Bytes(16 * 4 * 4 + 16 * 10 * 4));
  EXPECT_EQ(work.backward_transient, Bytes(16 * 10 * (4 + 4)));
}

LayerWork EmbeddingWork(std::int64_t micro_batch_size, bool shared) {
  WorkOptions options = kOptions;
  options.micro_batch_size = micro_batch_size;
  LayerTape tape(DataType::kBf16);
  LayerOperators operators(options, tape);
  const Operand x = operators.Lookup("wte", 100, 4, 0, shared);
  return tape.Finish(operators.AddPositions(x, "wpe", 32, 1).value, {});
}

// The positions' table is looked up after the tokens', so its gradient comes first.
TEST(LayerOperatorsTest, EmbeddingGradientsAreDense) {
  const LayerWork work = EmbeddingWork(2, false);
  ASSERT_EQ(work.backward.size(), 3U);
  EXPECT_EQ(work.backward[0].kernel.name, "wpe.add.dgrad");  // the sum over sequences
  EXPECT_EQ(work.backward[1].gradients, std::vector<int>{1});
  EXPECT_EQ(work.backward[2].gradients, std::vector<int>{0});
  // Zeros for 100 rows, then the rows of 16 tokens.
  EXPECT_EQ(work.backward[2].kernel.written, Bytes(2 * 4 * (100 + 16)));
  EXPECT_EQ(EmbeddingWork(1, false).backward.size(), 2U);
  EXPECT_TRUE(work.Of(Lifetime::kSaved).empty());
}

TEST(LayerOperatorsTest, ASharedTableAddsItsTwoGradients) {
  const LayerWork work = EmbeddingWork(1, true);
  ASSERT_EQ(work.backward.size(), 3U);
  EXPECT_TRUE(work.backward[1].gradients.empty());
  EXPECT_EQ(work.backward[2].kernel.read, Bytes(2 * 2 * 100 * 4));
  EXPECT_EQ(work.backward[2].gradients, std::vector<int>{0});
}

}  // namespace
}  // namespace stepcast::model

// Encoders alone, encoder-decoders and diffusion transformers: their computation and kept values,
// checked by hand.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/architecture.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/model.h"
#include "src/model/tower.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kBatch = 2;

std::int64_t Flops(const std::vector<Operation>& operations) {
  std::int64_t flops = 0;
  for (const Operation& op : operations) {
    if (op.kernel.kind != KernelKind::kMemoryBound) flops += op.kernel.flops;
  }
  return flops;
}

std::int64_t Saved(const LayerWork& work) { return Sum(work.Of(Lifetime::kSaved)); }

// The works of a model's layers, in order.
class Works {
 public:
  Works(const Architecture& a, const WorkOptions& options)
      : model_(Build("m", a)),
        works_(BuildWork(model_, options)),
        of_layers_(WorkOfLayers(model_, options)) {}

  const LayerWork& operator[](std::size_t layer) const {
    return works_[static_cast<std::size_t>(of_layers_[layer])];
  }
  const Model& model() const { return model_; }
  std::size_t layers() const { return of_layers_.size(); }

 private:
  Model model_;
  std::vector<LayerWork> works_;
  std::vector<int> of_layers_;
};

WorkOptions OfTokens(std::int64_t tokens, Attention attention = Attention::kFlash) {
  return Options(kBatch, tokens, Checkpointing::kNone, attention);
}

// Four h x h products, two of h x f, and scores and values over all pairs. Kept: the inputs of both
// norms, their outputs, queries, keys and values, the core's output and one FP32 number per head,
// the inputs of GELU and of the last product.
TEST(EndsTest, AnEncoderBlockByHand) {
  const std::int64_t s = 197, h = 768, f = 3072, a = 12, tokens = kBatch * s;
  const Works works(Shipped("vit-base"), OfTokens(s));
  const std::int64_t products = 2 * tokens * (4 * h * h + 2 * h * f);
  const std::int64_t core = kBatch * 4 * s * s * h;
  EXPECT_EQ(Flops(works[1].forward), products + core);
  EXPECT_EQ(Flops(works[1].backward), 2 * products + core / 2 * 5);
  EXPECT_EQ(Saved(works[1]), tokens * (16 * h + 4 * a + 4 * f));
}

// One product of 196 patches, whose pixels are kept and have no gradient. The head computes classes
// of one row of each image.
TEST(EndsTest, PatchesAndClassesByHand) {
  const std::int64_t s = 197, h = 768;
  const Works works(Shipped("vit-base"), OfTokens(s));
  const std::int64_t product = 2 * kBatch * 196 * (3 * 16 * 16) * h;
  EXPECT_EQ(Flops(works[0].forward), product);
  EXPECT_EQ(Flops(works[0].backward), product);
  EXPECT_EQ(Saved(works[0]), kBatch * 196 * 3 * 16 * 16 * 2);
  EXPECT_EQ(works[0].output, Bytes(kBatch * s * h * 2));
  EXPECT_EQ(Flops(works[13].forward), 2 * kBatch * h * 1000);
}

// The loss keeps the rows and the numbers that they are compared with, the norm its input.
TEST(EndsTest, RowsAreComparedWithGivenOnes) {
  const std::int64_t s = 729, h = 1152;
  const Works works(Shipped("siglip-so400m"), OfTokens(s));
  EXPECT_EQ(Flops(works[28].forward), 0);
  EXPECT_EQ(Saved(works[28]), 3 * kBatch * s * h * 2);
}

// A table of distances is one number for each score of the batch, kept by the first layer. Scores
// are not scaled: one kernel adds the numbers and the mask.
TEST(EndsTest, DistancesByHand) {
  const std::int64_t s = 128, heads = 64, scores = kBatch * heads * s * s;
  const Works works(Shipped("t5-v1.1-xxl-encoder"), OfTokens(s, Attention::kMath));
  EXPECT_EQ(Saved(works[0]), scores * 2);
  EXPECT_EQ(Find(works[1], "self_attn.core.scale"), nullptr);
  EXPECT_EQ(Find(works[1], "self_attn.core.mask"), nullptr);
  const Kernel* added = Find(works[1], "self_attn.core.distances");
  ASSERT_NE(added, nullptr);
  EXPECT_EQ(added->read, Bytes(2 * scores * 2));
  EXPECT_EQ(added->written, Bytes(scores * 2));
  EXPECT_NE(Find(works[1], "self_attn.core.distances.grad.add"), nullptr);
}

// Two products of the decoder's rows, two of the context's, and all pairs of both. Kept besides:
// the norm's input and output, queries, keys and values, the output and a number per head. The
// context is the encoder's, which keeps it once, after its norm's input.
TEST(EndsTest, CrossAttentionByHand) {
  const std::int64_t s = 100, context = 1500, h = 1280, a = 20;
  const std::int64_t tokens = kBatch * s, rows = kBatch * context;
  Architecture plain = Shipped("whisper-large-v3");
  const Works with(plain, OfTokens(s));
  const LayerWork& decoding = with[1 + 32];
  const std::int64_t own = 2 * tokens * (4 * h * h + 8 * h * h) + kBatch * 2 * s * s * h;
  const std::int64_t products = 2 * tokens * 2 * h * h + 2 * rows * 2 * h * h;
  const std::int64_t core = kBatch * 4 * s * context * h;
  EXPECT_EQ(Flops(decoding.forward), own + products + core);
  EXPECT_EQ(Find(decoding, "cross_attn.core")->flops, core);
  EXPECT_EQ(Find(decoding, "cross_attn.core")->model_flops, core);
  const std::int64_t of_self = tokens * (16 * h + 4 * a + 16 * h);
  EXPECT_EQ(Saved(decoding), of_self + tokens * (8 * h + 4 * a) + rows * 4 * h);
  EXPECT_EQ(Saved(with[32]) - Saved(with[31]), rows * (2 * h + 2 * h));
  EXPECT_EQ(with[31].output, Bytes(rows * h * 2));
}

// With separate kernels the products over scores are the same, with as many columns as the context
// has rows.
TEST(EndsTest, CrossAttentionWithSeparateKernels) {
  const std::int64_t s = 100, context = 1500, h = 1280;
  const Works works(Shipped("whisper-large-v3"), OfTokens(s, Attention::kMath));
  const LayerWork& decoding = works[1 + 32];
  const std::int64_t product = kBatch * 2 * s * context * h;
  for (const char* name : {"scores", "values", "values.dgrad", "values.dgrad_weights",
                           "scores.dgrad_query", "scores.dgrad_key"}) {
    const Kernel* kernel = Find(decoding, std::string("cross_attn.core.") + name);
    ASSERT_NE(kernel, nullptr) << name;
    EXPECT_EQ(kernel->flops, product) << name;
    EXPECT_EQ(kernel->model_flops, product) << name;
  }
}

// 3,000 frames of 128 numbers, three at a time, then every second of three rows.
TEST(EndsTest, ConvolutionsByHand) {
  const std::int64_t h = 1280;
  const Works works(Shipped("whisper-large-v3"), OfTokens(100));
  EXPECT_EQ(Flops(works[0].forward), kBatch * (2 * 3000 * 3 * 128 * h + 2 * 1500 * 3 * h * h));
  EXPECT_EQ(works[0].output, Bytes(kBatch * 1500 * h * 2));
}

// The modulation is a product of one row per image. Kept for each row: the inputs and outputs of
// norms, the scaled rows, queries, keys and values, the core's output, both branches' outputs. For
// each image: the input of the modulation's product, and six vectors.
TEST(EndsTest, AModulatedBlockByHand) {
  const std::int64_t s = 256, h = 1152, f = 4608, a = 16, tokens = kBatch * s;
  const Works works(Shipped("dit-xl-2"), OfTokens(s));
  const std::int64_t products = 2 * tokens * (4 * h * h + 2 * h * f) + 2 * kBatch * h * 6 * h;
  EXPECT_EQ(Flops(works[1].forward), products + kBatch * 4 * s * s * h);
  EXPECT_EQ(Saved(works[1]), tokens * (24 * h + 4 * a + 4 * f) + kBatch * 14 * h);
}

// Both streams attend to all rows; each has products of its own.
TEST(EndsTest, TwoStreamsByHand) {
  const std::int64_t s = 1024, rows = s + 512, h = 3072;
  const Works works(Shipped("flux.1-dev"), OfTokens(s));
  const std::int64_t core = kBatch * 4 * rows * rows * h;
  EXPECT_EQ(Flops(works[1].forward),
            2 * kBatch * rows * 12 * h * h + core + 2 * 2 * kBatch * h * 6 * h);
  // A single block has the same products on all rows.
  EXPECT_EQ(Flops(works[20].forward),
            2 * kBatch * rows * 12 * h * h + core + 2 * kBatch * h * 3 * h);
  EXPECT_EQ(works[1].output, Bytes(kBatch * rows * h * 2));
  EXPECT_EQ(works[0].output, works[1].output);
  // The head leaves the text's rows out.
  EXPECT_EQ(Flops(works[58].forward), 2 * kBatch * s * h * 64 + 2 * kBatch * h * 2 * h);
}

// Wan: the time's vectors are made once, and a table is added to them in each block.
TEST(EndsTest, CrossAttentionToATextByHand) {
  const std::int64_t s = 1560, text = 512, h = 5120, f = 13824;
  const Works works(Shipped("wan2.1-t2v-14b"), OfTokens(s));
  EXPECT_EQ(Flops(works[1].forward), 2 * kBatch * s * (6 * h * h + 2 * h * f) +
                                         2 * kBatch * text * 2 * h * h +
                                         kBatch * 4 * s * (s + text) * h);
  EXPECT_EQ(Flops(works[0].forward), 2 * kBatch * s * 64 * h +
                                         2 * kBatch * text * (4096 * h + h * h) +
                                         2 * kBatch * (256 * h + h * h + h * 6 * h));
}

// Every trained tensor has its gradient once in its layer.
TEST(EndsTest, EveryTensorHasItsGradient) {
  struct Case {
    Architecture architecture;
    Attention attention = Attention::kFlash;
  };
  const std::vector<Case> cases = {{Shipped("vit-base")},
                                   {Shipped("siglip-so400m")},
                                   {Shipped("t5-v1.1-xxl-encoder"), Attention::kMathFp32},
                                   {Shipped("t5-11b"), Attention::kMathFp32},
                                   {Shipped("whisper-large-v3")},
                                   {Shipped("dit-xl-2")},
                                   {Shipped("wan2.1-t2v-14b")},
                                   {Shipped("flux.1-dev")}};
  for (const Case& each : cases) {
    for (const Checkpointing checkpointing : {Checkpointing::kNone, Checkpointing::kFull}) {
      const Works works(each.architecture, Options(kBatch, 64, checkpointing, each.attention));
      for (std::size_t i = 0; i < works.layers(); ++i) {
        const Layer& layer = works.model().layers[i];
        std::vector<int> gradients(layer.tensors.size());
        for (const Operation& op : works[i].backward) {
          for (const int tensor : op.gradients) ++gradients[static_cast<std::size_t>(tensor)];
        }
        EXPECT_EQ(gradients, std::vector<int>(gradients.size(), 1))
            << works.model().name << " " << layer.name;
      }
    }
  }
}

// With recomputation, a decoder's block keeps its input alone, and the encoder's last block keeps
// the context as well.
TEST(EndsTest, TheContextStaysWithRecomputation) {
  const std::int64_t s = 100, h = 1280;
  const Works works(Shipped("whisper-large-v3"), Options(kBatch, s, Checkpointing::kFull));
  EXPECT_EQ(Saved(works[31]), kBatch * 1500 * h * 2);
  EXPECT_EQ(Saved(works[32]), 2 * kBatch * 1500 * h * 2);
  EXPECT_EQ(Saved(works[33]), kBatch * s * h * 2);
}

// A tower before a decoder.
Architecture WithTower(const Tower& tower) {
  Architecture a;
  a.family = GeneralFamily();
  a.layers = 2;
  a.hidden = 1024;
  Architecture kind = a;
  kind.position = Position::kNone;
  kind.heads = kind.kv_heads = 8;
  kind.head_size = 128;
  kind.feed_forward = 4096;
  kind.activator = Activator::kGelu;
  kind.attends_both_ways = true;
  a.vocabulary = 1000;
  a.kinds = {kind};
  a.pattern = {0, 0};
  a.towers = {tower};
  return a;
}

Tower Vision() {
  return {.hidden = 256,
          .layers = 4,
          .heads = 4,
          .head_size = 64,
          .feed_forward = 1024,
          .patch = 588,
          .merged = 4,
          .merge_hidden = 1024,
          .patches = 256,
          .image = 256};
}

// A window as long as an image is the image. With windows of 64 of 256 patches, three of four
// layers have a quarter of the pairs.
TEST(EndsTest, WindowsOfATowerByHand) {
  const WorkOptions options = OfTokens(256);
  Tower windows = Vision();
  windows.window = 256;
  EXPECT_EQ(Works(WithTower(windows), options)[0], Works(WithTower(Vision()), options)[0]);
  windows.window = 64;
  windows.full_layers = 1;
  const std::int64_t core = kBatch * 4 * 256 * 256 * 256;
  EXPECT_EQ(Flops(Works(WithTower(Vision()), options)[0].forward) -
                Flops(Works(WithTower(windows), options)[0].forward),
            3 * core - 3 * core / 4);
}

// A frozen tower runs forward alone and keeps nothing.
TEST(EndsTest, AFrozenTowerHasNoBackward) {
  const WorkOptions options = OfTokens(256);
  Tower frozen = Vision();
  frozen.frozen = true;
  const Works trained(WithTower(Vision()), options), with(WithTower(frozen), options);
  EXPECT_EQ(Flops(with[0].forward), Flops(trained[0].forward));
  EXPECT_EQ(Flops(with[0].backward), 0);
  EXPECT_EQ(Saved(with[0]), 0);
  EXPECT_EQ(with.model().all_parameter_count(), trained.model().parameter_count());
  EXPECT_GT(with.model().frozen_count(), 0);
}

}  // namespace
}  // namespace stepcast::model

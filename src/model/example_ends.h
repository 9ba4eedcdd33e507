#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/example_families.h"

// Examples for tests: published encoders, encoder-decoders and diffusion transformers.
namespace stepcast::model {

// Returns a model with these kinds of blocks in the order of `pattern`. `a` has the properties that
// all kinds share.
inline Architecture OfBlocks(Architecture a, std::vector<Architecture> kinds,
                             std::vector<int> pattern) {
  a.layers = std::ssize(pattern);
  for (Architecture& kind : kinds) {
    kind.family = a.family;
    kind.hidden = a.hidden;
    kind.layers = a.layers;
    kind.normalization = a.normalization;
    kind.norm_bias = a.norm_bias;
    kind.norms_without_weights = a.norms_without_weights;
    kind.joined_rows = a.joined_rows;
  }
  a.kinds = std::move(kinds);
  a.pattern = std::move(pattern);
  return a;
}

inline Architecture DescribedModel(std::int64_t hidden, Normalization normalization) {
  Architecture a = Architecture();
  a.family = GeneralFamily();
  a.hidden = hidden;
  a.normalization = normalization;
  a.norm_bias = normalization == Normalization::kLayerNorm;
  return a;
}

// Returns a block kind with attention and a feed-forward layer without a gate.
inline Architecture BlockKind(std::int64_t heads, std::int64_t head, std::int64_t width,
                              bool biases, Activator activator = Activator::kGelu) {
  Architecture kind = Architecture();
  kind.position = Position::kNone;
  kind.heads = kind.kv_heads = heads;
  kind.head_size = head;
  kind.feed_forward = width;
  kind.activator = activator;
  kind.attention_bias = kind.projection_bias = kind.feed_forward_bias = biases;
  kind.attends_both_ways = true;
  return kind;
}

// Returns google/vit-base-patch16-224.
inline Architecture VitBase() {
  Architecture a = DescribedModel(768, Normalization::kLayerNorm);
  a.input = {.values = 3 * 16 * 16, .positions = 197, .class_rows = 1};
  a.prediction = {.target = Target::kClasses, .count = 1000};
  return OfBlocks(a, {BlockKind(12, 64, 3072, true)}, std::vector<int>(12, 0));
}

// Returns the vision encoder of google/siglip-so400m-patch14-384, without its pooling head.
inline Architecture SiglipSo400m() {
  Architecture a = DescribedModel(1152, Normalization::kLayerNorm);
  a.input = {.values = 3 * 14 * 14, .positions = 729};
  a.prediction = {.target = Target::kValues};
  return OfBlocks(a, {BlockKind(16, 72, 4304, true)}, std::vector<int>(27, 0));
}

// Returns the encoder of google/t5-v1_1-xxl.
inline Architecture T5EncoderXxl() {
  Architecture a = DescribedModel(4096, Normalization::kRmsNorm);
  a.vocabulary = 32128;
  a.prediction = {.target = Target::kValues};
  Architecture kind = BlockKind(64, 64, 10240, false, Activator::kGeGlu);
  kind.distance_buckets = 32;
  return OfBlocks(a, {kind}, std::vector<int>(24, 0));
}

// Returns the block pattern of an encoder-decoder: first the encoder's blocks (kind 0), then the
// decoder's blocks (kind 1).
inline std::vector<int> EncoderThenDecoder(std::size_t layers) {
  std::vector<int> pattern(layers, 0);
  pattern.insert(pattern.end(), layers, 1);
  return pattern;
}

// Returns the two block kinds of an encoder-decoder. `kind` has the properties that encoder and
// decoder share.
inline std::vector<Architecture> EncoderAndDecoder(const Architecture& a, const Architecture& kind,
                                                   bool biases) {
  Architecture encoding = kind, decoding = kind;
  encoding.own_length = a.encoder.tokens;
  decoding.attends_both_ways = false;
  decoding.cross = {.heads = kind.heads,
                    .kv_heads = kind.heads,
                    .head = kind.head_size,
                    .width = a.hidden,
                    .tokens = a.encoder.tokens,
                    .bias = biases,
                    .output_bias = biases};
  return {encoding, decoding};
}

// Returns google-t5/t5-11b.
inline Architecture T5With11B() {
  Architecture a = DescribedModel(1024, Normalization::kRmsNorm);
  a.vocabulary = 32128;
  a.tie_embeddings = true;
  a.encoder = {.layers = 24, .tokens = 512};
  Architecture kind = BlockKind(128, 128, 65536, false, Activator::kRelu);
  kind.distance_buckets = 32;
  return OfBlocks(a, EncoderAndDecoder(a, kind, false), EncoderThenDecoder(24));
}

// Returns openai/whisper-large-v3.
inline Architecture WhisperLargeV3() {
  Architecture a = DescribedModel(1280, Normalization::kLayerNorm);
  a.vocabulary = 51866;
  a.tie_embeddings = true;
  a.position = Position::kLearned;
  a.max_positions = 448;
  a.encoder = {
      .layers = 32,
      .tokens = 1500,
      .input = {
          .values = 128, .taps = 3, .halvings = 1, .positions = 1500, .fixed_positions = true}};
  Architecture kind = BlockKind(20, 64, 5120, true);
  kind.key_without_bias = true;
  return OfBlocks(a, EncoderAndDecoder(a, kind, true), EncoderThenDecoder(32));
}

// Returns DiT-XL/2 (facebookresearch/DiT) for latent images of 32 x 32.
inline Architecture DitXl2() {
  Architecture a = DescribedModel(1152, Normalization::kLayerNorm);
  a.norms_without_weights = true;
  a.input = {.values = 16, .positions = 256, .fixed_positions = true};
  a.condition = {.time = 256, .classes = 1001};
  a.modulation = {.vectors = 2};
  a.prediction = {.target = Target::kValues, .count = 32};
  Architecture kind = BlockKind(16, 72, 4608, true);
  kind.modulation = {.vectors = 6};
  return OfBlocks(a, {kind}, std::vector<int>(28, 0));
}

// Returns Wan-AI/Wan2.1-T2V-14B.
inline Architecture Wan14B() {
  Architecture a = DescribedModel(5120, Normalization::kLayerNorm);
  a.norms_without_weights = true;
  a.input = {.values = 64};
  a.text = {.values = 4096, .tokens = 512, .products = 2};
  a.condition = {.time = 256, .shared_vectors = 6};
  a.modulation = {.vectors = 2, .by_product = false};
  a.prediction = {.target = Target::kValues, .count = 64};
  Architecture kind = BlockKind(40, 128, 13824, true);
  kind.position = Position::kRotary;
  kind.qk_norm = kind.norms_all_heads = true;
  kind.modulation = {.vectors = 6, .by_product = false};
  kind.cross = {.heads = 40,
                .kv_heads = 40,
                .head = 128,
                .width = 5120,
                .tokens = 512,
                .bias = true,
                .key_bias = true,
                .output_bias = true,
                .norms = true};
  return OfBlocks(a, {kind}, std::vector<int>(40, 0));
}

// Returns black-forest-labs/FLUX.1-dev.
inline Architecture FluxDev() {
  Architecture a = DescribedModel(3072, Normalization::kLayerNorm);
  a.norms_without_weights = true;
  a.input = {.values = 64};
  a.text = {.values = 4096, .tokens = 512, .joined = true};
  a.joined_rows = 512;
  a.condition = {.time = 256, .guidance = true, .text_width = 768};
  a.modulation = {.vectors = 2};
  a.prediction = {.target = Target::kValues, .count = 64};
  Architecture both = BlockKind(24, 128, 12288, true);
  both.position = Position::kRotary;
  both.qk_norm = true;
  Architecture single = both;
  both.two_streams = true;
  both.modulation = {.vectors = 6};
  single.projection_bias = false;  // one GEMM computes the outputs of attention and feed-forward
  single.parallel_residual_norms = 1;
  single.modulation = {.vectors = 3};
  std::vector<int> pattern(19, 0);
  pattern.insert(pattern.end(), 38, 1);
  return OfBlocks(a, {both, single}, pattern);
}

}  // namespace stepcast::model

#pragma once

#include <cstdint>

// An encoder of images before a decoder. It runs with the embedding, on the first stage of a
// pipeline and whole on each tensor-parallel rank, and its rows take the place of those of words.
namespace stepcast::model {

struct Tower {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;  // 0: it is its patches' product and its mergers alone
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  std::int64_t feed_forward = 0;
  bool gated = false;      // feed-forward layers have a gate
  bool biased = true;      // products have biases
  bool layer_norm = true;  // else RMS norms
  std::int64_t patch = 0;  // numbers of one patch: channels x frames x height x width
  bool patch_bias = true;
  std::int64_t positions = 0;  // rows of a table of positions; 0: there is none
  bool last_norm = false;      // a norm stands behind the last layer
  // So many neighbouring patches become one row of the decoder, through two products with a norm.
  std::int64_t merged = 1;
  std::int64_t merge_hidden = 0;  // between the two products
  std::int64_t mergers = 1;       // one for the rows, others for the first layers of the decoder
  std::int64_t joined_norms = 0;  // mergers whose norm is over the merged patches, not over each
  std::int64_t patches = 0;       // of all images of a sequence
  std::int64_t image = 0;         // patches of one image, within which attention stays
  std::int64_t window = 0;        // most layers attend within windows of so many patches; 0: none
  std::int64_t full_layers = 0;   // of `layers`, those that attend to the whole image
  bool frozen = false;            // it is not trained, and keeps nothing

  friend bool operator==(const Tower&, const Tower&) = default;
};

}  // namespace stepcast::model

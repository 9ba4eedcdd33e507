#pragma once

#include <cstdint>

// An image encoder before a decoder, which runs with the embedding on the first pipeline stage.
// Every tensor-parallel rank runs the full encoder, whose output rows replace rows of words.
namespace stepcast::model {

struct Tower {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;  // 0: only the patches' linear layer and the mergers
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  std::int64_t feed_forward = 0;
  bool gated = false;      // feed-forward layers have a gate
  bool biased = true;      // linear layers have biases
  bool layer_norm = true;  // false: RMS norms
  std::int64_t patch = 0;  // numbers in one patch: channels x frames x height x width
  bool patch_bias = true;
  std::int64_t positions = 0;  // rows of a table of positions; 0: no table
  bool last_norm = false;      // a norm follows the last layer
  // The number of neighboring patches that are merged into one row of the decoder, by a norm and
  // two linear layers.
  std::int64_t merged = 1;
  std::int64_t merge_hidden = 0;  // width between the two linear layers
  std::int64_t mergers = 1;       // one for the decoder's input; all others for its first layers
  // The number of mergers whose norm spans all merged patches instead of each patch.
  std::int64_t joined_norms = 0;
  std::int64_t patches = 0;      // number of patches in all images of a sequence
  std::int64_t image = 0;        // patches of one image; attention stays within an image
  std::int64_t window = 0;       // patches of the window of most layers; 0: no window
  std::int64_t full_layers = 0;  // number of `layers` that attend to the full image
  bool frozen = false;           // the tower is not trained and keeps nothing

  friend bool operator==(const Tower&, const Tower&) = default;
};

}  // namespace stepcast::model

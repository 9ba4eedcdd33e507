#pragma once

#include <cstdint>

// The two choices that decide which activations live from forward to backward.
namespace stepcast::model {

// Recomputation in backward (Korthikanti et al. 2022, arXiv 2205.05198).
enum class Checkpointing : std::uint8_t {
  kNone,
  kSelective,  // the attention core is recomputed: scores, softmax, dropout are not kept
  kFull,       // only a block's input is kept
};

// How the attention core runs: fused, without the score matrix in memory, or as separate kernels.
enum class Attention : std::uint8_t { kFlash, kMath };

const char* Name(Checkpointing checkpointing);  // "none", "selective", "full"
const char* Name(Attention attention);          // "flash", "math"

}  // namespace stepcast::model

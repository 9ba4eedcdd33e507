#pragma once

#include <cstdint>

namespace stepcast::model {

// Tokens of a part of Loss::kChunked, of so many tokens of a rank: those stated, at most all; or,
// where 0 are, as many as Liger takes, so that a part's logits are about as large as all hidden
// states (liger_kernel/ops/fused_linear_cross_entropy.py @ v0.6: the next power of two above tokens
// over ceil(words / width)).
std::int64_t LossChunk(std::int64_t stated, std::int64_t tokens, std::int64_t words,
                       std::int64_t width);

}  // namespace stepcast::model

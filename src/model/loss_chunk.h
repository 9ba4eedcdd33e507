#pragma once

#include <cstdint>

namespace stepcast::model {

// Tokens per chunk of Loss::kChunked, for `tokens` tokens of a rank: `stated`, at most all. If
// `stated` is 0, as many as Liger takes, which makes a chunk's logits about as large as all hidden
// states (liger_kernel/ops/fused_linear_cross_entropy.py @ v0.6: the next power of two above tokens
// over ceil(words / width)).
std::int64_t LossChunk(std::int64_t stated, std::int64_t tokens, std::int64_t words,
                       std::int64_t width);

}  // namespace stepcast::model

#pragma once

#include <cstdint>

namespace stepcast::model {

// Returns the number of tokens per chunk of Loss::kChunked on a rank with `tokens` tokens:
// `stated`, but at most `tokens`. If `stated` is 0, returns Liger's choice: the next power of two
// above tokens / ceil(words / width), where `words` is the vocabulary size. A chunk's logits are
// then about as large as all hidden states (liger_kernel/ops/fused_linear_cross_entropy.py @ v0.6).
std::int64_t LossChunk(std::int64_t stated, std::int64_t tokens, std::int64_t words,
                       std::int64_t width);

}  // namespace stepcast::model

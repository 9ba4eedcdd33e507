#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

// A model of several kinds of blocks, as far as Megatron-LM's pretrain_gpt.py has them: one kind of
// attention, one kind of dense and of mixture layer, and the gated delta rule in place of
// attention.
struct GptBlocks {
  // Attention and feed-forward layers, without kinds of blocks.
  model::Architecture plain;
  // For each block, whether the delta rule is its mixer; empty: in no block.
  std::vector<bool> delta;
  model::DeltaRule rule{};
  // The shared experts' gate. `plain` has none, as releases without the delta rule.
  bool shared_gate = false;
};

// Or a sentence that names the part which pretrain_gpt.py does not have.
tl::expected<GptBlocks, std::string> GptBlocksOf(const model::Architecture& architecture);

// The blocks with the delta rule as --linear-attention-freq: a number n if all but every n-th have
// it, else a list with 1 for each of them.
std::string LinearAttentionFrequency(const std::vector<bool>& delta);

}  // namespace stepcast::emit

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

// A model with several kinds of blocks, as far as Megatron-LM's pretrain_gpt.py supports them. It
// supports one kind of attention, one kind of dense layer, one kind of mixture layer, and the gated
// delta rule in place of attention.
struct GptBlocks {
  // The attention and feed-forward layers, as a model without kinds of blocks.
  model::Architecture plain;
  // Whether the delta rule is the mixer of each block. Empty: no block has the delta rule.
  std::vector<bool> delta;
  model::DeltaRule rule{};
  // Whether the shared experts have a gate. `plain` has none, like releases without the delta rule.
  bool shared_gate = false;
};

// Returns the blocks, or a sentence that names the part that pretrain_gpt.py does not support.
tl::expected<GptBlocks, std::string> GptBlocksOf(const model::Architecture& architecture);

// Returns the value of --linear-attention-freq for the blocks with the delta rule. If all but every
// n-th block have it, this is the number n. Otherwise, it is a list with 1 for each of these
// blocks.
std::string LinearAttentionFrequency(const std::vector<bool>& delta);

}  // namespace stepcast::emit

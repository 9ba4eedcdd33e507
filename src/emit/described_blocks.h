#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

// A model with several kinds of blocks that Megatron-LM's pretrain_gpt.py can train. The model may
// have one kind of attention, one kind of dense layer and one kind of mixture layer. Some blocks
// may use the gated delta rule in place of attention.
struct GptBlocks {
  // The attention and feed-forward layers, as a model in which all blocks are alike.
  model::Architecture plain;
  // For each block, whether its mixer is the delta rule. Empty: no block uses the delta rule.
  std::vector<bool> delta;
  model::DeltaRule rule{};
  // Whether the shared experts have a gate. The architecture `plain` never has this gate.
  bool shared_gate = false;
};

// Returns the blocks, or a sentence that states which part pretrain_gpt.py does not support.
tl::expected<GptBlocks, std::string> GptBlocksOf(const model::Architecture& architecture);

// Returns the value of --linear-attention-freq. It is n if all blocks except every n-th block use
// the delta rule. Otherwise, it is a list with 1 for each block that uses the delta rule.
std::string LinearAttentionFrequency(const std::vector<bool>& delta);

}  // namespace stepcast::emit

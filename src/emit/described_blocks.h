#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "tl/expected.hpp"

namespace stepcast::emit {

// A model with several kinds of blocks that Megatron-LM's pretrain_gpt.py can train: at most one
// kind of attention, one kind of dense layer and one kind of mixture layer. Some blocks may use the
// gated delta rule instead of attention.
struct GptBlocks {
  // The attention and feed-forward layers of all blocks, without the delta rule and the gate of
  // shared experts.
  model::Architecture plain;
  // Whether each block uses the delta rule. Empty: no block uses the delta rule.
  std::vector<bool> delta;
  model::DeltaRule rule{};
  // Whether the shared experts have a gate.
  bool shared_gate = false;
};

// Returns the blocks, or a sentence about the part that pretrain_gpt.py does not support.
tl::expected<GptBlocks, std::string> GptBlocksOf(const model::Architecture& architecture);

// Returns the value of --linear-attention-freq: n if all blocks except every n-th block use the
// delta rule, otherwise a list with 1 for each block that uses the delta rule.
std::string LinearAttentionFrequency(const std::vector<bool>& delta);

}  // namespace stepcast::emit

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tl/expected.hpp"

// Megatron-LM's way to say which layers a pipeline's stages have (--pipeline-model-parallel-layout,
// docs/user-guide/features/pipeline_parallel_layout.md):
//
//   Ettt|ttt|ttt|ttL        four stages (with virtual stages, chunks), | between them
//   Et*3|(tt|)*29|L         *N: N times what stands before it; commas are for the eye
//
// E is the embedding, at the very beginning, t a block, L the head with its loss, at the very end.
namespace stepcast::scenario {

// How many blocks each stage has; or what is wrong, as the end of a sentence.
tl::expected<std::vector<std::int64_t>, std::string> ParseStageLayout(std::string_view layout);

}  // namespace stepcast::scenario

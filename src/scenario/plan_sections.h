#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/request.h"
#include "src/scenario/document.h"
#include "tl/expected.hpp"

namespace stepcast::scenario {

// Megatron-LM's way to say which layers a pipeline's stages have (--pipeline-model-parallel-layout,
// docs/user-guide/features/pipeline_parallel_layout.md):
//
//   Ettt|ttt|ttt|ttL        four stages (with virtual stages, chunks), | between them
//   Et*3|(tt|)*29|L         *N: N times what stands before it; commas are for the eye
//
// E is the embedding, at the very beginning, t a block, L the head with its loss, at the very end.

// How many blocks each stage has; or what is wrong, as the end of a sentence.
tl::expected<std::vector<std::int64_t>, std::string> ParseStageLayout(std::string_view layout);

// The sections of a scenario file that say how training runs, as a plan's request. What is wrong is
// reported and left out of the request.

void ReadSoftware(MappingReader& reader, plan::Request& request);
void ReadTraining(MappingReader& reader, plan::Request& request);
void ReadParallelism(MappingReader& reader, plan::Request& request);
void ReadExperts(MappingReader& reader, plan::Request& request);
void ReadDataParallel(MappingReader& reader, plan::Request& request);

// Reads one key of a section, from a mapping that holds that key, into a request where it may have
// another value.
using ReadKey = std::function<void(MappingReader& section, plan::Request& request)>;

// For "training" and "precision"; of the sections above and of "data_parallel.deepspeed". Empty
// where there is no such key.
ReadKey ReaderOf(std::string_view section, std::string_view key);

}  // namespace stepcast::scenario

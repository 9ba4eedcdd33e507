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

// Megatron-LM's syntax for the layers of pipeline stages (--pipeline-model-parallel-layout,
// docs/user-guide/features/pipeline_parallel_layout.md):
//
//  Ettt|ttt|ttt|ttL        four stages (with virtual stages, chunks), separated by |
//  Et*3|(tt|)*29|L         *N repeats the preceding item; commas are ignored
//
// E is the embedding (only at the start), t is a block, and L is the head with its loss (only at
// the end). m is the module for multi-token prediction, directly before L.

// Returns the number of blocks of each stage. An error is a clause that follows the word "because".
tl::expected<std::vector<std::int64_t>, std::string> ParseStageLayout(std::string_view layout);

// These functions read the sections of a scenario file that describe how training runs, and store
// the values in a plan request. Wrong values are reported and omitted.

void ReadSoftware(MappingReader& reader, plan::Request& request);
void ReadTraining(MappingReader& reader, plan::Request& request);
void ReadParallelism(MappingReader& reader, plan::Request& request);
void ReadExperts(MappingReader& reader, plan::Request& request);
void ReadDataParallel(MappingReader& reader, plan::Request& request);

// A function that reads one key of a section into a request and replaces the request's value. The
// section must have the key.
using ReadKey = std::function<void(MappingReader& section, plan::Request& request)>;

// Returns the function that reads a key, such as "precision" of section "training". Sections are
// "software", "training", "parallelism", "experts", "data_parallel" and "data_parallel.deepspeed".
// Empty if there is no such key.
ReadKey ReaderOf(std::string_view section, std::string_view key);

}  // namespace stepcast::scenario

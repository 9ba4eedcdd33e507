#pragma once

#include <functional>
#include <string_view>

#include "src/plan/request.h"
#include "src/scenario/document.h"

// The sections of a scenario file that say how training runs, as a plan's request. What is wrong is
// reported and left out of the request.
namespace stepcast::scenario {

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

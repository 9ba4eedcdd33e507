#pragma once

#include <string_view>

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// How a program makes sequences of samples: "packed", "padded" or "by_length" (plan::Batching). How
// long samples are stands in no configuration: where the command line says it
// (training.lengths.histogram, or one length of documents that are packed) the batching joins it;
// else the option is an omission that names what to say, if it is stated.
void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of);

}  // namespace stepcast::foreign

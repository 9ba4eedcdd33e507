#pragma once

#include <string_view>

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// Reads how a program makes sequences of samples: "packed", "padded" or "by_length"
// (plan::Batching). Configurations do not contain sample lengths. If the command line gives them
// (training.lengths.histogram, or one length of packed documents), the batching is added.
// Otherwise, if the option is stated, it becomes an omission that names the missing lengths.
void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of);

}  // namespace stepcast::foreign

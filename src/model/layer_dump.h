#pragma once

#include <string>

#include "src/model/layer_work.h"

namespace stepcast::model {

// All that a layer's work says, one line for each value and for each operation: what is saved,
// recomputed, communicated and deferred, the temporaries of each pass, and each pass's operations
// with what they read, write, create, wait for and release. Values are named by what they are and
// by their number among those that are the same ("saved 3"). For comparing two versions of the code
// line by line.
std::string Dump(const LayerWork& work);

}  // namespace stepcast::model

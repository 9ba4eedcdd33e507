#pragma once

#include <string>

#include "src/model/layer_work.h"

namespace stepcast::model {

// Returns a layer's work as text, with one line for each value and each operation. The text lists
// saved, recomputed, communicated and deferred values, the temporaries of each pass, and each
// pass's operations. For each operation, it lists reads, writes, creations, waits and releases. The
// text refers to values by kind and index ("saved 3").
std::string Dump(const LayerWork& work);

}  // namespace stepcast::model

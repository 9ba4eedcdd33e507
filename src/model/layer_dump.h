#pragma once

#include <string>

#include "src/model/layer_work.h"

namespace stepcast::model {

// Returns a layer's work as text, with one line per value and per operation. Values are listed by
// lifetime, and operations by pass. For each operation, the text lists the values that the
// operation reads, writes, creates and releases, and the operations that it waits for. Operations
// refer to values by kind and index ("saved 3").
std::string Dump(const LayerWork& work);

}  // namespace stepcast::model

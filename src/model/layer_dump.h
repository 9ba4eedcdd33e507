#pragma once

#include <string>

#include "src/model/layer_work.h"

namespace stepcast::model {

// Returns a layer's work as text, with one line per value and per operation. Values are listed by
// lifetime, operations by pass with their reads, writes, creations, waits and releases. Operations
// refer to values by kind and index ("saved 3").
std::string Dump(const LayerWork& work);

}  // namespace stepcast::model

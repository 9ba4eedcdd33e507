#pragma once

#include <optional>
#include <vector>

#include "src/foreign/setting.h"

// Which layers are special, as Megatron-LM's options write it: "([0]*3+[1]*58)".
namespace stepcast::foreign {

// Zeros and ones in lists, their sums and their multiples; nothing where it is something else.
std::optional<std::vector<bool>> ParseLayerPattern(const Value& value);

}  // namespace stepcast::foreign

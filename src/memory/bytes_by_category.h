#pragma once

#include <array>

#include "src/base/bytes.h"
#include "src/program/program.h"

namespace stepcast::memory {

using BytesByCategory = std::array<Bytes, program::kCategories>;

}  // namespace stepcast::memory

#pragma once

#include <optional>

#include "src/base/transport.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// The key `transport` of a topology's fabric, or of a file of published collectives.
std::optional<Transport> ReadTransport(MappingReader& reader, Need need);

}  // namespace stepcast::scenario

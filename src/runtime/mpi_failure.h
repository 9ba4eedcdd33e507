#pragma once

#include <string_view>

#include "src/runtime/device.h"

namespace stepcast::runtime {

// Converts an MPI return code to a failure: "MPI cannot <doing>: <MPI's message>".
Attempt<void> CheckMpi(int code, std::string_view doing);

}  // namespace stepcast::runtime

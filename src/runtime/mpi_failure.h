#pragma once

#include <string_view>

#include "src/runtime/device.h"

namespace stepcast::runtime {

// What an MPI call returned, as a failure where it is one: "MPI cannot <doing>: <MPI's words>".
Attempt<void> CheckMpi(int code, std::string_view doing);

}  // namespace stepcast::runtime

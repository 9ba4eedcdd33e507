#pragma once

#include <string_view>

#include "src/runtime/device.h"

namespace stepcast::runtime {

// An MPI call's return code, as a failure where it is one: "MPI cannot <doing>: <MPI's words>".
Attempt<void> CheckMpi(int code, std::string_view doing);

}  // namespace stepcast::runtime

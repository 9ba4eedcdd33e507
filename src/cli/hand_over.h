#pragma once

#include <string>
#include <vector>

#include "src/cli/hardware_access.h"

namespace stepcast::cli {

// For stepcast: each command becomes stepcast-hardware, the program beside this one, with the same
// arguments. Sweeps and searches do under mpirun or srun alone, where several ranks were started.
// Errors: command.no-hardware.
HardwareAccess HandedOver(std::vector<std::string> arguments);

}  // namespace stepcast::cli

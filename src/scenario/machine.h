#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

// A cluster that the scenario specifies only by its GPUs: `cluster: {gpu: rtx-4090, gpus: 4}`.
namespace stepcast::scenario {

struct Machine {
  YamlTree topology;                    // a name, or a mapping as in a topology file
  std::int64_t nodes = 1;               // number of nodes that the GPUs need
  std::optional<std::int64_t> devices;  // not set: all devices of the nodes
  std::string taken;                    // a sentence that describes the assumed machine
};

// Returns a machine for GPUs of this type: a shipped topology with this GPU, preferably NVIDIA's.
// If no topology has this GPU, returns a workstation whose GPUs use the PCIe lanes of one CPU.
// Errors: topology.unknown-gpu; topology.too-many-gpus, if a workstation would have too many GPUs.
std::optional<Machine> MachineOf(const std::string& gpu, std::int64_t gpus,
                                 const Location& location, Diagnostics& diagnostics);

}  // namespace stepcast::scenario

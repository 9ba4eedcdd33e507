#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"
#include "src/scenario/yaml_tree.h"

// A cluster that is named by its GPUs: `cluster: {gpu: rtx-4090, gpus: 4}`.
namespace stepcast::scenario {

struct Machine {
  YamlTree topology;                    // a name, or a mapping as in a topology file
  std::int64_t nodes = 1;               // as many as hold the GPUs
  std::optional<std::int64_t> devices;  // none: all of the nodes'
  std::string taken;                    // what the machine is taken to be, a sentence
};

// Takes a shipped topology whose nodes have this GPU, one of NVIDIA's first. If there is none, the
// machine is a workstation with its GPUs on PCIe of one CPU. Mistakes: topology.unknown-gpu;
// topology.too-many-gpus if a workstation has too many.
std::optional<Machine> MachineOf(const std::string& gpu, std::int64_t gpus,
                                 const Location& location, Diagnostics& diagnostics);

}  // namespace stepcast::scenario

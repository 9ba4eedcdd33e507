// Prints the GPUs that CUDA shows to this process, one per line: name, memory in MiB. Exits with 1
// and the reason if there is none. For scripts that need stepcast's view of the GPUs.

#include <cstdio>

#include "fmt/format.h"
#include "src/runtime/cuda/devices.h"

int main() {
  const auto inventory = stepcast::runtime::cuda::ListDevices();
  for (const auto& gpu : inventory.devices) {
    fmt::print("{}\t{}\n", gpu.name, gpu.memory.count() >> 20);
  }
  if (!inventory.devices.empty()) return 0;
  fmt::print(stderr, "no GPU: {}\n", inventory.no_devices_because);
  return 1;
}

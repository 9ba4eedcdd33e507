#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/program/program.h"
#include "src/runtime/device.h"
#include "src/runtime/device_health.h"
#include "src/runtime/job.h"

// Hardware that runs step programs. Two exist: host/ (CPU, MPI or threads) and cuda/ (CUDA,
// cuBLASLt, NCCL).
namespace stepcast::runtime {

struct DeviceOptions {
  GradientRule gradients = GradientRule::kComputed;
  Bytes memory_limit;  // of the program's buffers; zero, or more than there is: what the device has
  bool pool = true;    // cuda: cudaMallocAsync instead of cudaMalloc
  std::uint64_t seed = 1;  // of initial parameters, random inputs
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // "host", "cuda"

  // Machine, driver and library versions, as a profile's provenance names them.
  virtual std::vector<std::pair<std::string, std::string>> Describe() const = 0;

  // The present state of this process' first device; nothing where it has none.
  virtual std::optional<DeviceHealth> Health() const { return std::nullopt; }

  // Size of the device's last-level cache; zero: irrelevant.
  virtual Bytes CacheSize() const { return Bytes(); }
  // Whether products take their time by how their operands lie.
  virtual bool ProductsByLayout() const { return false; }

  // How many ranks one process may hold as threads: cuda: its GPUs; host: 1024.
  virtual int MaxLocalRanks() const = 0;

  // This rank's device, ready to run `program`: streams, events, communicators; parameters at
  // their initial values once the prologue has allocated them. All ranks of the job call this
  // together.
  virtual Attempt<std::unique_ptr<Device>> MakeDevice(const program::Program& program, Job& job,
                                                      const DeviceOptions& options) = 0;
};

}  // namespace stepcast::runtime

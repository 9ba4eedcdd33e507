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
#include "src/runtime/job.h"

// The software and hardware that run step programs. There are two backends: host/ (CPU, MPI or
// threads) and cuda/ (CUDA, cuBLASLt, NCCL).
namespace stepcast::runtime {

struct DeviceOptions {
  GradientRule gradients = GradientRule::kComputed;
  Bytes memory_limit;      // maximum for the program's buffers; zero: the device's memory
  bool pool = true;        // only for cuda: cudaMallocAsync instead of cudaMalloc
  std::uint64_t seed = 1;  // seed of initial parameters and random inputs
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // "host", "cuda"

  // Returns a description of the machine, and the versions of driver and libraries, for the
  // provenance of profiles.
  virtual std::vector<std::pair<std::string, std::string>> Describe() const = 0;

  // Returns the current state of this process's first device, or no value if the backend cannot
  // determine it.
  virtual std::optional<DeviceHealth> Health() const { return std::nullopt; }

  // Returns the size of the device's last-level cache. Zero: times do not depend on the cache.
  virtual Bytes CacheSize() const { return Bytes(); }
  // Returns whether the time of a GEMM depends on the memory layout of its operands.
  virtual bool ProductsByLayout() const { return false; }

  // Returns the number of ranks that one process may run as threads: for cuda, the number of the
  // process's GPUs; for host, 1024.
  virtual int MaxLocalRanks() const = 0;

  // Creates this rank's device for `program`, with streams, events and communicators. The device
  // initializes parameters after the prologue has allocated them. All ranks of the job call this
  // function together. `program` must outlive the device.
  virtual Attempt<std::unique_ptr<Device>> MakeDevice(const program::Program& program, Job& job,
                                                      const DeviceOptions& options) = 0;
};

}  // namespace stepcast::runtime

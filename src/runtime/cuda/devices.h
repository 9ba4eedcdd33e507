#pragma once

#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"

// Lists the GPUs that this process may use, and the versions of driver, CUDA and NCCL. A missing
// GPU or driver is not an error; the result describes this case.
namespace stepcast::runtime::cuda {

struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;  // always 0 for the driver and the runtime, which have no patch number

  friend bool operator==(const Version&, const Version&) = default;
};

// A GPU as its driver describes it. Peaks are specifications, not measurements.
struct Device {
  int ordinal = 0;   // CUDA's number for the GPU in this process; depends on CUDA_VISIBLE_DEVICES
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string bus;   // PCI address: "0000:1b:00.0"; empty if unknown
  int compute_capability_major = 0;  // 9 and 0 for an H100 (sm_90)
  int compute_capability_minor = 0;
  int multiprocessors = 0;  // streaming multiprocessors (SMs)
  Bytes memory;             // total memory, including used memory
  Bytes cache;              // last-level cache (L2)
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  // The peak bandwidth of reads and writes together: two transfers per clock on the full bus width.
  // Zero if the driver does not report the clock or the bus width.
  Bandwidth memory_bandwidth;
};

struct Inventory {
  std::vector<Device> devices;  // indexed by ordinal
  // The reason why `devices` is empty, such as "no CUDA-capable device is detected". Empty if
  // `devices` is not empty. If one GPU does not respond, the list is empty, because a plan for the
  // other GPUs would be wrong.
  std::string no_devices_because;
  Version driver;   // the newest CUDA that the driver supports; 0.0.0 without a driver
  Version runtime;  // the linked CUDA runtime
  Version nccl;     // the NCCL library found when the program started
};

// Queries the driver and NCCL. This function creates no context, so it uses no GPU memory.
// Thread-safe.
Inventory ListDevices();

}  // namespace stepcast::runtime::cuda

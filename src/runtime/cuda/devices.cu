#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <utility>

#include "src/runtime/cuda/devices.h"

namespace stepcast::runtime::cuda {
namespace {

// CUDA 12.4 is 12040.
Version CudaVersion(int code) { return {code / 1000, code % 1000 / 10, 0}; }

// NCCL 2.28.9 is 22809. (Before 2.9 the code had one digit less; such a library is too old to
// link.)
Version NcclVersion(int code) { return {code / 10000, code / 100 % 100, code % 100}; }

Bandwidth PeakBandwidth(int clock_khz, int bus_bits) {
  return Bandwidth::BytesPerSecond(2 * std::int64_t{clock_khz} * 1000 * bus_bits / 8);
}

cudaError_t Describe(int ordinal, Device& device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
      error != cudaSuccess) {
    return error;
  }
  device.ordinal = ordinal;
  device.name = properties.name;
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) == cudaSuccess) device.bus = bus;
  cudaGetLastError();
  device.compute_capability_major = properties.major;
  device.compute_capability_minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
  device.cache = Bytes(properties.l2CacheSize);
  device.memory_bus_bits = properties.memoryBusWidth;
  // CUDA 13 removed the clock from the device properties.
  if (const cudaError_t error =
          cudaDeviceGetAttribute(&device.memory_clock_khz, cudaDevAttrMemoryClockRate, ordinal);
      error != cudaSuccess) {
    return error;
  }
  device.memory_bandwidth = PeakBandwidth(device.memory_clock_khz, device.memory_bus_bits);
  return cudaSuccess;
}

// Fills `devices`, or returns why it cannot.
std::string Fill(std::vector<Device>& devices) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();  // the runtime would return the error to the next caller
    return cudaGetErrorString(error);
  }
  if (count == 0) return cudaGetErrorString(cudaErrorNoDevice);
  std::vector<Device> found(count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (const cudaError_t error = Describe(ordinal, found[ordinal]); error != cudaSuccess) {
      cudaGetLastError();
      return "GPU " + std::to_string(ordinal) + " does not answer: " + cudaGetErrorString(error);
    }
  }
  devices = std::move(found);
  return "";
}

}  // namespace

Inventory ListDevices() {
  Inventory inventory;
  inventory.no_devices_because = Fill(inventory.devices);
  int code = 0;
  // Queries only. If one fails, its version stays 0.0.0.
  if (cudaDriverGetVersion(&code) == cudaSuccess) inventory.driver = CudaVersion(code);
  if (cudaRuntimeGetVersion(&code) == cudaSuccess) inventory.runtime = CudaVersion(code);
  if (ncclGetVersion(&code) == ncclSuccess) inventory.nccl = NcclVersion(code);
  return inventory;
}

}  // namespace stepcast::runtime::cuda
